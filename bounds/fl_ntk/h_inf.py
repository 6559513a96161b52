"""H_inf in closed form, by the probability that a Gaussian weight is active on both samples."""

from functools import partial

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Hypothesis, Kind, Limit, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import POSITIVE_LIMIT, at_most
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from ntkfl import Estimate, gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision

RELATIVE = 1e-14  # error of `gram.angles`

inner, angle = sp.Symbol("g", real=True), sp.Symbol("theta", nonnegative=True)
first, second = sp.symbols("s_1 s_2", positive=True)
cross, between = sp.Symbol("g_12", real=True), sp.Symbol("theta_12", nonnegative=True)
MIDDLE = (first + second) / 4
APART = sp.sqrt(((first - second) / 4) ** 2 + (cross * (sp.pi - between) / (2 * sp.pi)) ** 2)


TWO_SAMPLES = Hypothesis("two-samples", "n >= 2", Limit("n", lambda case: case.problem.n, at_least=2.0), free=True)


def _constants(case: KernelCase) -> dict:
    """x_i.x_j and the angle between x_i and x_j, by the arc cosine, in balls, for all pairs of samples."""
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
    known, angles = gram.infinite_estimate(x), gram.angles(x)
    value = np.array([known.value, gram.infinite(x), gram.infinite(x, x)])
    entries = Estimate(value, np.broadcast_to(known.error, value.shape), known.method)
    known_angles = Estimate(angles, RELATIVE * angles, "relative rounding bound")
    return entries, known_angles, gram.smallest_eigenvalue(pair), gram.largest_eigenvalue(pair)


STATEMENTS = (
    Statement(
        id="fl-ntk/H-inf",
        title="H_inf in closed form, and its eigenvalues on two samples",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Definition 3.2, as the width tends to infinity",
            note="the mean of x_i.x_j 1{w.x_i >= 0} 1{w.x_j >= 0} over Gaussian w: a share (pi - theta)/(2 pi) of all "
            "directions lies in both half-spaces",
        ),
        hypotheses=(at_most(150), TWO_SAMPLES, POSITIVE_LIMIT),
        forms={Form.STATED: Claim((inner * (sp.pi - angle) / (2 * sp.pi), angle, MIDDLE - APART, MIDDLE + APART))},
        constants=_constants,
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
)
