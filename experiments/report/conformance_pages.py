"""One page an implementation: what `ntkfl conform run` found it to be, method by method."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bounds.papers import slug
from ntkfl.conformance import Conformance, Outcome
from ntkfl.conformance.page import COLUMNS, FAIR, from_json, summary, table

LOOKS = {  # a sign, and the outcome of a statement whose colour it has
    Outcome.EQUAL: ("✓", "holds"),
    Outcome.DIFFERS: ("✗", "violated"),
    Outcome.FAILED: ("?", "unresolved"),
}
RANK = (Outcome.DIFFERS, Outcome.FAILED, Outcome.EQUAL)


@dataclass(frozen=True)
class Shown:
    """A method's verdict as a sign, a word and a style."""

    outcome: Outcome
    differs: None = None

    @property
    def sign(self) -> str:
        """The sign in front of the word."""
        return LOOKS[self.outcome][0]

    @property
    def word(self) -> str:
        """The verdict's own word."""
        return self.outcome.value

    @property
    def style(self) -> str:
        """The name of a style."""
        return LOOKS[self.outcome][1]

    @property
    def rank(self) -> int:
        """The place among all verdicts; 0 is worst."""
        return RANK.index(self.outcome)


@dataclass(frozen=True)
class ConformancePage:
    """What was found of an implementation, and with which version of the kit, when."""

    found: Conformance
    version: str
    date: str

    columns = COLUMNS
    fair = FAIR

    @property
    def name(self) -> str:
        """The adapter's, without the file's ending."""
        return Path(self.found.adapter).stem

    @property
    def path(self) -> str:
        """Where the page is in the report."""
        return f"conformance/{slug(self.name).replace('_', '-')}.html"

    @property
    def summary(self) -> str:
        """How many methods are what."""
        return summary(self.found)

    @property
    def rows(self) -> list[tuple[str | Shown, ...]]:
        """Method, verdict, cases, what it does, where it first differs."""
        return [(name, Shown(Outcome(said)), *rest) for name, said, *rest in table(self.found)[0]]

    @property
    def left_out(self) -> list[str]:
        """Methods that the adapter does not have."""
        return table(self.found)[1]

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """Versions of what was run, and of the kit."""
        peer = self.found.peer
        return [*peer.packages.items(), *peer.runs_with.items(), ("kit of ntkfl", self.version), ("date", self.date)]


def conformance_page(path: Path) -> ConformancePage:
    """The page of a file.

    Raises:
        ValueError: not a file that `ntkfl conform run --json` wrote. OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return ConformancePage(from_json(content), str(content["ntkfl"]), str(content["date"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a file that `ntkfl conform run --json` wrote: {error}") from error
