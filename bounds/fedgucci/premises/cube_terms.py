"""Values of symbols, and measured left sides, that the statements about networks drawn in a cube share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb

from bounds import Hypothesis
from bounds.cases.cube_networks import CubeNetworks
from bounds.cases.ensembles import ball_array, forward
from bounds.cases.network_pair import assumed_constant
from bounds.fedgucci.cases.segment_terms import mean_of
from bounds.fedgucci.premises.cube_symbols import C, K, L, N, S, b, d_anc, d_eps, h, l, s, side
from bounds.symbols import delta
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.connectivity.barrier import TOLERANCE, Barrier, group_barrier, largest_gap, loss_barrier
from ntkfl.connectivity.losses import Loss
from ntkfl.connectivity.network import TwoLayer, combination
from ntkfl.connectivity.paths.convex_path import convex_supremum
from ntkfl.connectivity.paths.segment import EPS, Segment
from ntkfl.estimate import Estimate

SIZE = Loss("size", lambda z, y: np.linalg.norm(z - y, axis=-1), 1.0, "|z - y|_2")


@dataclass(frozen=True, eq=False)
class GapSegment(Segment):
    """A segment between two networks. Its outputs are the gap z = f - alpha f_1 - (1 - alpha) f_2.

    f is the output of the network on the segment; f_1 and f_2 are the outputs of the two networks.
    """

    def coefficients(self, channel: int) -> np.ndarray:
        """The coefficients of one output of z on the pieces of each sample, (n, k + 1, 3), the constant term first."""
        pieces = super().coefficients(channel)
        zero, one = (self.outputs_at(end)[:, channel] for end in (0, 1))
        pieces[:, :, 0] -= zero[:, None]
        pieces[:, :, 1] -= (one - zero)[:, None]
        return pieces

    def sliced(self, rows: slice) -> GapSegment:
        """The same segment, on some of the inputs."""
        return GapSegment(self.first, self.second, self.x[rows])


def vector_gap(first: TwoLayer, second: TwoLayer, x: np.ndarray) -> Barrier:
    """sup over alpha of the mean of |z|_2, between networks of two outputs or more.

    Returns:
        An enclosure of width at most TOLERANCE. It is wider if the largest number of points is reached first; its error
            then shows the width.

    Raises:
        ValueError: networks of one output, for which `largest_gap` is exact; shapes or inputs that do not fit.
    """
    if first.n_outputs == 1:
        raise ValueError("the networks have 1 output; this needs two or more, `largest_gap` is exact for one")
    segment = GapSegment(first, second, x)
    supremum, bound = convex_supremum(segment, np.zeros((len(segment.x), first.n_outputs)), SIZE, TOLERANCE)
    parts = [part for part, _ in segment.chunks(segment.x)]
    errors, terms = (
        np.concatenate([np.linalg.norm(getattr(part, name), axis=1) for part in parts]).mean()
        for name in ("output_error", "absolute_terms")
    )
    rounding = float(4 * errors + 64 * EPS * terms)
    value = Estimate.between(max(supremum.value - rounding, 0.0), bound + rounding, "taken, and bounded on every piece")
    return Barrier(value, supremum.at, int((segment.edges[:, 1:-1] < 1).sum()) + 1)


IN_CUBE = Hypothesis("in-the-cube", "no parameter is further than d/2 from the anchor's", lambda case: -case.outside)


def cube_constants(case: CubeNetworks) -> dict:
    """The values of the symbols in `cube_symbols`."""
    values = {h: case.h, l: case.l, S: case.anchor.size, K: case.count, C: case.outputs}
    values |= {N: math.isqrt(case.h * case.outputs - 1) + 1}
    lengths = {side: case.side, d_eps: case.low_loss_size, d_anc: case.anchor_norm, b: case.b, s: second_moment(case.x)}
    return values | lengths | {L: assumed_constant(case), delta: case.delta}


def second_moment(x: np.ndarray) -> float:
    """The root of the largest eigenvalue of E x x^T, rounded up. It equals |X| / sqrt n."""
    n, features = x.shape
    return float(np.linalg.norm(x, 2) / math.sqrt(n) * (1 + 8 * (n + features) * EPS))


@lru_cache(maxsize=64)
def _gap(case: CubeNetworks) -> Barrier:
    find = largest_gap if case.outputs == 1 else vector_gap
    return find(case.networks[0], case.networks[1], case.x)


def gap(case: CubeNetworks) -> Estimate:
    """sup over alpha of E_x |z_x(alpha)|_2 between the first two networks.

    It is exact for one output, else enclosed.
    """
    return _gap(case).value


@lru_cache(maxsize=64)
def barrier(case: CubeNetworks) -> Estimate:
    """The barrier of the case's loss between the first two networks.

    It is exact for the absolute and the squared loss, and otherwise enclosed.
    """
    return loss_barrier(case.networks[0], case.networks[1], case.x, case.y, case.loss).value


def gap_and_barrier(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The gap of the outputs and the barrier of the loss, which are the two left sides of `with_loss`."""
    return gap(case), barrier(case)


