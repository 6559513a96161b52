"""Statements on tails, and on how far weights within R can change the Gram matrix: Appendix A, Eq (11), Lemma B.11."""

from fractions import Fraction

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Hypothesis, Kind, Limit, Nature, Outcome, Source, Statement
from bounds.cases.bounded_sum import BOUNDED_SUMS, BoundedSum, GaussianTail, exact, gaussian_tails
from bounds.fl_ntk.premises import DRAWN_AT_UNIT_SIGMA, UNIT_ROWS
from bounds.initial_network import InitialNetwork, initial_network_families, one_point
from bounds.mutants import power, replaced, scaled, sign_flipped, without
from bounds.symbols import R, delta, m, n, sigma
from ntkfl.estimate import Estimate

V, M, threshold = sp.symbols("V M t", positive=True)
TAIL = sp.exp(-(threshold**2 / 2) / (V + M * threshold / 3))


half_width = sp.Symbol("t", positive=True)
UPPER = sp.sqrt(2 / sp.pi) * half_width / sigma


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
        return case.probability()  # the activation can change if and only if -R <= w.x < R
    assert isinstance(case, InitialNetwork)
    _, share = case.most_crowded
    return Estimate(share, 1e-12, "count")


UNIT_SIGMA = Hypothesis("unit-sigma", "sigma = 1", lambda case: 1.0 if case.sigma == 1 else -1.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/A.1",
        title="Bernstein's inequality for bounded independent sums",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Lemma A.1"),
        note="the scan reads Pr[sum <= t]; every use (B.5, B.8, B.11, C.7) is of Pr[sum >= t], the classical form. "
        "Nothing suggests that the paper prints another form",
        hypotheses=(Hypothesis("positive-t", "t > 0", lambda case: float(case.t)),),
        stated=Claim(
            TAIL,
            recorded=Outcome.VIOLATED,
            nature=Nature.SCAN,
            measure=lambda case: case.probability(above=False),
            left_formula="Pr(sum_i X_i <= t)",
            witness=lambda: BoundedSum(1, Fraction(1, 2), Fraction(1), Fraction(1)),
            note="the left side is Pr[sum <= t], as the scan reads",
            reading="the lemma occurs once; the four places that apply it read '>' or '>=', which is right",
            consequence="none: every use in the paper is of the upper tail, for which the bound is right",
        ),
        repaired=Claim(TAIL),
        constants=lambda case: {V: exact(case.count * case.variance), M: exact(case.bound), threshold: exact(case.t)},
        measure=lambda case: case.probability(above=True),
        symbols={V: "sum of the variances", M: "bound on |X_i|", threshold: "threshold"},
        left_formula="Pr(sum_i X_i >= t)",
        says_left="the exact binomial tail, as a rational number",
        families=(BOUNDED_SUMS,),
        necessity={"positive-t": lambda: BoundedSum(1, Fraction(1, 2), Fraction(1), Fraction(-1))},
        mutants=(
            replaced(V, 0, "variance dropped", Change.FACTOR),
            power(threshold, sp.Rational(3, 2)),
            sign_flipped(M * threshold / 3, "M t / 3"),
        ),
    ),
    Statement(
        id="fl-ntk/A.2",
        title="Anti-concentration of a Gaussian",
        kind=Kind.TWO_SIDED,
        source=Source(FL_NTK, "Lemma A.2"),
        note="the proof writes N(0, delta^2) for N(0, sigma^2); only the upper side is used, in Eq (11), "
        "and it is true for all t > 0",
        hypotheses=(Hypothesis("t-at-most-sigma", "0 < t <= sigma", lambda case: min(case.t, case.sigma - case.t)),),
        stated=Claim(UPPER, lower=2 * half_width / (3 * sigma)),
        new=Claim(
            UPPER,
            lower=sp.erf(1 / sp.sqrt(2)) * half_width / sigma,
            note="the best lower constant, reached at t = sigma",
        ),
        constants=lambda case: {half_width: case.t, sigma: case.sigma},
        measure=GaussianTail.probability,
        symbols={half_width: "threshold", sigma: "standard deviation of X"},
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
    Statement(
        id="fl-ntk/Eq11",
        title="Probability that a pattern can change within distance R",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Eq (11)"),
        note="section 6 and C.7 take for R the movement of the run, which depends on w; the new form is uniform in "
        "R (one-sided Dvoretzky-Kiefer-Wolfowitz inequality, union over the samples)",
        stated=Claim(2 * R / sp.sqrt(2 * sp.pi), hypotheses=(UNIT_SIGMA,)),
        new=Claim(
            sp.sqrt(2 / sp.pi) * R / sigma + sp.sqrt(sp.log(2 * n / delta) / (2 * m)),
            failure=delta,
            left_formula="|{r : |w_r^T x_i| <= R |x_i|}| / m",
            families=initial_network_families,
            note="for all R > 0 and all samples at once; checked at the R where the share of neurons exceeds the first "
            "term by most",
        ),
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
    Statement(
        id="fl-ntk/B.11",
        title="Perturbed Gram matrices stay near H(0), uniformly in the perturbation",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Lemma B.11"),
        note="the proof gives 3R for each entry, needs both tails, and treats sums that depend on all of W as "
        "independent. To count flips in each direction by itself (D_ij and U_ij, binomial, with means of at most "
        ".798 R) proves the stated 2nR, uniformly",
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
        stated=Claim(
            2 * n * R,
            failure=n**2 * sp.exp(-m * R / 10),
            nature=Nature.PROOF_GAP,
            consequence="none: the bound and its probability are right, also for weights that depend on the "
            "initialisation",
        ),
        proved=Claim(3 * n * R, failure=2 * n**2 * sp.exp(-3 * m * R / 14)),
        repaired=Claim(2 * n * R, failure=n * (n + 1) * sp.exp(-sp.Rational(3, 5) * m * R)),
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
        mutants=(power(n, -sp.Rational(1, 2)), power(R, 3)),
    ),
)
