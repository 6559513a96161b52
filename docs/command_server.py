"""Programs for pages, `ntkfl` and the kernel: a process that has imported the library forks for each.

A page starts a kernel and some three commands, and each would import for one to three seconds. A fork prints what a new
process would, with the same exit status: nothing was computed before it, and there was one thread.
"""

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from runpy import run_module

# of each program's environment too: one thread, charts in the page
SETTINGS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SETTINGS |= {"MPLBACKEND": "inline", "MATPLOTLIBRC": str(Path(__file__).parent), "COLUMNS": "100", "NO_COLOR": "1"}
KERNEL = "python3"
PROGRAMS = {"ntkfl": "ntkfl.__main__", "ipykernel": "ipykernel_launcher"}
IMPORTED = (
    *"torch jax.numpy sklearn.datasets scipy.optimize scipy.stats sympy pydantic safetensors.torch".split(),
    *"matplotlib.pyplot ipykernel.ipkernel ipykernel.zmqshell experiments.command_line".split(),
    *"ntkfl.training.runs ntkfl.training.models ntkfl.training.methods".split(),
)
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys

def sent_on(number, _):
    try:
        os.kill(program, number)
    except ProcessLookupError:
        pass  # it has just ended

with socket.socket(socket.AF_UNIX) as server:
    try:
        server.connect({address!r})
        socket.send_fds(server, [b" "], [0, 1, 2])
        server.sendall(json.dumps([{module!r}, sys.argv, os.getcwd(), dict(os.environ)]).encode() + b"\\n")
        answers = server.makefile()
        program = int(answers.readline())
    except (OSError, ValueError):  # the fork ended before it began: a new process
        os.execv({python!r}, [{python!r}, "-m", {module!r}, *sys.argv[1:]])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, sent_on)
    status = int(answers.readline() or 1)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
    signal.signal(number, signal.SIG_DFL)
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@cache
def programs() -> Path:
    """A folder of programs that a server runs; both end with this process."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        env=os.environ | SETTINGS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal is for those who ask
    )
    atexit.register(server.communicate)
    return Path(server.stdout.readline().decode().strip())  # type: ignore[union-attr]


def serve() -> tuple[str, list[str], str, dict[str, str], list[int]] | None:
    """Fork for each program that is asked for: what it is to run in the fork, None at the end of the one who asks."""
    del sys.path[0]  # the folder of this file
    for module in IMPORTED:
        import_module(module)
    import_module("bounds").catalogue()
    gc.freeze()  # what a fork does not touch it need not copy
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    folder = Path(tempfile.mkdtemp())
    address = str(folder / "socket")
    for name, module in PROGRAMS.items():
        (folder / name).write_text(CLIENT.format(python=sys.executable, address=address, module=module))
        (folder / name).chmod(0o700)
    kernel = {"argv": [str(folder / "ipykernel"), "-f", "{connection_file}"], "display_name": "", "language": "python"}
    (folder / KERNEL).mkdir()
    (folder / KERNEL / "kernel.json").write_text(json.dumps(kernel))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print(folder, flush=True)
        while select.select([server, sys.stdin], [], [])[0] == [server]:
            with server.accept()[0] as client:
                if os.fork():
                    continue
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                descriptors = socket.recv_fds(client, 1, 3)[1]
                with client.makefile() as lines:
                    program = json.loads(lines.readline())
                if not (process := os.fork()):
                    return *program, descriptors
                with suppress(BrokenPipeError):
                    client.send(f"{process}\n".encode())
                ended = os.pidfd_open(process)
                if client in select.select([client, ended], [], [])[0]:  # the client was killed
                    os.kill(process, signal.SIGKILL)
                else:
                    client.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
                os._exit(0)
    shutil.rmtree(folder)
    return None


def run(module: str, words: list[str], folder: str, environment: Mapping[str, str], descriptors: list[int]) -> None:
    """Run a module as a program with these words, in this folder, on these descriptors."""
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
        os.close(given)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if program := serve():
        run(*program)
