"""Tests of the prover of algebraic steps: it proves true steps.

The prover proves no false step. If its methods cannot decide a step, the step stays without a proof.
"""

import pytest
import sympy as sp
from hypothesis import assume, given, settings, strategies as st

from bounds import catalogue
from bounds.algebra import Nonnegative, OnBox, Step, Vanishes
from bounds.listing import steps
from verification.symbolic import prove

x, y = sp.symbols("x y", nonnegative=True)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("step", steps(), ids=lambda step: f"{step.of}: {step.says[:40]}")
def test_every_step_of_the_catalogue_is_proved(step):
    proof = prove(step)
    assert proof.proved, proof.how
    assert step.of in catalogue()


def _broken(step: Step) -> Step:
    """Returns a false version of a step.

    A constant is added to an identity, or taken from a coefficient or from an inequality.
    """
    change = {Vanishes: sp.Rational(1, 10**6), Nonnegative: -(10**9), OnBox: -(10**3)}[type(step)]
    first, *rest = step.expressions
    changed = first + change * sp.eye(first.rows) if isinstance(first, sp.MatrixBase) else first + change
    return type(step)(**(vars(step) | {"expressions": (changed, *rest)}))


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("step", steps(), ids=lambda step: f"{step.of}: {step.says[:40]}")
def test_no_step_is_proved_once_it_is_made_false(step):
    assert not prove(_broken(step)).proved


def test_a_tight_inequality_made_a_little_tighter_is_refuted_with_a_point():
    tight = OnBox("a", "b", (sp.Rational(999, 1000) * (1 + 2 * x) - sp.exp(x),), {x: (0, 1)})
    assert "false: it is -" in prove(tight).how


def test_what_touches_zero_inside_the_box_is_left_open_not_proved(monkeypatch):
    monkeypatch.setattr("verification.symbolic.MOST_BOXES", 200)
    proof = prove(OnBox("a", "b", ((x - sp.Rational(1, 3)) ** 2,), {x: (0, 1)}))
    assert not proof.proved
    assert "200 boxes do not settle it; one left is x in [0.333" in proof.how


def test_what_dips_below_zero_between_any_two_grid_points_is_refuted():
    dips = OnBox("a", "b", ((x - sp.Rational(1, 3)) ** 2 - sp.Rational(1, 10**40),), {x: (0, 1)})
    assert "false: it is -" in prove(dips).how


@settings(deadline=None, max_examples=40)
@given(
    root=st.fractions(min_value=-1, max_value=2, max_denominator=50),
    other=st.fractions(min_value=-1, max_value=2, max_denominator=50),
)
def test_a_quadratic_is_proved_on_the_unit_interval_exactly_when_it_is_nonnegative_there(root, other):
    low, high = sorted(map(sp.Rational, (root, other)))
    assume(low != high or not 0 < low < 1)  # No subdivision decides a step that has a double root inside.
    negative_somewhere = max(low, sp.Integer(0)) < min(high, sp.Integer(1))
    proof = prove(OnBox("a", "b", ((x - low) * (x - high),), {x: (0, 1)}))
    if negative_somewhere:
        assert not proof.proved
    else:
        assert proof.proved, proof.how


@settings(deadline=None, max_examples=20)
@given(
    st.fractions(min_value=-3, max_value=3, max_denominator=20),
    st.fractions(min_value=0, max_value=3, max_denominator=20),
)
def test_planes_over_a_square_are_decided_by_their_corners(slope, constant):
    step = OnBox("a", "b", (sp.Rational(slope) * x - y + sp.Rational(constant),), {x: (0, 1), y: (0, 1)})
    assert prove(step).proved == (min(0, slope) - 1 + constant >= 0)


def test_a_negative_coefficient_is_named():
    assert "the coefficient of x*y is -2" in prove(Nonnegative("a", "b", ((x - y) ** 2,), (x, y))).how


def test_a_symbol_that_is_forgotten_is_an_error():
    with pytest.raises(ValueError, match=r"y in .* is not among the step's symbols"):
        prove(Nonnegative("a", "b", (x + y,), (x,)))


def test_a_step_of_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="no prover for a Step"):
        prove(Step("a", "b"))
