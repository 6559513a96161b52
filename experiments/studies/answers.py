"""From the cells of a study to its answers, by the rules that verdicts are made by; missing cells do not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bounds.slopes import NoSlope, slope
from bounds.statement import Kind, Outcome
from experiments.studies.study import Answer, error_of
from ntkfl.estimate import Estimate
from verification.compare import COARSE, FINE, compare
from verification.tally import UNRESOLVED_SHARE

if TYPE_CHECKING:
    import xarray

FEWEST_CELLS, FEWEST_SIZES, FEWEST_COMPARED = 20, 4, 5


def along(values: xarray.DataArray, name: str) -> list[np.ndarray]:
    """For each place on one axis the values of all cells that are there, (cells,)."""
    return [
        found[np.isfinite(found)] for found in values.transpose(name, ...).to_numpy().reshape(values.sizes[name], -1)
    ]


def errors(cells: xarray.Dataset, name: str) -> np.ndarray:
    """The errors of a quantity that is an `Estimate`, in the shape of its values; NaN where no cell has one."""
    stored = error_of(name)
    return (cells[stored] if stored in cells else cells[name] * np.nan).to_numpy()


def exponent(
    claim: str,
    source: str,
    theory: float,
    sizes: Sequence[float] | np.ndarray,
    samples: Sequence[np.ndarray],
    *,
    biased: bool = True,
    note: str = "",
    fewest: int = FEWEST_CELLS,
) -> Answer:
    """A power of the size: the slope over the sizes that have cells, `samples` being those of each, against theory."""
    pairs = [(size, found) for size, found in zip(sizes, samples, strict=True) if len(found)]
    cells = sum(len(found) for _, found in pairs)
    if len({size for size, _ in pairs}) < FEWEST_SIZES or cells < fewest:
        said = f"{cells} cells at {len(pairs)} sizes; {fewest} at {FEWEST_SIZES} or more are needed"
        return untested(claim, source, theory, said)

    def measure() -> Estimate:
        return slope(np.array([size for size, _ in pairs]), [found for _, found in pairs], biased=biased)

    return measured_exponent(claim, source, theory, measure, note)


def measured_exponent(
    claim: str, source: str, theory: float, measure: Callable[[], Estimate], note: str = ""
) -> Answer:
    """A power that `measure` finds, or says to be lost in the noise, against theory."""
    try:
        found = measure()
    except NoSlope as error:
        return Answer(claim, source, theory, None, Outcome.UNRESOLVED, _joined(note, str(error)))
    return interval(claim, source, theory, found, note)


def interval(claim: str, source: str, theory: float, measured: Estimate, note: str = "") -> Answer:
    """A number of order one against theory: in the interval it holds, outside it is violated."""
    outcome = compare(Kind.RATE, measured, Estimate.exact(theory)).outcome
    if outcome is Outcome.UNRESOLVED:
        note = _joined(note, f"the half-width {float(measured.error):.2g} exceeds {COARSE:g}")
    return Answer(claim, source, theory, measured, outcome, note)


def upper(
    claim: str,
    source: str,
    left: np.ndarray,
    right: np.ndarray,
    left_error: np.ndarray | float = 0.0,
    right_error: np.ndarray | float = 0.0,
    *,
    note: str = "",
    fewest: int = FEWEST_COMPARED,
) -> Answer:
    """left <= right in every cell that has both; what is measured is the largest left/right."""
    arrays = np.broadcast_arrays(left, right, left_error, right_error)
    there = np.all(np.isfinite(arrays), axis=0)
    smaller, larger, less_sure, bound_error = (np.asarray(array)[there] for array in arrays)
    if len(smaller) < fewest:
        return untested(claim, source, None, f"{len(smaller)} cells; {fewest} are needed")
    low, high = Estimate(smaller, less_sure), Estimate(larger, bound_error)
    above, below = low.lo > high.hi, low.hi <= high.lo
    fine = less_sure + bound_error <= FINE * np.maximum(np.abs(smaller), np.abs(larger))  # as `verification.compare`
    violated, unresolved = int(above.sum()), int((~above & ~below & ~fine).sum())
    ratio = smaller / larger
    worst = int(np.argmax(ratio))
    error = abs(ratio[worst]) * bound_error[worst] / larger[worst] + less_sure[worst] / larger[worst]
    outcome = Outcome.TOUCHES if (~above & ~below & fine).any() else Outcome.HOLDS
    if violated:
        outcome, note = Outcome.VIOLATED, _joined(note, f"violated in {violated} of {len(ratio)} cells")
    elif unresolved > UNRESOLVED_SHARE * len(ratio):
        outcome, note = Outcome.UNRESOLVED, _joined(note, f"unresolved in {unresolved} of {len(ratio)} cells")
    largest = Estimate(ratio[worst], error, f"largest left/right of {len(ratio)} cells")
    return Answer(claim, source, None, largest, outcome, note)


def equal(
    claim: str, source: str, difference: np.ndarray, error: np.ndarray | float, scale: float, note: str = ""
) -> Answer:
    """An identity: every difference, relative to the scale, encloses 0 with its error; the largest is reported."""
    there = np.isfinite(difference)
    found, errors = difference[there], np.broadcast_to(error, difference.shape)[there]
    if len(found) < FEWEST_COMPARED:
        return untested(claim, source, 0.0, f"{len(found)} cells; {FEWEST_COMPARED} are needed")
    left = Estimate(1 + found / scale, errors / scale, "rounding bound")
    seen = compare(Kind.EQUALITY, left, Estimate.exact(np.ones_like(found)))
    worst = int(np.argmax(np.abs(found)))
    measured = Estimate(found[worst] / scale, errors[worst] / scale, "largest relative difference")
    return Answer(claim, source, 0.0, measured, seen.outcome, note)


def untested(claim: str, source: str, theory: float | None, note: str) -> Answer:
    """What the cells there are do not suffice to say anything about."""
    return Answer(claim, source, theory, None, Outcome.UNTESTED, note)


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
