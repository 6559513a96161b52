"""Lemma B.11: perturbations of the weights within R change the Gram matrix by at most 2 n R."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Claim, Form, Hypothesis, Kind, Limit, Nature, Source, Statement
from bounds.fl_ntk.premises import DRAWN_AT_UNIT_SIGMA, UNIT_ROWS
from bounds.initial_network import initial_network_families, one_point
from bounds.mutants import power
from bounds.symbols import R, m, n

STATEMENTS = (
    Statement(
        id="fl-ntk/B.11",
        title="Perturbed Gram matrices stay near H(0), uniformly in the perturbation",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Lemma B.11",
            note="the proof gives 3R for each entry, needs both tails, and treats sums that depend on all of W as "
            "independent. To count flips in each direction by itself (D_ij and U_ij, binomial, with means of at most "
            ".798 R) proves the stated 2nR, uniformly",
        ),
        hypotheses=(
            UNIT_ROWS,
            DRAWN_AT_UNIT_SIGMA,
            Hypothesis(
                "probability-below-1",
                "n^2 exp(-m R / 10) < 1: the lemma says something",
                Limit(
                    "m R / 10",
                    lambda case: case.width * case.radius / 10,
                    at_least=lambda case: 2 * np.log(case.problem.n) + 1e-9,
                ),
                eased_by=("width",),
            ),
            Hypothesis("radius-below-1", "0 < R < 1", lambda case: min(case.radius, 1 - case.radius)),
        ),
        forms={
            Form.STATED: Claim(
                2 * n * R,
                failure=n**2 * sp.exp(-m * R / 10),
                nature=Nature.PROOF_GAP,
                consequence="none: the bound and its probability are right, also for weights that depend on the "
                "initialisation",
            ),
            Form.PROVED: Claim(3 * n * R, failure=2 * n**2 * sp.exp(-3 * m * R / 14)),
            Form.REPAIRED: Claim(2 * n * R, failure=n * (n + 1) * sp.exp(-sp.Rational(3, 5) * m * R)),
        },
        constants=lambda case: {n: case.problem.n, m: case.width, R: case.radius},
        measure=lambda case: case.reachable_deviation,
        left_formula="sup |H(w~, w^) - H(0)|_F",
        says_left="sup |H(w~, w^) - H(0)|_F, enclosed between the value at a perturbation that a search found and a "
        "rigorous bound for all perturbations",
        families=initial_network_families,
        necessity={
            "unit-rows": lambda: one_point(length=20.0),
            "unit-sigma": lambda: one_point(sigma=0.01),
        },
        mutants=(
            power(n, -sp.Rational(1, 2)),
            power(R, 3),
        ),
    ),
)
