"""Programs of the command server end as they would alone, and with whoever asked for them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import command_server
import pytest

from ntkfl.version import VERSION

pytestmark = pytest.mark.slow
ASKS = "from command_server import programs; print(programs(), flush=True); input()"


@pytest.fixture(scope="module")
def asking():
    """A process that has asked for programs, and their folder."""
    environment = os.environ | {"PYTHONPATH": str(Path(command_server.__file__).parent)}
    words = [sys.executable, "-c", ASKS]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


@pytest.fixture(scope="module")
def shell(asking):
    """What a line prints on both streams, and its exit status, where `ntkfl` is the server's or a program alone."""

    def run(line, first):
        path = os.pathsep.join([*map(str, first), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | command_server.SETTINGS | {"PATH": path}
        ended = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True)
        return ended.stdout, ended.stderr, ended.returncode

    return lambda line: (run(line, [asking[1]]), run(line, []))


@pytest.mark.parametrize(
    "line",
    [
        "ntkfl show fl-ntk/C.6 | tail -3",
        "ntkfl rate --data digits --n 8 --clients 2 --eta-local 0.1",
        "ntkfl train nosuch 2>&1 >/dev/null",
        "cd /; ntkfl verify absent.py <&-",
        "COLUMNS=60 ntkfl list --paper averaging | head -2; echo ${PIPESTATUS[0]}",
    ],
)
def test_a_program_prints_and_ends_as_it_does_alone(shell, line):
    forked, alone = shell(line)
    assert forked == alone and forked[0] + forked[1]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_a_program_which_ends_with_its_client(asking, tmp_path, sent):
    (tmp_path / "endless.py").write_text("import signal\nprint('begun', flush=True)\nsignal.pause()\n")
    words = [asking[1] / "ntkfl", "verify", "endless.py"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as client:
        assert client.stdout.read(5) == b"begun"
        client.send_signal(sent)
        client.stdout.read()  # until nobody can write any more
        assert client.wait() == (-sent if sent is signal.SIGKILL else 128 + sent)


def test_a_server_ends_with_a_killed_process(asking):
    process, folder = asking
    assert (folder / "socket").exists()
    client = (folder / "ntkfl").read_text()
    process.kill()
    process.wait()
    while folder.exists():
        time.sleep(0.05)
    alone = subprocess.run([sys.executable, "-c", client, "--version"], capture_output=True, text=True)
    assert alone.returncode == 0 and VERSION in alone.stdout, "without a server a client starts a new process"
