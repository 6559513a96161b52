"""A page for each implementation, with the verdict of `ntkfl conform run` on each of its methods."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bounds.papers import slug
from experiments.report.outcomes import Shown
from ntkfl.conformance import Agreement
from ntkfl.conformance.conformance_page import from_json, summary, table

# The verdicts, with the worst first. Each is shown with the sign and the style of an outcome that a statement can have:
# violated, unresolved or holds.
VERDICTS = {
    outcome.value: Shown(sign, outcome.value, style, rank)
    for rank, (outcome, sign, style) in enumerate(
        [(Agreement.DIFFERS, "✗", "violated"), (Agreement.FAILED, "?", "unresolved"), (Agreement.EQUAL, "✓", "holds")]
    )
}


@dataclass(frozen=True)
class ConformancePage:
    """The page with the verdicts about one implementation."""

    name: str  # the name of the adapter's file without its ending
    adapter: str  # the adapter's file
    path: str  # the path of the page in the report
    summary: str  # how many methods have each verdict
    rows: Sequence[tuple[str | Shown, ...]]  # the method, its verdict, its cases, its rule, and where it first differs
    left_out: Sequence[str]  # methods that the adapter does not have
    provenance: Sequence[tuple[str, str]]  # versions of the implementation and of the kit


def conformance_page(path: Path) -> ConformancePage:
    """The page about the conformance run in a file.

    Raises:
        ValueError: `ntkfl conform run --json` did not write this file. OSError: the file cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        conformance, version, date = from_json(content), str(content["ntkfl"]), str(content["date"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a file that `ntkfl conform run --json` wrote: {error}") from error
    name, peer = Path(conformance.adapter).stem, conformance.peer
    rows, left_out = table(conformance)
    return ConformancePage(
        name,
        conformance.adapter,
        f"conformance/{slug(name).replace('_', '-')}.html",
        summary(conformance),
        [(method, VERDICTS[verdict], *rest) for method, verdict, *rest in rows],
        left_out,
        [*peer.packages.items(), *peer.runs_with.items(), ("kit of ntkfl", version), ("date", date)],
    )
