"""The case of networks drawn in a cube around an anchor, as in FedGuCci's theorems.

The inputs and the loss are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.case import Case, needed
from bounds.options import Options
from bounds.strategies import log_uniform
from ntkfl import Estimate, data
from ntkfl.connectivity.losses import ABSOLUTE, SQUARED, checked_labels, named_loss
from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs

EPS = np.finfo(float).eps
INSIDE = 1 - 1e-12  # networks are drawn in a cube smaller by this factor, so that they are inside also after rounding


@dataclass(frozen=True, eq=False)
class CubeNetworks(Case):
    """Networks w_1..w_K around an anchor. Each parameter of a network is within side/2 of the anchor's parameter.

    Raises:
        ValueError: no network, or different shapes; inputs, labels or a loss that do not fit; a side, delta or reach
            that is not positive.
    """

    # the anchor and the networks have one shape, with C outputs
    anchor: TwoLayer
    networks: tuple[TwoLayer, ...]
    side: float  # d, the cube's side
    x: np.ndarray  # inputs, (n, l)
    y: np.ndarray  # labels in the form that the loss takes (see `LOSSES`); drawn labels are ±1 if there is one output
    delta: float = 0.1  # failure probability of the claim
    loss: str = ABSOLUTE.name  # the loss whose barrier is measured
    reach: float | None = None  # R of `lipschitz_constant`

    def __post_init__(self) -> None:
        if not self.networks:
            raise ValueError("there is no network beside the anchor; at least one is needed")
        check_shapes((self.anchor, *self.networks))
        checked_inputs(self.anchor, self.x)
        checked_labels(named_loss(self.loss), self.y, len(self.x), self.outputs)
        for name, value in (("side", self.side), ("delta", self.delta), ("reach", self.reach)):
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} is {value}; it must be positive and finite")

    @property
    def h(self) -> int:
        """h, the number of hidden units."""
        return len(self.anchor.hidden)

    @property
    def l(self) -> int:  # noqa: E743 (the paper's name)
        """l, the number of features of an input."""
        return self.anchor.hidden.shape[1]

    @property
    def outputs(self) -> int:
        """C, the number of outputs."""
        return self.anchor.n_outputs

    @property
    def count(self) -> int:
        """K, the number of networks."""
        return len(self.networks)

    @cached_property
    def b(self) -> float:
        """The largest |x|, rounded up."""
        return float(np.linalg.norm(self.x, axis=1).max() * (1 + (self.l + 4) * EPS))

    @cached_property
    def anchor_norm(self) -> float:
        """|V_anc|, rounded up; for several outputs it is the largest singular value.

        This is the smallest possible d_anc.
        """
        readout = self.anchor.readout
        size, terms = np.linalg.norm(readout, 2 if readout.ndim == 2 else None), self.h + 4 + 8 * (self.outputs - 1)
        return float(size * (1 + terms * EPS))

    @cached_property
    def outside(self) -> float:
        """How far the farthest parameter of the networks lies beyond the cube; at most 0 if all are inside."""
        far = max(float(np.abs(net.vector() - self.anchor.vector()).max()) for net in self.networks)
        return far - self.side / 2

    @cached_property
    def low_loss_size(self) -> float | Estimate:
        """The size d_epsilon of the domain Omega.

        Here Omega is the cube, and epsilon is larger than every loss in the cube.
        """
        return self.side

    @cached_property
    def connected_share(self) -> float | Estimate:
        """P(D), the probability that the loss stays below epsilon on the segment from anchor to network; here 1."""
        return 1.0

    def redrawn(self, seed: int) -> CubeNetworks:
        """Other networks from the same cube around the same anchor, with the same inputs."""
        rng = np.random.default_rng([seed, 7])
        networks = _drawn(self.anchor, self.side, len(self.networks), rng)
        return replace(self, networks=networks)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        sizes = {"h": self.h, "l": self.l, "side": self.side, "K": self.count, "n": len(self.x)}
        sizes |= {"C": self.outputs} if self.outputs > 1 else {}
        return sizes | {"d_anc": self.anchor_norm, "delta": self.delta, "loss": self.loss}


FEW = 8  # largest number of features for which the search draws every weight separately


def _drawn(anchor: TwoLayer, side: float, count: int, rng: np.random.Generator) -> tuple[TwoLayer, ...]:
    """Networks whose parameters are the anchor's plus independent numbers from U[-side/2, side/2]."""
    centre, half = anchor.vector(), side / 2 * INSIDE
    return tuple(anchor.at(centre + rng.uniform(-half, half, anchor.size)) for _ in range(count))


