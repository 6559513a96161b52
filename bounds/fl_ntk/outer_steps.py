"""Statements on random rounds whose server has momentum, Nesterov's or heavy-ball, or a rate above 1.

In the comments beside the formulas A is H P, r is the residual before the round, and u is the effect of the server's
memory on the outputs before the round; u_+ is u after the round.
"""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import (
    EQUAL,
    MOMENTUM_ROUNDS,
    NESTEROV_ROUNDS,
    RANDOM_ROUNDS,
    RandomRound,
    operators,
)
from bounds.fl_ntk.terms.canonical import Canonical, blocks
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, RESPONSE, H, map_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, reversed_comparison, scaled
from bounds.symbols import N, eta_global, eta_local, n
from ntkfl.estimate import Estimate

s, b, noise = sp.Symbol("s", positive=True), sp.Symbol("b", nonnegative=True), sp.Symbol("sigma_w", nonnegative=True)
# for each client the diagonal matrix with 1 at the client's samples and 0 elsewhere
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(EQUAL)))
C, X, U = (sp.MatrixSymbol(name, n, n) for name in ("C", "X", "U"))
SYMBOLS = (
    MAP_SYMBOLS
    | {
        H: "Gram matrix H_inf",
        C: "E r r' after a round, over every choice",
        X: "E r u' after a round, over every choice",
        U: "E u u' after a round, over every choice",
        s: "clients in a round",
        b: "momentum of the server",
        noise: "standard deviation of the noise on every weight of the mean",
    }
    | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)}
)
LEFT = ("E r(2) r(2)^T",) * 2 + ("E r(2) u(2)^T", "E u(2) u(2)^T")


def of_momentum(case: RandomRound) -> dict:
    """The values of SYMBOLS."""
    moments = zip((C, X, U), case.moments_of(case.with_memory(1)), strict=True)
    values, owner = map_constants(case, case.gram) | dict(moments), case.problem.owner
    values |= {e: np.diag((owner == c).astype(float)) for c, e in enumerate(OWN)}
    return values | {s: case.cohort, b: Estimate.exact(case.momentum), noise: Estimate.exact(case.noise)}


def measure(case: RandomRound) -> tuple[Estimate, ...]:
    """E r r' twice, and then E r u' and E u u', all after two rounds.

    E r r' is computed once by enumerating every choice, and once by the library. The other two are computed by
    enumerating every choice.
    """
    return case.after_two(case.with_memory(2), case.library(case.setup.eta_global))


def _heavy_ball_moments() -> tuple[sp.MatrixExpr, ...]:
    """E r r' (twice, once for each measurement), E r u' and E u u' after a round."""
    mean = H * RESPONSE  # A
    within = sp.MatAdd(*(e * RESPONSE * C * RESPONSE * e for e in OWN))
    apart = (N - s) / (s * (N - 1))
    drawn = apart / N * H * within * H - apart / N**2 * mean * C * mean.T
    crossed = b * X + C * mean.T / N  # E r u_+'
    memory = b**2 * U + b / N * (mean * X + (mean * X).T) + mean * C * mean.T / N**2 + drawn + noise**2 * H
    residual = C - eta_global * (crossed + crossed.T) + eta_global**2 * memory
    return residual, residual, crossed - eta_global * memory, memory


drawn = sp.Symbol("b_1", positive=True)  # number of samples in a batch
size = sp.Integer(EQUAL[0])  # number of samples of every client
diagonal = sp.MatrixSymbol("C_d", n, n)


def _nesterov_moments() -> tuple[sp.MatrixExpr, ...]:
    """E r r' (twice, once for each measurement), E r u' and E u u' after a round.

    A client's displacement is eta_l r_c.
    """
    mean = eta_local * H  # A
    c, x, u = map(Canonical, (C, X, U))
    within = blocks(OWN, c)
    gamma = size * (drawn - 1) / (drawn * (size - 1))
    batches = (gamma - 1) * within + (size / drawn - gamma) * diagonal
    apart = (N - s) / (s * (N - 1))
    of_draws = apart / N * within - apart / N**2 * c + batches / (N * s)
    # E p p', where p = H (mean + noise)
    pushed = mean * c * mean.T / N**2 + eta_local**2 * H * of_draws * H + noise**2 * H
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
    return values | {diagonal: case.rounded(np.diag(np.diag(np.asarray(values[C].value)))), drawn: case.batch}


