"""Statements on the connectivity loss, on the window of anchors, and on objectives with this loss.

The statements concern Eqs (7), (8), (11) and (12).
"""

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds import FEDGUCCI, Case, Change, Claim, Family, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import ROUNDING, crossings, loss_at, mean_square, pair
from bounds.fedgucci.families.cube_families import small_families
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped, without
from bounds.symbols import N, t
from ntkfl.connectivity.barrier import connectivity_loss
from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs
from ntkfl.connectivity.paths.segment import Segment, squared_error
from ntkfl.estimate import Estimate

outer_low, middle, outer_high, own_loss, beta = sp.symbols("Q_- Q_0 Q_+ L beta", positive=True)
BETA = 0.7
NODES = np.array([-np.sqrt(3 / 5), 0.0, np.sqrt(3 / 5)])


def _constants(case: CubeNetworks) -> dict:
    """The values of the symbols.

    For each of the three Gauss points, the widths of the pieces times the losses are summed.
    """
    edges = crossings(case)
    left, widths = edges[:-1], np.diff(edges)
    sums = widths @ mean_square(case, left[:, None] + widths[:, None] * (NODES + 1) / 2)
    own = loss_at(case, 1.0)
    error = 20 * (own.error + loss_at(case, 0.0).error) + (len(widths) + 8) * 4e-16 * sums.max()
    quadrature = zip((outer_low, middle, outer_high), sums, strict=True)
    return {s: Estimate(value, error, ROUNDING) for s, value in quadrature} | {own_loss: own, beta: BETA}


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    loss = connectivity_loss(*pair(case), case.x, case.y)
    at_first = float(squared_error(Segment(*pair(case), case.x), case.y).at(1.0))
    total = at_first + BETA * float(loss.value)
    return loss, Estimate(total, 2 * float(loss.error) + 4e-16 * total, loss.method, loss.rigour)


GAUSS = (5 * outer_low + 8 * middle + 5 * outer_high) / 18

CONNECTION = "L_{connect}(w_1, w_2)"


