"""X.3b: the exact rate of the kernel regime, and how it depends on the smallest eigenvalue and the local steps."""

import numpy as np
import sympy as sp
from flint import arb, arb_mat

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import BITS, KernelCase, kernel_families, orthogonal_points
from bounds.cases.run_values import run_values
from bounds.fl_ntk.premises import NO_LOCAL_OVERSHOOT, POSITIVE_LIMIT, SERVER_AT_MOST_1, at_most
from bounds.fl_ntk.terms.round_map import exact_gram
from bounds.mutants import index_shifted, power, replaced
from bounds.symbols import K, N, T, eta_global, eta_local, lam
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.balls import ball_matrix, enclosure, precision

q = sp.Symbol("q", positive=True)
FACTOR = 1 - eta_global / N * lam / q * (1 - (1 - eta_local * q) ** K)
ROUNDS = 100


def _constants(case: KernelCase) -> dict:
    largest = case.block_eigenvalues.max()
    return run_values(case, N, K, eta_local, eta_global) | {
        lam: gram.smallest_eigenvalue(exact_gram(case)),
        q: Estimate(largest, 1e-12 * largest, "rounding bound"),
        T: ROUNDS,
    }


def _measure(case: KernelCase) -> tuple[Estimate, Estimate]:
    labels = case.problem.y
    left = case.regime.of(lambda regime, _: regime.residual(ROUNDS), samples=(0,))
    with precision(BITS):
        end, start, inverse = ball_matrix(left.value, left.error), ball_matrix(labels), case.gram.inv()
        ratio = enclosure((_square(end, inverse).nonnegative_part() / _square(start, inverse)).sqrt())
    return case.rate, Estimate(ratio.value, ratio.error, left.method)


def _square(r: arb_mat, inverse: arb_mat) -> arb:
    """r^T H^-1 r."""
    return (r.transpose() * inverse * r)[0, 0]


def _overshooting() -> KernelCase:
    """Three local steps with eta_l q near 2, beyond the condition: the response is larger at the largest q."""
    problem = Problem(np.array([[1.0, 0.0], [np.cos(1.3), np.sin(1.3)]]), np.array([1.0, 0.5]), name="two points")
    return KernelCase(problem, Setup(eta_local=3.4, local_steps=3))


def _eager_server() -> KernelCase:
    """Clients that nearly fit their labels, and a server that goes almost twice as far: it lands beyond the labels."""
    return orthogonal_points(Setup(eta_local=1.9, eta_global=1.9, local_steps=1))


STATEMENTS = (
    Statement(
        id="fl-ntk/X.3b",
        title="Rate of the kernel regime: at most 1 - (eta_g/N) (lambda/q)(1 - (1 - eta_l q)^K) a round",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#spectrum-and-stability",
            note="q is the largest eigenvalue of a client block, at most the largest of H. The spectral radius is the "
            "exact rate in the norm |L^-1 r|, so in this norm ln(eps)/ln(factor) rounds suffice. For small eta_l q K "
            "the factor is 1 - rho lambda, the paper's form (its squared residual has the exponent 2). As K grows, the "
            "factor falls no further than 1 - (eta_g/N) lambda/q. One local step attains it",
        ),
        hypotheses=(at_most(150), POSITIVE_LIMIT, NO_LOCAL_OVERSHOOT, SERVER_AT_MOST_1),
        forms={
            Form.NEW: Claim((FACTOR, FACTOR**T), note="for the spectral radius of M, and for |L^-1 r(T)| / |L^-1 r(0)|")
        },
        constants=_constants,
        measure=_measure,
        symbols={q: "largest eigenvalue of the clients' blocks H_cc", lam: "smallest eigenvalue of H_inf"},
        left_formula=("max_i |lambda_i(M)|", "|L^{-1} r(T)| / |L^{-1} r(0)|"),
        says_left="the spectral radius of M, and |L^-1 r(100)| / |L^-1 r(0)| from y(0) = 0, of the kernel regime",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(
            replaced(lam, sp.Rational(11, 10) * lam, "lambda times 1.1", Change.CONSTANT),
            power(N, sp.Rational(1, 2)),
            index_shifted(K, 1),
        ),
        necessity={"no-local-overshoot": _overshooting, "eta_g-at-most-1": _eager_server},
        uses=("fl-ntk/X.2",),
    ),
)
