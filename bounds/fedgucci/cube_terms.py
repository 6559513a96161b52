"""Symbols, left sides and families that the statements about networks drawn in a cube share."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp
from flint import arb

from bounds.cube_networks import CubeDraw, CubeNetworks, cube_draws
from bounds.options import Options
from bounds.statement import Hypothesis
from bounds.symbols import delta
from ntkfl.balls import ball, enclosure, precision
from ntkfl.connectivity.barrier import Barrier, largest_gap, loss_barrier
from ntkfl.connectivity.network import TwoLayer, combination
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps

h, l, S, K, N = sp.symbols("h l S K N", positive=True)  # noqa: E741 (the paper's names)
side, d_eps, d_anc, b, s = sp.symbols("d d_epsilon d_anc b s", positive=True)

SYMBOLS = {
    h: "number of hidden units",
    l: "number of features of an input",
    S: "number of parameters, h l + h",
    K: "number of networks",
    N: "ceil(sqrt h), points of a net on [0, 1]",
    side: "side of the cube that the networks are drawn in",
    d_eps: "S-th root of the volume of the networks with a loss below epsilon",
    d_anc: "|v_anc|_2",
    b: "largest |x|_2",
    s: "root of the largest eigenvalue of E x x^T; b/sqrt(l + 2) for x uniform in the ball",
}

SPREAD = side * s * sp.sqrt(h * l)  # E1: surely at least E_x |(U_1 - U_2) x|

IN_CUBE = Hypothesis("in-the-cube", "no parameter is further than d/2 from the anchor's", lambda case: -case.outside)


def cube_constants(case: CubeNetworks) -> dict:
    """Values of all these symbols; the domain Omega is the cube itself and epsilon beyond every loss in it.

    So d_epsilon = d and P(D) = 1.
    """
    values = {h: case.h, l: case.l, S: case.anchor.size, K: case.count, N: math.isqrt(case.h - 1) + 1}
    lengths = {side: case.side, d_eps: case.side, d_anc: case.anchor_norm, b: case.b, s: second_moment(case)}
    return values | lengths | {delta: case.delta}


@lru_cache(maxsize=64)
def second_moment(case: CubeNetworks) -> float:
    """The root of the largest eigenvalue of E x x^T, rounded up: |X| / sqrt n."""
    n, features = case.x.shape
    return float(np.linalg.norm(case.x, 2) / math.sqrt(n) * (1 + 8 * (n + features) * EPS))


@lru_cache(maxsize=64)
def _gap(case: CubeNetworks) -> Barrier:
    return largest_gap(case.networks[0], case.networks[1], case.x)


def gap(case: CubeNetworks) -> Estimate:
    """sup over alpha of E_x |z_x(alpha)| between the first two networks, exactly."""
    return _gap(case).value


@lru_cache(maxsize=64)
def barrier(case: CubeNetworks) -> Estimate:
    """The barrier of the mean absolute error between the first two networks, exactly."""
    return loss_barrier(case.networks[0], case.networks[1], case.x, case.y, "absolute").value


def signed_value(case: CubeNetworks) -> Estimate:
    """max(0, E_x z_x) at the alpha where E_x |z_x| is largest, in balls.

    With labels far below the outputs z is the barrier's own function, so that this is at most the barrier.
    """
    with precision():
        return enclosure((sum(_deviations(case), arb(0)) / len(case.x)).max(arb(0)))


def absolute_value(case: CubeNetworks) -> Estimate:
    """E_x |z_x| at the alpha where it is largest, in balls: at most its supremum."""
    with precision():
        return enclosure(sum((abs(z) for z in _deviations(case)), arb(0)) / len(case.x))


def _deviations(case: CubeNetworks) -> list[arb]:
    """z_x(alpha) of every input at the alpha of the largest gap, in balls."""
    alpha = ball(_gap(case).at)
    first, second = case.networks[:2]
    found = []
    for x in case.x.tolist():
        row = [ball(v) for v in x]
        total = arb(0)
        for u1, u2, v1, v2 in zip(first.hidden, second.hidden, first.readout, second.readout, strict=True):
            a, c = (sum((ball(u) * v for u, v in zip(unit, row, strict=True)), arb(0)) for unit in (u1, u2))
            one, two = ball(v1), ball(v2)
            middle = (alpha * one + (1 - alpha) * two) * _relu(alpha * a + (1 - alpha) * c)
            total += middle - alpha * one * _relu(a) - (1 - alpha) * two * _relu(c)
        found.append(total)
    return found


def _relu(value: arb) -> arb:
    return value.max(arb(0))


@lru_cache(maxsize=64)
def group_deviation(case: CubeNetworks) -> Estimate:
    """|z(x)| for each input, z the output of the mean network less the mean output, (n,)."""
    mean = combination(case.networks)
    outputs = np.array([net.outputs(case.x) for net in case.networks])
    value = mean.outputs(case.x) - outputs.mean(axis=0)
    size = np.mean([np.linalg.norm(net.hidden, axis=1) @ np.abs(net.readout) for net in (*case.networks, mean)])
    rounding = 4 * (case.l + case.h + case.count + 8) * EPS * size * np.linalg.norm(case.x, axis=1)
    return Estimate(np.abs(value), rounding * _largest_ratio(case), "rounding bound")


def _largest_ratio(case: CubeNetworks) -> float:
    """How many times the mean size a single network's may be: its rounding counts in full."""
    sizes = [np.linalg.norm(net.hidden, axis=1) @ np.abs(net.readout) for net in case.networks]
    return float(len(sizes) * max(sizes) / sum(sizes)) if sum(sizes) > 0 else 1.0


