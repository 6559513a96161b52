"""The vocabulary of statements: kinds, forms, outcomes, sources. Nothing in this module needs a formula.

Modules of `bounds` that must not load formulas import these names from here. Other modules import them from `bounds`,
or together with `Statement` from `bounds.statement`.
"""

from dataclasses import dataclass
from enum import StrEnum

from ntkfl.messages import refusing


class Kind(StrEnum):
    """What a statement claims. The kind decides how the statement is checked."""

    EQUALITY = "equality"
    TWO_SIDED = "two-sided"
    UPPER = "upper"
    LOWER = "lower"
    PROBABILITY = "probability"
    RATE = "rate"
    ORDER = "order"
    DEFINITION = "definition"
    EXISTENCE = "existence"


class Form(StrEnum):
    """A form of a statement: as printed; as its proof gives it; repaired, if a form or its proof fails; or new.

    A new form is this project's own and in no paper.
    """

    STATED = "stated"
    PROVED = "proved"
    REPAIRED = "repaired"
    NEW = "new"


class Outcome(StrEnum):
    """The result of a check. `OPEN` only records that nothing is settled yet."""

    HOLDS = "holds"
    TOUCHES = "touches"
    UNRESOLVED = "unresolved"
    VIOLATED = "violated"
    UNTESTED = "untested"
    OPEN = "open"


class Nature(StrEnum):
    """How a form of a statement differs from a form that holds."""

    MISPRINT = "misprint"
    MISSING_HYPOTHESIS = "missing hypothesis"
    PROOF_GAP = "proof gap"
    OUT_OF_REACH = "out of reach"
    READING = "reading"
    SUBSTANCE = "substance"
    REPORTED = "reported"
    SCAN = "scan"


# natures that count neither as a misprint nor as an error of substance of an author
UNCHARGED = (Nature.REPORTED, Nature.SCAN)


class Provenance(StrEnum):
    """The origin of a form's signs: a text, a machine's reading of a scan, a report of a text, or this project."""

    TEXT = "text"
    SCAN = "scan"
    REPORTED = "reported"
    OURS = "ours"


FL_NTK = "FL-NTK (Huang, Li, Song, Yang; ICML 2021, arXiv version)"
FEDGUCCI = "FedGuCci (ICLR submission and KDD 2025 version)"
IMA = "Understanding and Improving Model Averaging in Federated Learning (IMA)"
BEYOND = "beyond the papers"
READ_FROM = {FL_NTK: Provenance.SCAN, BEYOND: Provenance.OURS}


@refusing({"note": "the note is the statement's, Statement(note=...)"})
@dataclass(frozen=True)
class Source:
    """The origin of a statement.

    `read` is the kind of text from which the statement's forms are read. If it is None, the kind in READ_FROM for the
    paper is taken, or Provenance.TEXT for a paper that READ_FROM does not have.
    """

    paper: str
    label: str
    read: Provenance | None = None

    def __str__(self) -> str:
        return f"{self.paper}, {self.label}"

    @property
    def provenance(self) -> Provenance:
        """The kind of text from which the forms are read."""
        return self.read or READ_FROM.get(self.paper, Provenance.TEXT)


@dataclass(frozen=True)
class Convention:
    """How a paper's statements are read in one respect, and what the paper prints about it, if anything."""

    about: str
    used: str
    printed: str


class Change(StrEnum):
    """In what way a mutant is wrong."""

    CONSTANT = "constant"
    POWER = "power"
    FACTOR = "factor"
    COMPARISON = "comparison"
    INDEX = "index"
    SIGN = "sign"
    OTHER = "other"
