"""What may be checked apart: statements that share cases belong together, so that every case is built once."""

from collections.abc import Iterable
from dataclasses import dataclass

from bounds.options import Options
from bounds.statement import AnyFamily, Form, Statement
from verification.engine import chosen_forms
from verification.judging.families import families as judged_on

# Processor seconds of each statement's default cases, beside what starting takes. They are a hint by which work is
# handed out, the longest first; no verdict depends on them. What statements share counts with one of them. To measure
# one anew: `ntkfl verify ID --processes 1` under `time`.
USUAL = 0.5  # of those left out of LONG
LONG: dict[str, float] = {
    "deep/centralised": 40,  # with the ladders of deep networks that four others share
    "fl-ntk/B.3": 34,
    "fl-ntk/B.12": 30,  # with the runs at small steps that most of appendix B and C is checked on
    "fl-ntk/Eq18": 20,  # with the ladder of widths that twenty others share
    "fedgucci/X3": 19,
    "fl-ntk/X.13b": 11,
    "fl-ntk/B.8": 10,
    "deep/kinks": 10,
    "alignment/conjecture": 9,
    "fl-ntk/Alg1-update": 9,
    "fedgucci/F9": 9,
    "fl-ntk/W-gram": 9,
    "fl-ntk/method-limits": 8,
    "fl-ntk/L6.1": 8,
    "fl-ntk/X.1": 7,
    "fl-ntk/C.7-J": 6,
    "fl-ntk/Eq17": 6,
    "fl-ntk/lazy-patterns": 5,
    "fl-ntk/B.3-certificate": 5,
    "fedgucci/F18": 4,
    "fl-ntk/B.3-unbounded-labels": 4,
    "fl-ntk/Eq3-4": 4,
    "fl-ntk/X.13": 4,
    "fl-ntk/C.6": 4,
    "fl-ntk/B.11": 4,
    "fl-ntk/B.4": 4,
    "fl-ntk/C.7-error": 4,
    "fedgucci/F8": 4,
    "fedgucci/R4": 3,
    "fedgucci/R1": 3,
    "fedgucci/R1g": 3,
    "fl-ntk/X.5": 3,
    "fl-ntk/C.11": 3,
    "fl-ntk/C.4": 3,
    "fl-ntk/X.3": 3,
    "fl-ntk/X.2": 3,
    "fl-ntk/K1-is-GD": 3,
    "fl-ntk/T4.1": 3,
    "fedgucci/F1b": 3,
    "fedgucci/sure": 3,
    "fedgucci/X4": 3,
    "fedgucci/X4-anchors": 3,
    "fedgucci/X4-drift": 3,
    "fedgucci/F10": 2,
    "fedgucci/F14": 2,
    "fedgucci/X5": 2,
    "fl-ntk/X.12": 2,
    "fedgucci/F3": 1,
    "fl-ntk/L6.2": 1,
    "fl-ntk/Eq8": 1,
}


def seconds(identifier: str) -> float:
    """The expected processor seconds of a statement of this id."""
    return LONG.get(identifier, USUAL)


@dataclass(frozen=True)
class Unit:
    """Statements, in the order asked for, how many cases are drawn for them, and about how long it takes."""

    statements: tuple[str, ...]
    cases: int
    seconds: float


def units(statements: Iterable[Statement], options: Options, forms: Iterable[Form] | None = None) -> list[Unit]:
    """The statements in the smallest groups that share no family of cases, the longest first."""
    families: dict[str, set[AnyFamily]] = {}
    for statement, form in chosen_forms(statements, forms):
        drawn = families.setdefault(statement.id, set())
        try:
            drawn.update(judged_on(statement, form, options)[0])
        except Exception:
            continue  # its own verdict says so
    groups: list[tuple[set[str], set[AnyFamily]]] = []
    for identifier, shared in families.items():
        touching = [group for group in groups if group[1] & shared]
        groups = [group for group in groups if group not in touching]
        groups.append(({identifier}.union(*(g[0] for g in touching)), shared.union(*(g[1] for g in touching))))
    listed = [
        Unit(tuple(i for i in families if i in names), sum(d.trials for d in shared), sum(map(seconds, names)))
        for names, shared in groups
    ]
    return sorted(listed, key=lambda unit: unit.seconds, reverse=True)
