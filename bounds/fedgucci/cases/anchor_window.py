"""Case: the global models of some rounds, a client's model, and how many of the former serve as anchors."""

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds import Family
from bounds.case import Case
from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs


@dataclass(frozen=True, eq=False)
class AnchorWindow(Case):
    """Global models w_g^1..w_g^t, a client's model on data (x, y), N = keep and beta.

    The networks share their hidden weights, so that outputs are linear along every segment.

    Raises:
        ValueError: no model, other shapes or hidden weights, labels that do not fit, keep or beta not positive.
    """

    models: tuple[TwoLayer, ...]
    client: TwoLayer
    keep: int
    x: np.ndarray
    y: np.ndarray
    beta: float = 1.0

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("there is no global model; the first round's is needed")
        check_shapes((self.client, *self.models))
        checked_inputs(self.client, self.x)
        if any(not np.array_equal(model.hidden, self.client.hidden) for model in self.models):
            raise ValueError("a global model has other hidden weights than the client; they must share them")
        if np.shape(self.y) != (len(self.x),):
            raise ValueError(f"the labels have shape {np.shape(self.y)}; with {len(self.x)} inputs: ({len(self.x)},)")
        if self.keep < 1 or not 0 < self.beta < np.inf:
            raise ValueError(f"keep is {self.keep} and beta {self.beta}; keep must be 1 or more, beta positive")

    @cached_property
    def store(self) -> tuple[int, ...]:
        """The rounds whose models the clients hold after round t, as a store of N places that is filled in turn."""
        return tuple(deque(range(1, len(self.models) + 1), maxlen=self.keep))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"round": len(self.models), "anchors kept": self.keep, "n": len(self.x), "beta": self.beta}


def _window(seed: int) -> AnchorWindow:
    """One to eight rounds, one to five anchors, five hidden units, twelve inputs on the sphere."""
    rng = np.random.default_rng([seed, 6])
    hidden, rounds = rng.standard_normal((5, 3)), int(rng.integers(1, 9))
    x = rng.standard_normal((12, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    client, *models = (TwoLayer(hidden, rng.standard_normal(5)) for _ in range(rounds + 1))
    y, keep = rng.choice([-1.0, 1.0], 12), int(rng.integers(1, 6))
    return AnchorWindow(tuple(models), client, keep, x, y, float(2.0 ** rng.uniform(-2, 2)))


@st.composite
def _windows(draw: DrawFn) -> AnchorWindow:
    """Up to ten rounds and anchors, small integer weights, any beta."""
    case = _window(draw(st.integers(0, 2**16)))
    readouts = draw(st.lists(st.lists(st.integers(-3, 3), min_size=5, max_size=5), min_size=1, max_size=10))
    models = tuple(TwoLayer(case.client.hidden, np.array(row, float)) for row in readouts)
    return replace(case, models=models, keep=draw(st.integers(1, 10)), beta=draw(st.floats(0.01, 100)))


ANCHOR_WINDOWS = Family("global models of some rounds", _window, _windows(), trials=60)
