"""Case: networks drawn in a cube around an anchor, as in FedGuCci's theorems, and inputs fixed before the draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.case_strategies import log_uniform
from bounds.draw_counts import CountedDraw
from bounds.options import Options
from ntkfl import data
from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs

EPS = np.finfo(float).eps
INSIDE = 1 - 1e-12  # networks are drawn in a cube this much smaller, so that rounding leaves them inside theirs


@dataclass(frozen=True, eq=False)
class CubeNetworks:
    """Networks w_1..w_K with every parameter within side/2 of the anchor's.

    Args:
        anchor, networks: of one shape, one output. side: d, of the cube.
        x: inputs, (n, l). y: labels, (n,), ±1 as drawn. delta: failure probability asked for.

    Raises:
        ValueError: no network or different shapes, inputs or labels that do not fit, a side or delta not positive.
    """

    anchor: TwoLayer
    networks: tuple[TwoLayer, ...]
    side: float
    x: np.ndarray
    y: np.ndarray
    delta: float = 0.1

    def __post_init__(self) -> None:
        if not self.networks:
            raise ValueError("there is no network beside the anchor; at least one is needed")
        check_shapes((self.anchor, *self.networks))
        checked_inputs(self.anchor, self.x)
        if np.shape(self.y) != (len(self.x),):
            raise ValueError(f"the labels have shape {np.shape(self.y)}; with {len(self.x)} inputs: ({len(self.x)},)")
        for name, value in (("side", self.side), ("delta", self.delta)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name} is {value}; it must be positive and finite")

    @property
    def h(self) -> int:
        """Hidden units."""
        return len(self.anchor.hidden)

    @property
    def l(self) -> int:  # noqa: E743 (the paper's name)
        """Features of an input."""
        return self.anchor.hidden.shape[1]

    @property
    def count(self) -> int:
        """K."""
        return len(self.networks)

    @cached_property
    def b(self) -> float:
        """The largest |x|, rounded up."""
        return float(np.linalg.norm(self.x, axis=1).max() * (1 + (self.l + 4) * EPS))

    @cached_property
    def anchor_norm(self) -> float:
        """|v_anc|, rounded up: the smallest d_anc."""
        return float(np.linalg.norm(self.anchor.readout) * (1 + (self.h + 4) * EPS))

    @cached_property
    def outside(self) -> float:
        """How far the networks' farthest parameter lies beyond the cube; at most 0 if all are inside."""
        far = max(float(np.abs(net.vector() - self.anchor.vector()).max()) for net in self.networks)
        return far - self.side / 2

    def redrawn(self, seed: int) -> CubeNetworks:
        """Other networks from the same cube around the same anchor, seen by the same inputs."""
        rng = np.random.default_rng([seed, 7])
        return cube_networks(self.anchor, self.side, len(self.networks), self.x, self.y, rng, self.delta)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        sizes = {"h": self.h, "l": self.l, "side": self.side, "K": self.count, "n": len(self.x)}
        return sizes | {"d_anc": self.anchor_norm, "delta": self.delta}


FEW = 8  # features up to which every weight is drawn for itself


def cube_networks(
    anchor: TwoLayer, side: float, count: int, x: np.ndarray, y: np.ndarray, rng: np.random.Generator, delta: float
) -> CubeNetworks:
    """Networks whose parameters are the anchor's plus independent U[-side/2, side/2]."""
    centre, half = anchor.vector(), side / 2 * INSIDE
    networks = tuple(anchor.at(centre + rng.uniform(-half, half, anchor.size)) for _ in range(count))
    return CubeNetworks(anchor, networks, side, x, y, delta)


