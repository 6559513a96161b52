"""X.4: with infinitely many local steps a round is one step of damped block Jacobi."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import LOCALLY_STABLE, POSITIVE_LIMIT, at_most
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, D, H, exact_gram, map_constants
from bounds.mutants import MILLIONTH_MORE, power, sign_flipped
from bounds.symbols import N, eta_global
from ntkfl.estimate import Estimate

MANY = 2**53  # local steps; float64 does not count every integer beyond


def _constants(case: KernelCase) -> dict:
    known = map_constants(case, exact_gram(case))
    return {symbol: known[symbol] for symbol in (H, D, eta_global, N)}  # the limit does not depend on K and eta_l


def limit_map(case: KernelCase) -> Estimate:
    """M with MANY local steps; its error includes the effect of further steps on the clients' responses."""
    many = KernelCase(case.problem, replace(case.setup, local_steps=MANY))
    maps, q = many.regime.of(lambda regime, _: regime.round_map, samples=(0, 1)), case.block_eigenvalues
    with np.errstate(divide="ignore", over="ignore"):
        left = float((np.exp(MANY * np.log(np.abs(1 - case.setup.eta_local * q))) / np.abs(q)).max())
    more = case.setup.eta_global * case.problem.n * float(np.abs(many.regime.gram).max()) * left
    return Estimate(maps.value, maps.error + more, maps.method)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.4",
        title="Infinitely many local steps: M = I - (eta_g/N) H D^-1, damped block Jacobi",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#spectrum-and-stability",
            note="every client fits its own samples exactly, and the server adds eta_g/N times their movements: P "
            "tends to blockdiag H_cc^-1, and the limit does not depend on eta_l",
        ),
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE),
        forms={Form.NEW: Claim(IDENTITY - eta_global / N * H * D**-1)},
        constants=_constants,
        measure=limit_map,
        symbols=MAP_SYMBOLS | {H: "H_inf, as a product L L^T that is known exactly"},
        left_formula="M_{K = 2^{53}}",
        says_left="M of the kernel regime with 2^53 local steps; the error includes the effect of further steps",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            power(eta_global, sp.Rational(1, 2)),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
