"""Cases go to an adapter in an interpreter of its own; arrays or a fault come back. No adapter is imported here."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ntkfl import interruption
from ntkfl.conformance import received
from ntkfl.conformance.driver import START
from ntkfl.conformance.kit_cases import KitCase
from ntkfl.conformance.received import Refused

DRIVER = Path(__file__).with_name("driver.py")
PAUSE = 0.005  # seconds between two looks for the answer's file
LIMIT = 60.0  # seconds that an adapter has for a case
LOADING = 120.0  # least time limit for loading an adapter, in seconds: frameworks take long to import
HANGS = 2  # after so many hangs of one method, its other cases are not run


class AdapterError(ValueError):
    """The adapter cannot be run at all."""


@dataclass(frozen=True)
class Answer:
    """The answer to one case: arrays by name, or the reason why there are none (the case was left out, or failed)."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    left_out: str = ""
    fault: str = ""
    seconds: float = 0.0
    hung: bool = False
    one_memory: tuple[str, ...] = ()  # names whose values were returned in the same memory for all rounds


@dataclass
class Peer:
    """The environment of the adapter: versions of its PACKAGES, of python and of numpy."""

    packages: dict[str, str] = field(default_factory=dict)
    runs_with: dict[str, str] = field(default_factory=dict)


def answers(
    adapter: Path,
    cases: Sequence[KitCase],
    python: str = sys.executable,
    limit: float = LIMIT,
    peer: Peer | None = None,
) -> Iterator[Answer]:
    """One answer a case, in their order.

    One process gets the cases one after the other, all cases of a method in a row; after a crash or a hang the further
    cases go to a new process.

    Args:
        adapter: a Python file with a function `run(case)`, as `conformance` takes it.
        cases: cases of the kit, or your own.
        python: the interpreter for the adapter; default the running interpreter.
        limit: seconds that the adapter has for each case, 60 by default.
        peer: a record that receives the versions of the adapter's packages; default None.

    Raises:
        AdapterError: the interpreter or the adapter cannot be started.
    """
    hung: Counter[str] = Counter()
    peer = peer or Peer()
    process: _Process | None = None
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        folder = Path(place)
        for number, case in enumerate(cases):
            case.case.write(folder / str(number))
        for at, case in enumerate(cases):
            if hung[case.case.method] >= HANGS:  # the last hang has ended the process
                yield Answer(fault=f"not run: {HANGS} cases of this method had no answer within {limit:g} s")
                continue
            if process is None or process.ended:
                running.close()
                process = running.enter_context(_started(python, adapter, folder, at))
                _loaded(process, folder, max(limit, LOADING), peer)
            answer = _awaited(process, folder, at, case, limit)
            hung[case.case.method] += answer.hung
            yield answer


class _Process:
    """The adapter's process and the end of its output on stderr."""

    def __init__(self, command: Sequence[str]) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # nothing is written beside the adapter
        )
        self.last_output: deque[bytes] = deque(maxlen=8)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.ended = False

    def _listen(self) -> None:
        assert self.popen.stderr is not None
        with suppress(ValueError, OSError):
            while chunk := self.popen.stderr.read1(4096):  # type: ignore[attr-defined]
                self.last_output.append(chunk)

    def end(self) -> None:
        """Kill the process and all processes of its session."""
        self.ended = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def how(self) -> str:
        """How it ended, and the last line of its output."""
        self.listener.join(timeout=1)
        status = self.popen.returncode
        ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = b"".join(self.last_output).decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"the process {ended}" + (f": {_line(last, 200)}" if last.strip() else "")


@contextmanager
def _started(python: str, adapter: Path, folder: Path, first: int) -> Iterator[_Process]:
    (folder / START).unlink(missing_ok=True)
    try:
        process = _Process([python, str(DRIVER), str(adapter.resolve()), str(folder), str(first)])
    except OSError as error:
        raise AdapterError(f"{python} cannot be started: {error.strerror}") from error
    try:
        yield process
    finally:
        process.end()
        if process.popen.stderr is not None:
            process.listener.join(timeout=1)
            process.popen.stderr.close()


def _loaded(process: _Process, folder: Path, limit: float, peer: Peer) -> None:
    """Wait until the adapter is loaded.

    Raises:
        AdapterError: the adapter cannot be used; the message says why.
    """
    if not _there(process, folder / START, limit):
        why = process.how() if process.ended else f"it was not loaded within {limit:g} s"
        raise AdapterError(f"the adapter cannot be loaded: {why}")
    try:
        content = received.document(folder / START)
        for key, kept in (("packages", peer.packages), ("with", peer.runs_with)):
            kept |= {_line(str(name), 60): _line(str(value), 60) for name, value in dict(content.get(key, {})).items()}
    except (TypeError, ValueError) as error:
        raise AdapterError(f"the adapter cannot be loaded: {START} is not what the driver writes") from error
    if fault := _words(content, "fault"):
        raise AdapterError(f"the adapter cannot be loaded: {fault}")


def _awaited(process: _Process, folder: Path, at: int, case: KitCase, limit: float) -> Answer:
    begun = time.monotonic()
    if not _there(process, folder / f"{at}.json", limit):
        if process.ended:
            return Answer(fault=process.how(), seconds=time.monotonic() - begun)
        process.end()
        return Answer(fault=f"no answer within {limit:g} s", seconds=time.monotonic() - begun, hung=True)
    seconds = time.monotonic() - begun
    try:
        content = received.document(folder / f"{at}.json")
        if left_out := _words(content, "left_out"):
            return Answer(left_out=left_out, seconds=seconds)
        if fault := _words(content, "fault"):
            return Answer(fault=fault, seconds=seconds)
        # computing `expected` trains the plain loop
        shapes = {name: value.shape for name, value in case.expected.items()}
        values = received.arrays(folder / f"{at}.npz", shapes, case.required)
        shared = content.get("one_memory")
        named = tuple(name for name in values if isinstance(shared, list) and name in shared)
        return Answer(values, seconds=seconds, one_memory=named)
    except Refused as error:
        return Answer(fault=str(error), seconds=seconds)


def _there(process: _Process, path: Path, limit: float) -> bool:
    """Whether the file appears before the limit and the end of the process."""
    until = time.monotonic() + limit
    while not path.exists():
        interruption.check()
        if process.popen.poll() is not None:
            process.ended = not path.exists()
            return not process.ended
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE)
    return True


def _words(content: dict[str, object], key: str) -> str:
    return _line(str(content.get(key, "")), 300)


def _line(text: str, length: int) -> str:
    """One line of the text, without characters that a terminal would interpret."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:length]
