"""Lemma A.2: two-sided anti-concentration of a Gaussian."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.bounded_sum import GaussianTail, gaussian_tails
from bounds.mutants import power, scaled, without
from bounds.symbols import sigma

t = sp.Symbol("t", positive=True)
UPPER = sp.sqrt(2 / sp.pi) * t / sigma

STATEMENTS = (
    Statement(
        id="fl-ntk/A.2",
        title="Anti-concentration of a Gaussian",
        kind=Kind.TWO_SIDED,
        source=Source(
            FL_NTK,
            "Lemma A.2",
            note="the proof writes N(0, delta^2) for N(0, sigma^2); only the upper side is used, in Eq (11), "
            "and it is true for all t > 0",
        ),
        hypotheses=(Hypothesis("t-at-most-sigma", "0 < t <= sigma", lambda case: min(case.t, case.sigma - case.t)),),
        forms={
            Form.STATED: Claim(UPPER, lower=2 * t / (3 * sigma)),
            Form.NEW: Claim(
                UPPER, lower=sp.erf(1 / sp.sqrt(2)) * t / sigma, note="the best lower constant, reached at t = sigma"
            ),
        },
        constants=lambda case: {t: case.t, sigma: case.sigma},
        measure=GaussianTail.probability,
        symbols={t: "threshold", sigma: "standard deviation of X"},
        left_formula="Pr(|X| <= t)",
        says_left="erf(t / (sigma sqrt 2)) in ball arithmetic",
        families=(gaussian_tails(),),
        mutants=(
            scaled(sp.Rational(99, 100)),
            scaled(sp.Rational(11, 10)),
            power(sigma, sp.Rational(3, 2)),
            without(sigma),
        ),
        necessity={"t-at-most-sigma": lambda: GaussianTail(1.2)},
    ),
)
