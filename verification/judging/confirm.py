"""How well a violation stands after a second computation.

A violation counts as confirmed only if a computation with smaller errors or on other networks repeats it, or if no such
computation exists and both sides were enclosed in the first place. If there is no such computation and a side was not
enclosed, the violation was only seen. Ball arithmetic computes with numbers and proved bounds of their errors (balls);
a side is enclosed if it is known by such a bound.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from bounds import Case, Form, Outcome, Statement
from bounds.case import TooCostly, case_of
from ntkfl import interruption
from ntkfl.algorithm1.reference import Undecided
from ntkfl.estimate import Estimate, Rigour
from verification.compare import Comparison, judge
from verification.facts import Confirmation, Fact, Needed, Standing, Witness
from verification.judging.points import Measurement
from verification.sentences import What

NEAR = 10  # a comparison is redone more precisely if its sides are fewer than this many errors apart
# the sides of a violation must differ by this many measured errors or, if no error bound is known, by this many times
# the difference between the results in two precisions
MARGIN = 1000
DECIDED = (Outcome.VIOLATED, Outcome.HOLDS)


def confirm(statement: Statement, form: Form, case: Any, comparison: Comparison) -> Confirmation:
    """Redo a violated comparison, and the hypotheses of the form, more precisely than before."""
    other = case_of(case).other_networks
    if other is not None:
        again = judge(statement, form, other)
        agrees = again.outcome is Outcome.VIOLATED
        value, error = float(again.left.value), float(again.left.error)
        return _answer(agrees, What.OTHER_NETWORKS, agree=agrees, value=value, error=error)
    finer = None
    try:
        for finer in _sharper(case):
            confirmed = (_enclosed if finer.rigour <= Rigour.ENCLOSED else _agreeing)(
                statement, form, finer, comparison
            )
            if confirmed is not None:
                return confirmed
    except TooCostly as error:
        return _answer(False, What.FLOAT64_ONLY, why=str(error))
    if finer is not None:
        return _answer(False, What.OPEN_AT, computed=finer.computed)
    if _in_balls(comparison):
        return _answer(True, What.BALLS)
    return Confirmation(Standing.SEEN, Fact(What.NOT_REDONE, _methods(comparison)))


def refined(statement: Statement, form: Form, case: Any, comparison: Comparison) -> Comparison:
    """The comparison, redone in ball arithmetic if its sides are within a few errors of each other.

    If the case cannot be enclosed, or its balls are too wide, the given comparison is returned.
    """
    if comparison.margin_in_errors >= NEAR:
        return comparison
    try:
        enclosed = (finer for finer in _sharper(case) if finer.rigour <= Rigour.ENCLOSED)
        again = (_judged(statement, form, finer) for finer in enclosed)
        return next((finer_comparison for finer_comparison in again if finer_comparison is not None), comparison)
    except TooCostly:
        return comparison


def can_be_redone(case: Any) -> bool:
    """Whether a case can be computed more precisely, at any cost."""
    try:
        return case_of(case).sharper() is not None
    except TooCostly:
        return True


def _sharper(case: Any) -> Iterator[Case]:
    """The same case in several versions, each computed more precisely than the version before it."""
    finer = case_of(case).sharper()
    while finer is not None:
        interruption.check()
        yield finer
        finer = finer.sharper()


def _enclosed(statement: Statement, form: Form, case: Case, comparison: Comparison) -> Confirmation | None:
    """The confirmation by a case whose runs are enclosed in ball arithmetic; None if this case does not decide.

    A side may be only measured on this case, and then its error is not proved. A violation with such a side is
    confirmed only if the two sides differ by a wide margin.
    """
    again = _judged(statement, form, case)
    if again is None or again.outcome not in DECIDED:
        return None
    if _in_balls(again) or again.outcome is not Outcome.VIOLATED:
        return _answer(again.outcome is Outcome.VIOLATED, What.RUN_IN, computed=case.computed)
    apart = float(again.errors_apart)
    return _answer(apart >= MARGIN, What.RUN_APART, computed=case.computed, apart=apart, **_methods(again))


def _agreeing(statement: Statement, form: Form, case: Case, comparison: Comparison) -> Confirmation:
    """Whether a computation at another precision, which has no error bound, agrees with the violation.

    The margin must be far above the difference between the two results.
    """
    unmet = [h.name for h in statement.required(form) if not h.met(case)]
    if unmet:
        return _answer(False, What.UNMET_IN, computed=case.computed, unmet=unmet)
    again = judge(statement, form, case)
    excess = float(comparison.left.value - comparison.right.value)
    difference = abs(excess - float(again.left.value - again.right.value))
    agree = again.outcome is Outcome.VIOLATED and abs(excess) >= MARGIN * difference
    return _answer(agree, What.PRECISIONS, computed=case.computed, difference=difference, margin=excess)


def _judged(statement: Statement, form: Form, case: Case) -> Comparison | None:
    """The comparison of the form's two sides on this case.

    The comparison is None if a hypothesis is not met, or if the balls are too wide for a hypothesis or for the
    comparison.
    """
    try:
        met = all(h.met(case) for h in statement.required(form))
        return judge(statement, form, case) if met else None
    except (Undecided, ValueError):
        return None


def _answer(stands: bool, how: What, **values: Any) -> Confirmation:
    return Confirmation(Standing.CONFIRMED if stands else Standing.FALLEN, Fact(how, values))


def _in_balls(comparison: Comparison) -> bool:
    """Whether both sides are enclosed and computed from exact inputs.

    A side that uses the weights of a run is not enclosed.
    """
    return max(comparison.left.rigour, comparison.right.rigour) <= Rigour.ENCLOSED


def _methods(comparison: Comparison) -> dict[str, str]:
    return {"left": comparison.left.method, "right": comparison.right.method}


@dataclass(frozen=True)
class StoredResult:
    """The result of a stored case.

    It has the facts for a verdict, how the violation was confirmed, the comparison, the case, and both sides.
    """

    witness: Witness
    confirmation: Confirmation | None
    comparison: Comparison
    case: Any
    measurement: Measurement
    right: tuple[Estimate, ...]


@contextmanager
def expected_warnings() -> Iterator[None]:
    """A context without warnings, since stored cases break hypotheses, such as stable steps, on purpose."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        yield


