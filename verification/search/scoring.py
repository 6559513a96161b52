"""How near a case comes to violating a form: one number for the search to climb, above 0 where it is violated."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bounds import Form, Hypothesis, Kind, Outcome, Statement
from bounds.case import case_of
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.threads import one_blas_thread
from verification.compare import Comparison, judge
from verification.facts import Confirmation, Fact, Standing
from verification.intervals import lower_limit
from verification.judging.confirm import can_be_redone, confirm
from verification.sentences import What

NO_VALUE = (ArithmeticError, ValueError, np.linalg.LinAlgError)  # exceptions of a case without a value
UNMET = -100.0  # scores of admitted cases are above this number, scores of other cases below it
HIGHEST = 50.0
FAR_ROUND, FARTHEST = 256, 1000.0  # round to which a trend is extrapolated, and the largest score that this may give
# a case is given up after GLANCE networks if its score is below NEARLY
GLANCE, NEARLY = 4, np.log(0.5)
FURTHER_NETWORKS = (16, 100, 400)  # of each look, until it is clear whether the claim fails too often
CONFIRMING, CONFIRMING_SEED = (50, 250, 700), 1_000_000  # fresh networks, until they confirm a violation
SAMPLED_MARGIN = 5  # half-widths by which sampled sides must differ: of hundreds of intervals some miss by chance
CONFIRMING_LEVEL = 1 - 5e-7 / len(CONFIRMING)  # level of each of these looks: all looks together err with chance 5e-7


@dataclass(frozen=True)
class Seen:
    """One case of a search.

    `score`: the larger, the nearer to a violation. `late`: the score of the last round, extrapolated by its trend to
        round 256. A bound that fails in the end may be near to failing in the first rounds, and far from failing in
        the rounds between.
    `comparison`: None where a hypothesis is not met (`unmet`) or a side has no value (`failed`). `violated`: as judged
    in float64. `allowed`: the probability with which the claim may fail. `frequency`: if the claim may fail, numbers of
    failures and of networks, and the allowed probability.
    """

    score: float
    comparison: Comparison | None = None
    violated: bool = False
    allowed: float = 0.0
    unmet: str | None = None
    failed: str | None = None
    frequency: tuple[int, int, float] | None = None
    late: float | None = None


def look(statement: Statement, form: Form, case: Any) -> Seen:
    """Judge a form on a case, in float64 where the case is a run; if the claim may fail, judge it on fresh networks."""
    with undisturbed():
        try:
            if statement.forms[form].failure is not None:
                return _frequency(statement, form, case)
            return _single(statement, form, case_of(case).plain())
        except NO_VALUE as error:
            return Seen(2 * UNMET, failed=str(error))


def look_as_drawn(statement: Statement, form: Form, case: Any) -> Seen:
    """Judge a form on a case of a family as `verify` does.

    If the form fails and its claim allows failures, fresh networks decide.

    The cases of a family have the same shapes, so that their runs are compiled once.
    """
    with undisturbed(compiled=True):
        try:
            seen = _single(statement, form, case)
        except NO_VALUE as error:
            return Seen(2 * UNMET, failed=str(error))
    may_fail = statement.forms[form].failure is not None
    return look(statement, form, case) if seen.violated and may_fail else seen


def stands(statement: Statement, form: Form, case: Any, seen: Seen) -> Confirmation:
    """How well a violation stands, and by which means: in balls, on other networks, or on many networks."""
    comparison = seen.comparison
    assert comparison is not None
    with undisturbed():
        if seen.frequency is not None:
            return _fails_again(statement, form, case)
        sampled = max(comparison.left.rigour, comparison.right.rigour) is Rigour.SAMPLED
        if sampled and comparison.errors_apart < SAMPLED_MARGIN:
            how = {"apart": float(comparison.errors_apart), "asked": SAMPLED_MARGIN}
            return Confirmation(Standing.FALLEN, Fact(What.SAMPLED_APART, how))
        return confirm(statement, form, case_of(case).plain(), comparison)


def _fails_again(statement: Statement, form: Form, case: Any) -> Confirmation:
    """Whether the claim also fails too often on fresh networks, and on which share of these networks.

    A case that fails is judged again at higher precision where that is possible, since the failure may be rounding.
    """
    failures, count, looked, allowed, surely = 0, 0, 0, 0.0, False
    for networks in CONFIRMING:
        again = _count(statement, form, case, networks, CONFIRMING_SEED + looked)
        failures, count, looked = failures + again[0], count + again[1], looked + networks
        allowed = max(allowed, again[2])
        surely = lower_limit(failures, count, CONFIRMING_LEVEL) > allowed
        if surely or failures <= allowed * count:
            break
    counted = {"failures": failures, "networks": count, "allowed": allowed}
    if not surely or not can_be_redone(case):
        return Confirmation(Standing.CONFIRMED if surely else Standing.FALLEN, Fact(What.FRESH_NETWORKS, counted))
    for seed in range(CONFIRMING_SEED, CONFIRMING_SEED + looked):
        fresh = case_of(case_of(case).redrawn(seed)).plain()
        seen = _single(statement, form, fresh)
        if seen.violated and seen.comparison is not None:
            confirmation = confirm(statement, form, fresh, seen.comparison)
            return Confirmation(confirmation.standing, Fact(What.FRESH_NETWORKS, counted | {"again": confirmation.how}))
    return Confirmation(Standing.FALLEN, Fact(What.FRESH_NETWORKS, counted | {"again": ""}))


@contextmanager
def undisturbed(compiled: bool = False) -> Iterator[None]:
    """A context without warnings of large steps, and without compiling, since each shape of a case is run once.

    Linear algebra has one thread: the matrices are small, and threads would cost more than they save.
    """
    import jax

    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        jax.disable_jit(not compiled),
        one_blas_thread(),
    ):
        warnings.simplefilter("ignore", UserWarning)
        yield


def _single(statement: Statement, form: Form, case: Any) -> Seen:
    lacking = [(h.name, _shortfall(h, case)) for h in statement.required(form)]
    unmet = [name for name, missing in lacking if missing > 0]
    if unmet:
        return Seen(UNMET - sum(missing for _, missing in lacking), unmet=unmet[0])
    known = left, constants = statement.measured(form, case)
    formula, late = statement.forms[form], None
    beyond = formula.lacking(case, constants)
    if beyond:
        return Seen(UNMET - len(beyond), unmet=f"its premise on {' and '.join(beyond)}")
    comparison = judge(statement, form, case, known=known)
    allowed = 0.0 if formula.failure is None else formula.failure_at(constants)
    if statement.kind in (Kind.UPPER, Kind.PROBABILITY):
        late = _heading(left, formula.evaluate(constants))
    return Seen(
        _score(statement.kind, comparison), comparison, comparison.outcome is Outcome.VIOLATED, allowed, late=late
    )


def _heading(left: tuple[Estimate, ...], right: tuple[Estimate, ...]) -> float | None:
    """The largest log(left/right) of the parts with several entries, each extrapolated from its last two entries."""
    headings = []
    for part, bound in zip(left, right, strict=True):
        if part.value.ndim == 1 and len(part.value) > 1 and part.value.shape == bound.value.shape:
            with np.errstate(all="ignore"):  # a side that is 0 has no trend
                before, last = (np.log(part.value[k] / bound.value[k]) for k in (-2, -1))
                headings.append(last + (last - before) * max(0, FAR_ROUND - len(part.value)))
    best = max((float(heading) for heading in headings if np.isfinite(heading)), default=None)
    return None if best is None else float(np.clip(best, -FARTHEST, FARTHEST))


def _shortfall(hypothesis: Hypothesis, case: Any) -> float:
    """0 where the hypothesis is met; otherwise the shortfall, squashed to (0, 1]."""
    margin = hypothesis.margin(case)
    lowest = float(np.min((margin if isinstance(margin, Estimate) else Estimate.exact(margin)).lo, initial=np.inf))
    return 0.0 if lowest >= 0 else -lowest / (1 - lowest) if np.isfinite(lowest) else 1.0


def _score(kind: Kind, comparison: Comparison) -> float:
    if kind in (Kind.ORDER, Kind.RATE):  # exponents: how far the theory lies outside the interval
        gap = float(comparison.left.value - comparison.right.value)
        return (abs(gap) if kind is Kind.RATE else gap) - float(comparison.left.error)
    if comparison.left.value == 0 == comparison.right.value:
        return -HIGHEST  # 0 against 0 holds with equality, and leads nowhere
    with np.errstate(divide="ignore"):
        score = float(np.clip(np.log(comparison.tightness), -HIGHEST, HIGHEST))
    if comparison.outcome is Outcome.VIOLATED:
        return score
    return min(score, 0.0)  # the right side may be 0, known only within its error


def _frequency(statement: Statement, form: Form, case: Any) -> Seen:
    """The share of fresh networks on which the claim fails; more networks if it is not clearly below the allowed share.

    The score is the log ratio that only the allowed share of the networks exceeds.
    """
    failures, count, allowed, ratios, worst, unmet, late = _count(statement, form, case, GLANCE, 1)
    if worst is None:
        return unmet
    for more in FURTHER_NETWORKS:
        far = max(ratios) < np.exp(NEARLY) if count <= GLANCE else failures <= allowed * count
        if far or lower_limit(failures, count) > allowed:
            break
        again = _count(statement, form, case, more, 1 + count)
        failures, count, allowed = failures + again[0], count + again[1], max(allowed, again[2])
        ratios = ratios + again[3]
    quantile = sorted(ratios)[max(0, int(np.ceil((1 - min(allowed, 1)) * len(ratios))) - 1)]
    violated = lower_limit(failures, count) > allowed
    score = float(np.clip(np.log(max(quantile, 1e-300)), -HIGHEST, HIGHEST))
    return Seen(score, worst, violated, frequency=(failures, count, allowed), late=late)


def _count(statement: Statement, form: Form, case: Any, networks: int, first: int) -> tuple:
    """Numbers of failures and of admitted networks, the largest probability allowed, the ratios, the worst comparison,
    the unmet hypotheses of the rejected network that is nearest to meeting its hypotheses, and the largest `late`."""
    late: float | None = None
    failures, allowed, worst, unmet = 0, 0.0, None, Seen(3 * UNMET, unmet="none")
    ratios: list[float] = []
    for seed in range(first, first + networks):
        fresh = case_of(case_of(case).redrawn(seed)).plain()
        seen = _single(statement, form, fresh)
        if seen.comparison is None:
            unmet = max(unmet, seen, key=lambda redrawn: redrawn.score)
            if seed == first + 4 and not ratios:
                break  # after five networks in a row without a value, the others are not tried
            continue
        failures += seen.violated
        ratios.append(seen.comparison.tightness)
        late = seen.late if late is None or seen.late is None else max(late, seen.late)
        allowed = max(allowed, seen.allowed)
        if worst is None or seen.comparison.tightness > worst.tightness:
            worst = seen.comparison
    return failures, len(ratios), allowed, ratios, worst, unmet, late