@dataclass(frozen=True, eq=False)
class AnchorWindow(Case):
    """The global models w_g^1..w_g^t, a client's model on data (x, y), the number N = keep of anchors, and beta.

    The networks have the same hidden weights, so that outputs are linear along every segment.

    Raises:
        ValueError: no model, different shapes or hidden weights, labels that do not fit, keep or beta not positive.
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
        """The rounds whose models the clients hold after round t. The store has N places, which are filled in turn."""
        return tuple(deque(range(1, len(self.models) + 1), maxlen=self.keep))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"round": len(self.models), "anchors kept": self.keep, "n": len(self.x), "beta": self.beta}


def _window(seed: int) -> AnchorWindow:
    """One to eight rounds, one to five anchors, five hidden units, and twelve inputs on the sphere."""
    rng = np.random.default_rng([seed, 6])
    hidden, rounds = rng.standard_normal((5, 3)), int(rng.integers(1, 9))
    x = rng.standard_normal((12, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    client, *models = (TwoLayer(hidden, rng.standard_normal(5)) for _ in range(rounds + 1))
    y, keep = rng.choice([-1.0, 1.0], 12), int(rng.integers(1, 6))
    return AnchorWindow(tuple(models), client, keep, x, y, float(2.0 ** rng.uniform(-2, 2)))


@st.composite
def _windows(draw: DrawFn) -> AnchorWindow:
    """Up to ten rounds and ten anchors, with small integer readouts and any beta."""
    case = _window(draw(st.integers(0, 2**16)))
    readouts = draw(st.lists(st.lists(st.integers(-3, 3), min_size=5, max_size=5), min_size=1, max_size=10))
    models = tuple(TwoLayer(case.client.hidden, np.array(row, float)) for row in readouts)
    return replace(case, models=models, keep=draw(st.integers(1, 10)), beta=draw(st.floats(0.01, 100)))


ANCHOR_WINDOWS = Family("global models of some rounds", _window, _windows(), trials=60)


EPS = np.finfo(float).eps
weight, size, own, cross, anchors = sp.symbols("beta W_t r_2 C A_2", real=True)


def _residual(case: AnchorWindow, readout: np.ndarray) -> np.ndarray:
    return np.maximum(case.x @ case.client.hidden.T, 0) @ readout - case.y


def _window_constants(case: AnchorWindow) -> dict:
    """The values of the symbols, which are means over the data of products of residuals.

    The residuals belong to the client's model and to the last min(t, N) global models.
    """
    last = case.models[-case.keep :]
    r, others = _residual(case, case.client.readout), [_residual(case, model.readout) for model in last]
    sums = {own: (r**2).mean(), cross: sum((r * a).mean() for a in others), anchors: sum((a**2).mean() for a in others)}
    scale = 1e-13 * (1 + (r**2).mean() + sum((a**2).mean() for a in others))
    values = {symbol: Estimate(value, scale, "rounding bound") for symbol, value in sums.items()}
    return values | {t: len(case.models), N: case.keep, size: len(last), weight: case.beta}


def _measured_window(case: AnchorWindow) -> tuple[Estimate, ...]:
    """The size of the store, its oldest and its newest round, and the client's objective.

    The anchors of the objective are the models in the store.
    """
    held = case.store
    own_loss = float((_residual(case, case.client.readout) ** 2).mean())
    losses = [connectivity_loss(case.client, case.models[round_ - 1], case.x, case.y) for round_ in held]
    total = own_loss + case.beta * float(np.mean([value.value for value in losses]))
    error = case.beta * max(float(value.error) for value in losses) + 64 * EPS * abs(total)
    rounds = (len(held), held[0], held[-1])
    return (
        *(Estimate.exact(count) for count in rounds),
        Estimate(total, error, losses[0].method, max(e.rigour for e in losses)),
    )


STATEMENTS = (
    Statement(
        id="fedgucci/F12",
        title="The connectivity loss is exact with three Gauss points in each piece",
        kind=Kind.EQUALITY,
        source=Source(FEDGUCCI, "Eqs (7) and (8)"),
        note="a definition. Between two kinks (where a unit changes its sign) the squared loss is quartic in "
        "alpha, so three Gauss points, exact to degree 5, make no error; a single rule of 5 points on [0, 1] is "
        "off by 1e-4. One uniform alpha for each batch gives an unbiased estimate",
        stated=Claim((GAUSS, own_loss + beta * GAUSS)),
        constants=_constants,
        measure=_measure,
        symbols={
            outer_low: "sum over the pieces of width times L at the first Gauss point",
            middle: "sum over the pieces of width times L at the piece's middle",
            outer_high: "sum over the pieces of width times L at the third Gauss point",
            own_loss: "L(w_1); w_1 is the network that is trained, w_2 the anchor",
            beta: "weight of the connectivity loss",
        },
        left_formula=(CONNECTION, f"L(w_1) + beta {CONNECTION}"),
        says_left="left 1: the integral of the pieces' polynomials over [0, 1]; left 2: L(w_1) plus beta times this "
        "integral",
        families=small_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(outer_low, outer_high, "the last Gauss point twice", Change.INDEX),
            replaced(middle, (outer_low + outer_high) / 2, "the middle dropped", Change.FACTOR),
            power(beta, 2),
            sign_flipped(beta, "the connectivity loss"),
        ),
        uses=("fedgucci/X1",),
    ),
    Statement(
        id="fedgucci/F19",
        title="The last N global models are the anchors; the objective averages over them",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Eqs (11) and (12)"),
        note="the window always contains the current global model, at which the client starts; with N = 1 the "
        "start is the only anchor. For the squared loss and outputs linear along the segment the connectivity loss "
        "is (r^2 + r r_a + r_a^2)/3, which checks (12) in closed form",
        stated=Claim((sp.Min(t, N), sp.Max(1, t - N + 1), t, own + weight * (own + (cross + anchors) / size) / 3)),
        constants=_window_constants,
        measure=_measured_window,
        symbols={
            N: "number of global models that are kept",
            t: "round, from 1",
            weight: "weight of the connectivity loss",
            size: "number of anchors, |W_t|",
            own: "mean of r^2, r the client's residuals",
            cross: "sum over the anchors of the mean of r r_a",
            anchors: "sum over the anchors of the mean of r_a^2",
        },
        left_formula=("|W_t|", "min W_t", "max W_t", "L(w) + beta mean_{tau in W_t} L_{connect}(w, w_tau)"),
        says_left="left 1 to 3: size, oldest and newest round of a store of N places that is filled round by round; "
        "left 4: L plus beta times the mean of the exact connectivity losses to the store's models",
        families=(ANCHOR_WINDOWS,),
        mutants=(
            MILLIONTH_MORE,
            index_shifted(N, 1),
            index_shifted(t, -1),
            without(size),
            sign_flipped(cross, "the products of residuals"),
            power(weight, 2),
        ),
        uses=("fedgucci/F12",),
    ),
)
