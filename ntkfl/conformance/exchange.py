"""Cases go to an adapter in an interpreter of its own, arrays or a fault come back; nothing of it is imported here."""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ntkfl import interruption
from ntkfl.conformance import received
from ntkfl.conformance.catalogue import KitCase
from ntkfl.conformance.received import Refused

START = "start.json"
WANTED = "run(case) must return, or yield, a dictionary of arrays after every round"


def main(adapter: Path, folder: Path, first: int) -> None:
    """Load the adapter, say so, and give it the cases."""
    try:
        import numpy

        sys.path.insert(0, str(adapter.parent))
        module = loaded("conformance_adapter", adapter)
        if not callable(getattr(module, "run", None)):
            raise TypeError("it has no function run(case)")
        reading = loaded("conformance_case", Path(__file__).with_name("case.py"))
        packages = {name: importlib.metadata.version(name) for name in getattr(module, "PACKAGES", ())}
    except BaseException as error:
        say(folder / START, {"fault": described(error)})
        raise
    python = {"python": platform.python_version(), "numpy": numpy.__version__}
    say(folder / START, {"packages": packages, "with": python})
    while (folder / str(first)).is_dir():
        case = reading.Case.read(folder / str(first))
        say(folder / f"{first}.json", answer(module.run, case, folder / f"{first}.npz"))
        first += 1


def loaded(name: str, path: Path) -> Any:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def answer(run: Any, case: Any, path: Path) -> dict[str, Any]:
    """What the adapter made of the case: a file of arrays and which of them are one memory, or why there is no file."""
    import numpy

    try:
        returned = run(case)
        if isinstance(returned, (dict, str, bytes)) or not hasattr(returned, "__iter__"):
            raise TypeError(f"run returned {type(returned).__name__}; {WANTED}")
        rounds = [copied(kept) for kept in itertools.islice(returned, case.rounds + 1)]  # it may never end
        if len({tuple(sorted(kept)) for kept in rounds}) > 1:
            raise ValueError("the rounds do not all have the same names")
        stacked = {name: numpy.array([kept[name] for kept in rounds]) for name in (rounds or [{}])[0]}
        with zipfile.ZipFile(path, "w") as file:  # older versions of savez have no allow_pickle
            for name, value in stacked.items():
                with file.open(f"{name}.npy", "w") as member:
                    numpy.lib.format.write_array(member, value, allow_pickle=False)
    except NotImplementedError as error:
        return {"left_out": str(error) or "not implemented"}
    except BaseException as error:  # SystemExit too: the other cases go on
        return {"fault": described(error)}
    return {"one_memory": one_memory(returned)} if isinstance(returned, (list, tuple)) else {}


def copied(kept: Any) -> dict[str, Any]:
    """A round's arrays as they are now: the adapter may train on in the same memory, or use its dictionary again."""
    import numpy

    if not isinstance(kept, dict) or not all(isinstance(name, str) for name in kept):
        raise TypeError(f"a round is {type(kept).__name__}; {WANTED}")
    return {name: numpy.array(numpy.asarray(value)) for name, value in kept.items()}


def one_memory(rounds: Any) -> list[str]:
    """The names that have the same memory in the first round and in the last."""
    import numpy

    if len(rounds) < 2:
        return []
    first, last = ({name: numpy.asarray(value) for name, value in kept.items()} for kept in (rounds[0], rounds[-1]))
    return [name for name, value in first.items() if numpy.may_share_memory(value, last[name])]


def described(error: BaseException) -> str:
    """One line of an exception."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def say(path: Path, value: Any) -> None:
    """Put it there at once, so that who waits never reads half of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))


DRIVER = Path(__file__).with_name("driver.py")
PAUSE = 0.005  # seconds between two looks
LOADING = 120.0  # seconds that an adapter has at least to be loaded: frameworks take long to import
HANGS = 2  # after so many of one method, its other cases are not run


class AdapterError(ValueError):
    """The adapter cannot be run at all."""


@dataclass(frozen=True)
class Answer:
    """What came back for one case: arrays by name; or why none, left out by the adapter or by a fault of its."""

    values: dict[str, np.ndarray] = field(default_factory=dict)
    left_out: str = ""
    fault: str = ""
    seconds: float = 0.0
    hung: bool = False
    one_memory: tuple[str, ...] = ()  # names whose values were returned in the same memory for all rounds


@dataclass
class Peer:
    """What the adapter runs with: versions of its PACKAGES, and of python and numpy."""

    packages: dict[str, str] = field(default_factory=dict)
    runs_with: dict[str, str] = field(default_factory=dict)


def answers(adapter: Path, cases: Sequence[KitCase], python: str, limit: float, peer: Peer) -> Iterator[Answer]:
    """One answer a case, in their order; `limit` is how many seconds the adapter has for each.

    The cases, each method's beside each other, go one after the other to one process; after a crash or a hang the next
    ones go to a new one.

    Raises:
        AdapterError: the interpreter or the adapter cannot be started.
    """
    hung: Counter[str] = Counter()
    process: _Process | None = None
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        folder = Path(place)
        for number, case in enumerate(cases):
            case.case.write(folder / str(number))
        for at, case in enumerate(cases):
            if hung[case.case.method] >= HANGS:  # the process has been ended with the last of them
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
    """The adapter's process and the end of what it says on stderr."""

    def __init__(self, command: Sequence[str]) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # nothing is written beside the adapter
        )
        self.said: deque[bytes] = deque(maxlen=8)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.ended = False

    def _listen(self) -> None:
        assert self.popen.stderr is not None
        with suppress(ValueError, OSError):
            while chunk := self.popen.stderr.read1(4096):  # type: ignore[attr-defined]
                self.said.append(chunk)

    def end(self) -> None:
        """Kill it and all that it started in its session."""
        self.ended = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def how(self) -> str:
        """How it ended, and the last line of what it said."""
        self.listener.join(timeout=1)
        status = self.popen.returncode
        ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = b"".join(self.said).decode(errors="replace").split("\n")
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
        AdapterError: it is not, and why.
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
        shapes = {name: value.shape for name, value in case.expected.items()}  # trains the plain loop
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
    """One line of it that a terminal takes for nothing but text."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:length]
