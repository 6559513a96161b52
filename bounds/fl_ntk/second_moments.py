"""Random rounds in the kernel regime: a round with drawn clients and batches maps E r r' to a closed form."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import RANDOM_ROUNDS, SIZES, RandomRound
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, RESPONSE, H, map_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import N, eta_global, eta_local, n
from ntkfl.estimate import Estimate

s = sp.Symbol("s", positive=True)
# 1 on the samples of each client, on the diagonal
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(SIZES)))
C, diagonal = sp.MatrixSymbol("C", n, n), sp.MatrixSymbol("C_d", n, n)
pair, alone = (sp.symbols(f"{name}_1:{len(SIZES) + 1}", real=True) for name in ("gamma", "delta"))

SERVER = eta_global / N


def _own(matrix: sp.MatrixExpr) -> sp.MatrixExpr:
    """The clients' own blocks."""
    return sp.MatAdd(*(e * matrix * e for e in OWN))


def _moments() -> tuple[sp.MatrixExpr, sp.MatrixExpr]:
    """E r r' after a round, for each of the two measurements."""
    batches = sp.MatAdd(
        *(
            eta_local**2 * ((gamma - 1) * e * C * e + delta * e * diagonal * e)
            for e, gamma, delta in zip(OWN, pair, alone, strict=True)
        )
    )
    mean = H * RESPONSE  # A
    every, one = N * (s - 1) / (s * (N - 1)), N * (N - s) / (s * (N - 1))
    drawn = every * mean * C * mean.T + one * H * _own(RESPONSE * C * RESPONSE) * H + N / s * H * batches * H
    expected = C - SERVER * (mean * C + C * mean.T) + SERVER**2 * drawn
    return expected, expected


def _constants(case: RandomRound) -> dict:
    owner, batch, known = case.problem.owner, case.batch, case.moments(1)
    values = map_constants(case, case.gram) | {C: known, diagonal: known * np.eye(len(owner)), s: case.cohort}
    for c, size in enumerate(np.bincount(owner)):
        drawn = min(batch or size, size)
        gamma = Estimate.exact(1.0) if drawn == size else _ratio(size * (drawn - 1), drawn * (size - 1))
        values |= {OWN[c]: np.diag((owner == c).astype(float)), pair[c]: gamma, alone[c]: _ratio(size, drawn) - gamma}
    return values


def _ratio(above: int, below: int) -> Estimate:
    return Estimate(above / below, 2e-16 * above / below, "rounding")


def _measure(case: RandomRound) -> tuple[Estimate, Estimate]:
    regime = case.library(case.setup.eta_global)
    mean = regime.residual(2)
    return case.moments(2), case.rounded(regime.covariance(2) + np.outer(mean, mean))


STATEMENTS = (
    Statement(
        id="fl-ntk/second-moments",
        title="Random rounds: E r r' goes to C - h (A C + C A') + h^2 L2(C), exactly",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#second-moments-of-a-round",
            note="each round draws s of N clients without replacement; equal weights, h = eta_g/N, A = H P. Batches of "
            "b are drawn without replacement, independently from step to step, and scaled by n_c/b. Here there is one "
            "local step, whose noise is (gamma - 1) C_cc + (n_c/b - gamma) diag(C_cc) with gamma = n_c (b - 1)/(b (n_c "
            "- 1)). For several steps the library has a recursion",
        ),
        forms={Form.NEW: Claim(_moments)},
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            H: "Gram matrix H_inf",
            C: "E r r' after a round, over every choice of clients and batches",
            diagonal: "the diagonal of C",
            s: "clients in a round",
        }
        | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)}
        | {gamma: f"gamma of client {c + 1}, 1 without batches" for c, gamma in enumerate(pair)}
        | {delta: f"n_c/b - gamma of client {c + 1}" for c, delta in enumerate(alone)},
        left_formula=("E r(2) r(2)^T",) * 2,
        says_left="E r r' after two rounds: over every choice of clients and batches, each trained step by step; and "
        "by the library's random rounds",
        families=RANDOM_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            sign_flipped(alone[0], "what batches leave on the diagonal"),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
