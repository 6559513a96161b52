"""Programs as forks of one process that has imported the library, since a new process would import for 1 to 3 seconds.

    python forked_programs.py ask SOCKET MODULE WORD ...

does what `python -m MODULE WORD ...` does. The command is a client of the server: it sends one datagram with its
folder, its environment, its streams and two pipes. Through one pipe the client passes signals on. Through the other
pipe the server says how the fork ended. The server alone is the parent of the forks and waits for them, so there is no
third process that could end before it reports a status. If the server itself dies, its clients say so. A fork ends if
its client or the server ends. The server ends if the process that started it ends.
"""

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from runpy import run_module

# These variables are set for every program and for the server, as some libraries read them when they are imported.
SETTINGS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SETTINGS |= {"MPLBACKEND": "inline", "MATPLOTLIBRC": str(Path(__file__).parent), "COLUMNS": "100", "NO_COLOR": "1"}
IMPORTED = (
    *"torch jax.numpy sklearn.datasets scipy.optimize scipy.stats sympy numba pydantic.main safetensors.torch".split(),
    *"matplotlib.pyplot ipykernel.ipkernel ipykernel.zmqshell ipykernel_launcher experiments.command_line".split(),
    *"ntkfl.training.runs ntkfl.training.models ntkfl.training.methods verification.engine".split(),
)


@cache
def program(imported: tuple[str, ...] = IMPORTED) -> list[str]:
    """The words of a command that does what `python -m` does.

    The command asks a server that has imported these modules, and that ends when this process ends.
    """
    if sys.platform != "linux":
        return [sys.executable, "-m"]
    folder = tempfile.TemporaryDirectory()
    address = str(Path(folder.name, "socket"))
    # Forks keep the server's `sys.stdout`. This object is made for a pipe, so that it never assumes that an output is a
    # file in which it can seek. The server has a session of its own, because a terminal's Ctrl-C is for its clients.
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = [sys.executable, __file__, "serve", address, *imported]
    server = subprocess.Popen(words, env=os.environ | SETTINGS, start_new_session=True, **pipes)
    atexit.register(lambda: (server.communicate(), folder.cleanup()))
    if not server.stdout.readline():
        raise RuntimeError(f"the server of forks does not start: {server.communicate()[1].decode()}")
    return [sys.executable, "-IS", __file__, "ask", address]


def ask(address: str, *words: str) -> int:
    """Let the server run a program. Returns its exit status, which is negative if a signal ended it."""
    while os.open(os.devnull, os.O_RDWR) < 3:
        pass  # opens closed streams, since one of the pipes below would otherwise take the place of such a stream
    hears, says = os.pipe()  # a pipe for signals
    told, tells = os.pipe()  # a pipe for the exit status

    def pass_on(number: int, _: object) -> None:
        with suppress(BrokenPipeError):  # the program has just ended
            os.write(says, bytes([number]))

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.connect(address)
        message = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [message], [0, 1, 2, hears, tells])
    os.close(hears)
    os.close(tells)
    if not (status := os.read(told, 9)):
        raise SystemExit("the server of forks has died")
    return int(status)


def serve(address: str, *imported: str) -> list | None:
    """Serve requests: each request makes a fork. In the fork, the function returns what the fork has to run.

    In the server it returns None when the process that started the server ends.
    """
    del sys.path[0]  # removes the folder of this file
    for module in imported:
        import_module(module)
    if imported:
        import_module("bounds").catalogue()  # imports all statements
    gc.freeze()  # objects that a fork does not touch need not be copied
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    own = os.getpid()
    # by the descriptor that becomes readable when a fork ends: the fork and the pipes of its client
    running: dict[int, tuple[int, int, int]] = {}
    clients: dict[int, int] = {}  # by the pipe of signals: the fork, if its client lives
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asked:
        asked.bind(address)
        os.write(1, b"\n")
        while 0 not in (ready := select.select([0, asked, *running, *clients], [], [])[0]):
            for hears in clients.keys() & set(ready):
                numbers = os.read(hears, 9)
                for number in numbers:
                    # the server has not waited for the fork, so the process id is still the fork's
                    os.kill(clients[hears], number)
                if not numbers:  # the client has died
                    os.killpg(clients.pop(hears), signal.SIGKILL)
            for ended in running.keys() & set(ready):
                process, hears, tells = running.pop(ended)
                clients.pop(hears, None)
                status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                with suppress(BrokenPipeError):  # its client has died
                    os.write(tells, str(status).encode())
                for descriptor in (ended, hears, tells):
                    os.close(descriptor)
            if asked in ready:
                # 2**20 bytes are more than Linux sends in one message
                message, (*streams, hears, tells), *_ = socket.recv_fds(asked, 2**20, 5)
                process = os.fork()
                # so that killpg reaches no other fork; both processes do this, since either may be the first
                os.setpgid(process, process)
                if not process:
                    # PR_SET_PDEATHSIG: this process is killed when the server dies
                    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
                    if os.getppid() != own:
                        os._exit(1)  # the server died before the call of prctl
                    for stream, given in enumerate(streams):
                        os.dup2(given, stream)
                    others = [pipe for _, *pipes in running.values() for pipe in pipes]
                    for descriptor in (*streams, hears, tells, *running, *others):
                        os.close(descriptor)
                    return json.loads(message)
                for descriptor in streams:
                    os.close(descriptor)
                running[os.pidfd_open(process)] = process, hears, tells
                clients[hears] = process
    return None


def run(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run a module as a program with these words, in this folder, with this environment.

    The process then ends as an interpreter does, except that the modules are not taken down, because that would copy a
    third of the memory. If the interpreter would print something at the end, the interpreter itself ends the process.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, ended = words, SystemExit()
    try:
        run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        ended = end
    threading._shutdown()
    atexit._run_exitfuncs()
    with suppress(Exception):  # nobody reads the streams, or the program has closed one
        sys.stdout.flush()
        sys.stderr.flush()
        if ended.code is None or isinstance(ended.code, int):
            os._exit((ended.code or 0) & 255)
    raise ended


if __name__ == "__main__":
    role, *given = sys.argv[1:]
    if role == "serve" and (asked := serve(*given)):
        run(*asked)
    if role == "ask":
        if (status := ask(*given)) < 0:
            with suppress(OSError):  # SIGKILL cannot be reset
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        sys.exit(status)
