"""The results of `ntkfl bench` as Markdown and as JSON."""

import json
import math
import os
import platform
from collections.abc import Sequence
from typing import Any

from experiments.benchmarks.runner import Timing, exponent
from experiments.benchmarks.workload import Workload, sizes_text
from ntkfl.trajectory import provenance

HEAD = "| case | candidate | clock [s] | processor [s] | memory [GB] | over ours | over the limit | off |"
FORMAT = "bench 1"


def bench_page(
    workloads: Sequence[Workload], timings: Sequence[Timing], earlier: Sequence[Timing], repetitions: int, threads: int
) -> str:
    """A table for each workload, with the fitted exponents."""
    load = os.getloadavg()[0]
    lines = [
        f"Medians of {repetitions}, in turn; {threads} threads on {os.cpu_count()} processors, load {load:.1f} at the "
        f"end; {platform.machine()}, Python {platform.python_version()}. *Over ours*: clock (processor) time over that "
        "of the row `ntkfl`. *Memory*: the most that the process held, libraries and input included.",
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
    """The numbers and their provenance."""
    about = {"format": FORMAT, "repetitions": repetitions, "threads": threads, "provenance": provenance()}
    return json.dumps(about | {"timings": [timing.to_json() for timing in timings]}, indent=1, allow_nan=False) + "\n"


def from_json(content: object) -> list[Timing]:
    """The numbers of an earlier run.

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
