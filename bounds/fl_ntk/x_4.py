"""X.4: with infinitely many local steps a round is one step of damped block Jacobi."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.fl_ntk.premises import LOCALLY_STABLE, at_most
from bounds.fl_ntk.round_map import exact_gram, round_map
from bounds.fl_ntk.x_1 import IDENTITY, MAP_SYMBOLS, D, H
from bounds.fl_ntk.x_2 import POSITIVE_LIMIT
from bounds.formula import Formula
from bounds.kernel_case import BITS, KernelCase, kernel_draws
from bounds.mutants import power, scaled, sign_flipped
from bounds.statement import BEYOND, Form, Kind, Outcome, Source, Statement
from bounds.symbols import N, eta_global
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate


def _constants(case: KernelCase) -> dict:
    with precision(BITS):
        h = enclosure(exact_gram(case))
    owner = case.problem.owner
    same = owner[:, None] == owner
    blocks = Estimate(np.where(same, h.value, 0), np.where(same, h.error, 0), h.method)
    return {H: h, D: blocks, eta_global: case.setup.eta_global, N: case.problem.n_clients}


def _measure(case: KernelCase) -> Estimate:
    with precision(BITS):
        return enclosure(round_map(case, unlimited=True))


STATEMENTS = (
    Statement(
        id="fl-ntk/X.4",
        title="Infinitely many local steps: M = I - (eta_g/N) H D^-1, damped block Jacobi",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "section 6 of the ledger",
            note="every client fits its own samples exactly, and the server goes eta_g/N of the way: P tends to "
            "blockdiag H_cc^-1; the limit does not depend on eta_l",
        ),
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE),
        forms={Form.REPAIRED: Formula(IDENTITY - eta_global / N * H * D**-1)},
        recorded={Form.REPAIRED: Outcome.HOLDS},
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS | {H: "H_inf, as a product L L^T that is known exactly"},
        says_left="M from the clients' local steps themselves, 1, 2, 4, ... of them until what is left of the sum "
        "is below 2^-100, in balls; what is left is in the error",
        draws=lambda options: kernel_draws(options, reach=1.99),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            power(N, sp.Rational(1, 2)),
            power(eta_global, sp.Rational(1, 2)),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
