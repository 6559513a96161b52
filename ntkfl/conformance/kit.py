"""Exchanges cases and answers with adapters, and writes the kit as a folder for adapters in any language.

An adapter in Python runs in an interpreter of its own. The adapter gets a case and gives back arrays or a fault. No
adapter is imported here. The folder has the cases and the reference trajectories as JSON and npz files.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ntkfl import interruption
from ntkfl.conformance.comparing import MARGIN, TOLERANCE
from ntkfl.conformance.conformance_case import FORMAT
from ntkfl.conformance.driver import START
from ntkfl.conformance.kit_cases import KitCase, cases
from ntkfl.conformance.plan import SHAPES
from ntkfl.version import VERSION

PRECISIONS = ("float64", "float32")
LARGEST_JSON = 1 << 20
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    KeyError,
)


class Refused(ValueError):
    """A file that was received cannot be used. The message gives the reason in one line."""


def document(path: Path) -> dict[str, Any]:
    """Reads a small JSON object from a file.

    Raises:
        Refused: the file is no small JSON object.
    """
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise Refused(f"{path.name} has {path.stat().st_size} bytes; a few words were expected")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{path.name} cannot be read as JSON") from error
    if not isinstance(content, dict):
        raise Refused(f"{path.name} is {type(content).__name__}; it must be an object")
    return content


def arrays(path: Path, shapes: Mapping[str, tuple[int, ...]], required: Collection[str]) -> dict[str, np.ndarray]:
    """Reads arrays of these names and shapes from a file. The arrays must be finite, and all float64 or all float32.

    Raises:
        Refused: an array is missing or wrong; the message has its name, what was found and what would be right.
    """
    try:
        with zipfile.ZipFile(path) as file:
            names = [name.removesuffix(".npy") for name in file.namelist()]
            for name in required:
                if name not in names:
                    raise Refused(f"there is no {name!r}; the answer has {_listed(names)}")
            for name in names:
                if name not in shapes:
                    raise Refused(f"{name!r} is no name of this case; its names are {_listed(shapes)}")
            by_name = {name: _array(file, name, shapes[name]) for name in names}
    except Refused:
        raise
    except UNREADABLE as error:
        raise Refused(f"{path.name} cannot be read: {type(error).__name__}") from error
    if len({value.dtype for value in by_name.values()}) > 1:
        raise Refused("some arrays are float64 and some float32; all must be of one precision")
    return by_name


def _array(file: zipfile.ZipFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    with file.open(f"{name}.npy") as stream:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        there, fortran, dtype = read(stream)
        if dtype.hasobject or dtype.name not in PRECISIONS:
            raise Refused(f"{name!r} is {dtype.name}; it must be {' or '.join(PRECISIONS)}")
        if there != shape:
            raise Refused(f"{name!r} has shape {there}, rounds first; it must be {shape}")
        content = stream.read(int(np.prod(shape)) * dtype.itemsize)
    value = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    for number, tensor in enumerate(value):
        if not np.isfinite(tensor).all():
            raise Refused(f"{name!r} has NaN or infinity after round {number + 1}; every number must be finite")
    return value.astype(dtype.newbyteorder("="))


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name[:40]) for name in list(names)[:10]) or "nothing"


DRIVER = Path(__file__).with_name("driver.py")
PAUSE = 0.005  # seconds between two checks whether the answer's file is there
LIMIT = 60.0  # seconds that an adapter has for a case
LOADING = 120.0  # smallest time limit in seconds for loading an adapter, since large packages take long to import
HANGS = 2  # after so many cases of a method without an answer in time, the method's other cases are not run


class AdapterError(ValueError):
    """The adapter cannot be run at all."""


@dataclass(frozen=True)
class Answer:
    """The answer to one case: arrays by name, or the reason why there are none.

    If there are no arrays, either the adapter left the case out, or the case failed. `hung` says that there was no
    answer in time.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    left_out: str = ""
    fault: str = ""
    seconds: float = 0.0
    hung: bool = False
    # names whose values had the same memory in all rounds, so that only the last round's values are left
    one_memory: tuple[str, ...] = ()


@dataclass
class Peer:
    """The environment of the adapter: versions of the packages that it lists in PACKAGES, of python and of numpy."""

    packages: dict[str, str] = field(default_factory=dict)
    runs_with: dict[str, str] = field(default_factory=dict)


def answers(
    adapter: Path,
    cases: Sequence[KitCase],
    python: str = sys.executable,
    limit: float = LIMIT,
    peer: Peer | None = None,
) -> Iterator[Answer]:
    """The answers to the cases, in the order of the cases.

    A process gets one case after the other. All cases of a method follow each other. After a crash, or a case without
    an answer in time, the remaining cases go to a new process.

    Args:
        adapter: a Python file with a function `run(case)`, as `conformance` takes it.
        cases: cases of the kit, or of your own.
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
            # the process was ended when the last of these cases had no answer in time
            if hung[case.case.method] >= HANGS:
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
    """The adapter's process, and the last part of what it has written to stderr."""

    def __init__(self, command: Sequence[str]) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # so that no compiled file is written beside the adapter
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
        """Kill the process and all other processes of its session."""
        self.ended = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def how(self) -> str:
        """A sentence on how the process ended, with the last line that it has written."""
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
        content = document(folder / START)
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
        content = document(folder / f"{at}.json")
        if left_out := _words(content, "left_out"):
            return Answer(left_out=left_out, seconds=seconds)
        if fault := _words(content, "fault"):
            return Answer(fault=fault, seconds=seconds)
        # `expected` is computed here, which takes a while since it trains the reference implementation
        shapes = {name: value.shape for name, value in case.expected.items()}
        values = arrays(folder / f"{at}.npz", shapes, case.required)
        shared = content.get("one_memory")
        named = tuple(name for name in values if isinstance(shared, list) and name in shared)
        return Answer(values, seconds=seconds, one_memory=named)
    except Refused as error:
        return Answer(fault=str(error), seconds=seconds)