descent, energy = sp.symbols("b a", positive=True)
near, far = sp.symbols("lambda_1 lambda_g", positive=True)
ANCHOR = "docs/proofs/random_rounds.md#outer-rates-above-1"
ROUNDED = 1e-11  # the relative error of a dozen products of matrices of 49 rows


def _loss(case: RandomRound, server: float) -> float:
    """E |r|^2 after the second round, at the outer rate `server`, over every choice of clients and batches."""
    second = np.asarray(case.moments(1).value)
    return float(sum(chance * np.trace(m @ second @ m.T) for chance, m in case.maps(server)))


def _best(case: RandomRound) -> tuple[Estimate, Estimate]:
    """The lowest point of the parabola through the losses at the rates 0, 1, 2.

    The second value is the parabola's value at 1 minus its lowest value.
    """
    nothing, plain, twice = (_loss(case, server) for server in (0.0, 1.0, 2.0))
    bend, slope = (twice - 2 * plain + nothing) / 2, (4 * plain - 3 * nothing - twice) / 2
    best, error = -slope / (2 * bend), ROUNDED * (nothing + plain + twice)
    off, aside = error / bend * (1 + best), best - 1
    gain = Estimate(bend * aside**2, 2 * bend * abs(aside) * off + bend * off**2 + error * aside**2, "rounding")
    return Estimate(best, off, "rounding"), gain


def _rate_moments(case: RandomRound) -> dict:
    first, second = operators(case)
    moments, count = np.asarray(case.moments(1).value), case.problem.n_clients
    trace = np.eye(len(moments)).ravel()
    falls, rises = trace @ first @ moments.ravel() / (2 * count), trace @ second @ moments.ravel() / count**2
    return {
        descent: Estimate(falls, ROUNDED * abs(falls), "rounding"),
        energy: Estimate(rises, ROUNDED * rises, "rounding"),
    }


def _rate(case: RandomRound) -> float:
    """An outer rate to compare with 1: the rate of the case, or 3/2 if the case's rate is too near 1."""
    return case.setup.eta_global if abs(case.setup.eta_global - 1) > 0.05 else 1.5


def _radii(case: RandomRound) -> dict:
    first, second = operators(case)
    count, unit = case.problem.n_clients, np.eye(len(first))

    def radius(server: float) -> Estimate:
        whole = unit - server / count * first + (server / count) ** 2 * second
        value = float(np.abs(np.linalg.eigvals(whole)).max())
        return Estimate(value, 1e-9 * max(value, 1.0), "rounding of eigenvalues, generous")

    return {near: radius(1.0), far: radius(_rate(case))}


def _convex(case: RandomRound) -> tuple[Estimate, Estimate]:
    """The radius at the rate halfway between 1 and `_rate`, and a value of a tangent.

    The tangent touches the radius, as a function of the rate, at the rate 1. The value of the tangent is taken at
    `_rate`.
    """
    rate = _rate(case)
    n = case.problem.n
    whole, change = np.zeros((n * n, n * n)), np.zeros((n * n, n * n))
    for chance, m in case.maps(1.0):
        step = m - np.eye(n)
        whole += chance * np.kron(m, m)
        change += chance * (np.kron(step, m) + np.kron(m, step))
    values, right = np.linalg.eig(whole)
    back, lefts = np.linalg.eig(whole.T)
    top, other = int(np.argmax(values.real)), int(np.argmax(back.real))
    x, y = right[:, top].real, lefts[:, other].real
    radius = float(values[top].real)
    tangent = radius + (rate - 1) * float(y @ change @ x / (y @ x))
    gap = radius - float(np.sort(values.real)[-2])
    error = 1e-9 * max(radius, 1.0) + abs(rate - 1) * 1e-11 * float(np.abs(change).sum()) / max(gap, 1e-12)
    return case.radius((1 + rate) / 2), Estimate(tangent, error, "eigenvectors, by their gap")


