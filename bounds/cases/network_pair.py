"""The case of two networks of one shape, with inputs, labels and a loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds.case import Case, Family
from bounds.cases.cube_networks import user_rows
from bounds.hypothesis import Hypothesis
from bounds.options import Options
from ntkfl.connectivity import CROSS_ENTROPY, SQUARED, TwoLayer, loss_barrier
from ntkfl.connectivity.losses import named_loss
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps


def lipschitz_constant(loss: str, reach: float | None = None) -> Estimate:
    """The loss's Lipschitz constant: 1 for absolute and logistic loss, sqrt 2 for cross-entropy, 2 R for squared loss.

    The norm of the outputs is the l2 norm.

    Raises:
        ValueError: an unknown loss, or the squared loss without a reach.
    """
    lipschitz = named_loss(loss).lipschitz
    if lipschitz is not None:
        return Estimate(lipschitz, 0.0 if lipschitz == round(lipschitz) else EPS * lipschitz, "rounding bound")
    if reach is None:
        raise ValueError(
            f"the {loss} loss has no Lipschitz constant and no reach is given; it is 2 R where |f - y| <= R, so "
            "reach must be such an R"
        )
    return Estimate(2 * reach, 0.0, "rounding bound")


def assumed_constant(case: Any) -> Estimate:
    """The Lipschitz constant of the case's loss. If none is known, the result is 1, as Assumption 3.2 says."""
    if named_loss(case.loss).lipschitz is None and case.reach is None:
        return Estimate.exact(1.0)
    return lipschitz_constant(case.loss, case.reach)


def farthest(networks: Sequence[TwoLayer], x: np.ndarray, y: np.ndarray) -> float:
    """A bound on |f - y|_2 for the outputs of these networks, for averages of the outputs, and for averaged networks.

    Each output is at most sum_i max_k |v_ki| max_k |u_ki . x|, rounded up. The labels y are (n,) or (n, C).
    """
    active = np.max([np.abs(x @ net.hidden.T) for net in networks], axis=0)
    readout = np.max([np.abs(np.atleast_2d(net.readout)) for net in networks], axis=0)
    rows = np.max([np.linalg.norm(net.hidden, axis=1) for net in networks], axis=0)
    rounding = 4 * (x.shape[1] + 8) * EPS * np.linalg.norm(x, axis=1)[:, None] * rows
    sizes = np.linalg.norm((active + rounding) @ readout.T, axis=1)
    labels = np.linalg.norm(np.asarray(y, float).reshape(len(x), -1), axis=1)
    return float((sizes + labels).max() * (1 + 8 * (len(rows) + len(readout) + 8) * EPS))


def _margin(case: Any) -> float:
    if named_loss(case.loss).lipschitz is not None:
        return 0.0
    return -1.0 if case.reach is None else case.reach - farthest(case.networks, case.x, case.y)


LIPSCHITZ_LOSS = Hypothesis(
    "lipschitz-loss",
    "the loss is convex and Lipschitz in the outputs; squared: on the outputs there are, all with |f - y| <= R",
    _margin,
)

AS_ASSUMED = Hypothesis(
    "assumption-3.2",
    "one output, and a loss that is convex and 1-Lipschitz in it",
    lambda case: 0.0 if case.networks[0].n_outputs == 1 and named_loss(case.loss).lipschitz == 1 else -1.0,
)


Rows = tuple[str, int, bool]  # the data's name or file, the largest number of rows, and whether rows are normalised
# maps the seed modulo 5 to the loss; all other seeds have the absolute loss
LOSS_OF_SEED = {3: SQUARED.name, 4: "logistic"}


