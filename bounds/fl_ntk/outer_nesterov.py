"""Random rounds with outer Nesterov, as DiLoCo's: the second moments of residual and memory."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import EQUAL, NESTEROV_ROUNDS, RandomRound
from bounds.fl_ntk.terms.canonical import Canonical, blocks
from bounds.fl_ntk.terms.round_map import H
from bounds.fl_ntk.terms.server_memory import LEFT, OWN, SYMBOLS, C, U, X, b, measure, noise, of_momentum, s
from bounds.mutants import MILLIONTH_MORE, power, replaced
from bounds.symbols import N, eta_global, eta_local, n

drawn = sp.Symbol("b_1", positive=True)  # samples of a batch
size = sp.Integer(EQUAL[0])  # size of every client
diagonal = sp.MatrixSymbol("C_d", n, n)


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """E r r' for both measurements, E r u' and E u u' after a round; a client's displacement is eta_l r_c."""
    mean = eta_local * H  # A
    c, x, u = map(Canonical, (C, X, U))
    within = blocks(OWN, c)
    gamma = size * (drawn - 1) / (drawn * (size - 1))
    batches = (gamma - 1) * within + (size / drawn - gamma) * diagonal
    apart = (N - s) / (s * (N - 1))
    of_draws = apart / N * within - apart / N**2 * c + batches / (N * s)
    pushed = mean * c * mean.T / N**2 + eta_local**2 * H * of_draws * H + noise**2 * H  # E p p', p = H (mean + noise)
    met = mean * x / N  # E p u'
    crossed = b * x + c * mean.T / N  # E r u_+'
    memory = b**2 * u + b * (met + met.T) + pushed
    ahead = b * met + pushed  # E p u_+'
    along = c * mean.T / N + b * crossed  # E r (p + b u_+)'
    length = pushed + b * (ahead + ahead.T) + b**2 * memory  # E (p + b u_+)(p + b u_+)'
    residual = c - eta_global * (along + along.T) + eta_global**2 * length
    moments = residual, residual, crossed - eta_global * (ahead + b * memory), memory
    return tuple(moment.expression for moment in moments)


def _constants(case: RandomRound) -> dict:
    values = of_momentum(case)
    own = np.diag(np.diag(np.asarray(values[C].value)))
    return values | {diagonal: case.rounded(own), drawn: case.batch}


STATEMENTS = (
    Statement(
        id="fl-ntk/outer-nesterov",
        title="Random rounds with outer Nesterov, batches and noise: second moments of residual and memory, exactly",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#gaussian-noise",
            note="each round draws s of N clients without replacement; clients have two samples and equal weights. A "
            "client takes one local step on a batch of b_1 samples, drawn without replacement and scaled by n_c/b_1. "
            "Noise of standard deviation sigma_w is added to every weight of the clients' mean. The server keeps v <- "
            "b v + mean and adds eta_g (mean + b v), as in DiLoCo; u = H v is the effect of v on the outputs",
        ),
        forms={Form.NEW: Claim(_moments)},
        constants=_constants,
        measure=measure,
        symbols=SYMBOLS | {diagonal: "the diagonal of C", drawn: "samples in a batch"},
        left_formula=LEFT,
        says_left="E r r', E r u' and E u u' after two rounds, over every choice of clients and batches; E r r' also "
        "by the library's random rounds",
        families=NESTEROV_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            replaced(drawn, 2, "as if all samples were taken", Change.FACTOR),
            replaced(noise, noise * sp.Rational(1_001, 1_000), "a little more noise", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            power(b, 2),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
        ),
        uses=("fl-ntk/server-momentum",),
    ),
)
