"""Neurons within O(m^(-1/2)) of a sample's kink: only their activations change in a wide network.

Training moves a neuron by O(m^(-1/2)), so to leading order a neuron changes its pattern on one sample at most. For that
sample i the scaled pre-activation z = sqrt(m) w.x_i follows a scalar recursion: the residuals are those of the
infinite-width limit, the patterns on the other samples are the initial ones, and only 1{z >= 0} changes. Its initial
value is uniform near 0, with the density of sqrt(m) w.x_i; the other patterns are those of a Gaussian w orthogonal to
x_i. Averages over z and the patterns are taken by Monte Carlo, stratified in z over exactly the initial values that
come near the kink.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from ntkfl.estimate import Estimate, Rigour
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.problem import Problem, Setup

REPLICATES = 8  # independent repetitions, whose spread gives the error
MOST_PATTERNS = 48  # most distinct patterns of a replicate; if it has more, only its first 48 draws are used
LEVEL = 0.99


class Step(NamedTuple):
    """One step of the scaled pre-activations, (rows, 2, 2, starts): a local step, or the server's from t to t+1.

    `frozen` is the change with the initial pattern. `local_step` is k, and K for the server's step.
    """

    round: int
    local_step: int
    before: np.ndarray
    after: np.ndarray
    frozen: np.ndarray


@dataclass(frozen=True, eq=False)
class KinkLayer:
    """Neurons near the kink of one sample i, in arrays (rows, 2, 2, starts).

    Axes: row (replicate and pattern), sign a = +1, -1, side of the start z < 0, z >= 0, and start.
    """

    sample: int  # i
    patterns: Float[np.ndarray, "rows n"]  # 1{w.x_j >= 0} of the rows, (rows, n), with 1 for j = i
    replicate: np.ndarray  # the repetition of each row, (rows,)
    start: np.ndarray  # z(0), (rows, 2, 2, starts)
    # weight of each start, (rows, 2, 2, 1), so that a sum over all starts of a replicate is m^(-1/2)'s coefficient in
    # the mean over neurons
    measure: np.ndarray
    # eta_l sum_j G_ij s_j r_j^{(k)}(t) over samples j other than i: over the samples of i's client (`pull`,
    # (T, K, rows)), and, summed over k, over the samples of all clients (`server_pull`, (T, rows))
    pull: Float[np.ndarray, "T K rows"]
    server_pull: Float[np.ndarray, "T rows"]
    own: Float[np.ndarray, "T K"]  # eta_l G_ii r_i^{(k)}(t), (T, K)
    share: float  # eta_g / N

    def walk(self) -> Iterator[Step]:
        """Every local step k = 0..K-1 of a round, then the server's step, for all rounds in order."""
        sign = np.array([1.0, -1.0])[:, None, None]
        side = np.array([0.0, 1.0])[:, None]
        z = self.start
        for t, own in enumerate(self.own):
            local, felt = z, np.zeros_like(z)
            for k, alone in enumerate(own):
                active = local >= 0
                pull = self.pull[t, k][:, None, None, None]
                after = local + sign * (pull + alone * active)
                yield Step(t, k, local, after, sign * (pull + alone * side))
                felt += alone * active
                local = after
            pull = self.server_pull[t][:, None, None, None]
            after = z + self.share * sign * (pull + felt)
            yield Step(t, len(own), z, after, self.share * sign * (pull + own.sum() * side))
            z = after

    def mean(self, values: np.ndarray, patterns: bool = False) -> np.ndarray:
        """The mean over neurons of a value of each start, times sqrt(m), by replicate, (R,).

        With `patterns`, the mean of the value times 1{w.x_j >= 0}, (R, n); j = i means a factor 1.
        """
        rows = (values * self.measure).sum(axis=(1, 2, 3))
        rows = rows[:, None] * self.patterns if patterns else rows
        total = np.zeros((REPLICATES, *rows.shape[1:]))
        np.add.at(total, self.replicate, rows)
        return total