@dataclass(frozen=True, eq=False)
class NetworkPair(Case):
    """Networks w_1 and w_2 with C outputs, inputs x (n, l), and labels in the form that the loss takes (see `LOSSES`).

    `reach` is the R of `lipschitz_constant`, which the squared loss needs.
    """

    first: TwoLayer
    second: TwoLayer
    x: np.ndarray
    y: np.ndarray
    loss: str
    reach: float | None = None

    @property
    def networks(self) -> tuple[TwoLayer, TwoLayer]:
        """The two networks."""
        return self.first, self.second

    @cached_property
    def barrier(self) -> Estimate:
        """The barrier B_loss.

        The barrier is exact for the absolute and the squared loss, and enclosed for the logistic loss and
        cross-entropy.
        """
        return loss_barrier(self.first, self.second, self.x, self.y, self.loss).value

    @property
    def lipschitz(self) -> Estimate:
        """The Lipschitz constant of the loss. If none is known, the result is 1, as Assumption 3.2 says."""
        return assumed_constant(self)

    @cached_property
    def bilinear_term(self) -> Estimate:
        """The term with the product of both layers' differences.

        The term is E_x |(v_1 - v_2) . (s_1 - s_2)|_2 with s = relu(U x).
        """
        s1, s2 = (np.maximum(side, 0) for side in self._sides)
        v1, v2 = self._readouts
        return Estimate(np.linalg.norm((s1 - s2) @ (v1 - v2).T, axis=1).mean(), self._rounding, "rounding bound")

    @cached_property
    def kink_term(self) -> Estimate:
        """E_x sum_i max(|v_1i|_2, |v_2i|_2) |a_i c_i| / (|a_i| + |c_i|), where a = U_1 x and c = U_2 x.

        The sum is over the units i with a_i c_i < 0.
        """
        (a, c), (v1, v2) = self._sides, self._readouts
        switches = a * c < 0
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.where(switches, np.abs(a) / (1 + np.abs(a) / np.abs(c)), 0.0)
        largest = np.maximum(np.linalg.norm(v1, axis=0), np.linalg.norm(v2, axis=0))
        return Estimate((gaps @ largest).mean(), self._rounding, "rounding bound")

    @cached_property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        return self.x @ self.first.hidden.T, self.x @ self.second.hidden.T

    @cached_property
    def _readouts(self) -> tuple[np.ndarray, np.ndarray]:
        return np.atleast_2d(self.first.readout), np.atleast_2d(self.second.readout)

    @cached_property
    def _rounding(self) -> float:
        """A bound on the rounding error of `bilinear_term` and of `kink_term`, which sum l and h products.

        For each unit the bound adds the norms of the unit's weights in both networks.
        """
        rows = sum(np.linalg.norm(net.hidden, axis=1) for net in (self.first, self.second))
        columns = sum(np.linalg.norm(readout, axis=0) for readout in self._readouts)
        length = np.linalg.norm(self.x, axis=1).mean()
        return float(4 * (self.x.shape[1] + len(rows) + 8) * EPS * (rows @ columns) * length)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        (h, features), outputs = self.first.hidden.shape, self.first.n_outputs
        return {"h": h, "l": features, "C": outputs, "n": len(self.x), "loss": self.loss}


def _pair(outputs: int, rows: Rows | None, seed: int) -> NetworkPair:
    """Gaussian networks, far apart or near, wide or of one unit.

    With one output all losses occur, with several outputs only cross-entropy. Every third pair has a single unit and a
    single input, where the bound is sharp.
    """
    rng = np.random.default_rng([seed, 22])
    if rows is not None:
        x, y = user_rows(*rows)
        first, second = _gaussian_pair(rng, (16, x.shape[1]), outputs, seed)
        if outputs > 1:
            return NetworkPair(first, second, x, rng.integers(0, outputs, len(x)), CROSS_ENTROPY.name)
        logistic = seed % 5 == 4 and np.isin(y, (-1, 1)).all()
        return NetworkPair(first, second, x, y, "logistic" if logistic else "absolute")
    shape, n = ((1, 2), 1) if (seed % 3 == 0) else ((int(rng.integers(1, 17)), int(rng.integers(1, 7))), 12)
    first, second = _gaussian_pair(rng, shape, outputs, seed)
    loss = CROSS_ENTROPY.name if outputs > 1 else LOSS_OF_SEED.get(seed % 5, "absolute")
    x = rng.standard_normal((n, shape[1]))
    # The signs make the first unit of the first network active on all inputs. So the outputs of this network are not
    # all 0.
    x *= np.where(x @ first.hidden[0] < 0, -1, 1)[:, None]
    y = _labels(rng, n, outputs, loss)
    return NetworkPair(first, second, x, y, loss, farthest((first, second), x, y) if loss == SQUARED.name else None)


