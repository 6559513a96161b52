"""Tests of verdicts on rates: a true rate is never called violated, whatever the seed is.

A ladder is a set of networks of several widths. A wrong rate is called violated on one ladder, and a second ladder with
other networks confirms the violation.
"""

from dataclasses import replace

import pytest
import sympy as sp

from bounds import Form, Options, Outcome, get
from bounds.mutants import shifted
from verification.engine import verify, verify_all

RATE = get("fl-ntk/lazy-patterns")


@pytest.mark.slow
@pytest.mark.parametrize("options", [*({"seed": seed} for seed in range(1, 6)), {"data": "sphere"}], ids=str)
def test_a_true_rate_is_never_violated(options):
    """A true rate is not called violated if networks are taken only until they decide the verdict.

    The test below takes all networks of the ladder.
    """
    (verdict,) = verify(RATE, options=Options(**options, until_decided=True))
    assert verdict.outcome in (Outcome.HOLDS, Outcome.UNRESOLVED)
    assert Outcome.HOLDS not in verdict.mutants.values()


@pytest.mark.slow
def test_where_the_true_rate_is_not_violated_a_wrong_one_is_and_another_ladder_agrees():
    wrong = RATE.forms[Form.STATED].mutated(shifted(sp.Rational(1, 4)).change)
    right, violated = verify_all([RATE, replace(RATE, id="test/wrong", stated=wrong)], Options())
    assert right.outcome in (Outcome.HOLDS, Outcome.UNRESOLVED)
    assert violated.outcome is Outcome.VIOLATED
    assert violated.confirmation is not None and str(violated.confirmation.how).startswith("other networks agree")
