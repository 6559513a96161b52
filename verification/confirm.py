"""A violation is reported only after it has been confirmed: in balls or, where these cannot go, in two precisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bounds.federated_run import FederatedRun
from bounds.statement import Form, Outcome, Statement
from ntkfl.reference import BALL, EXTENDED, Undecided
from verification.compare import Comparison, judge

BALL_BUDGET = 4e6  # width * n * d * local steps * rounds that a run in balls may cost
EXTENDED_BUDGET = 4e9
NEAR = 10  # a comparison whose sides are within this many errors of each other is redone more precisely
MARGIN = 1000  # two precisions must agree with a margin of this many times their difference


@dataclass(frozen=True)
class Confirmation:
    """Whether a violation stands, and how that was found out."""

    confirmed: bool
    how: str


def confirm(statement: Statement, form: Form, case: Any, seen: Comparison) -> Confirmation:
    """Redo a violated comparison, hypotheses included, more precisely than it was first done."""
    if hasattr(case, "fresh"):
        other = judge(statement, form, case.fresh())
        agrees = other.outcome is Outcome.VIOLATED
        return Confirmation(agrees, f"other networks {'agree' if agrees else 'do not agree'}: {other.left}")
    if not isinstance(case, FederatedRun):
        return Confirmation(True, "both sides are balls" if _in_balls(seen) else _known_by(seen))
    cost = _cost(case)
    if cost <= BALL_BUDGET:
        bits = 0
        for bits, again in _ball_runs(statement, form, case):
            if again is not None and again.outcome in (Outcome.VIOLATED, Outcome.HOLDS):
                how = f"run in balls of {bits} bits" + ("" if _in_balls(again) else f"; {_known_by(again)}")
                return Confirmation(again.outcome is Outcome.VIOLATED, how)
        return Confirmation(False, f"balls of {bits} bits do not decide it")
    if cost > EXTENDED_BUDGET:
        found = f"seen in float64 only: {cost:.1e} operations are too many to repeat in extended precision"
        return Confirmation(False, f"{found}; fewer neurons, samples or rounds would do")
    extended = case.with_arithmetic(EXTENDED)
    unmet = [h.name for h in statement.required(form) if not h.met(extended)]
    if unmet:
        return Confirmation(False, f"in extended precision the case does not meet {', '.join(unmet)}")
    again = judge(statement, form, extended)
    excess = float(seen.left.value - seen.right.value)
    difference = abs(excess - float(again.left.value - again.right.value))
    agree = again.outcome is Outcome.VIOLATED and abs(excess) >= MARGIN * difference
    return Confirmation(agree, f"float64 and extended precision differ by {difference:.1e}, margin {excess:.3g}")


def refined(statement: Statement, form: Form, case: Any, seen: Comparison) -> Comparison:
    """The same comparison, redone in balls where its sides are within a few errors and the run is small enough."""
    if seen.margin_in_errors >= NEAR or not isinstance(case, FederatedRun) or _cost(case) > BALL_BUDGET:
        return seen
    return next((again for _, again in _ball_runs(statement, form, case) if again is not None), seen)


def _cost(case: FederatedRun) -> float:
    s, p = case.setup, case.problem
    return float(s.width) * p.n * p.d * s.local_steps * s.rounds


def _ball_runs(statement: Statement, form: Form, case: FederatedRun) -> Iterator[tuple[int, Comparison | None]]:
    """The comparison in balls of more and more bits; None where they do not carry it, or leave a hypothesis open."""
    first = 128 + 2 * case.setup.rounds * case.setup.local_steps  # radii grow by a bit or so a step
    for bits in (first, 4 * first):
        try:
            exact = case.with_arithmetic(BALL, bits)
            met = all(h.met(exact) for h in statement.required(form))
            found = judge(statement, form, exact) if met else None
        except (Undecided, ValueError):
            found = None
        yield bits, found


def _in_balls(seen: Comparison) -> bool:
    """Whether both sides are balls around exact inputs; sides that look into the run's weights start from floats."""
    return all(side.method in ("ball", "exact") for side in (seen.left, seen.right))


def _known_by(seen: Comparison) -> str:
    return f"sides known by: {seen.left.method}; {seen.right.method}"