def _gaussian_pair(
    rng: np.random.Generator, shape: tuple[int, int], outputs: int, seed: int
) -> tuple[TwoLayer, TwoLayer]:
    """Two networks at any distance. For even seeds the second readout is independent of the first."""
    scale, spread = np.exp(rng.uniform(-1, 2, 2))
    readout = shape[:1] if outputs == 1 else (outputs, shape[0])
    first, step = (
        TwoLayer(size * rng.standard_normal(shape), size * rng.standard_normal(readout))
        for size in (scale, scale * spread)
    )
    return first, TwoLayer(first.hidden + step.hidden, first.readout * (seed % 2) + step.readout)


def _labels(rng: np.random.Generator, n: int, outputs: int, loss: str) -> np.ndarray:
    """Labels for a loss: classes if there are several outputs, otherwise signs.

    For the absolute and the squared loss the signs are multiplied by 1e3, since both losses are nearly linear there.
    """
    if outputs > 1:
        return rng.integers(0, outputs, n)
    signs = rng.choice([-1.0, 1.0], n)
    return signs if loss == "logistic" else signs * 1e3


def _steep(kink: bool, one: float, two: float, readout: float) -> NetworkPair:
    """Two networks with two units each, on the input 1.

    If `kink`, the first unit has the pre-activation `one` in the first network and -`two` in the second. Otherwise it
    has `one + two` in the first and `one` in the second. The second unit is the same in both networks, and puts class 0
    far ahead of class 1, which is the label. The gap between the networks has the direction e_0 - e_1.
    """
    along, lead = np.zeros(3), -np.ones(3)
    along[:2], lead[0] = (-readout, readout), 1
    ends = (one, -two) if kink else (one + two, one)
    hidden = [np.array([[end], [100 * (1 + readout * (one + two))]]) for end in ends]
    readouts = [np.stack([along * share, lead], axis=1) for share in ((1, 1) if kink else (1, 0))]
    first, second = (TwoLayer(u, v) for u, v in zip(hidden, readouts, strict=True))
    return NetworkPair(first, second, np.ones((1, 1)), np.array([1]), CROSS_ENTROPY.name)


# On these pairs cross-entropy has its largest slope, sqrt 2, along the whole segment. In even seeds the gap comes from
# a kink, in odd seeds from the product of the layers' differences.
STEEP_PAIRS = Family(
    "steep pairs, 3 outputs, cross-entropy",
    lambda seed: _steep(seed % 2 == 0, *np.exp(np.random.default_rng([seed, 37]).uniform(-1, 1, 3))),
    st.builds(_steep, st.booleans(), *[st.floats(0.1, 4)] * 3),
    trials=10,
)


@cache
@st.composite
def any_pairs(draw: DrawFn, outputs: int) -> NetworkPair:
    """Pairs of networks with small integer weights, and at most three units, features and inputs."""
    h, features, n = (draw(st.integers(1, 3)) for _ in range(3))

    def integers(*shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size)), float).reshape(shape)

    readout = (h,) if outputs == 1 else (outputs, h)
    first, second = (TwoLayer(integers(h, features), integers(*readout)) for _ in range(2))
    loss = draw(st.sampled_from(["absolute", "logistic"])) if outputs == 1 else CROSS_ENTROPY.name
    classes = st.sampled_from([-1.0, 1.0]) if outputs == 1 else st.integers(0, outputs - 1)
    y = np.array(draw(st.lists(classes, min_size=n, max_size=n)))
    return NetworkPair(first, second, integers(n, features), y * (100 if loss == "absolute" else 1), loss)


def pair_families(options: Options) -> tuple[Family, ...]:
    """Pairs of networks with one output and with three, on random inputs or on the user's inputs."""
    rows = (options.data, options.n or 64, options.unit) if options.data else None
    where = f" on {options.data}" if options.data else ""
    return tuple(
        Family(
            f"pairs of networks{where}{several}", _pair, any_pairs(outputs), (outputs, rows), options.trials or trials
        )
        for outputs, several, trials in ((1, "", 60), (3, ", 3 outputs, cross-entropy", 20))
    )
