"""The cases of statements on aligned networks.

A case is a pair of networks of which the second is aligned to the first, a cube around such a pair, or pairs of trained
networks of several widths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family, Options
from bounds.case import changed
from bounds.cases.cube_networks import CubeNetworks, user_rows
from bounds.cases.network_pair import LOSS_OF_SEED, NetworkPair, any_pairs, farthest
from ntkfl.connectivity import CROSS_ENTROPY, SQUARED, Alignment, TwoLayer, align, between, loss_barrier
from ntkfl.connectivity.alignment import permuted
from ntkfl.estimate import Estimate

if TYPE_CHECKING:
    from ntkfl.training.engine.federation import Federation

PAPERS = "Entezari et al. 2022 (The role of permutation invariance); Ainsworth et al. 2023 (Git Re-Basin)"
EPS = np.finfo(float).eps
MOST = 6  # largest number of hidden units; it is small because all orders of the units are tried


@dataclass(frozen=True, eq=False)
class AlignedPair(NetworkPair):
    """Two networks. In `aligned` the units of the second network have the order that weight matching finds."""

    @cached_property
    def alignment(self) -> Alignment:
        """The alignment that the library finds."""
        return align(self.first, self.second)

    @cached_property
    def aligned(self) -> NetworkPair:
        """The first network and the aligned second one, on the same inputs."""
        pair = NetworkPair(self.first, self.alignment.aligned, self.x, self.y, self.loss)
        return pair if self.reach is None else replace(pair, reach=farthest(pair.networks, self.x, self.y))

    @cached_property
    def distances(self) -> list[list[Fraction]]:
        """The squared distance of every unit of the first network from every unit of the second, computed exactly."""
        rows = [_rows(network) for network in self.networks]
        return [
            [sum(((a - b) ** 2 for a, b in zip(first_row, two, strict=True)), Fraction()) for two in rows[1]]
            for first_row in rows[0]
        ]

    def cost(self, order: tuple[int, ...]) -> Fraction:
        """The squared distance between both networks' weights if the second network's units are in this order."""
        return sum((self.distances[place][unit] for place, unit in enumerate(order)), Fraction())

    @cached_property
    def least_cost(self) -> Fraction:
        """The smallest squared distance over all orders of the units."""
        return min(map(self.cost, permutations(range(len(self.distances)))))

    @cached_property
    def greedy_cost(self) -> Fraction:
        """The squared distance for a greedy order.

        In this order each unit of the first network, one after the other, takes the nearest unit that is left.
        """
        left = list(range(len(self.distances)))
        order = []
        for row in self.distances:
            order.append(min(left, key=row.__getitem__))
            left.remove(order[-1])
        return self.cost(tuple(order))


def _rows(network: TwoLayer) -> list[list[Fraction]]:
    rows = np.concatenate([network.hidden, np.atleast_2d(network.readout).T], axis=1)
    return [[Fraction(value) for value in row] for row in rows.tolist()]


def as_estimate(value: Fraction) -> Estimate:
    """A rational number, rounded to float64."""
    return Estimate(float(value), EPS * float(abs(value)), "rounded")


def _pair(outputs: int, rows: tuple | None, seed: int) -> AlignedPair:
    """A network of few units, and a copy with permuted and perturbed units.

    The perturbations are from tiny to large.
    """
    rng = np.random.default_rng([seed, 53])
    h, features = int(rng.integers(2, MOST + 1)), int(rng.integers(1, 6))
    if rows is not None:
        x, y = user_rows(*rows)
        h, features = MOST, x.shape[1]
    else:
        x, y = rng.standard_normal((10, features)), rng.choice([-1.0, 1.0], 10)
    readout = (h,) if outputs == 1 else (outputs, h)
    first, step = (TwoLayer(rng.standard_normal((h, features)), rng.standard_normal(readout)) for _ in range(2))
    spread = np.exp(rng.uniform(-6, 1))
    other = TwoLayer(first.hidden + spread * step.hidden, first.readout + spread * step.readout)
    second = permuted(other, rng.permutation(h))
    loss = CROSS_ENTROPY.name if outputs > 1 else LOSS_OF_SEED.get(seed % 5, "absolute")
    if loss == CROSS_ENTROPY.name:
        y = rng.integers(0, outputs, len(x))
    elif loss != "logistic":
        y = 1e3 * y  # labels so far from the outputs that the loss is nearly linear
    reach = farthest((first, second), x, y) if loss == SQUARED.name else None
    return AlignedPair(first, second, x, y, loss, reach)


def _any_pair(outputs: int, rows: tuple | None) -> SearchStrategy[AlignedPair]:
    """Pairs of networks with small integer weights."""
    pairs = any_pairs(outputs)
    return pairs.map(lambda pair: AlignedPair(pair.first, pair.second, pair.x, pair.y, pair.loss, pair.reach))


def _kink(half: float, readout: float) -> AlignedPair:
    first = TwoLayer(np.array([[half], [-9.0]]), np.array([readout, 0.0]))
    second = TwoLayer(np.array([[-9.0], [-half]]), np.array([0.0, readout]))
    return AlignedPair(first, second, np.ones((1, 1)), np.array([1e3]), "absolute")


# Networks of two units in opposite orders. On the only input, one unit switches halfway between the networks, so that
# the bound is sharp.
KINK_PAIRS = Family(
    "pairs with one kink to be aligned",
    lambda seed: _kink(*np.exp(np.random.default_rng([seed, 61]).uniform((-7, -1), (-2, 1)))),
    st.builds(_kink, st.floats(1e-3, 0.2), st.floats(0.3, 3)),
    trials=10,
)


def pair_families(options: Options) -> tuple[Family, ...]:
    """Pairs to be aligned, with one output and with three, on random inputs or on the user's inputs."""
    rows = (options.data, options.n or 64, options.unit) if options.data else None
    where = f" on {options.data}" if options.data else ""
    return tuple(
        Family(f"pairs to be aligned{where}{several}", _pair, _any_pair, (outputs, rows), trials=options.trials or 40)
        for outputs, several in ((1, ""), (3, ", 3 outputs"))
    )