@dataclass(frozen=True)
class CubeDraw(CountedDraw):
    """Networks of one shape around an anchor with |v_anc| = anchor_norm.

    Args:
        h, l, side, count: hidden units, features, d and K. rows: sphere, ball (uniform, radius 1), digits, or the
            user's data (`options_data`). n: inputs. at_origin: U_anc = 0; else its rows are uniform on the unit sphere.
    """

    h: int
    l: int  # noqa: E741 (the paper's name)
    side: float
    count: int = 2
    rows: str = "sphere"
    n: int = 16
    at_origin: bool = False
    anchor_norm: float = 1.0
    delta: float = 0.1
    trials: int = 40
    options_data: str | None = None
    unit: bool = False

    @property
    def name(self) -> str:
        """What reports call the family."""
        where = ", U_anc = 0" if self.at_origin else ""
        return f"{self.rows}, h={self.h}, l={self.l}, d={self.side:g}, K={self.count}{where}"

    def inputs(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, l) and labels ±1, from another stream than the networks."""
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
        readout = rng.standard_normal(self.h)
        anchor = TwoLayer(hidden, readout * (self.anchor_norm / np.linalg.norm(readout)))
        return cube_networks(anchor, self.side, self.count, x, y, rng, self.delta)

    def strategy(self) -> SearchStrategy[CubeNetworks]:
        """Anchors and cubes of any scale, inputs of any length, and up to this family's number of features."""
        return _cubes(max(2, self.count), max(4, self.l))


@st.composite
def _cubes(draw: DrawFn, most: int, widest: int) -> CubeNetworks:
    features = draw(st.one_of(st.integers(1, 4), st.integers(1, widest)))
    h, n = draw(st.integers(1, 6)), draw(st.integers(1, 4)) if features <= FEW else 1
    count = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))

    def numbers(size: int) -> np.ndarray:
        """Small integers; beyond a few features drawn by a seed, or all 0."""
        if size <= FEW * 6:
            return np.array(draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), float)
        return rng.standard_normal(size) * draw(st.booleans())

    hidden = draw(log_uniform(1e-2, 1e2)) * numbers(h * features).reshape(h, features)
    readout = draw(log_uniform(1e-2, 1e2)) * numbers(h)
    x = draw(log_uniform(1e-2, 1e2)) * numbers(n * features).reshape(n, features)
    x[~x.any(axis=1), 0] = 1.0
    y = np.array(draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=n, max_size=n)))
    side, delta = draw(log_uniform(1e-3, 10)), draw(log_uniform(1e-3, 0.9))
    return cube_networks(TwoLayer(hidden, readout), side, count, x, y, rng, delta)


@cache
def user_rows(spec: str, n: int, unit: bool) -> tuple[np.ndarray, np.ndarray]:
    """The user's first n inputs, and ±1 for a label (several: the first) above the median or not."""
    problem = data.named(spec, unit=unit)
    y = problem.y.reshape(problem.n, -1)[:n, 0]
    return problem.x[:n], np.where(y > np.median(y), 1.0, -1.0)


def cube_draws(options: Options, **chosen) -> tuple[CubeDraw, ...]:
    """The default families, (h, l, d) = (8,4,.5), (32,8,.5), (512,8,.1), (4,64,1), or the user's inputs.

    Args:
        options: data, n, width (h), unit and trials. chosen: fields of CubeDraw that a statement wants otherwise.
    """
    fixed: dict = {"trials": options.trials} if options.trials else {}
    fixed |= {"n": options.n} if options.n else {}
    fixed |= {"h": options.width} if options.width else {}
    if options.data is not None:
        features = user_rows(options.data, 1, options.unit)[0].shape[1]
        user = {"h": 32, "l": features, "side": 0.5, "rows": options.data, "options_data": options.data}
        return (CubeDraw(**(user | {"unit": options.unit} | chosen | fixed)),)
    families: tuple[dict, ...] = (
        {"h": 8, "l": 4, "side": 0.5},
        {"h": 32, "l": 8, "side": 0.5, "rows": "ball"},
        {"h": 512, "l": 8, "side": 0.1},
        {"h": 4, "l": 64, "side": 1.0, "rows": "digits", "at_origin": True},
    )
    return tuple(CubeDraw(**(family | chosen | fixed)) for family in families)