def reach_in_cube(anchor: TwoLayer, side: float, x: np.ndarray, y: np.ndarray) -> float:
    """A number R with |f - y|_2 <= R for every network of the cube. It is known before networks are drawn.

    The labels y are (n,) or (n, C).
    """
    active = np.abs(x @ anchor.hidden.T) + side / 2 * np.abs(x).sum(axis=1)[:, None]
    sizes = np.linalg.norm(active @ (np.abs(np.atleast_2d(anchor.readout)) + side / 2).T, axis=1)
    return float((sizes + np.linalg.norm(y.reshape(len(x), -1), axis=1)).max() * (1 + 1e-9))


@dataclass(frozen=True)
class CubeFamily:
    """Networks of one shape around an anchor.

    `anchor_norm` is the norm of the anchor's readout, over all its entries.
    """

    # h hidden units, l features, the side d, and the count K of networks
    h: int
    l: int  # noqa: E741 (the paper's name)
    side: float
    count: int = 2
    # kind of inputs: sphere, ball (uniform, radius 1), digits, or the user's data (`options_data`)
    rows: str = "sphere"
    n: int = 16  # number of inputs
    at_origin: bool = False  # whether U_anc = 0; otherwise the rows of U_anc are uniform on the unit sphere
    anchor_norm: float = 1.0
    delta: float = 0.1
    trials: int = 40
    options_data: str | None = None
    unit: bool = False
    # C and the loss. For the squared loss, `case` computes an R that holds for every network of the cube.
    outputs: int = 1
    loss: str = ABSOLUTE.name

    @property
    def name(self) -> str:
        """The name of the family in reports."""
        where = ", U_anc = 0" if self.at_origin else ""
        where += f", C={self.outputs}" if self.outputs > 1 else ""
        where += f", {self.loss}" if self.loss != ABSOLUTE.name else ""
        return f"{self.rows}, h={self.h}, l={self.l}, d={self.side:g}, K={self.count}{where}"

    @property
    def required(self) -> int:
        """The number of cases that a verdict needs."""
        return needed(self.trials)

    def with_trials(self, trials: int | None) -> CubeFamily:
        """The same family with as many seeds as the user asks for; None: as many as the family has."""
        return self if trials is None else replace(self, trials=trials)

    def inputs(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, l) and labels ±1. They come from other random numbers than the networks."""
        rng = np.random.default_rng([seed, 1])
        if self.options_data is not None:
            return user_rows(self.options_data, self.n, self.unit)
        signs = rng.choice([-1.0, 1.0], self.n)
        if self.rows == "digits":
            return data.named("digits", n=self.n, seed=seed).x, signs
        x = rng.standard_normal((self.n, self.l))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if self.rows == "ball":
            x *= rng.uniform(0, 1, (self.n, 1)) ** (1 / self.l)
        return x, signs

    def case(self, seed: int) -> CubeNetworks:
        """The networks of one seed."""
        rng = np.random.default_rng([seed, 2])
        x, y = self.inputs(seed)
        hidden = np.zeros((self.h, x.shape[1]))
        if not self.at_origin:
            hidden = rng.standard_normal(hidden.shape)
            hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
        readout = rng.standard_normal(self.h if self.outputs == 1 else (self.outputs, self.h))
        anchor = TwoLayer(hidden, readout * (self.anchor_norm / np.linalg.norm(readout)))
        networks = _drawn(anchor, self.side, self.count, rng)
        y = _labels(y, self.outputs, self.loss, rng)
        reach = reach_in_cube(anchor, self.side, x, y) if self.loss == SQUARED.name else None
        return CubeNetworks(anchor, networks, self.side, x, y, self.delta, self.loss, reach)

    def strategy(self) -> SearchStrategy[CubeNetworks]:
        """Anchors and cubes of any scale, and inputs of any length, with up to this family's number of features."""
        return _cubes(max(2, self.count), max(4, self.l), self.outputs, self.loss)


