"""Programs as forks of one process that has imported the library: a new process would import for one to three seconds.

    python forked_programs.py ask SOCKET MODULE WORD ...

does what `python -m MODULE WORD ...` does. This client sends the server one datagram: its folder, environment, streams
and two pipes. By one pipe the client passes signals on; by the other the server tells how the fork ended. The server
alone is the parent of the forks and waits for them, so there is no third process that could end before it reports a
status. If the server itself dies, its clients say so. A fork ends if its client or the server ends; the server ends if
the process that started it ends.
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

# of every program's environment, and of the server's, as some libraries read it when they are imported
SETTINGS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SETTINGS |= {"MPLBACKEND": "inline", "MATPLOTLIBRC": str(Path(__file__).parent), "COLUMNS": "100", "NO_COLOR": "1"}
IMPORTED = (
    *"torch jax.numpy sklearn.datasets scipy.optimize scipy.stats sympy numba pydantic.main safetensors.torch".split(),
    *"matplotlib.pyplot ipykernel.ipkernel ipykernel.zmqshell ipykernel_launcher experiments.command_line".split(),
    *"ntkfl.training.runs ntkfl.training.models ntkfl.training.methods verification.engine".split(),
)


@cache
def program(imported: tuple[str, ...] = IMPORTED) -> list[str]:
    """The words of a command that does what `python -m` does; the server with these modules ends with this process."""
    if sys.platform != "linux":
        return [sys.executable, "-m"]
    folder = tempfile.TemporaryDirectory()
    address = str(Path(folder.name, "socket"))
    # Forks keep the server's `sys.stdout`: made for a pipe, it does not take any output for a file that can seek.
    # A session of its own: a terminal's Ctrl-C is for those who ask.
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = [sys.executable, __file__, "serve", address, *imported]
    server = subprocess.Popen(words, env=os.environ | SETTINGS, start_new_session=True, **pipes)
    atexit.register(lambda: (server.communicate(), folder.cleanup()))
    if not server.stdout.readline():
        raise RuntimeError(f"the server of forks does not start: {server.communicate()[1].decode()}")
    return [sys.executable, "-IS", __file__, "ask", address]


def ask(address: str, *words: str) -> int:
    """Have the server run a program: its exit status, negative if a signal ended it."""
    while os.open(os.devnull, os.O_RDWR) < 3:
        pass  # else a stream that is closed would be one of these pipes
    hears, says = os.pipe()  # signals
    told, tells = os.pipe()  # the status

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
    """Fork for each request; in the fork return what it is to run, and in the server None when its user ends."""
    del sys.path[0]  # the folder of this file
    for module in imported:
        import_module(module)
    if imported:
        import_module("bounds").catalogue()  # which imports all statements
    gc.freeze()  # what a fork does not touch need not be copied
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    own = os.getpid()
    running: dict[int, tuple[int, int, int]] = {}  # by a descriptor that tells the end: the fork and its client's pipes
    clients: dict[int, int] = {}  # by the pipe of signals: the forks whose clients live
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asked:
        asked.bind(address)
        os.write(1, b"\n")
        while 0 not in (ready := select.select([0, asked, *running, *clients], [], [])[0]):
            for hears in clients.keys() & set(ready):
                numbers = os.read(hears, 9)
                for number in numbers:
                    os.kill(clients[hears], number)  # not waited for, so the number is still the fork's
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
                message, (*streams, hears, tells), *_ = socket.recv_fds(asked, 2**20, 5)  # Linux sends less
                process = os.fork()
                os.setpgid(process, process)  # by whichever is first: signals to a group reach no other fork
                if not process:
                    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: when the server dies
                    if os.getppid() != own:
                        os._exit(1)  # it died before
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

    The process then ends as an interpreter does, but without taking down the modules, which would copy a third of the
    memory. Only where the interpreter would print something at the end does the interpreter itself end the process.
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
    with suppress(Exception):  # nobody reads, or the program has closed a stream
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
            with suppress(OSError):  # SIGKILL
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        sys.exit(status)
