"""Tests of failures where a theorem's own premise is not met: they say nothing against the theorem."""

from dataclasses import replace

import pytest
import sympy as sp

from bounds import Form, Options, Outcome, get
from bounds.federated_run import federated_families
from bounds.symbols import eta_local, m, r0, rho
from verification import verify
from verification.applicability import Applies, applicable
from verification.search import attack

pytestmark = pytest.mark.filterwarnings("ignore::ntkfl.limit.infinite_width.UnstableSteps")


@pytest.mark.parametrize("form", [Form.STATED, Form.PROVED])
def test_steps_far_beyond_the_premise_leave_the_theorem_untested(form):
    (verdict,) = verify(get("fl-ntk/B.3"), Options(eta_local=3.0, trials=3), form)
    assert verdict.outcome is Outcome.UNTESTED
    assert "break the conclusion, but lack what the premise asks for (m of the order" in str(verdict.notes[0])
    assert verdict.confirmation is None


def test_a_theorem_does_not_apply_to_a_case_that_breaks_it_beyond_its_premise():
    answers, _ = applicable([get("fl-ntk/B.3")], Options(data="sphere", eta_local=3.0))
    assert len(answers) == 2
    for answer in answers:
        assert answer.applies is Applies.NO
        assert answer.why.startswith("its premise asks for m of the order ")
        assert "eta_l of the order " in answer.why


def test_without_a_premise_the_same_cases_count_against_the_claim():
    statement = get("fl-ntk/B.3")
    claim = replace(statement.forms[Form.STATED], premise=None, hypotheses=())
    bare = replace(statement, stated=claim)
    (verdict,) = verify(bare, Options(eta_local=3.0, trials=3), Form.STATED)
    assert verdict.counts.violated > 0


def test_cases_beyond_the_premise_excuse_no_failure_within_it():
    """Cases beyond the premise excuse no failure within it.

    100 cases hold whose step is above the limit of the premise. All 8 cases with a smaller step fail, although only a
    tenth of them may.
    """
    statement = get("fl-ntk/B.3")
    options = Options(trials=8, data="sphere", width=32, rounds=2)

    def families(_):
        inside = federated_families(options, label="inside", eta_local=0.01)
        return *inside, *federated_families(replace(options, trials=100), label="beyond", eta_local=0.3)

    claim = replace(
        statement.forms[Form.STATED],
        expression=20 * rho * r0**2,
        premise={m: sp.Integer(2), eta_local: sp.Rational(1, 50)},
        families=families,
    )
    wrong = replace(statement, stated=claim, mutants=(), necessity={})
    (verdict,) = verify(wrong, options, Form.STATED)
    assert verdict.outcome is Outcome.VIOLATED
    assert (verdict.counts.violated, verdict.counts.holds) == (8, 100)
    assert "8 failures in 8 trials" in str(verdict.notes[0])


@pytest.mark.slow
def test_a_search_admits_no_case_beyond_the_premise():
    done = attack(get("fl-ntk/B.3"), Form.PROVED, examples=60, seconds=float("inf"), seed=7)
    assert done.counterexample is None
    assert any(name.startswith("its premise on") for name in done.rejected)


def test_an_infinitely_wide_case_lacks_no_width():
    statement = get("fl-ntk/C.11")
    case = statement.families_of(Form.STATED, Options())[0].case(0)
    assert statement.forms[Form.STATED].premise
    assert statement.forms[Form.STATED].lacking(case, statement.constants(case)) == {}


def test_a_case_lacks_a_width_too_small_and_a_step_too_large():
    statement = get("fl-ntk/B.3")
    case = statement.families_of(Form.STATED, Options())[0].case(0)
    lacking = statement.forms[Form.STATED].lacking(case, statement.constants(case))
    assert set(lacking) == {str(m), str(eta_local)}
    assert lacking[str(m)] > case.setup.width
    assert lacking[str(eta_local)] < case.setup.eta_local
