"""The largest mean gap between networks of several outputs: sup over alpha of E_x |z_x(alpha)|_2, enclosed.

For each sample z is f less a linear function of alpha, so z is no farther from its chords than f is from its own; and
|.|_2 is convex and 1-Lipschitz. So the interval-halving for barriers of convex losses applies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ntkfl.connectivity.barrier import TOLERANCE, Barrier
from ntkfl.connectivity.losses import Loss
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.convex_path import convex_supremum
from ntkfl.connectivity.paths.segment import EPS, Segment
from ntkfl.estimate import Estimate

SIZE = Loss("size", lambda z, y: np.linalg.norm(z - y, axis=-1), 1.0, "|z - y|_2")


@dataclass(frozen=True, eq=False)
class GapSegment(Segment):
    """A segment whose outputs are z = f - alpha f_1 - (1 - alpha) f_2."""

    def coefficients(self, channel: int) -> np.ndarray:
        """z of one output on the pieces of each sample, (n, k + 1, 3), constant term first."""
        pieces = super().coefficients(channel)
        zero, one = (self.outputs_at(end)[:, channel] for end in (0, 1))
        pieces[:, :, 0] -= zero[:, None]
        pieces[:, :, 1] -= (one - zero)[:, None]
        return pieces

    def sliced(self, rows: slice) -> GapSegment:
        """The same segment on some of the inputs."""
        return GapSegment(self.first, self.second, self.x[rows])


def vector_gap(first: TwoLayer, second: TwoLayer, x: np.ndarray) -> Barrier:
    """sup over alpha of the mean of |z|_2 between networks of two outputs or more.

    Returns:
        An enclosure of width at most TOLERANCE, or wider if the limit of points is reached first; the error is the
        width.

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
