"""Statements X.1 to X.3c on a round in the kernel regime, where a round is a linear map of the residual.

The statements concern the map's spectrum, its stability, its rate, and the limits of step sizes.
"""

from dataclasses import replace

import numpy as np
import sympy as sp
from flint import arb, arb_mat

from bounds import BEYOND, Change, Claim, Kind, Source, Statement
from bounds.cases.kernel_case import BITS, KernelCase, MeasuredRegime, kernel_families, orthogonal_points
from bounds.federated_run import FederatedRun, run_values
from bounds.fl_ntk.families.few_points import linearised_families
from bounds.fl_ntk.premises import (
    LOCALLY_STABLE,
    NO_LOCAL_OVERSHOOT,
    POSITIVE_LIMIT,
    POSITIVE_SPECTRUM,
    SERVER_AT_MOST_1,
    at_most,
)
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, ROUND_MAP, exact_gram, map_constants, residuals
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped, without
from bounds.symbols import K, N, T, eta_global, eta_local, lam, n
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.balls import ball_matrix, enclosure, precision
from ntkfl.limit.infinite_width import KernelRegime

r = sp.MatrixSymbol("r", n, T)  # y(t) - y, with one column for each round


def _measure_x_1(case: FederatedRun) -> tuple[Estimate, Estimate]:
    """y(t+1) - y of the network, and of the kernel regime one round after y(t). Both are (n, T), or (n,) if T is 1.

    The regime trains one round from every y(t). These rounds are separate outputs of a single problem. So the errors of
    the rounds do not add up.
    """
    measured, columns = residuals(case), case.setup.rounds
    problem = replace(case.problem, y=np.repeat(case.problem.y[:, None], columns, axis=1), x_test=None, y_test=None)

    def after(regime: KernelRegime, _: slice, start: np.ndarray) -> np.ndarray:
        return regime.outputs(1, start) - regime.problem.y

    # Outputs are rounded before y is subtracted. So a residual that is much smaller than y loses its last digits.
    terms = float(np.abs(problem.y).max() + 2 * np.abs(measured.value).max())
    regime = MeasuredRegime(problem, case.setup, case.initial_gram.value)
    curve = regime.of(after, samples=(0,), size=terms, start=case.trajectory.outputs[:-1].T)
    return (measured[:, 1:], curve) if columns > 1 else (measured[:, 1], curve[:, 0])


nu = sp.Symbol("nu", real=True)


def _measure_x_2(case: KernelCase) -> tuple[Estimate, Estimate]:
    return case.map_eigenvalues, case.regime.of(lambda regime, _: regime.spectrum[::-1], size=case.map_size)


q = sp.Symbol("q", positive=True)


def _constants_x_3(case: KernelCase) -> dict:
    eta, steps = case.setup.eta_local, case.setup.local_steps
    values = case.block_eigenvalues
    largest = values[np.argmax(1 - (1 - eta * values) ** steps)]
    return run_values(case, N, K, eta_local) | {q: Estimate(largest, 1e-12 * values.max(), "rounding bound")}


def _measure_x_3(case: KernelCase) -> tuple[Estimate, Estimate]:
    largest = case.regime.of(lambda regime, _: regime.nu[-1], size=float(np.abs(case.nu.value).max()))
    return largest, case.rate


FACTOR = 1 - eta_global / N * lam / q * (1 - (1 - eta_local * q) ** K)
ROUNDS = 100


def _constants_x_3b(case: KernelCase) -> dict:
    largest = case.block_eigenvalues.max()
    return run_values(case, N, K, eta_local, eta_global) | {
        lam: gram.smallest_eigenvalue(exact_gram(case)),
        q: Estimate(largest, 1e-12 * largest, "rounding bound"),
        T: ROUNDS,
    }


def _measure_x_3b(case: KernelCase) -> tuple[Estimate, Estimate]:
    labels = case.problem.y
    left = case.regime.of(lambda regime, _: regime.residual(ROUNDS), samples=(0,))
    with precision(BITS):
        end, start, inverse = ball_matrix(left.value, left.error), ball_matrix(labels), case.gram.inv()
        ratio = enclosure((_square(end, inverse).nonnegative_part() / _square(start, inverse)).sqrt())
    return case.rate, Estimate(ratio.value, ratio.error, left.method)


