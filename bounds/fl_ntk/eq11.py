"""Eq (11): the probability that a pattern can change if the weight moves by R; a bound for all R at once."""

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.bounded_sum import GaussianTail, gaussian_tails
from bounds.initial_network import InitialNetwork, initial_network_families
from bounds.mutants import power, replaced
from bounds.symbols import R, delta, m, n, sigma
from ntkfl.estimate import Estimate


def _constants(case):
    if isinstance(case, GaussianTail):
        return {R: case.t}
    radius, _ = case.most_crowded
    return {
        R: Estimate(radius, 1e-12, "rounding bound"),
        sigma: case.sigma,
        delta: case.delta,
        n: case.problem.n,
        m: case.width,
    }


def _measure(case):
    if isinstance(case, GaussianTail):
        return case.probability()  # the pattern can change exactly if -R <= w.x < R
    assert isinstance(case, InitialNetwork)
    _, share = case.most_crowded
    return Estimate(share, 1e-12, "count")


UNIT_SIGMA = Hypothesis("unit-sigma", "sigma = 1", lambda case: 1.0 if case.sigma == 1 else -1.0)

STATEMENTS = (
    Statement(
        id="fl-ntk/Eq11",
        title="Probability that a pattern can change within distance R",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Eq (11)",
            note="section 6 and C.7 take for R the movement of the run, which depends on w; the new form is uniform in "
            "R (one-sided Dvoretzky-Kiefer-Wolfowitz inequality, union over the samples)",
        ),
        forms={
            Form.STATED: Claim(2 * R / sp.sqrt(2 * sp.pi), hypotheses=(UNIT_SIGMA,)),
            Form.NEW: Claim(
                sp.sqrt(2 / sp.pi) * R / sigma + sp.sqrt(sp.log(2 * n / delta) / (2 * m)),
                failure=delta,
                left_formula="|{r : |w_r^T x_i| <= R |x_i|}| / m",
                families=initial_network_families,
                note="for all R > 0 and all samples at once; checked at the R where the share of neurons exceeds the "
                "first term most",
            ),
        },
        constants=_constants,
        measure=_measure,
        left_formula="Pr(|w^T x| <= R)",
        says_left="erf(R / sqrt 2) in balls; new form: the share of neurons at the radius and sample with the largest "
        "excess",
        families=(gaussian_tails(largest=8.0, unit_sigma=True),),
        mutants=(
            power(m, sp.Rational(3, 2)),
            power(R, sp.Rational(3, 2)),
            replaced(R, R / 2, "the first term halved", Change.CONSTANT),
        ),
    ),
)