def _there(process: _Process, path: Path, limit: float) -> bool:
    """Whether the file appears before the time limit and before the process ends."""
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
    """The text as one line, without characters that a terminal would interpret."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:length]


_NUMBERS = {"type": "array", "items": {"type": "number"}}
_COUNT = {"type": "integer", "minimum": 0}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


STEP = _object(
    samples={"type": "array", "items": _COUNT, "minItems": 1, "description": "rows of x and y, in this order"},
    draws=_NUMBERS | {"description": "numbers uniform in [0, 1) that the step may use"},
    ends_pass={"type": "boolean", "description": "whether a pass over the client's samples ends with this step"},
)
ROUND = _object(
    rate={"type": "number", "minimum": 0, "description": "the local learning rate"},
    clients={
        "type": "array",
        "items": _object(client=_COUNT, steps={"type": "array", "items": STEP}),
        "description": "the cohort, ascending, with each client's local steps",
    },
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A case of the conformance kit for federated methods",
    **_object(
        format={"const": FORMAT},
        name={"type": "string"},
        method={"type": "string"},
        options={"type": "object", "description": "all options of the method, defaults included"},
        limit={"type": "string", "description": "what must hold exactly in a limit case; empty in other cases"},
        model={"enum": list(SHAPES)},
        loss={"enum": ["mean", "sum"], "description": "over the samples of a batch"},
        clients={"type": "integer", "minimum": 1, "description": "number of clients"},
        local=_object(
            momentum={"type": "number", "minimum": 0},
            weight_decay={"type": "number", "minimum": 0},
            clip={"type": ["number", "null"], "description": "largest norm of a gradient"},
        ),
        tensors={
            "type": "array",
            "items": {"type": "string"},
            "description": "tensors of the model, in the order of vectors",
        },
        rounds={"type": "array", "items": ROUND, "minItems": 1},
    ),
}


INDEX, SCHEMA_FILE, EXPECTED, README = "kit.json", "case.schema.json", "expected.npz", "README.md"
TEXT = f"""# A conformance kit for federated methods

Every folder METHOD/CASE has

* `case.json`, as `{SCHEMA_FILE}` describes it;
* `case.npz`: x, y, owner (the client of each sample), start/NAME (the tensors of the model before training) and, if the
  method adds noise, noise (a standard normal vector for each round);
* `{EXPECTED}`: for every tensor of the model, under its name, its values after rounds 1, 2, ... (for `lora` only the
  values of `weight`), and the vectors that the method keeps. An array whose name begins with `client_` has a row for
  each client.

Vectors have the parameters in the order of `tensors`.

All real numbers are float64, and no file has pickles. `{INDEX}` lists the cases.

Models, with the loss of a sample:

* `line`: the output is w.x, the loss (w.x - y)^2 / 2.
* `logistic`: the logits are head.weight x + head.bias, and the loss is the cross-entropy of their softmax with class y.
* `lora`: the logits are weight x with weight = base.weight + lora_B lora_A, and the loss is the same cross-entropy.
  base.weight is not trained. Only `weight` is compared, since its factors are not unique.
* `network`: the logits are head.weight tanh(body.0.weight x + body.0.bias) + head.bias, and the loss is the same
  cross-entropy.

A local step takes the gradient g of the batch's loss (a mean or a sum, as `loss` says), adds what the method adds,
clips g to the norm `clip`, and adds `weight_decay` w. Then v <- `momentum` v + g, with v = 0 when the round begins, and
w <- w - rate v. `diloco-adamw` takes steps of AdamW instead, on the clipped g, with decoupled weight decay rate
`weight_decay` w. There each client keeps its moments and its count of steps from round to round.

An implementation agrees with a case if no number is off by more than {TOLERANCE:g} times the larger of 1 and the
largest number of its round. In float32 the limit is {MARGIN} times the sum of two errors: the largest error of
the reference in any round so far, when it is run in float32, and float32's rounding (1.2e-7) times the same largest
number. If `limit` is not empty, it says what holds exactly in the case.
"""


def write(out: Path, methods: Collection[str] | None = None) -> int:
    """Write the kit, or its part for some methods, into a new or empty folder. Returns the number of cases.

    Args:
        out: a new or empty folder.
        methods: names; None: all.

    Raises:
        ValueError: an unknown method. OSError: the folder is not empty, or cannot be written.
    """
    chosen = cases(methods)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OSError(f"{out} exists and is not an empty folder; name a new one")
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        for case in chosen:
            interruption.check()
            case.case.write(part / case.case.name)
            np.savez(part / case.case.name / EXPECTED, allow_pickle=False, **case.expected)
        listed = [
            {
                "case": case.case.name,
                "method": case.case.method,
                "limit": case.case.document["limit"],
                "required": list(case.required),
            }
            for case in chosen
        ]
        index = {"ntkfl": VERSION, "tolerance": TOLERANCE, "cases": listed}
        for name, content in ((INDEX, index), (SCHEMA_FILE, SCHEMA)):
            (part / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (part / README).write_text(TEXT, encoding="utf-8")
        part.chmod(0o755)
        os.replace(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return len(chosen)