STATEMENTS = (
    Statement(
        id="fl-ntk/server-momentum",
        title="Random rounds with server momentum and noise: the second moments of residual and memory, exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#gaussian-noise"),
        note="each round draws s of N clients without replacement; equal weights, full batches. Gaussian noise of "
        "standard deviation sigma_w is added to every weight of the clients' mean. The server keeps v <- b v + "
        "mean and adds eta_g v; u = H v is the effect of v on the outputs. Drawing clients adds H N(C) H to the "
        "memory's moments, where N(C) is the covariance of the mean's coefficients over the draws. The noise adds "
        "sigma_w^2 H",
        new=Claim(_heavy_ball_moments),
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
    Statement(
        id="fl-ntk/outer-nesterov",
        title="Random rounds with outer Nesterov, batches and noise: second moments of residual and memory, exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#gaussian-noise"),
        note="each round draws s of N clients without replacement; clients have two samples and equal weights. A "
        "client takes one local step on a batch of b_1 samples, drawn without replacement and scaled by n_c/b_1. "
        "Noise of standard deviation sigma_w is added to every weight of the clients' mean. The server keeps v <- "
        "b v + mean and adds eta_g (mean + b v), as in DiLoCo; u = H v is the effect of v on the outputs",
        new=Claim(_nesterov_moments),
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
    Statement(
        id="fl-ntk/outer-rate",
        title="An outer rate above 1 lowers a round's expected loss exactly if b > a, at best by (b - a)^2/a",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, ANCHOR),
        note="a round lowers E |r|^2 by 2 g b - g^2 a, with b = E r.Hd and a = E |Hd|^2, where d is the clients' "
        "mean displacement. The loss after the round is least at g = b/a, and smaller than at g = 1 for g between "
        "1 and 2 b/a - 1",
        new=Claim((descent / energy, (descent - energy) ** 2 / energy)),
        constants=_rate_moments,
        measure=_best,
        symbols={
            descent: "E r.Hd, tr L1(C)/(2N) in closed form, C = E r r' after a round",
            energy: "E |Hd|^2, tr L2(C)/N^2 in closed form",
        },
        left_formula=("argmin_g E |r(2)|^2", "E |r(2)|^2 at g = 1 - min_g E |r(2)|^2"),
        says_left="the expected loss after the second round, over every choice of clients and batches, is a parabola "
        "in the outer rate: left 1 is the rate at its lowest point, left 2 the loss at the outer rate 1 less the "
        "lowest loss",
        families=RANDOM_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            power(energy, 2),
            replaced(descent, energy, "as if the outer rate 1 were best", Change.FACTOR),
            replaced(descent, 2 * descent, "a descent that counts twice", Change.CONSTANT),
        ),
        uses=("fl-ntk/second-moments",),
    ),
    Statement(
        id="fl-ntk/outer-rate-convex",
        title="The long-run factor of E |r|^2 is convex in the outer rate: its slope at 1 decides whether a larger "
        "rate helps",
        kind=Kind.UPPER,
        source=Source(BEYOND, ANCHOR),
        note="because the factor is convex, an outer rate above 1 can lower it exactly if its slope to the right of 1 "
        "is negative. The factor falls by no more than the tangent at 1 does",
        new=Claim(((near + far) / 2, far)),
        constants=_radii,
        measure=_convex,
        symbols={
            near: "the radius of C - h L1(C) + h^2 L2(C) at the outer rate 1, in closed form",
            far: "the same at the case's outer rate",
        },
        left_formula=("lambda((1 + g)/2)", "lambda(1) + (g - 1) lambda'(1)"),
        says_left="the radius of E M (x) M over every choice of clients and batches, halfway between 1 and the outer "
        "rate; and the tangent at 1, by both eigenvectors, at the outer rate",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(9, 10)), reversed_comparison()),
        uses=("fl-ntk/mean-square",),
    ),
)
