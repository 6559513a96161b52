"""X.3c: the largest server step that is stable."""

from dataclasses import replace

import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import LOCALLY_STABLE, POSITIVE_LIMIT, at_most
from bounds.mutants import MILLIONTH_MORE, power, without
from bounds.symbols import N
from ntkfl.estimate import Estimate
from ntkfl.limit.infinite_width import KernelRegime

top = sp.Symbol("nu_max", positive=True)


def _rate_at_the_limit(regime: KernelRegime, order: slice) -> float:
    """The spectral radius of M at the largest server step that the regime calls stable."""
    return regime.at(replace(regime.setup, eta_global=regime.step_limits.eta_global)).rate


def _measure(case: KernelCase) -> tuple[Estimate, Estimate]:
    limit = case.regime.of(lambda regime, _: regime.step_limits.eta_global)
    return limit, case.regime.of(_rate_at_the_limit, size=2.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.3c",
        title="The largest stable server step is 2N/nu_max",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#spectrum-and-stability",
            note="the eigenvalues of M are 1 - (eta_g/N) nu with nu > 0; at this step nu_max gives -1",
        ),
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE),
        forms={Form.NEW: Claim((2 * N / top, sp.Integer(1)))},
        constants=lambda case: {top: case.nu[-1], N: case.problem.n_clients},
        measure=_measure,
        symbols={top: "largest eigenvalue of L^T P L, H = L L^T"},
        left_formula=("max {eta_g : max_i |lambda_i(M)| <= 1}", "max_i |lambda_i(M)| of the largest stable step"),
        says_left="left 1: the largest stable server step of the kernel regime; left 2: the spectral radius of M at "
        "that step",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(MILLIONTH_MORE, without(N), power(top, sp.Rational(1, 2)), power(N, 2)),
        uses=("fl-ntk/X.2", "fl-ntk/X.3"),
    ),
)