@expected_warnings()
def run_witness(statement: Statement, form: Form) -> StoredResult:
    """Judge the stored case of a form that is recorded as violated, and confirm its violation.

    The hypotheses are checked first.
    """
    witness = statement.forms[form].witness
    assert witness is not None, "the form has no stored case"
    return judged_as_stored(statement, form, witness())


@expected_warnings()
def judged_as_stored(statement: Statement, form: Form, case: Any) -> StoredResult:
    """Judge a case in the way in which a stored case is judged; the case may come from a file.

    The hypotheses are checked first.
    """
    unmet = [h.name for h in statement.required(form) if not h.met(case)]
    measurement = statement.measured(form, case)
    right = statement.forms[form].evaluate(measurement[1])
    comparison = judge(statement, form, case, known=measurement, right=right)
    witness = Witness(comparison.tightness, comparison.outcome, tuple(unmet))
    confirmed = confirm(statement, form, case, comparison) if witness.shows else None
    if confirmed is not None and not confirmed.stands:
        witness = replace(witness, fallen=confirmed.how)
    return StoredResult(witness, confirmed, comparison, case, measurement, right)


@expected_warnings()
def necessity(statement: Statement, form: Form) -> dict[str, Needed]:
    """For each hypothesis of a form recorded to hold, whether a stored case shows that it is needed."""
    needs: dict[str, Needed] = {}
    if statement.forms[form].recorded is not Outcome.HOLDS:
        return needs  # a form that fails anyway needs no hypothesis
    for hypothesis in statement.required(form):
        build = statement.necessity.get(hypothesis.name)
        if build is None:
            needs[hypothesis.name] = Needed.NO_CASE
            continue
        case = build()
        others = [h.name for h in statement.required(form) if h is not hypothesis and not h.met(case)]
        breaks = judge(statement, form, case).outcome is Outcome.VIOLATED
        needed = breaks and not others and not hypothesis.met(case)
        needs[hypothesis.name] = Needed.YES if needed else Needed.NOT_SHOWN
    return needs
