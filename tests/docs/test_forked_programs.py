"""Tests of programs that are forked from a server, compared with new processes.

A fork must end when its client ends, when its server ends, or when the process that uses the server ends.
"""

import os
import shlex
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import forked_programs
import pytest

NEW = [sys.executable, "-m"]
WAITS = "import os, signal; print('begun', os.getppid(), flush=True); signal.pause()\n"
CONSOLE = ["code", "-q"]  # the program runs the lines that come on stdin


@pytest.fixture(scope="module")
def forked():
    return forked_programs.program(())


@pytest.fixture
def started():
    """Returns a function that starts a console, which runs the given lines and is killed at the end of the test."""
    ended = []

    def start(words, lines):
        process = subprocess.Popen([*words, *CONSOLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ended.append(process)
        process.stdin.write(lines)
        process.stdin.flush()
        return process, process.stdout.readline().split()

    yield start
    for process in ended:
        with process:  # Leaving the block closes the pipes of the process.
            process.kill()


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    "line",
    [
        "import os, sys; print(os.getcwd(), os.environ['TOLD'], os.environ.get('COLUMNS')); print(1, file=sys.stderr)",
        "raise SystemExit(3)",
        "raise SystemExit('a reason')",
        "import os; os._exit(4)",
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import gc, os, sys; sys.stdout = sys.stderr; _ = gc.collect(); print(*map(os.get_inheritable, range(3)))",
        "import atexit; _ = atexit.register(print, 'last')",
        "import threading; threading.Thread(target=lambda: print(threading.main_thread().join())).start()",
        "import threading, signal; print(threading.active_count(), signal.pthread_sigmask(signal.SIG_BLOCK, []))",
        "import signal; print(*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)))",
    ],
)
def test_a_fork_prints_and_ends_as_a_new_process(forked, line, tmp_path):
    environment = {"TOLD": "yes", "PATH": os.environ["PATH"]}
    ended = (
        subprocess.run([*words, *CONSOLE], input=line, capture_output=True, text=True, cwd=tmp_path, env=environment)
        for words in (forked, NEW)
    )
    fork, new = ((end.stdout, end.stderr, end.returncode) for end in ended)
    assert fork == new and any(new)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_none_of_the_servers(forked, closed):
    line = f"{shlex.join([*forked, 'calendar', '2026', '11'])} {closed}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert ended.returncode == 0 and not ended.stderr and ("November" in ended.stdout) == (closed != ">&-")


def test_a_program_whose_output_nobody_reads_fails_as_a_new_process(forked):
    ends = []
    for words in (forked, NEW):
        reading, writing = os.pipe()
        os.close(reading)
        ended = subprocess.run([*words, *CONSOLE], input="1\n", stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        # Only the last line is compared, because a fork's traceback begins in another file.
        ends.append((ended.returncode, ended.stderr.splitlines()[-1]))
    assert ends[0] == ends[1] and "BrokenPipeError" in ends[0][1]


@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="a background job is deaf to Ctrl-C")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on(forked, started, sent):
    ends = []
    for words in (forked, NEW):
        process, _ = started(words, WAITS)
        process.send_signal(sent)
        process.stdin.close()
        ends.append((process.stdout.read(), process.wait()))
    assert ends[0] == ends[1] == (ends[0][0], 0 if sent == signal.SIGINT else -sent)


def test_a_fork_ends_with_its_client(forked, started):
    process, _ = started(forked, WAITS)
    process.kill()
    assert "begun" not in process.stdout.read(), "until nobody can write any more"


def test_a_client_whose_server_died_says_so(started):
    process, said = started(forked_programs.program.__wrapped__(()), WAITS)
    os.kill(int(said[-1]), signal.SIGKILL)
    process.stdout.read()
    assert process.wait() == 1


def test_a_server_and_its_forks_end_with_a_killed_user():
    lines = f"import subprocess; from forked_programs import program; subprocess.run([*program(()), *{CONSOLE}])"
    environment = os.environ | {"PYTHONPATH": str(Path(forked_programs.__file__).parent)}
    words, pipe = [sys.executable, "-c", lines], subprocess.PIPE
    with subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, text=True) as user:
        user.stdin.write(WAITS)
        user.stdin.flush()
        assert "begun" in user.stdout.readline()
        user.kill()
        user.stdout.read()  # This read returns only when the fork has ended too.


def test_the_modules_that_the_server_imports_for_pages_exist():
    assert all(map(find_spec, forked_programs.IMPORTED))


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(RuntimeError, match="the server of forks does not start: Traceback"):
        forked_programs.program.__wrapped__(("no_such_module",))
