"""X.3: stability; with eta_g <= 1 every local step that is stable on each client alone is stable."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families, orthogonal_points
from bounds.cases.run_values import run_values
from bounds.fl_ntk.premises import LOCALLY_STABLE, POSITIVE_LIMIT, SERVER_AT_MOST_1, at_most
from bounds.mutants import index_shifted, power
from bounds.symbols import K, N, eta_local
from ntkfl import Estimate, Setup

q = sp.Symbol("q", positive=True)


def _constants(case: KernelCase) -> dict:
    eta, steps = case.setup.eta_local, case.setup.local_steps
    values = case.block_eigenvalues
    largest = values[np.argmax(1 - (1 - eta * values) ** steps)]
    error = 1e-12 * values.max()
    return run_values(case, N, K, eta_local) | {q: Estimate(largest, error, "rounding bound")}


def _measure(case: KernelCase) -> tuple[Estimate, Estimate]:
    largest = case.regime.of(lambda regime, _: regime.nu[-1], size=float(np.abs(case.nu.value).max()))
    return largest, case.rate


def _alternating() -> KernelCase:
    """Two local steps at eta_l q = 2.5: every client overshoots twice and ends farther from its labels."""
    return orthogonal_points(Setup(eta_local=5.0, local_steps=2))


def _eager_server() -> KernelCase:
    """One client whose step is stable alone (eta_l q = 1.9), and a server step of 1.5."""
    return orthogonal_points(Setup(eta_local=3.8, eta_global=1.5, local_steps=1))


STATEMENTS = (
    Statement(
        id="fl-ntk/X.3",
        title="Stability: nu <= N max_q (1 - (1 - eta_l q)^K), and eta_g <= 1 is stable",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#spectrum-and-stability",
            note="q runs over the eigenvalues of the clients' blocks; the second part says that the spectral radius of "
            "M is at most 1. The proof uses H <= N blockdiag(H_cc)",
        ),
        hypotheses=(
            at_most(150),
            POSITIVE_LIMIT,
            LOCALLY_STABLE,
            SERVER_AT_MOST_1,
        ),
        forms={Form.NEW: Claim((N * (1 - (1 - eta_local * q) ** K), sp.Integer(1)))},
        constants=_constants,
        measure=_measure,
        symbols={q: "the eigenvalue of a client block at which the bound is largest"},
        left_formula=("lambda_max(H P)", "max_i |lambda_i(M)|"),
        says_left="the largest eigenvalue of H P, and the spectral radius of M, of the kernel regime",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(
            power(N, sp.Rational(1, 2)),
            power(q, sp.Rational(1, 2)),
            index_shifted(K, -1),
        ),
        necessity={"locally-stable": _alternating, "eta_g-at-most-1": _eager_server},
        uses=("fl-ntk/X.2",),
    ),
)
