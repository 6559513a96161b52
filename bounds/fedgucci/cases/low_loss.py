"""The case of networks of a cube around an anchor, with the region of low loss, whose size d_epsilon is sampled.

The labels are the anchor's own outputs, so that the anchor minimises every client's loss. Omega is a larger cube around
the anchor. The region has no closed form, so its shares of cubes have Clopper-Pearson intervals.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family, Hypothesis, Options
from bounds.cases.cube_networks import INSIDE, CubeNetworks
from ntkfl.connectivity.barrier import largest_loss
from ntkfl.connectivity.low_loss_region import binomial_share, region_size
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.segment import absolute_loss_bounds
from ntkfl.estimate import Estimate

CONFIDENCE = 0.999
PILOTS = 40  # number of networks from whose losses epsilon is chosen
DOMAIN = 4.0  # side of the cube Omega


@dataclass(frozen=True, eq=False)
class LowLossCube(CubeNetworks):
    """Networks of a cube under the absolute loss, an epsilon, and a domain."""

    epsilon: float = 1.0  # a loss below this level is low
    domain: float = 1.0  # side of the cube Omega around the anchor
    clients: int = 1  # number of clients; each has the same number of inputs, in the order of the inputs
    # numbers of networks that are drawn for a volume (`points`), and for the losses along segments (`paths`)
    points: int = 20_000
    paths: int = 100
    seed: int = 0  # seed of the drawn networks

    def losses(self, points: np.ndarray) -> np.ndarray:
        """The mean losses, (N,), of networks given as vectors of weights, (N, S)."""
        losses = []
        for block in np.array_split(points, 1 + len(points) // 10_000):
            hidden = block[:, : self.anchor.hidden.size].reshape(-1, *self.anchor.hidden.shape)
            active = np.maximum(self.x @ hidden.swapaxes(1, 2), 0)
            outputs = (active @ block[:, self.anchor.hidden.size :, None])[..., 0]
            losses.append(np.abs(outputs - self.y).mean(axis=1))
        return np.concatenate(losses)

    @cached_property
    def low_loss_size(self) -> Estimate:
        """The size d_epsilon of the region in Omega where the clients' mean loss is low."""
        rng = np.random.default_rng([self.seed, 8])
        centre = self.anchor.vector()
        return region_size(self.losses, self.epsilon, centre, self.domain, rng, self.points, CONFIDENCE)

    @cached_property
    def connected_share(self) -> Estimate:
        """The smallest over the clients of P(sup over alpha of L_i on the segment to the anchor < epsilon)."""
        drawn = self._in_cube(self.paths, 9)
        hits = [self._count_connected(drawn, rows) for rows in self.owners]
        return binomial_share(min(hits), self.paths, CONFIDENCE)

    def probability(self) -> Estimate:
        """P(D) of Lemma 3.3 for the mean loss.

        P(D) is the probability that a network has low loss, times the share of the networks with low loss for which the
        loss stays low on the segment from the anchor.
        """
        drawn = self._in_cube(self.points, 10)
        low = drawn[self.losses(drawn) < self.epsilon]
        if not len(low):
            return binomial_share(0, self.points, CONFIDENCE)
        tried = low[: self.paths]
        counts = (len(low), self.points), (self._count_connected(tried, slice(None)), len(tried))
        share, part = (binomial_share(*pair, CONFIDENCE) for pair in counts)
        low_end, high_end = float(share.lo) * float(part.lo), float(share.hi) * float(part.hi)
        return Estimate.between(
            low_end, high_end, f"product of two: {share.method}; {part.method}", max(share.rigour, part.rigour)
        )

    @property
    def size(self) -> int:
        """S, the number of parameters."""
        return self.anchor.size

    @property
    def owners(self) -> list[slice]:
        """The rows of the inputs of each client."""
        ends = np.linspace(0, len(self.x), self.clients + 1).astype(int)
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def _in_cube(self, count: int, stream: int) -> np.ndarray:
        """Uniform points of the cube, (count, S)."""
        rng = np.random.default_rng([self.seed, stream])
        return self.anchor.vector() + self.side * (rng.random((count, self.anchor.size)) - 0.5)

    def _count_connected(self, drawn: np.ndarray, rows: slice) -> int:
        low, high = self._between(drawn, rows)
        doubtful = drawn[(low < self.epsilon) & (high >= self.epsilon)]
        exact = [self.highest_loss(self.anchor.at(vector), rows) for vector in doubtful]
        return int((high < self.epsilon).sum()) + sum(loss < self.epsilon for loss in exact)

    def highest_of(self, drawn: np.ndarray, rows: slice) -> float:
        """The largest `highest_loss` of networks given as vectors of weights, (N, S)."""
        low, high = self._between(drawn, rows)
        return max(self.highest_loss(self.anchor.at(vector), rows) for vector in drawn[high >= low.max()])

    def _between(self, drawn: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return absolute_loss_bounds(self.anchor, drawn, self.x[rows], self.y[rows])

    def highest_loss(self, network: TwoLayer, rows: slice) -> float:
        """The largest mean loss on the segment from the anchor to a network, rounded up.

        The mean is over the given rows.
        """
        return float(largest_loss(self.anchor, network, self.x[rows], self.y[rows], self.loss).value.hi)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return super().describe() | {"epsilon": self.epsilon, "Omega": self.domain, "case": self.seed}


def _cube(h: int, features: int, side: float, count: int, own: bool, level: float, seed: int) -> LowLossCube:
    """One case of the family `low_loss_cubes`."""
    rng = np.random.default_rng([seed, 31])
    clients = count if own else 1
    anchor = TwoLayer(rng.standard_normal((h, features)), rng.standard_normal(h))
    x = rng.standard_normal((8 * clients, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    moves = side * INSIDE * (rng.random((PILOTS + count, anchor.size)) - 0.5)
    drawn = anchor.vector() + moves
    networks = tuple(anchor.at(vector) for vector in drawn[PILOTS:])
    case = LowLossCube(anchor, networks, side, x, anchor.outputs(x), domain=DOMAIN, clients=clients, seed=seed)
    return replace(case, epsilon=level * max(case.highest_of(drawn[:PILOTS], rows) for rows in case.owners))


def _any_cube(*of) -> SearchStrategy[LowLossCube]:
    """The cases of the family, for any seed."""
    return st.integers(0, 2**16).map(partial(_cube, *of))


def low_loss_cubes(
    shape: tuple[int, int], side: float, *, count: int = 2, own: bool = False, level: float = 1.5, trials: int = 5
) -> Family:
    """Small networks with h hidden units and l features, where h l + h <= 8, and 8 inputs for each client.

    epsilon is `level` times the largest loss on the segments from the anchor to PILOTS networks of the cube.
    """
    owner = ", a client each" if own else ""
    name = f"low-loss region, h={shape[0]}, l={shape[1]}, d={side:g}, Omega {DOMAIN:g}, K={count}{owner}"
    return Family(name, _cube, _any_cube, (*shape, side, count, own, level), trials)


CONNECTED = Hypothesis(
    "connected-to-anchor",
    "with probability 1 - delta at least, the loss stays below epsilon on the segment from a network to the anchor",
    lambda case: case.connected_share - (1 - case.delta),
)


def low_loss_families(options: Options, *, own: bool = False) -> tuple[Family, ...]:
    """Families of two small shapes. If `own`, each network belongs to its own client.

    For the user's data there are no families, since the dimension of these data is too high for sampling volumes.
    """
    if options.data is not None:
        return ()
    trials, count = min(options.trials or 5, 5), 3 if own else 2
    return tuple(low_loss_cubes(shape, 0.5, count=count, own=own, trials=trials) for shape in ((2, 2), (1, 4)))


# These cubes are almost as wide as Omega. The region of low loss is so small that the right side is mostly below 1.
WIDE_CUBES = tuple(replace(low_loss_cubes(shape, 3.0, level=0.15), most=5) for shape in ((2, 2), (1, 3)))


def hardly_connected() -> LowLossCube:
    """A network of one unit, f = v u, with label 9/4.

    The losses of w = (1, 3) and (3, 1) are 3/4, far above epsilon = 10^-6.
    """
    anchor, x = TwoLayer(np.array([[1.5]]), np.array([1.5])), np.array([[1.0]])
    networks = tuple(TwoLayer(np.array([[u]]), np.array([4 - u])) for u in (1.0, 3.0))
    return LowLossCube(anchor, networks, 3.0, x, anchor.outputs(x), 0.1, epsilon=1e-6, domain=4.0)
