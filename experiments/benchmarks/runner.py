"""Measure all candidates of a workload, that is, ours and other ways to do the same work.

Candidates take turns. Each has a process of its own, so that its memory is measured separately.

The results are written as Markdown and as JSON.
"""

import importlib.util
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from experiments.benchmarks.elsewhere import PYTHON, THREADS
from experiments.benchmarks.workload import Candidate, Sizes, Workload, sizes_text
from ntkfl import interruption
from ntkfl.trajectory import provenance


@dataclass(frozen=True)
class Timing:
    """The time and memory of one candidate on one case (the workload at one choice of sizes).

    Args:
        clock: median of the elapsed time, in seconds.
        processor: median of the processors' time, in seconds.
        memory: largest resident memory, in bytes.
        off: distance of the candidate's result from ours, relative to our largest entry.
        skipped: why the candidate was not measured.
    """

    workload: str
    sizes: Sizes
    candidate: str
    role: str
    clock: float = math.nan
    processor: float = math.nan
    memory: int = 0
    off: float = math.nan
    skipped: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON types, with null for unknown numbers."""
        numbers = asdict(self)
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in numbers.items()}


Progress = Callable[[str], None]
LONG = 20.0  # seconds; work that takes longer needs no warm-up, so its first repetition counts


def measured(
    workload: Workload,
    sizes: Sizes,
    repetitions: int,
    threads: int,
    progress: Progress = lambda line: None,
    peers: Mapping[str, str] = MappingProxyType({}),
) -> list[Timing]:
    """The timings of all candidates on one case; each candidate is timed `repetitions` times, in turn.

    Args:
        workload: the work and its candidates.
        sizes: a case of the workload.
        repetitions: how often each candidate is timed.
        threads: the number of threads that every candidate may use.
        progress: a function that is called with the name of each candidate that starts; default: none.
        peers: the interpreter of each peer that needs an environment of its own, by the peer's name; default none.

    Raises:
        RuntimeError: a candidate's result differs from ours by more than the workload's tolerance.
    """
    skipped = {c.name: why for c in workload.candidates if (why := _skipped(c, sizes, peers))}
    with ExitStack() as stack:
        running: dict[str, _Process] = {}
        for candidate in workload.candidates:
            if candidate.name not in skipped:
                progress(f"{workload.name} {sizes_text(sizes)}: {candidate.name} starts")
                process = stack.enter_context(_process(workload, candidate, sizes, threads, peers))
                if process.died:
                    skipped[candidate.name] = process.died
                else:
                    running[candidate.name] = process
        took: dict[str, list[dict[str, float]]] = {name: [] for name in running}
        for turn in range(repetitions):
            progress(f"{workload.name} {sizes_text(sizes)}: turn {turn + 1} of {repetitions}")
            for name, process in running.items():
                interruption.check()
                counts = turn == 0 and process.first["clock"] > LONG
                took[name].append(process.first if counts else process.once())
    ours = running.get(workload.ours.name)
    timings = []
    for candidate in workload.candidates:
        timing = Timing(workload.name, dict(sizes), candidate.name, candidate.role)
        if candidate.name in skipped:
            timings.append(replace(timing, skipped=skipped[candidate.name]))
            continue
        off = _off(running[candidate.name].numbers, ours.numbers) if ours else math.nan
        allowed = candidate.tolerance or workload.tolerance
        if candidate.role != "limit" and off > allowed:
            raise RuntimeError(f"{candidate.name} on {sizes_text(sizes)} is off by {off:.1e}; {allowed:g} is allowed")
        some = took[candidate.name]
        clock, processor = (statistics.median(answer[key] for answer in some) for key in ("clock", "processor"))
        memory = int(max(answer["memory"] for answer in some))
        timings.append(replace(timing, clock=clock, processor=processor, memory=memory, off=off))
    return timings


def exponent(timings: Sequence[Timing], workload: Workload, candidate: str) -> tuple[float, int] | None:
    """The slope of log seconds against the log of the workload's size, and the number of cases.

    None if there are fewer than two cases.
    """
    own = [t for t in timings if t.candidate == candidate and not t.skipped]
    if not own:
        return None
    fixed = {name: value for name, value in own[0].sizes.items() if name != workload.along}
    own = [t for t in own if all(t.sizes[name] == value for name, value in fixed.items())]
    if len(own) < 2:
        return None
    slope = statistics.linear_regression(
        [math.log(t.sizes[workload.along]) for t in own], [math.log(t.clock) for t in own]
    ).slope
    return slope, len(own)


def _skipped(candidate: Candidate, sizes: Sizes, peers: Mapping[str, str]) -> str:
    if candidate.peer and candidate.peer not in peers:
        return f"no --peer-python {candidate.peer}=PATH"
    if candidate.needs and importlib.util.find_spec(candidate.needs) is None:
        return f"{candidate.needs} is not installed"
    too_large = [name for name, most in candidate.most.items() if sizes[name] > most]
    return f"not run beyond {', '.join(f'{name} = {candidate.most[name]}' for name in too_large)}" if too_large else ""


def _off(numbers: list[float], ours: list[float]) -> float:
    if len(numbers) != len(ours):
        return math.inf
    return max(abs(a - b) for a, b in zip(numbers, ours, strict=True)) / max(max(map(abs, ours)), 1e-300)


class _Process:
    """The process of a candidate, which waits for requests."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.first = self._answer()  # the report on the first repetition, which is usually a warm-up
        self.died = "" if self.first else f"ended with status {process.wait()}"
        self.numbers: list[float] = self.first.get("numbers", [])

    def once(self) -> dict[str, float]:
        """Let the process do the work once, and return its report."""
        assert self._process.stdin
        self._process.stdin.write("once\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not answer:
            raise RuntimeError(f"a candidate ended with status {self._process.wait()} while it was measured")
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return json.loads(line) if line else {}


@contextmanager
def _process(
    workload: Workload, candidate: Candidate, sizes: Sizes, threads: int, peers: Mapping[str, str]
) -> Iterator[_Process]:
    words = [workload.name, candidate.name, json.dumps(dict(sizes))]
    environment = os.environ | {
        THREADS: str(threads),
        PYTHON: peers.get(candidate.peer or "", ""),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + f" --xla_cpu_multi_thread_eigen={str(threads > 1).lower()}",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.benchmarks.candidate", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        process_group=0,  # Ctrl-C then interrupts this process alone, and this process ends its candidates
    )
    with process:
        try:
            yield _Process(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # ends the process and its children


HEAD = "| case | candidate | clock [s] | processor [s] | memory [GB] | over ours | over the limit | off |"
FORMAT = "bench 1"


def bench_page(
    workloads: Sequence[Workload], timings: Sequence[Timing], earlier: Sequence[Timing], repetitions: int, threads: int
) -> str:
    """The timings as Markdown: for each workload a table, and the fitted exponent of our time."""
    load = os.getloadavg()[0]
    lines = [
        f"Medians of {repetitions}, in turn; {threads} threads on {os.cpu_count()} processors, load {load:.1f} at the "
        f"end; {platform.machine()}, Python {platform.python_version()}. *Over ours*: clock (processor) time divided "
        "by the time of the row `ntkfl`. *Memory*: the most that the process held, libraries and input included.",
        "",
    ]
    before = {(t.workload, json.dumps(dict(t.sizes)), t.candidate): t for t in earlier}
    for workload in workloads:
        own = [t for t in timings if t.workload == workload.name]
        lines += [f"**{workload.name}**: {workload.says}", "", HEAD + (" before |" if earlier else "")]
        lines += ["|---|---|--:|--:|--:|--:|--:|--:|" + ("--:|" if earlier else "")]
        for timing in (t for t in own if not t.skipped):
            then = before.get((timing.workload, json.dumps(dict(timing.sizes)), timing.candidate))
            lines.append(_row(timing, own) + (f" {_ratio(then, timing)} |" if earlier else ""))
        left_out: dict[tuple[str, str], str] = {}
        for timing in own:
            if timing.skipped:
                left_out.setdefault((timing.candidate, timing.skipped), sizes_text(timing.sizes))
        reasons = [f"{candidate}, first at {case} ({why})" for (candidate, why), case in left_out.items()]
        lines += ["", f"Left out: {'; '.join(reasons)}."] if reasons else []
        growth = exponent(own, workload, workload.ours.name)
        if growth:
            lines += ["", f"Time of `ntkfl` grows like {workload.along}^{growth[0]:.2f} ({growth[1]} cases)."]
        lines.append("")
    return "\n".join(lines)


def as_json(timings: Sequence[Timing], repetitions: int, threads: int) -> str:
    """The timings and their provenance as JSON."""
    about = {"format": FORMAT, "repetitions": repetitions, "threads": threads, "provenance": provenance()}
    return json.dumps(about | {"timings": [timing.to_json() for timing in timings]}, indent=1, allow_nan=False) + "\n"


def from_json(content: object) -> list[Timing]:
    """The timings of an earlier run.

    Raises:
        ValueError: the content has another form.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"this is no file of `ntkfl bench --json`; it must have the format {FORMAT!r}")
    unknown: Any = math.nan
    return [Timing(**{k: unknown if v is None else v for k, v in timing.items()}) for timing in content["timings"]]


def _row(timing: Timing, own: Sequence[Timing]) -> str:
    start = f"| {sizes_text(timing.sizes)} | {timing.candidate} |"
    same = [t for t in own if t.sizes == timing.sizes and not t.skipped]
    ours = next((t for t in same if t.role == "ours"), None)
    limit = next((t for t in same if t.role == "limit"), None)
    off = "" if math.isnan(timing.off) or timing.role in ("ours", "limit") else f"{timing.off:.0e}"
    numbers = f" {timing.clock:.3g} | {timing.processor:.3g} | {timing.memory / 1e9:.2f} |"
    return f"{start}{numbers} {_ratio(timing, ours)} | {_ratio(timing, limit)} | {off} |"


def _ratio(timing: Timing | None, base: Timing | None) -> str:
    if timing is None or base is None or timing.skipped or base.skipped:
        return ""
    return f"{timing.clock / base.clock:.2f} ({timing.processor / base.processor:.2f})"