def mean_group_deviation(case: CubeNetworks) -> Estimate:
    """E_x |z(x)|, which the group barrier of a convex 1-Lipschitz loss does not exceed."""
    found = group_deviation(case)
    return Estimate(found.value.mean(), found.error.mean() + 4 * EPS * found.value.mean(), found.method)


@lru_cache(maxsize=64)
def mean_spread(case: CubeNetworks) -> Estimate:
    """(1/K) sum_i |(U_i - mean U) x| at the first input."""
    hidden = np.array([net.hidden for net in case.networks])
    moves = (hidden - hidden.mean(axis=0)) @ case.x[0]
    value = np.linalg.norm(moves, axis=1).mean()
    size = np.linalg.norm(hidden, axis=(1, 2)).max() * np.linalg.norm(case.x[0])
    return Estimate(value, 4 * (case.l + case.h + case.count + 8) * EPS * size, "rounding bound")


SHARP = (
    {"h": 4, "l": 1, "side": 1e-4, "anchor_norm": 1e4, "n": 1, "at_origin": True},
    {"h": 6, "l": 1, "side": 1e-5, "anchor_norm": 1e4, "n": 2, "at_origin": True},
    {"h": 4, "l": 2, "side": 1e-4, "anchor_norm": 1e5, "n": 1, "at_origin": True},
    {"h": 4, "l": 1, "side": 1.0, "anchor_norm": 1e-4, "n": 1, "at_origin": True},
)


def sharp_draws(options: Options, **chosen) -> tuple[CubeDraw, ...]:
    """Everyday shapes, and few units at U_anc = 0 under a long or a short v_anc, where the bounds are least loose.

    Args:
        chosen: fields of CubeDraw that a statement wants otherwise. With the user's data: those alone.
    """
    everyday = tuple(draw for draw in cube_draws(options, **chosen) if draw.h <= 32 or options.data is not None)
    if options.data is not None:
        return everyday
    trials = {"trials": options.trials} if options.trials else {}
    return everyday[1:] + tuple(CubeDraw(**(family | chosen | trials)) for family in SHARP)


def group_draws(options: Options) -> tuple[CubeDraw, ...]:
    """`sharp_draws` of 2 to 16 networks."""
    counts = (2, 4, 16)
    return tuple(replace(draw, count=counts[i % len(counts)]) for i, draw in enumerate(sharp_draws(options)))


def scattered() -> CubeNetworks:
    """A tiny cube and two networks far outside it: what the draw in the cube is needed for."""
    anchor = TwoLayer(np.zeros((1, 1)), np.array([1e-6]))
    networks = (TwoLayer(np.array([[1.0]]), np.array([1.0])), TwoLayer(np.array([[-1.0]]), np.array([1.0])))
    return CubeNetworks(anchor, networks, 1e-6, np.array([[1.0]]), np.array([2.0]))


def lengthened(case: CubeNetworks, factor: float) -> CubeNetworks:
    """The same networks on inputs that are `factor` times as long."""
    return replace(case, x=case.x * factor)
