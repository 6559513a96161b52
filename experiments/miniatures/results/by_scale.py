"""Comparison of a miniature's results on two scales: is a difference from the paper seen on both?"""

from collections.abc import Iterator, Sequence

from experiments.miniatures.cells import Cell
from experiments.miniatures.comparison import NOT_SEEN, OPPOSITE, SEEN, Comparison, compared
from experiments.miniatures.miniature import Miniature

Result = tuple[Miniature, Sequence[Cell]]


def pairs(results: Sequence[Result]) -> Iterator[tuple[Result, Result]]:
    """All pairs of results of the same miniature on two scales, in the given order.

    Args:
        results: results of miniatures, each on one scale.
    """
    for number, first in enumerate(results):
        yield from ((first, other) for other in results[number + 1 :] if other[0].name == first[0].name)


def both(first: Result, other: Result) -> list[tuple[Comparison, Comparison, str]]:
    """For every ordering of the paper, the comparisons on the two scales, and the conclusion in words.

    Args:
        first: the miniature's results on one scale.
        other: the miniature's results on the other scale.
    """
    theirs = {(row.setting, row.quantity): row for row in compared(*other)}
    rows = []
    for row in compared(*first):
        there = theirs.get((row.setting, row.quantity))
        if there is not None and row.claim is not None:
            rows.append((row, there, reading(row, there, first[0].at, other[0].at)))
    return rows


def reading(first: Comparison, other: Comparison, at: str, at_other: str) -> str:
    """The conclusion from an ordering on two scales, in words.

    If a difference between settings has the same sign on both scales, the scale is not its cause.

    Args:
        first: the comparison of a setting and quantity on the first scale.
        other: the comparison of the same setting and quantity on the other scale.
        at: the name of the first scale.
        at_other: the name of the other scale.
    """
    verdict, two = first.verdict, other.verdict
    if not {verdict, two} <= {SEEN, NOT_SEEN, OPPOSITE}:
        return f"{at}: {verdict}; {at_other}: {two}"
    same = first.difference * other.difference > 0
    if verdict == two == SEEN:
        return "seen on both scales"
    if verdict == two == OPPOSITE:
        return "the opposite on both scales: due to the claim, or to what both scales share"
    if {verdict, two} == {SEEN, OPPOSITE}:
        return "due to the scale: the sign changes"
    sign = "with the same sign" if same else "with the other sign"
    if verdict == two:
        return f"within noise on both scales, {sign}"
    decided, where, noisy = (verdict, at, at_other) if two == NOT_SEEN else (two, at_other, at)
    return f"{decided} on the {where} scale; within noise on the {noisy} one, {sign}"
