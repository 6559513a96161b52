"""Lemma C.6: the initial Gram matrix concentrates around its infinite-width limit."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.premises import UNIT_ROWS
from bounds.initial_network import InitialNetwork, initial_network_families
from bounds.mutants import power, without
from bounds.symbols import delta, m, n
from ntkfl import Estimate, Problem, Weights

gram_norm = sp.Symbol("G_F", positive=True)  # |X X^T|_F


def _constants(case: InitialNetwork) -> dict:
    inner = Estimate.exact(case.problem.x) @ case.problem.x.T
    return {n: case.problem.n, m: case.width, delta: case.delta, gram_norm: inner.norm()}


SMALL_DELTA = Hypothesis("delta-at-most-half", "delta <= 1/2", lambda case: 0.5 - case.delta)


def _one_neuron(delta: float, length: float) -> InitialNetwork:
    """One sample and one neuron: H(0) is 0 or length^2, and H_inf is length^2/2."""
    problem = Problem(np.array([[length]]), np.array([1.0]))
    return InitialNetwork(problem, Weights(np.ones((1, 1)), np.ones(1)), 1.0, 0.1, delta)


STATEMENTS = (
    Statement(
        id="fl-ntk/C.6",
        title="Concentration of H(0) around H_inf",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Lemma C.6",
            note="in our text of the paper the root covers sqrt m as well, which makes the lemma weaker than the bound "
            "that C.8 uses; the O-constant is taken as 1. The lemma needs a small delta: for one sample and one neuron "
            "the left side is always 1/2, and ln(n / delta) goes to 0 as delta goes to 1 (found by `ntkfl attack`). "
            "With delta <= 1/2 and unit rows the lemma follows from the new form, since ln(n + 1) <= (2 sqrt m - 1) "
            "ln(n / delta). The new form is Hoeffding's inequality for each of the n(n+1)/2 entries",
        ),
        forms={
            Form.STATED: Claim(
                n * sp.sqrt(sp.log(n / delta) / sp.sqrt(m)), failure=delta, hypotheses=(UNIT_ROWS, SMALL_DELTA)
            ),
            Form.NEW: Claim(gram_norm * sp.sqrt(sp.log(n * (n + 1) / delta) / (2 * m)), failure=delta),
        },
        constants=_constants,
        measure=lambda case: case.gram_deviation,
        symbols={gram_norm: "|X X^T|_F"},
        left_formula="|H(0) - H_inf|_F",
        says_left="|H(0) - H_inf|_F from exact pattern counts and the arc-cosine kernel",
        families=initial_network_families,
        necessity={"unit-rows": lambda: _one_neuron(0.1, 5.0), "delta-at-most-half": lambda: _one_neuron(0.87, 1.0)},
        mutants=(
            power(m, sp.Rational(3, 2)),
            without(gram_norm),
        ),
    ),
)
