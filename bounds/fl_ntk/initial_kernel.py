"""Statements on the Gram matrix at the start.

The statements concern H_inf in closed form, the distance of H(0) from H_inf (C.6), the distances of the eigenvalues of
H(0) from the eigenvalues of H_inf (fl-ntk/Weyl), and data for which H_inf is singular (fl-ntk/X.7).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import sympy as sp
from flint import arb_mat
from hypothesis import strategies as st

from bounds import BEYOND, FL_NTK, Case, Change, Claim, Family, Hypothesis, Kind, Limit, Source, Statement, with_own
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.families.few_points import ALIGNED_POINTS
from bounds.fl_ntk.premises import POSITIVE_LIMIT, UNIT_ROWS, at_most
from bounds.initial_network import InitialNetwork, initial_network_families
from bounds.mutants import MILLIONTH_MORE, Mutant, power, replaced, scaled, sign_flipped, without
from bounds.strategies import unit_data
from bounds.symbols import delta, m, n
from ntkfl import Estimate, Problem, Weights, gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision, symmetric_eigenvalues

RELATIVE = 1e-14  # the relative error of `gram.angles`

inner, angle = sp.Symbol("g", real=True), sp.Symbol("theta", nonnegative=True)
first, second = sp.symbols("s_1 s_2", positive=True)
cross, between = sp.Symbol("g_12", real=True), sp.Symbol("theta_12", nonnegative=True)
MIDDLE = (first + second) / 4
APART = sp.sqrt(((first - second) / 4) ** 2 + (cross * (sp.pi - between) / (2 * sp.pi)) ** 2)


TWO_SAMPLES = Hypothesis("two-samples", "n >= 2", Limit("n", lambda case: case.problem.n, at_least=2.0), free=True)


def _constants_h_inf(case: KernelCase) -> dict:
    """x_i.x_j and the angle between x_i and x_j for all pairs of samples, by the arc cosine, in ball arithmetic."""
    n = case.problem.n
    with precision():
        x = ball_matrix(case.problem.x)
        products = x * x.transpose()
        norms = [products[i, i].sqrt() for i in range(n)]
        angles = [
            ball(0.0) if i == j else (products[i, j] / (norms[i] * norms[j])).acos() for i in range(n) for j in range(n)
        ]
        g, theta = enclosure(products), enclosure(angles)
    theta = Estimate(theta.value.reshape(n, n), theta.error.reshape(n, n), theta.method)
    return {
        inner: g,
        angle: theta,
        first: g[0, 0],
        second: g[1, 1],
        cross: g[0, 1],
        between: theta[0, 1],
    }


def _measure(case: KernelCase) -> tuple[Estimate, ...]:
    x = case.problem.x
    pair = gram.infinite_estimate(x[:2])
    enclosed, angles = gram.infinite_estimate(x), gram.angles(x)
    value = np.array([enclosed.value, gram.infinite(x), gram.infinite(x, x)])
    entries = Estimate(value, np.broadcast_to(enclosed.error, value.shape), enclosed.method)
    known_angles = Estimate(angles, RELATIVE * angles, "relative rounding bound")
    return entries, known_angles, gram.smallest_eigenvalue(pair), gram.largest_eigenvalue(pair)


gram_norm = sp.Symbol("G_F", positive=True)  # |X X^T|_F


def _constants_c_6(case: InitialNetwork) -> dict:
    inner = Estimate.exact(case.problem.x) @ case.problem.x.T
    return {n: case.problem.n, m: case.width, delta: case.delta, gram_norm: inner.norm()}


SMALL_DELTA = Hypothesis("delta-at-most-half", "delta <= 1/2", lambda case: 0.5 - case.delta)


def _one_neuron(delta: float, length: float) -> InitialNetwork:
    """One sample and one neuron: H(0) is 0 or length^2, and H_inf is length^2/2."""
    problem = Problem(np.array([[length]]), np.array([1.0]))
    return InitialNetwork(problem, Weights(np.ones((1, 1)), np.ones(1)), 1.0, 0.1, delta)


def eigenvalues(h: Estimate) -> Estimate:
    """The eigenvalues of a symmetric matrix, ascending, (n,), enclosed by ball arithmetic.

    The result is at most as rigorous as the entries of the matrix.
    """
    with precision():
        spectrum = enclosure(symmetric_eigenvalues(ball_matrix(h.value, h.error)))
    return replace(spectrum, rigour=max(spectrum.rigour, h.rigour))


top, bottom = sp.symbols("d_max d_min", real=True)


def _change(case):
    return case.initial_gram - gram.infinite_estimate(case.problem.x)


@dataclass(frozen=True, eq=False)
class AntipodalFamily(Case):
    """Directions x_1, ..., x_{d+1}, (d+1, d), and coefficients c, (d+1,), with sum_p c_p x_p = 0.

    The coefficients have errors.
    """

    directions: np.ndarray
    coefficients: Estimate

    @property
    def relation(self) -> Estimate:
        """|sum_p c_p x_p|, which is 0 for dependent directions."""
        return (self.coefficients @ self.directions).norm()

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"antipodal pairs": len(self.directions), "d": self.directions.shape[1]}


def cramer(directions: np.ndarray) -> Estimate:
    """The relation between d+1 vectors in d dimensions, c_p = (-1)^p det(the other directions), (d+1,), enclosed."""
    with precision():
        minors: list[arb_mat] = [ball_matrix(np.delete(directions, p, axis=0)) for p in range(len(directions))]
        return enclosure([minor.det() * (-1) ** p for p, minor in enumerate(minors)])


def antipodal_pairs(seed: int) -> AntipodalFamily:
    """d+1 random antipodal pairs on the sphere, for d = 2, 3, 4. No two of the 2d+2 points have the same direction."""
    d = 2 + seed % 3
    x = np.random.default_rng([seed, 4]).normal(size=(d + 1, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return AntipodalFamily(x, cramer(x))


ANTIPODAL_PAIRS = Family(
    "antipodal pairs",
    antipodal_pairs,
    st.integers(2, 4)
    .flatmap(lambda d: unit_data(n=(d + 1, d + 1), d=(d, d), distinct=True))
    .map(lambda x: AntipodalFamily(x, cramer(x))),
    trials=24,
    fixed=True,
)


p = sp.Symbol("p", positive=True)  # number of pairs
H_minus = sp.MatrixSymbol("H_-", 2 * p, p)
c = sp.MatrixSymbol("c", p, 1)
ROUNDING = 1e-12  # tolerance for the relation, whose coefficients are known to about 1e-16


def _columns(case: AntipodalFamily, side: int) -> Estimate:
    """H_inf between all 2p points and the points +x_p or -x_p, (2p, p)."""
    x = case.directions
    return gram.infinite_estimate(np.concatenate([x, -x]), side * x)


STATEMENTS = (
    Statement(
        id="fl-ntk/H-inf",
        title="H_inf in closed form, and its eigenvalues on two samples",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Definition 3.2, as the width tends to infinity"),
        note="the mean of x_i.x_j 1{w.x_i >= 0} 1{w.x_j >= 0} over Gaussian w: a share (pi - theta)/(2 pi) of all "
        "directions lies in both half-spaces",
        hypotheses=(at_most(150), TWO_SAMPLES, POSITIVE_LIMIT),
        stated=Claim((inner * (sp.pi - angle) / (2 * sp.pi), angle, MIDDLE - APART, MIDDLE + APART)),
        constants=_constants_h_inf,
        measure=_measure,
        symbols={
            inner: "x_i.x_j",
            angle: "angle between x_i and x_j, the arc cosine in balls",
            first: "|x_1|^2",
            second: "|x_2|^2",
            cross: "x_1.x_2",
            between: "angle between x_1 and x_2",
        },
        left_formula=(
            "H_inf(x_i, x_j)",
            "angle(x_i, x_j)",
            "lambda_min(H_inf of x_1, x_2)",
            "lambda_max(H_inf of x_1, x_2)",
        ),
        says_left="from the library's functions: left 1 every entry of H_inf, left 2 every angle, left 3 and 4 the "
        "smallest and largest eigenvalue of H_inf on the first two samples",
        families=partial(kernel_families, reach=1.0, most=5, steps=False),  # each case has n^2 entries
        mutants=(
            MILLIONTH_MORE,
            power(angle, 2),
            sign_flipped(angle, "the angle"),
            replaced(inner, sp.Integer(1), "without the inner product", Change.FACTOR),
        ),
    ),
    Statement(
        id="fl-ntk/C.6",
        title="Concentration of H(0) around H_inf",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Lemma C.6"),
        note="in our text of the paper the root covers sqrt m as well, which makes the lemma weaker than the bound "
        "that C.8 uses; the O-constant is taken as 1. The lemma needs a small delta: for one sample and one neuron "
        "the left side is always 1/2, and ln(n / delta) goes to 0 as delta goes to 1 (found by `ntkfl attack`). "
        "With delta <= 1/2 and unit rows the lemma follows from the new form, since ln(n + 1) <= (2 sqrt m - 1) "
        "ln(n / delta). The new form is Hoeffding's inequality for each of the n(n+1)/2 entries",
        stated=Claim(n * sp.sqrt(sp.log(n / delta) / sp.sqrt(m)), failure=delta, hypotheses=(UNIT_ROWS, SMALL_DELTA)),
        new=Claim(gram_norm * sp.sqrt(sp.log(n * (n + 1) / delta) / (2 * m)), failure=delta),
        constants=_constants_c_6,
        measure=lambda case: case.gram_deviation,
        symbols={gram_norm: "|X X^T|_F"},
        left_formula="|H(0) - H_inf|_F",
        says_left="|H(0) - H_inf|_F from exact pattern counts and the arc-cosine kernel",
        families=initial_network_families,
        necessity={"unit-rows": lambda: _one_neuron(0.1, 5.0), "delta-at-most-half": lambda: _one_neuron(0.87, 1.0)},
        mutants=(power(m, sp.Rational(3, 2)), without(gram_norm)),
    ),
    Statement(
        id="fl-ntk/Weyl",
        title="No eigenvalue of H(0) is further from that of H_inf than |H(0) - H_inf|_2",
        kind=Kind.UPPER,
        source=Source(BEYOND, "Weyl's inequality, docs/proofs/finite_width.md#exact-means-at-the-start"),
        note="|lambda_k(H(0)) - lambda_k(H_inf)| <= |H(0) - H_inf|_2 for every k, both spectra in ascending order. "
        "So one bound on the difference of the matrices, such as C.6, bounds lambda, mu and all eigenvalues "
        "between. The inequality is an equality for one sample, and nearly an equality where H(0), H_inf and their "
        "difference have the same top eigenvector",
        hypotheses=(at_most(150),),
        stated=Claim(sp.Max(top, -bottom)),
        constants=lambda case: {
            top: gram.largest_eigenvalue(_change(case)),
            bottom: gram.smallest_eigenvalue(_change(case)),
        },
        measure=lambda case: abs(eigenvalues(case.initial_gram) - eigenvalues(gram.infinite_estimate(case.problem.x))),
        symbols={top: "largest eigenvalue of H(0) - H_inf", bottom: "smallest eigenvalue of H(0) - H_inf"},
        left_formula="|lambda_k(H(0)) - lambda_k(H_inf)|",
        says_left="|lambda_k(H(0)) - lambda_k(H_inf)| for every k, both spectra in balls",
        families=with_own(initial_network_families, ALIGNED_POINTS),
        mutants=(
            replaced(top, bottom, "the smallest eigenvalue of the difference alone"),
            replaced(-bottom, top, "the largest eigenvalue of the difference alone"),
            Mutant("the square of the norm", lambda expression: expression**2),
        ),
        uses=("fl-ntk/C.6", "fl-ntk/H-inf"),
    ),
    Statement(
        id="fl-ntk/X.7",
        title="Antipodal pairs can make lambda 0: sum_p c_p H(., x_p) = sum_p c_p H(., -x_p)",
        kind=Kind.EXISTENCE,
        source=Source(BEYOND, "docs/proofs/certificates.md#antipodal-points"),
        note="H(z, x) - H(z, -x) = z.x / 2 for every z. So where sum_p c_p x_p = 0, the vector with c on the "
        "points and -c on their mirror images is in the kernel of H_inf, and lambda = 0 if all these points are "
        "different. Hence it does not suffice for lambda > 0 that no two points have the same direction. One "
        "antipodal pair, or several in independent directions, do no harm",
        hypotheses=(
            Hypothesis(
                "dependent-directions",
                "sum_p c_p x_p = 0 to 1e-12, c known with its error",
                lambda case: ROUNDING - float(case.relation.hi),
            ),
            Hypothesis(
                "nontrivial", "some c_p is not 0", lambda case: float(np.abs(case.coefficients.value).max()) - 1e-6
            ),
        ),
        new=Claim(H_minus * c),
        constants=lambda case: {H_minus: _columns(case, -1), c: case.coefficients},
        measure=lambda case: _columns(case, 1) @ case.coefficients,
        symbols={
            H_minus: "H_inf of all points against the mirror images -x_p",
            c: "coefficients of a linear relation between the directions",
        },
        left_formula="sum_p c_p H_inf(z, x_p)",
        says_left="sum_p c_p H_inf(z, x_p) for every point z of the family, with its rounding bound",
        families=(ANTIPODAL_PAIRS,),
        mutants=(
            MILLIONTH_MORE,
            scaled(sp.Rational(1, 2)),
            sign_flipped(c, "one side"),
            replaced(c, H_minus.T * H_minus * c, "the kernel applied three times", Change.POWER),
        ),
        # For two antipodal pairs in orthogonal directions H_inf is positive definite.
        necessity={"dependent-directions": lambda: AntipodalFamily(np.eye(2), Estimate.exact(np.ones(2)))},
    ),
)
