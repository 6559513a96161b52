"""Functions that make a study's answers from its cells, by the same rules as verdicts; missing cells do not count."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy import stats

from bounds import Kind, Outcome
from bounds.ladders.rungs import Rungs
from bounds.ladders.slopes import LEVEL, REFUTED, NoSlope, Slope, slope
from experiments.studies.study import SEED, Answer, Cells, Numbers, error_of
from ntkfl.estimate import Estimate
from verification.compare import COARSE, Comparison, compare
from verification.judging.tally import Tally

FEWEST_CELLS, FEWEST_SIZES, FEWEST_COMPARED = 20, 4, 5
INFINITE = "a cell is infinite"
Side: TypeAlias = "Numbers | np.ndarray | float"  # one side of a comparison, with a number for each cell
# A mean or a share violates a claim only if theory is outside its interval at this level. The 99% interval would be too
# narrow, since theory is outside that interval for one true claim in a hundred.
SURE = 1 - 1e-6


def along(values: Numbers, name: str) -> list[np.ndarray]:
    """The finite numbers of all cells at each value of an axis, an array (cells,) for each value.

    Charts show these numbers.
    Args:
        values: values of all cells.
        name: name of the axis.
    """
    return [sample[np.isfinite(sample)] for sample in samples(values, name)]


def samples(values: Numbers, name: str) -> list[np.ndarray]:
    """The numbers of all cells at each value of an axis, infinite numbers included: an array (cells,) for each value.
    Args:
        values: values of all cells.
        name: name of the axis.
    """
    rows = [np.ravel(row) for row in values.transpose(name, ...).to_numpy()]
    return [sample[~np.isnan(sample)] for sample in rows]


def errors(cells: Cells, name: str) -> Numbers:
    """The errors of a quantity that is an `Estimate`, in the shape of its values.

    A missing error is NaN; without any errors all are NaN.

    Args:
        cells: cells at all points, NaN where one is missing.
        name: name of a quantity or an axis.
    """
    stored = error_of(name)
    return cells[stored] if stored in cells else cells[name] * np.nan


def exponent(
    claim: str,
    source: str,
    theory: float,
    sizes: Sequence[float] | np.ndarray,
    samples: Sequence[np.ndarray],
    *,
    axes: tuple[str, ...] = (),
    biased: bool = True,
    note: str = "",
) -> Answer:
    """The answer about a power of some size, such as the width, compared with theory.

    The power is the log-log slope of the numbers in `samples` against the sizes. Sizes without cells do not count.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the power.
        sizes: (k,).
        samples: the numbers of the cells at each size.
        axes: names of the axes whose further values would give further sizes; default (): there are no such axes.
        biased: whether the interval admits finite-width bias, which means that the power is only approached as the
            sizes grow.
        note: a text beside the answer; default none.
    """
    pairs = [(size, sample) for size, sample in zip(sizes, samples, strict=True) if len(sample)]
    cells = sum(len(sample) for _, sample in pairs)
    if len({size for size, _ in pairs}) < FEWEST_SIZES or cells < FEWEST_CELLS:
        reason = f"{cells} cells at {len(pairs)} sizes; {FEWEST_CELLS} at {FEWEST_SIZES} or more are needed"
        few = axes and len(set(sizes)) < FEWEST_SIZES
        return untested(claim, source, theory, reason, axes if few else (SEED,))
    if any(np.isinf(sample).any() for _, sample in pairs):
        return infinite(claim, source, theory, note)

    def measure() -> Estimate:
        return slope(np.array([size for size, _ in pairs]), [sample for _, sample in pairs], biased=biased)

    return measured_exponent(claim, source, theory, measure, note)


def power_law(
    claim: str,
    source: str,
    theory: float,
    values: Numbers,
    axis: str,
    *,
    biased: bool = True,
    note: str = "",
) -> Answer:
    """The answer about a power of a numerical axis, from a number for each cell, compared with theory.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the power.
        values: values of all cells.
        axis: the axis of the power law.
        biased: whether the interval admits finite-width bias, default yes.
        note: a text beside the answer; default none.
    """
    sizes = values[axis].to_numpy().astype(float)
    return exponent(claim, source, theory, sizes, samples(values, axis), axes=(axis,), biased=biased, note=note)


def on_ladder(claim: str, source: str, theory: float, ladder: Rungs, measure: Callable[[], Estimate]) -> Answer:
    """The answer about a power of the width that a statement measures, if there are enough networks.

    A ladder is a set of networks of increasing widths.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the power.
        ladder: the ladder of the stored cells.
        measure: gives the slope, or raises `NoSlope`.
    """
    if len(ladder.sizes) < FEWEST_SIZES or ladder.n_runs < FEWEST_CELLS:
        description = f"{ladder.n_runs} runs of {len(ladder.sizes)} widths; "
        by = SEED if len(ladder.sizes) >= FEWEST_SIZES else "width"
        return untested(
            claim, source, theory, f"{description}{FEWEST_CELLS} of {FEWEST_SIZES} or more are needed", (by,)
        )
    return measured_exponent(claim, source, theory, measure)


def measured_exponent(
    claim: str, source: str, theory: float, measure: Callable[[], Estimate], note: str = ""
) -> Answer:
    """The answer about a power that `measure` returns, compared with theory.

    The answer is unresolved if `measure` raises `NoSlope`, since then the power is lost in the noise.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the power.
        measure: gives the slope, or raises `NoSlope`.
        note: a text beside the answer; default none.
    """
    try:
        estimate = measure()
    except NoSlope as error:
        return Answer(claim, source, theory, None, Outcome.UNRESOLVED, joined(note, str(error)))
    answer = interval(claim, source, theory, estimate, note)
    if answer.outcome is not Outcome.UNRESOLVED or float(estimate.error) <= COARSE:
        return answer
    # the half-width falls as the inverse root of the number of seeds
    factor = np.ceil((float(estimate.error) / COARSE) ** 2)
    return replace(answer, note=joined(answer.note, f"about {factor:.0f} times the seeds, or more sizes, would tell"))


def at_most(claim: str, source: str, measured: Estimate, bound: float, note: str = "") -> Answer:
    """The answer about a number for which theory has only an upper bound.

    The claim holds if the interval of the number is below the bound, and is violated if the interval is above the
    bound. If the number is a power, the claim is violated only if `Slope.refutes` also says so.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        measured: the measured number with its interval.
        bound: the bound of the number.
        note: a text beside the answer; default none.
    """
    seen = compare(Kind.UPPER, measured, Estimate.exact(bound))
    return Answer(claim, source, None, measured, seen.outcome, joined(note, _explained(measured, seen)))


def _explained(measured: Estimate, seen: Comparison) -> str:
    """A note for a measured power that differs from theory, if noise and a second term of the power law may be why.

    For any other comparison the note is empty.
    """
    if not seen.explained:
        return ""
    assert isinstance(measured, Slope)
    inside = f"inside the {REFUTED:.1%} interval ± {measured.refuted_beyond:.2g} for powers with a second term"
    return f"theory is outside the {LEVEL:.0%} interval and {inside}: more sizes or seeds would tell"


def half_width(values: np.ndarray, level: float) -> float:
    """Half the width of Student's interval of a mean.

    Args:
        values: a value for each seed, two or more.
        level: level of the interval, such as .99.
    """
    return float(stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def interval(claim: str, source: str, theory: float, measured: Estimate, note: str = "") -> Answer:
    """The answer about a number of order one, compared with theory.

    The claim holds if theory is in the interval of the measured number, and is violated if it is outside. An interval
    that is too wide leaves the claim unresolved. If the number is a power, the claim is violated only if
    `Slope.refutes` also says so.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the number by theory.
        measured: the measured number with its interval.
        note: a text beside the answer; default none.
    """
    seen = compare(Kind.RATE, measured, Estimate.exact(theory))
    note = joined(note, _explained(measured, seen))
    if seen.outcome is Outcome.UNRESOLVED and not seen.explained:
        note = joined(note, f"the half-width {float(measured.error):.2g} exceeds {COARSE:g}")
    return Answer(claim, source, theory, measured, seen.outcome, note)


def sampled(claim: str, source: str, theory: float, interval_at: Callable[[float], Estimate], note: str = "") -> Answer:
    """The answer about a mean or a share, compared with theory by intervals at two levels.

    The claim holds if theory is in the 99% interval of the measured number, and is violated if theory is outside the
    number's interval at the level `SURE`.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the number by theory.
        interval_at: a function that takes a level and returns the measured number with its interval at that level.
        note: a text beside the answer; default none.
    """
    answer = interval(claim, source, theory, interval_at(LEVEL), note)
    wide = interval_at(SURE)
    if answer.outcome is Outcome.VIOLATED and wide.lo <= theory <= wide.hi:
        place = f"theory is outside the {LEVEL:.0%} interval and inside the interval at level {SURE:.6g}"
        return replace(answer, outcome=Outcome.UNRESOLVED, note=joined(note, place))
    return answer


def upper(
    claim: str,
    source: str,
    left: Side,
    right: Side,
    left_error: Side = 0.0,
    right_error: Side = 0.0,
    *,
    note: str = "",
    failure: float | None = None,
) -> Answer:
    """The answer about left <= right, for every cell that has both sides.

    The measured number is left/right of the worst cell; a violated cell counts as worse than any other cell.

    If the claim holds although some cells are unresolved, the measured number is left/right of the worst resolved cell.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        left: the left side, a number for each cell, or NaN.
        right: the right side, a number for each cell, or NaN.
        left_error: error of each left side, default 0.
        right_error: error of each right side, default 0.
        note: a text beside the answer; default none.
        failure: the probability with which a single cell may fail according to theory; None: no cell may fail.
    """
    arrays = np.broadcast_arrays(left, right, _known(left_error, left), _known(right_error, right))
    there = ~np.isnan(arrays[0]) & ~np.isnan(arrays[1])
    seen = [
        compare(Kind.UPPER, Estimate(low, less_sure), Estimate(high, bound_error))
        for low, high, less_sure, bound_error in zip(*(array[there] for array in arrays), strict=True)
    ]
    tally = Tally()
    for comparison in seen:
        tally.add(comparison, {}, 1, failure)
    outcome, facts = tally.settle(Kind.UPPER, FEWEST_COMPARED)
    texts = [str(fact) for fact in facts]
    if outcome is Outcome.UNTESTED or tally.worst is None:
        return untested(claim, source, None, f"{tally.trials} cells; {FEWEST_COMPARED} are needed")
    if outcome is Outcome.VIOLATED and failure is None:
        texts = [f"violated in {tally.counts[outcome]} of {tally.trials} cells"]
    worst = tally.worst
    if outcome in (Outcome.HOLDS, Outcome.TOUCHES):
        settled = (answer for answer in seen if answer.outcome is not Outcome.UNRESOLVED)
        worst = max(settled, key=lambda comparison: comparison.tightness)
    ratio = _ratio(worst, f"left/right of the worst of {tally.trials} cells")
    return Answer(claim, source, None, ratio, outcome, joined(note, *texts))


def _known(error: Side, value: Side) -> np.ndarray:
    """The errors as verdicts use them.

    A missing error becomes infinite, and the error of an infinite value becomes 0.
    """
    return np.where(np.isinf(value), 0.0, np.where(np.isnan(error), np.inf, error))


def _ratio(worst: Comparison, method: str) -> Estimate:
    """left/right of a cell as in `verification.compare`, with an infinite error if the right side may be 0."""
    left, right = worst.left, worst.right
    low, high, ratio = float(left.value), float(right.value), 1.0
    if low != high:
        ratio = low / high if high > 0 else 0.0 if low < high else np.inf
    if not np.isfinite([low, high, ratio]).all() or not left.error + right.error:
        return Estimate(ratio, 0.0, method)
    sure = high > 0 and np.isfinite(left.error + right.error)
    return Estimate(ratio, (left.error + abs(ratio) * right.error) / high if sure else np.inf, method)


def equal(claim: str, source: str, difference: Side, error: Side, scale: float, note: str = "") -> Answer:
    """The answer about an identity.

    The identity holds if every difference is 0 to within its error. The largest difference is reported, relative to
    `scale`.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        difference: difference of the two sides, a number for each cell, or NaN.
        error: error of each difference.
        scale: the scale of the differences.
        note: a text beside the answer; default none.
    """
    values, known = np.broadcast_arrays(difference, _known(error, difference))
    there = ~np.isnan(values)
    differences, errors = values[there], known[there]
    if not len(differences):
        return untested(claim, source, 0.0, f"no cells; {FEWEST_COMPARED} are needed")
    left = Estimate(1 + differences / scale, errors / scale, "rounding bound")
    seen = compare(Kind.EQUALITY, left, Estimate.exact(np.ones_like(differences)))
    if seen.outcome is not Outcome.VIOLATED and len(differences) < FEWEST_COMPARED:
        return untested(claim, source, 0.0, f"{len(differences)} cells; {FEWEST_COMPARED} are needed")
    worst = int(np.argmax(np.abs(differences)))
    measured = Estimate(differences[worst] / scale, errors[worst] / scale, "largest relative difference")
    return Answer(claim, source, 0.0, measured, seen.outcome, note)


def untested(claim: str, source: str, theory: float | None, note: str, settled_by: tuple[str, ...] = (SEED,)) -> Answer:
    """The answer about a claim for which there are not enough cells.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the number by theory; None: the claim has no number.
        note: what is missing.
        settled_by: names of the axes on which further values would test the claim; default the axis of the seeds.
    """
    return Answer(claim, source, theory, None, Outcome.UNTESTED, note, settled_by=settled_by)


def infinite(claim: str, source: str, theory: float | None, note: str = "") -> Answer:
    """The answer about a claim for which a cell is infinite; it stays unresolved, whatever cells are added.

    Args:
        claim: the claim in words.
        source: the source of the theory.
        theory: the number by theory; None: the claim has no number.
        note: a text beside the answer; default none.
    """
    return Answer(claim, source, theory, None, Outcome.UNRESOLVED, joined(note, INFINITE), settled_by=())


def joined(*parts: str) -> str:
    """The notes joined to one text, without empty notes.

    Args:
        parts: notes.
    """
    return "; ".join(part for part in parts if part)
