"""Random rounds whose server has momentum and adds Gaussian noise: the second moments of residual and memory."""

import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import MOMENTUM_ROUNDS
from bounds.fl_ntk.terms.round_map import RESPONSE, H
from bounds.fl_ntk.terms.server_memory import LEFT, OWN, SYMBOLS, C, U, X, b, measure, noise, of_momentum, s
from bounds.mutants import MILLIONTH_MORE, power, replaced
from bounds.symbols import N, eta_global


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """E r r' (twice, once for each measurement), E r u' and E u u' after a round."""
    mean = H * RESPONSE  # A
    within = sp.MatAdd(*(e * RESPONSE * C * RESPONSE * e for e in OWN))
    apart = (N - s) / (s * (N - 1))
    drawn = apart / N * H * within * H - apart / N**2 * mean * C * mean.T
    crossed = b * X + C * mean.T / N  # E r u_+'
    memory = b**2 * U + b / N * (mean * X + (mean * X).T) + mean * C * mean.T / N**2 + drawn + noise**2 * H
    residual = C - eta_global * (crossed + crossed.T) + eta_global**2 * memory
    return residual, residual, crossed - eta_global * memory, memory


STATEMENTS = (
    Statement(
        id="fl-ntk/server-momentum",
        title="Random rounds with server momentum and noise: the second moments of residual and memory, exactly",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#gaussian-noise",
            note="each round draws s of N clients without replacement; equal weights, full batches. Gaussian noise of "
            "standard deviation sigma_w is added to every weight of the clients' mean. The server keeps v <- b v + "
            "mean and adds eta_g v; u = H v is the effect of v on the outputs. Drawing clients adds H N(C) H to the "
            "memory's moments, the noise adds sigma_w^2 H",
        ),
        forms={Form.NEW: Claim(_moments)},
        constants=of_momentum,
        measure=measure,
        symbols=SYMBOLS,
        left_formula=LEFT,
        says_left="E r r', E r u' and E u u' after two rounds, over every choice of clients, each trained step by "
        "step; E r r' also by the library's random rounds",
        families=MOMENTUM_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            replaced(noise, noise * sp.Rational(1_001, 1_000), "a little more noise", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            power(b, 2),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
        ),
        uses=("fl-ntk/second-moments",),
    ),
)