def signed_value(case: CubeNetworks) -> Estimate:
    """max(0, E_x z_x) at the alpha where E_x |z_x| is largest, in ball arithmetic.

    With labels far below the outputs, E_x z_x(alpha) is the function whose supremum is the barrier, so that the value
    is at most the barrier.
    """
    with precision():
        return enclosure((_deviations(case).sum() / len(case.x)).max(arb(0)))


def absolute_value(case: CubeNetworks) -> Estimate:
    """E_x |z_x| in ball arithmetic, at a float alpha next to the maximiser. So it is at most the supremum."""
    with precision():
        return enclosure(abs(_deviations(case)).sum() / len(case.x))


def _deviations(case: CubeNetworks) -> np.ndarray:
    """z_x(alpha) of every input at the alpha of the largest gap, in ball arithmetic, (n,)."""
    alpha, x = ball(_gap(case).at), ball_matrix(case.x)
    (u1, v1), (u2, v2) = ((ball_matrix(net.hidden), ball_array(net.readout)) for net in case.networks[:2])
    networks = (u1 * alpha + u2 * (1 - alpha), v1 * alpha + v2 * (1 - alpha)), (u1, v1), (u2, v2)
    middle, one, two = (ball_array(forward(x, hidden, list(readout))) for hidden, readout in networks)
    return middle - alpha * one - (1 - alpha) * two


@lru_cache(maxsize=64)
def group_deviation(case: CubeNetworks) -> Estimate:
    """|z(x)|_2 for each input, (n,), where z is the output of the mean network minus the mean output."""
    mean = combination(case.networks)
    z = mean.outputs(case.x) - np.mean([net.outputs(case.x) for net in case.networks], axis=0)
    largest = max(_terms(net) for net in (*case.networks, mean))
    rows = np.mean([np.linalg.norm(net.hidden, axis=1) for net in case.networks], axis=0)
    columns = np.mean([np.linalg.norm(np.atleast_2d(net.readout), axis=0) for net in case.networks], axis=0)
    # this allows for the rounding of the mean network itself, whose weights may cancel
    largest = max(largest, float(rows @ columns))
    rounding = 4 * (case.l + case.h + case.count + 8) * EPS * largest * np.linalg.norm(case.x, axis=1)
    return Estimate(np.linalg.norm(z.reshape(len(case.x), -1), axis=1), rounding, "rounding bound")


def _terms(network: TwoLayer) -> float:
    """sum_i |v_i| |u_i|, where v_i is a column of the readout.

    This number times |x| bounds the l2 norm of the outputs.
    """
    return float(np.linalg.norm(network.hidden, axis=1) @ np.linalg.norm(np.atleast_2d(network.readout), axis=0))


def mean_group_deviation(case: CubeNetworks) -> Estimate:
    """E_x |z(x)|_2, a bound on the group barrier of every convex 1-Lipschitz loss."""
    return mean_of(group_deviation(case))


@lru_cache(maxsize=64)
def group_loss(case: CubeNetworks) -> Estimate:
    """The group barrier of the case's loss. It is negative if averaging helps."""
    return group_barrier(case.networks, case.x, case.y, case.loss)


@lru_cache(maxsize=64)
def mean_spread(case: CubeNetworks) -> Estimate:
    """(1/K) sum_i |(U_i - mean U) x| at the first input."""
    hidden = np.array([net.hidden for net in case.networks])
    moves = (hidden - hidden.mean(axis=0)) @ case.x[0]
    value = np.linalg.norm(moves, axis=1).mean()
    size = np.linalg.norm(hidden, axis=(1, 2)).max() * np.linalg.norm(case.x[0])
    return Estimate(value, 4 * (case.l + case.h + case.count + 8) * EPS * size, "rounding bound")