def _labels(signs: np.ndarray, outputs: int, loss: str, rng: np.random.Generator) -> np.ndarray:
    """Labels for a loss: the given signs if there is one output, and newly drawn classes if there are several."""
    if outputs == 1:
        return signs
    classes = rng.integers(0, outputs, len(signs))
    return np.eye(outputs)[classes] if loss == SQUARED.name else classes


@st.composite
def _cubes(draw: DrawFn, most: int, widest: int, outputs: int, loss: str) -> CubeNetworks:
    features = draw(st.one_of(st.integers(1, 4), st.integers(1, widest)))
    h, n = draw(st.integers(1, 6)), draw(st.integers(1, 4)) if features <= FEW else 1
    count = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))

    def numbers(size: int) -> np.ndarray:
        """Small integers if there are few numbers. Many numbers are either Gaussian or all 0."""
        if size <= FEW * 6:
            return np.array(draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), float)
        return rng.standard_normal(size) * draw(st.booleans())

    hidden = draw(log_uniform(1e-2, 1e2)) * numbers(h * features).reshape(h, features)
    readout = draw(log_uniform(1e-2, 1e2)) * numbers(h * outputs)
    x = draw(log_uniform(1e-2, 1e2)) * numbers(n * features).reshape(n, features)
    x[~x.any(axis=1), 0] = 1.0
    y = np.array(draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=n, max_size=n)))
    side, delta = draw(log_uniform(1e-3, 10)), draw(log_uniform(1e-3, 0.9))
    anchor = TwoLayer(hidden, readout if outputs == 1 else readout.reshape(outputs, h))
    networks, y = _drawn(anchor, side, count, rng), _labels(y, outputs, loss, rng)
    reach = reach_in_cube(anchor, side, x, y) if loss == SQUARED.name else None
    return CubeNetworks(anchor, networks, side, x, y, delta, loss, reach)


@cache
def user_rows(spec: str, n: int, unit: bool) -> tuple[np.ndarray, np.ndarray]:
    """The user's first n inputs, with label 1 where the user's label is above the median, and -1 elsewhere.

    If the user's data have several labels for each input, the first one is taken.
    """
    problem = data.named(spec, unit=unit)
    problem.require_no_zero_row()
    y = problem.y.reshape(problem.n, -1)[:n, 0]
    return problem.x[:n], np.where(y > np.median(y), 1.0, -1.0)


EVERYDAY = (
    CubeFamily(h=8, l=4, side=0.5),
    CubeFamily(h=32, l=8, side=0.5, rows="ball"),
    CubeFamily(h=512, l=8, side=0.1),
    CubeFamily(h=4, l=64, side=1.0, rows="digits", at_origin=True),
)


def cube_families(options: Options, **chosen) -> tuple[CubeFamily, ...]:
    """The default families, or one family on the user's inputs.

    The default families have (h, l, d) = (8, 4, .5), (32, 8, .5), (512, 8, .1) and (4, 64, 1).
    """
    families: tuple[CubeFamily, ...] = EVERYDAY
    if options.data is not None:
        features = user_rows(options.data, 1, options.unit)[0].shape[1]
        families = (CubeFamily(32, features, 0.5, rows=options.data, options_data=options.data, unit=options.unit),)
    fixed = {"trials": options.trials, "n": options.n, "h": options.width}
    chosen |= {name: value for name, value in fixed.items() if value}
    return tuple(replace(family, **chosen) for family in families)