def kink_layers(
    problem: Problem,
    setup: Setup,
    gram: np.ndarray | None = None,
    *,
    draws: int = 2048,
    starts: int = 32,
    margin: float = 0.0,
    seed: int = 0,
) -> Iterator[KinkLayer]:
    """The boundary layer of one sample after the other, along the infinite-width run with initial residual problem.y.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used. `gram` is the matrix that
    the residuals follow, by default H_inf; where the readout is trained too, it is larger. `draws` counts weights
    orthogonal to x_i in each of the 8 replicates: 48 where most of them differ in pattern. Starts are taken up to
    `margin`, in units of z, beyond those that can cross the kink.

    Raises:
        ValueError: labels with several outputs, draws or starts below 1, a negative margin.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    if min(draws, starts) < 1 or not margin >= 0:
        raise ValueError(
            f"draws, starts and margin are {draws}, {starts} and {margin}; they must be at least 1, 1 and 0"
        )
    local_outputs = algorithm1_limit(problem, setup, gram).trajectory().local_outputs
    residual = problem.y - local_outputs[:, : setup.local_steps]
    return (
        _layer(problem, setup, residual, i, draws, starts, margin, np.random.default_rng([seed, i]))
        for i in range(problem.n)
    )


def _layer(problem, setup, residual, i, draws, starts, margin, rng) -> KinkLayer:
    x, length = problem.x, float(np.linalg.norm(problem.x[i]))
    patterns, weight, replicate = _patterns(x, i, draws, rng)
    others = x @ x[i]
    own = setup.eta_local * others[i] * residual[:, :, i]
    others[i] = 0.0
    pull = setup.eta_local * residual * others  # (T, K, n)
    mates = pull * (problem.owner == problem.owner[i])
    pull_by_row, server_pull = mates @ patterns.T, pull.sum(axis=1) @ patterns.T
    share = setup.eta_global / problem.n_clients
    reach = _reach(pull_by_row, server_pull, own, share) + margin  # (rows, 2, 2)
    strata = (np.arange(starts) + rng.random((*reach.shape, starts))) / starts
    start = reach[..., None] * np.where(np.array([False, True])[:, None], strata, -strata)
    density = 1 / (np.sqrt(2 * np.pi) * setup.sigma * length)
    measure = (density / 2 / starts) * weight[:, None, None, None] * reach[..., None]
    return KinkLayer(i, patterns, replicate, start, measure, pull_by_row, server_pull, own, share)


def _patterns(x, i, draws, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct patterns of each replicate, their shares of its draws, and their replicate."""
    rows, weights, replicates = [], [], []
    for replicate in range(REPLICATES):
        w = rng.standard_normal((draws, x.shape[1]))
        w -= np.outer(w @ x[i], x[i]) / (x[i] @ x[i])
        active = w @ x.T >= 0
        active[:, i] = True
        distinct, counts = _distinct(active)
        if len(distinct) > MOST_PATTERNS:
            distinct, counts = active[:MOST_PATTERNS], np.full(MOST_PATTERNS, draws / min(draws, MOST_PATTERNS))
        rows.append(distinct)
        weights.append(counts / draws)
        replicates.append(np.full(len(counts), replicate))
    return np.concatenate(rows).astype(float), np.concatenate(weights), np.concatenate(replicates)


def _distinct(patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of booleans in lexical order, and how often each occurs.

    Rows of at most 64 booleans are packed into one number, which numpy sorts twenty times as fast.
    """
    if patterns.shape[1] > 64:
        return np.unique(patterns, axis=0, return_counts=True)
    bits = np.zeros((len(patterns), 8), np.uint8)
    packed = np.packbits(patterns, axis=1)
    bits[:, : packed.shape[1]] = packed
    _, first, counts = np.unique(bits.view(">u8")[:, 0], return_index=True, return_counts=True)
    return patterns[first], counts


def _reach(pull, server_pull, own, share) -> np.ndarray:
    """The largest distance from the kink at which a start can cross it, (rows, 2, 2), in its first pattern."""
    reach = np.empty((pull.shape[-1], 2, 2))
    for side in (0, 1):
        local = np.cumsum(pull + side * own[:, :, None], axis=1)  # (T, K, rows), for a = +1
        server = np.cumsum(share * (server_pull + side * own.sum(axis=1)[:, None]), axis=0)
        before = np.concatenate([np.zeros_like(server[:1]), server[:-1]])
        path = np.concatenate([server, (before[:, None] + local).reshape(-1, server.shape[1])])
        for sign, a in enumerate((1, -1)):
            toward = path * (-a if side else a)
            reach[:, sign, side] = np.maximum(toward.max(axis=0), 0.0)
    return reach


class PatternChange(NamedTuple):
    """Coefficients of m^(-1/2) after t = 0..T rounds: in the fraction of flipped pairs, and in E[H(t) - H(0)]."""

    flips: Estimate  # (T+1,)
    drift: Estimate  # (T+1, n, n)


def pattern_change(problem: Problem, setup: Setup, **sampling) -> PatternChange:
    """The flip coefficient F(t) and the kernel drift B(t); the sampling is that of `kink_layers`, errors at 99%.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.
    """
    n, rounds = problem.n, setup.rounds
    flips, change = np.zeros((REPLICATES, rounds + 1)), np.zeros((REPLICATES, rounds + 1, n, n))
    for layer in kink_layers(problem, setup, **sampling):
        was = layer.start >= 0
        for step in layer.walk():
            if step.local_step == setup.local_steps:
                changed = (step.after >= 0) ^ was
                flips[:, step.round + 1] += layer.mean(changed) / n
                change[:, step.round + 1, layer.sample] = layer.mean(np.where(was, -1.0, 1.0) * changed, patterns=True)
    both = change + change.swapaxes(2, 3)
    diagonal = np.arange(n)
    both[:, :, diagonal, diagonal] /= 2
    return PatternChange(over_replicates(flips), over_replicates(both * (problem.x @ problem.x.T)))


def over_replicates(values: np.ndarray) -> Estimate:
    """The mean over the first axis, with the half-width of its t-interval at the 99% level."""
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * spread
    return Estimate(
        values.mean(axis=0), half, f"Monte Carlo over the boundary layer, {LEVEL:.0%} interval", Rigour.SAMPLED
    )