def _square(r: arb_mat, inverse: arb_mat) -> arb:
    """r^T H^-1 r, in ball arithmetic."""
    return (r.transpose() * inverse * r)[0, 0]


def _overshooting() -> KernelCase:
    """Three local steps with eta_l q near 2, for which the hypothesis no-local-overshoot does not hold.

    The bound takes f_K at the largest eigenvalue of the kernel as the least value of f_K. In this case f_K is larger at
    the largest eigenvalue than at the other one.
    """
    problem = Problem(np.array([[1.0, 0.0], [np.cos(1.3), np.sin(1.3)]]), np.array([1.0, 0.5]), name="two points")
    return KernelCase(problem, Setup(eta_local=3.4, local_steps=3))


top = sp.Symbol("nu_max", positive=True)


def _rate_at_the_limit(regime: KernelRegime, order: slice) -> float:
    """The spectral radius of M at the largest server step that the regime calls stable."""
    return regime.at(replace(regime.setup, eta_global=regime.step_limits.eta_global)).rate


def _measure_x_3c(case: KernelCase) -> tuple[Estimate, Estimate]:
    limit = case.regime.of(lambda regime, _: regime.step_limits.eta_global)
    return limit, case.regime.of(_rate_at_the_limit, size=2.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.1",
        title="The exact round map M = I - (eta_g/N) H P",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#the-round-map"),
        note="P = blockdiag f_K(H_cc), f_K(q) = (1 - (1 - eta_l q)^K)/q",
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        new=Claim((ROUND_MAP * r,) * 2),
        constants=lambda case: map_constants(case, case.initial_gram) | {r: residuals(case)[:, :-1]},
        measure=_measure_x_1,
        symbols=MAP_SYMBOLS | {r: "y(t) - y, one column per round"},
        left_formula=("y(t+1) - y",) * 2,
        says_left="y(t+1) - y in every round: left 1 of the linearised network, trained in parameter space; left 2 of "
        "the kernel regime of H(0), one round after y(t)",
        families=linearised_families,
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            power(eta_local, sp.Rational(1, 2)),
            index_shifted(K, 1),
            sign_flipped(eta_global, "the server's step"),
        ),
    ),
    Statement(
        id="fl-ntk/X.2",
        title="The round map has a real spectrum",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#spectrum-and-stability"),
        note="H = L L^T makes H P similar to the symmetric L^T P L, for any eta_l, also where P is indefinite",
        hypotheses=(at_most(150), POSITIVE_LIMIT),
        new=Claim((1 - eta_global / N * nu,) * 2),
        constants=lambda case: run_values(case, eta_global, N) | {nu: case.nu},
        measure=_measure_x_2,
        symbols={nu: "eigenvalues of L^T P L, H = L L^T"},
        left_formula=("lambda_i(M)",) * 2,
        says_left="left 1: the eigenvalues of the kernel regime's round map by a general solver, with imaginary parts "
        "counted as error; left 2: the spectrum that the kernel regime gives",
        families=lambda options: kernel_families(options, reach=4),
        mutants=(
            power(eta_global, sp.Rational(1, 2)),
            without(N),
            sign_flipped(nu, "nu"),
            replaced(nu, sp.Rational(1_000_001, 1_000_000) * nu, "nu times 1 + 1e-6", Change.CONSTANT),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/X.3",
        title="Stability: nu <= N max_q (1 - (1 - eta_l q)^K), and eta_g <= 1 is stable",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#spectrum-and-stability"),
        note="q runs over the eigenvalues of the clients' blocks; the second part says that the spectral radius of "
        "M is at most 1. The proof uses H <= N blockdiag(H_cc)",
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE, SERVER_AT_MOST_1),
        new=Claim((N * (1 - (1 - eta_local * q) ** K), sp.Integer(1))),
        constants=_constants_x_3,
        measure=_measure_x_3,
        symbols={q: "the eigenvalue of a client block at which the bound is largest"},
        left_formula=("lambda_max(H P)", "max_i |lambda_i(M)|"),
        says_left="the largest eigenvalue of H P, and the spectral radius of M, of the kernel regime",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(power(N, sp.Rational(1, 2)), power(q, sp.Rational(1, 2)), index_shifted(K, -1)),
        necessity={
            # With two local steps at eta_l q = 2.5, every client overshoots twice and ends farther from its labels.
            "locally-stable": lambda: orthogonal_points(Setup(eta_local=5.0, local_steps=2)),
            # One client's step is stable by itself (eta_l q = 1.9), but the server step is 1.5.
            "eta_g-at-most-1": lambda: orthogonal_points(Setup(eta_local=3.8, eta_global=1.5, local_steps=1)),
        },
        uses=("fl-ntk/X.2",),
    ),
    Statement(
        id="fl-ntk/X.3b",
        title="Rate of the kernel regime: at most 1 - (eta_g/N) (lambda/q)(1 - (1 - eta_l q)^K) a round",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#spectrum-and-stability"),
        note="q is the largest eigenvalue of a client block, at most the largest of H. The spectral radius is the "
        "exact rate in the norm |L^-1 r|, H = L L^T, so in this norm ln(eps)/ln(factor) rounds suffice. For small "
        "eta_l q K the factor is 1 - rho lambda with rho = eta_g eta_l K/N, the paper's form; for the squared residual "
        "the factor is squared. As K grows, the factor falls no further than 1 - (eta_g/N) lambda/q. With one local "
        "step the spectral radius attains the bound",
        hypotheses=(at_most(150), POSITIVE_LIMIT, NO_LOCAL_OVERSHOOT, SERVER_AT_MOST_1),
        new=Claim((FACTOR, FACTOR**T), note="for the spectral radius of M, and for |L^-1 r(T)| / |L^-1 r(0)|"),
        constants=_constants_x_3b,
        measure=_measure_x_3b,
        symbols={q: "largest eigenvalue of the clients' blocks H_cc", lam: "smallest eigenvalue of H_inf"},
        left_formula=("max_i |lambda_i(M)|", "|L^{-1} r(T)| / |L^{-1} r(0)|"),
        says_left="the spectral radius of M, and |L^-1 r(100)| / |L^-1 r(0)| from y(0) = 0, of the kernel regime",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(
            replaced(lam, sp.Rational(11, 10) * lam, "lambda times 1.1", Change.CONSTANT),
            power(N, sp.Rational(1, 2)),
            index_shifted(K, 1),
        ),
        necessity={
            "no-local-overshoot": _overshooting,
            # Clients nearly fit their labels, and the server goes almost twice as far, so that it lands beyond the
            # labels.
            "eta_g-at-most-1": lambda: orthogonal_points(Setup(eta_local=1.9, eta_global=1.9, local_steps=1)),
        },
        uses=("fl-ntk/X.2",),
    ),
    Statement(
        id="fl-ntk/X.3c",
        title="The largest stable server step is 2N/nu_max",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#spectrum-and-stability"),
        note="the eigenvalues of M are 1 - (eta_g/N) nu with nu > 0; at this step nu_max gives -1",
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE),
        new=Claim((2 * N / top, sp.Integer(1))),
        constants=lambda case: {top: case.nu[-1], N: case.problem.n_clients},
        measure=_measure_x_3c,
        symbols={top: "largest eigenvalue of L^T P L, H = L L^T"},
        left_formula=("max {eta_g : max_i |lambda_i(M)| <= 1}", "max_i |lambda_i(M)| of the largest stable step"),
        says_left="left 1: the largest stable server step of the kernel regime; left 2: the spectral radius of M at "
        "that step",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(MILLIONTH_MORE, without(N), power(top, sp.Rational(1, 2)), power(N, 2)),
        uses=("fl-ntk/X.2", "fl-ntk/X.3"),
    ),
)
