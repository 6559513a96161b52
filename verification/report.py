"""Reports from verdicts: a page, a table, Markdown, JSON and a line of totals. All print the same outcomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from bounds.statement import Kind, Outcome
from verification.page import as_text, ratio_text
from verification.verdict import Verdict, contradicts_record

__all__ = [
    "as_json",
    "as_markdown",
    "as_text",
    "contradicts_record",
    "markdown_table",
    "table",
    "totals",
    "worst_first",
]

ORDER = (Outcome.VIOLATED, Outcome.UNRESOLVED, Outcome.UNTESTED, Outcome.TOUCHES, Outcome.HOLDS)
STYLE = {Outcome.VIOLATED: "red", Outcome.UNRESOLVED: "yellow", Outcome.UNTESTED: "yellow"}
COLUMNS = ("outcome", "statement", "form", "trials", "tightness", "mutants", "remark")
NUMBERS = ("trials", "tightness", "mutants")
MEASURE = dict.fromkeys((Kind.EQUALITY, Kind.DEFINITION, Kind.EXISTENCE), "|difference|/scale")
MEASURE[Kind.RATE] = "distance in half-widths"


def worst_first(verdicts: Iterable[Verdict], own_data: bool = False) -> list[Verdict]:
    """What differs from the record, then violated, unresolved, untested, touches, holds; else in the given order."""
    return sorted(verdicts, key=lambda v: (not contradicts_record(v, own_data), ORDER.index(v.outcome)))


def table(verdicts: Iterable[Verdict], own_data: bool = False) -> Table:
    """One row a verdict, worst first; fits 80 columns."""
    result = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for name in COLUMNS:
        last = name == COLUMNS[-1]
        result.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=not last, overflow="fold")
    for verdict in worst_first(verdicts, own_data):
        style = "bold red" if contradicts_record(verdict, own_data) else STYLE.get(verdict.outcome, "")
        outcome, *cells = _cells(verdict, own_data)
        result.add_row(Text(outcome, style), *map(Text, cells))
    return result


def totals(verdicts: Sequence[Verdict], own_data: bool = False) -> str:
    """One line: how many verdicts of each outcome, and how many differ from what is recorded."""
    found = Counter(verdict.outcome for verdict in verdicts)
    expected = sum(v.outcome is Outcome.VIOLATED and not contradicts_record(v, own_data) for v in verdicts)
    counts = [
        (found[Outcome.HOLDS], "hold"),
        (found[Outcome.TOUCHES], "touch"),
        (found[Outcome.UNTESTED], "untested"),
        (found[Outcome.UNRESOLVED], "unresolved"),
        (expected, "violated as recorded"),
        (found[Outcome.VIOLATED] - expected, "violated against the record"),
    ]
    said = ", ".join(f"{count} {word}" for count, word in counts if count) or "none finished"
    differ = sum(contradicts_record(verdict, own_data) for verdict in verdicts)
    noun = "verdict" if len(verdicts) == 1 else "verdicts"
    verb = "differs" if differ == 1 else "differ"
    failed = sum(verdict.error is not None for verdict in verdicts)
    measure = "violate what is recorded to hold" if own_data else f"{verb} from what is recorded"
    ended = f"; {failed} ended by an error" if failed else ""
    return f"{len(verdicts)} {noun}: {said}; {differ - failed * own_data} {measure}{ended}"


def as_markdown(verdicts: Sequence[Verdict], own_data: bool = False) -> str:
    """Totals, the table, and the page of every verdict, worst first."""
    rows = worst_first(verdicts, own_data)
    lines = ["# Verdicts", "", escaped(totals(verdicts, own_data)) + ".", "", *markdown_table(rows, own_data)]
    for verdict in rows:
        lines += [
            "",
            f"## {escaped(verdict.id)}, {verdict.form.value}",
            "",
            _fenced(as_text(verdict, own_data=own_data)),
        ]
    return "\n".join(lines) + "\n"


def markdown_table(verdicts: Iterable[Verdict], own_data: bool = False) -> list[str]:
    """The rows of `table` in the given order, as lines of Markdown."""
    lines = [_row(COLUMNS), _row(["---:" if name in NUMBERS else "---" for name in COLUMNS])]
    return lines + [_row(map(escaped, _cells(verdict, own_data))) for verdict in verdicts]


def as_json(verdicts: Iterable[Verdict], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """{"provenance": ..., "verdicts": [...]}, strict JSON: numbers that are not finite are strings."""
    return {"provenance": dict(provenance), "verdicts": [verdict.to_json() for verdict in verdicts]}


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a table's cell too."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(str(text).split()))


def _cells(verdict: Verdict, own_data: bool) -> list[str]:
    ratios = verdict.tightness or {}
    sharpest = ratio_text(ratios["sharpest"], 3) if "sharpest" in ratios else "-"
    mutants = f"{verdict.mutants_killed}/{verdict.mutants_total}" if verdict.mutants_total else "-"
    rejected = sum(verdict.rejected.values())
    remarks = [
        f"DIFFERS: recorded {verdict.recorded.value}" if contradicts_record(verdict, own_data) else "",
        _decided_by(verdict) if verdict.outcome is Outcome.VIOLATED and not verdict.violated else "",
        "FAILED" if verdict.error is not None else "",
        f"exponent ± {verdict.lhs.error:.2g}" if verdict.kind is Kind.RATE and verdict.lhs else "",
        "vacuous" if verdict.vacuous else "",
        "weakly tested" if verdict.trials and verdict.mutants_killed < verdict.mutants_total else "",
        f"{rejected} rejected" if rejected else "",
    ]
    remark = ", ".join(filter(None, remarks))
    return [verdict.outcome.value, verdict.id, verdict.form.value, str(verdict.trials), sharpest, mutants, remark]


def _decided_by(verdict: Verdict) -> str:
    """The stored case that alone violates the claim, and by how much."""
    ratio = (verdict.tightness or {}).get("stored case")
    measure = MEASURE.get(verdict.kind, "left/right")
    return "stored case" if ratio is None else f"stored case, {measure} {ratio_text(ratio, 3)}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