def sharp_families(options: Options) -> tuple[Family, ...]:
    """The families of `pair_families`.

    Without the user's inputs there are also pairs for which a bound by distances is sharp.
    """
    return pair_families(options) + (() if options.data else (KINK_PAIRS.with_trials(options.trials),))


@lru_cache(maxsize=64)
def cube_of(pair: AlignedPair) -> CubeNetworks:
    """The smallest cube that holds the first and the aligned network and has their midpoint as its centre."""
    aligned = pair.alignment.aligned
    anchor = between(pair.first, aligned, 0.5)
    far = max(float(np.abs(net.vector() - anchor.vector()).max()) for net in (pair.first, aligned))
    networks, side = (pair.first, aligned), 2 * far * (1 + 4 * EPS) + 1e-300
    return CubeNetworks(anchor, networks, side, pair.x, pair.y, 0.1, pair.loss, pair.aligned.reach)


def cubes_of(pairs: Family) -> Family:
    """The cubes of a family of pairs."""
    return changed(pairs, f"cubes around {pairs.name}", cube_of)


def chosen_pair(seed: int = 0, features: int = 1600) -> CubeNetworks:
    """Two networks of two units in opposite orders, with one input on which one unit is active in one network only.

    After alignment the networks differ by 1 in every weight of this hidden unit and nowhere else. The input has the
    direction of that difference.
    """
    signs = np.random.default_rng([seed, 59]).choice([-0.5, 0.5], features)
    still = np.full(features, 3.0)
    first = TwoLayer(np.stack([signs, still]), np.array([100.0, 1e-3]))
    second = TwoLayer(np.stack([still, -signs]), np.array([1e-3, 100.0]))
    return cube_of(AlignedPair(first, second, signs[None] / np.linalg.norm(signs), np.array([1.0]), "absolute"))


CHOSEN_PAIRS = Family(
    "two units that differ along the one input",
    chosen_pair,
    st.builds(chosen_pair, st.integers(0, 2**16), st.integers(2, 1600)),
    trials=1,  # a seed draws only signs of weights, on which the measured values do not depend
    needs=1,
    fixed=True,
)


@dataclass(frozen=True, eq=False)
class TrainedPairs(Case):
    """Exact barriers of pairs of networks, before and after weight matching, by width.

    The two networks of a pair are trained from different initial weights.
    """

    sizes: np.ndarray  # the widths
    # barriers of cross-entropy on the training images before and after alignment, (widths, pairs)
    barriers: np.ndarray
    aligned: np.ndarray

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"widths": self.sizes.tolist(), "pairs": sum(map(len, self.barriers))}


@cache
def trained(widths: tuple[int, ...], pairs: int, passes: int, seed: int) -> TrainedPairs:
    """Pairs of networks that are trained on 200 digits, with one seed."""
    rows = [[_barriers(width, passes, [seed, width, pair]) for pair in range(pairs)] for width in widths]
    before, after = np.moveaxis(np.array(rows), 2, 0)
    return TrainedPairs(np.array(widths, float), before, after)


TRAINED_PAIRS = Family(
    "pairs trained from two starts on 200 digits",
    trained,
    lambda *of: st.integers(0, 2**16).map(lambda seed: trained(*of, seed)),
    of=((32, 64, 128, 256, 512), 3, 30),
    trials=1,
    needs=1,
    fixed=True,
)


def _barriers(width: int, passes: int, entropy: list[int]) -> tuple[float, float]:
    """The barrier of one trained pair before and after alignment."""
    from ntkfl.training.runs.training_run import prepared  # here, since torch loads slowly

    seeds = [int(word) for word in np.random.SeedSequence(entropy).generate_state(2)]
    keys: dict[str, Any] = {"optimizer": "adam", "rate": 4e-3, "batch_size": 50, "dtype": "float32", "clients": 1}
    run = prepared(
        "fedavg", "digits", f"two-layer:{width}", samples=200, epochs=passes, seed=seeds[0], **keys
    ).federation
    first, second = (_end(replace(run, seed=seed)) for seed in seeds)
    x, y = run.data.x.flatten(1).double().numpy(), run.data.y.numpy()
    moved = align(first, second).aligned
    before, after = (
        float(loss_barrier(first, other, x, y, CROSS_ENTROPY.name).value.value) for other in (second, moved)
    )
    return before, after


def _end(run: Federation) -> TwoLayer:
    """The model of the only client after its training. The run's seed determines the initial weights."""
    from ntkfl.training.models.two_layer import to_network

    ends = run.round(run.start(), keep_ends=True).ends or {}
    return to_network({name: rows[0] for name, rows in ends.items()})
