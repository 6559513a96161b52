"""Lemma 1: the gap between averaged outputs (WENS) and averaged weights (FMA) as the clients come closer together.

The statements are about the order of the gap in Delta, the clients' largest distance from the averaged network.
On a ladder the same quantity is measured at several values of Delta.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import DrawFn
from jaxtyping import Float, Int

from bounds import IMA, Case, Claim, Family, Hypothesis, Kind, Source, Statement
from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from ntkfl.estimate import Estimate

Activation = Callable[[np.ndarray], np.ndarray]

SCALES = 2.0 ** -np.arange(8, 18)  # values of Delta; at the smallest the gap is 1e-10, far above rounding errors
CIRCLE_POINTS = 256  # angles at which smooth networks are evaluated
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
NORMS = ("mean", "root mean square", "largest value")  # norms of |gap| over x on the unit circle
FINITE = 0.01  # allowance in an exponent, since at a finite Delta the terms in higher powers of Delta are not 0


@dataclass(frozen=True, eq=False)
class ScaleLadder(Case):
    """Networks f(x) = v . act(U x) on the plane.

    The weights of client k are the average weights plus Delta times a move.

    The moves are centred, so that their mean with the weights n_k / n is 0. They are scaled so that the farthest client
    is at distance Delta from the average.

    Raises:
        ValueError: shapes that do not fit, or moves that are all the same.
    """

    hidden: Float[np.ndarray, "h 2"]  # U of the averaged network, (h, 2)
    readout: Float[np.ndarray, " h"]  # v of the averaged network, (h,)
    # the moves, (K, 3 h), with one row for each client: first the hidden weights, row by row, then the readout
    moves: Float[np.ndarray, "K s"]
    sizes: Int[np.ndarray, " K"]  # n_k, (K,)
    angle: float  # angle of the fixed input x = (cos, sin)

    def __post_init__(self) -> None:
        width = len(self.readout)
        if self.hidden.shape != (width, 2) or self.moves.shape != (len(self.sizes), 3 * width):
            raise ValueError(
                f"the weights have shapes {self.hidden.shape} and {self.readout.shape}, the moves {self.moves.shape}; "
                f"they must be (h, 2), (h,) and ({len(self.sizes)}, 3 h)"
            )
        if not self._centred.any():
            raise ValueError("all clients move alike: their average moves with them and no distance is left")

    @property
    def shares(self) -> np.ndarray:
        """n_k / n, (K,)."""
        return self.sizes / self.sizes.sum()

    @property
    def _centred(self) -> np.ndarray:
        return self.moves - self.shares @ self.moves

    @cached_property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """The moves of hidden weights (K, h, 2) and readouts (K, h) at Delta = 1."""
        steps = self._centred / np.linalg.norm(self._centred, axis=1).max()
        cut = self.hidden.size
        return steps[:, :cut].reshape(-1, *self.hidden.shape), steps[:, cut:]

    @property
    def n_runs(self) -> int:
        """The number of values of Delta."""
        return len(SCALES)

    def networks(self, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The averaged network and then the clients. Their outputs times the factors sum to the gap f_WENS - f_FMA.

        Returns: hidden weights (K+1, h, 2), readouts (K+1, h), and factors (K+1,).
        """
        hidden = np.concatenate([self.hidden[None], self.hidden + scale * self.steps[0]])
        readout = np.concatenate([self.readout[None], self.readout + scale * self.steps[1]])
        return hidden, readout, np.concatenate([[-1.0], self.shares])

    def fixed_gap(self, activation: Activation) -> np.ndarray:
        """The values of |f_WENS - f_FMA| at the fixed input, for networks with this activation, one for each Delta."""
        return np.array([abs(self._gap(scale, self._point, activation)[0]) for scale in SCALES])

    @property
    def _point(self) -> np.ndarray:
        return _on_circle(np.array([self.angle]))

    def _gap(self, scale: float, x: np.ndarray, activation: Activation) -> np.ndarray:
        hidden, readout, weights = self.networks(scale)
        return np.einsum("k,knh,kh->n", weights, activation(np.einsum("khd,nd->knh", hidden, x)), readout)

    @cached_property
    def relu_norms(self) -> dict[str, np.ndarray]:
        """The NORMS of the gap of ReLU networks, for each Delta.

        The integrals over the pieces between kinks are exact.
        """
        return dict(zip(NORMS, np.array([self._pieces(scale) for scale in SCALES]).T, strict=True))

    @cached_property
    def tanh_norms(self) -> dict[str, np.ndarray]:
        """The NORMS of the gap of tanh networks, for each Delta, on a grid of angles. These networks are smooth."""
        gaps = np.abs([self._gap(scale, _circle(), np.tanh) for scale in SCALES])
        norms = gaps.mean(axis=1), np.sqrt((gaps**2).mean(axis=1)), gaps.max(axis=1)
        return dict(zip(NORMS, norms, strict=True))

    def _pieces(self, scale: float) -> tuple[float, float, float]:
        hidden, readout, weights = self.networks(scale)
        kinks = np.arctan2(hidden[..., 1], hidden[..., 0]).ravel() + np.pi / 2
        edges = np.sort(np.concatenate([kinks, kinks + np.pi]) % (2 * np.pi))
        edges = np.append(edges, edges[0] + 2 * np.pi)
        left, right = edges[:-1], edges[1:]
        on = np.einsum("khd,pd->pkh", hidden, _on_circle((left + right) / 2)) > 0
        slopes = np.einsum("k,pkh,kh,khd->pd", weights, on, readout, hidden)  # the gap is slopes . x on each piece
        size, phase = np.hypot(*slopes.T), np.arctan2(slopes[:, 1], slopes[:, 0])
        left, right = left - phase, right - phase
        mean = (size * (_absolute_cosine(right) - _absolute_cosine(left))).sum() / (2 * np.pi)
        inside = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * NODES
        squares = (np.cos(inside) ** 2 @ WEIGHTS) * (right - left) / 2
        peak = np.floor(right / np.pi) > np.floor(left / np.pi)
        top = np.where(peak, 1.0, np.maximum(np.abs(np.cos(left)), np.abs(np.cos(right))))
        return mean, np.sqrt((size**2 * squares).sum() / (2 * np.pi)), (size * top).max()

    @property
    def kink_distance(self) -> float:
        """The least value over units of |u_i x| at the fixed input, minus the largest change of u_i x by a client."""
        reach = SCALES[0] * np.linalg.norm(self.steps[0], axis=2).max(axis=0)
        return float((np.abs(self.hidden @ self._point[0]) - reach).min())

    @property
    def shortest_row(self) -> float:
        """The least value over units of |u_i| minus the largest distance by which a client moves the row u_i."""
        reach = SCALES[0] * np.linalg.norm(self.steps[0], axis=2).max(axis=0)
        return float((np.linalg.norm(self.hidden, axis=1) - reach).min())

    @property
    def kink_motion(self) -> float:
        """The largest value over units of |v_i| times the largest move of u_i across u_i, at Delta = 1.

        The move across u_i is the component of a client's move of u_i that is orthogonal to u_i.
        """
        lengths = np.linalg.norm(self.hidden, axis=1)
        across = np.stack([-self.hidden[:, 1], self.hidden[:, 0]], axis=1) / np.where(lengths > 0, lengths, 1)[:, None]
        return float((np.abs(self.readout) * np.abs(np.einsum("khd,hd->kh", self.steps[0], across)).max(axis=0)).max())

    @property
    def fixed_second_order(self) -> float:
        """The limit of |gap| / Delta^2 at the fixed input: the smaller one of the limits for ReLU and tanh."""
        x = self._point
        on = (x @ self.hidden.T > 0).astype(float)
        return float(min(np.abs(self._second_order(x, on, np.zeros_like(on)))[0], np.abs(self._smooth(x))[0]))

    @property
    def mean_second_order(self) -> float:
        """The limit of |gap| / Delta^2 for tanh networks, averaged over the circle."""
        return float(np.abs(self._smooth(_circle())).mean())

    def _smooth(self, x: np.ndarray) -> np.ndarray:
        features = np.tanh(x @ self.hidden.T)
        return self._second_order(x, 1 - features**2, -2 * features * (1 - features**2))

    def _second_order(self, x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """sum_k p_k (dv_k . act' (dU_k x) + v . act'' (dU_k x)^2 / 2).

        `first` and `second` are act' and act'' at the pre-activations, (n, h).
        """
        moved = np.einsum("khd,nd->knh", self.steps[0], x)
        mixed = np.einsum("k,kh,nh,knh->n", self.shares, self.steps[1], first, moved)
        return mixed + np.einsum("k,h,nh,knh->n", self.shares, self.readout, second, moved**2) / 2

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"hidden units": len(self.readout), "clients": len(self.sizes), "Delta": "2^-8..2^-17"}


def exponent(values: np.ndarray) -> Estimate:
    """The power of Delta to which the values (s,) are proportional, with its interval.

    There is one value for each Delta.

    Raises:
        NoSlope: a value that is not positive.
    """
    return (-slope(1 / SCALES, values)).widened(FINITE, "for a finite Delta")


def _on_circle(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _circle() -> np.ndarray:
    return _on_circle(2 * np.pi * np.arange(CIRCLE_POINTS) / CIRCLE_POINTS)


def relu(a: np.ndarray) -> np.ndarray:
    """max(a, 0)."""
    return np.maximum(a, 0)


def _absolute_cosine(t: np.ndarray) -> np.ndarray:
    """The integral of |cos| from 0 to t."""
    half_turns = np.floor(t / np.pi + 0.5)
    return 2 * half_turns + np.sin(t - np.pi * half_turns)


def _ladder(seed: int) -> ScaleLadder:
    """Gaussian networks of 2 to 8 hidden units, and 2 to 5 clients of different sizes.

    The input x is far from the kinks.
    """
    rng = np.random.default_rng([seed, 10])
    width, clients = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    hidden, readout = rng.standard_normal((width, 2)), rng.standard_normal(width)
    moves, sizes = rng.standard_normal((clients, 3 * width)), rng.integers(1, 10, clients)
    angles = np.linspace(0, 2 * np.pi, 721)
    farthest = angles[np.abs(hidden @ _on_circle(angles).T).min(axis=0).argmax()]
    return ScaleLadder(hidden, readout, moves, sizes, float(farthest))


@st.composite
def _integer_ladders(draw: DrawFn) -> ScaleLadder:
    """Networks of one to three units with small integer weights and moves, and any input."""
    width, clients = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    entries = st.integers(-3, 3).map(float)
    hidden, readout = draw(arrays(float, (width, 2), elements=entries)), draw(arrays(float, width, elements=entries))
    moves = draw(arrays(float, (clients, 3 * width), elements=entries).filter(lambda m: np.ptp(m, axis=0).any()))
    sizes = draw(arrays(int, clients, elements=st.integers(1, 5)))
    return ScaleLadder(hidden, readout, moves, sizes, draw(st.floats(0, 6.25)))


# The statements use no data: the input x is one point of the circle, or is averaged over the circle.
SCALE_LADDERS = Family("clients around their average, inputs on the circle", _ladder, _integer_ladders(), needs=5)


Made = Callable[[], ScaleLadder]

# An exponent is decided by the term in the lowest power of Delta. If the coefficient of this term is at least LEAST (at
# the fixed x LEAST_FIXED), the term exceeds the terms of higher powers.
LEAST, LEAST_FIXED = 0.01, 0.002
MUTANTS = tuple(shifted(sp.Rational(quarters, 4)) for quarters in (-2, -1, 1, 2))
TWO = sp.Integer(2)

OFF_KINK = Hypothesis(
    "off-kink", "no kink of a hidden unit comes between the fixed x and any client", lambda case: case.kink_distance
)
ROWS_NONZERO = Hypothesis(
    "rows-nonzero", "every hidden row of the average is longer than any client moves it", lambda case: case.shortest_row
)
KINKS_MOVE = Hypothesis(
    "kinks-move",
    f"some client moves the kink of a unit with v_i != 0: |v_i| |move across u_i| >= {LEAST} Delta",
    lambda case: case.kink_motion - LEAST,
)
FIXED_SECOND_ORDER = Hypothesis(
    "second-order",
    f"at the fixed x the term in Delta^2 has a coefficient of at least {LEAST_FIXED}, of ReLU and of tanh networks",
    lambda case: case.fixed_second_order - LEAST_FIXED,
)
SECOND_ORDER = Hypothesis(
    "second-order",
    f"of tanh networks the term in Delta^2 has a coefficient of at least {LEAST} in the mean over the circle",
    lambda case: case.mean_second_order - LEAST,
)


def _network(hidden: list, readout: list, moves: list, angle: float = 0.3) -> ScaleLadder:
    return ScaleLadder(np.array(hidden), np.array(readout), np.array(moves), np.array([1, 1]), angle)


def fixed_kinks() -> ScaleLadder:
    """One unit whose row changes only its length. Its kink does not move, and elsewhere the gap is smooth."""
    return _network([[1.0, 0.0]], [1.0], [[1.0, 0.0, 1.0], [-1.0, 0.0, -1.0]])


def zero_row() -> ScaleLadder:
    """An averaged network with a unit whose row is 0.

    The clients' kinks may then be anywhere, and the gap is of first order in Delta.
    """
    moves = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.5], [0.0, -1.0, 0.0, -1.0, -1.0, -0.5]]
    return _network([[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0], moves)


def _in_norm(
    name: str, norm: str, left: str, relu_power: sp.Expr, note: str, needed: Mapping[Hypothesis, Made]
) -> Statement:
    """The statement for one of NORMS."""
    return Statement(
        id=f"averaging/I3-{name}",
        title=f"Gap between ensemble and averaged network, {norm} over x",
        kind=Kind.RATE,
        source=Source(IMA, "Lemma 1, Eq (6)-(7)"),
        note=note,
        hypotheses=(*needed, SECOND_ORDER),
        new=Claim((relu_power, TWO), note="exponent of Delta: ReLU networks; tanh networks"),
        measure=lambda case: tuple(exponent(norms[norm]) for norms in (case.relu_norms, case.tanh_norms)),
        left_formula=tuple(f"exponent in Delta of {left} of {network} networks" for network in ("ReLU", "tanh")),
        says_left=f"log-log slope of the {norm} of |f_WENS - f_FMA| over x on the circle as Delta falls from 2^-8 to "
        "2^-17: of ReLU networks (integrated exactly from kink to kink), and of tanh networks",
        families=(SCALE_LADDERS,),
        necessity={hypothesis.name: case for hypothesis, case in needed.items()},
        mutants=MUTANTS,
        uses=("averaging/I3",),
    )


STATEMENTS = (
    Statement(
        id="averaging/I3",
        title="Gap between ensemble and averaged network at one input",
        kind=Kind.RATE,
        source=Source(IMA, "Lemma 1, Eq (6)-(7)"),
        note="f_WENS - f_FMA = <grad f, sum p_k Delta_k> + O(Delta^2). The inner product is 0, since the moves are "
        "centred at the average (the statement defines Delta_k as norms, where the vectors of the proof are "
        "meant); the condition on n_i/n_j is not used. The lemma is true for networks with two derivatives, and "
        "for ReLU at a fixed x that no kink crosses, where the gap is exactly of second order. At an x on a kink "
        "the exponent is 1. For the largest value over x see I3-sup, for the mean square I3-L2, for the mean I3-L1",
        hypotheses=(OFF_KINK, FIXED_SECOND_ORDER),
        stated=Claim((TWO, TWO), note="exponent of Delta: ReLU networks; tanh networks"),
        measure=lambda case: tuple(exponent(case.fixed_gap(activation)) for activation in (relu, np.tanh)),
        left_formula=tuple(
            f"exponent in Delta of |f_WENS(x) - f_FMA(x)| of {name} networks" for name in ("ReLU", "tanh")
        ),
        says_left="log-log slope of |f_WENS(x) - f_FMA(x)| at one x as Delta falls from 2^-8 to 2^-17: of ReLU "
        "networks, and of tanh networks",
        families=(SCALE_LADDERS,),
        necessity={
            # One unit whose row is orthogonal to x: the gap is of first order in Delta.
            OFF_KINK.name: lambda: _network([[1.0, 0.0]], [1.0], [[0.0, 1.0, 1.0], [0.0, -1.0, -1.0]], angle=np.pi / 2)
        },
        mutants=MUTANTS,
    ),
    _in_norm(
        "L1",
        "mean",
        "E_x |f_WENS(x) - f_FMA(x)|",
        TWO,
        "a kink moves by O(Delta), and on the inputs that it crosses f changes by O(Delta): O(Delta^2) in the mean, "
        "like all other terms. So the lemma's order holds for ReLU too in the mean over x, for x in two dimensions or "
        "more. Proof: docs/proofs/connectivity.md#averages-of-near-networks",
        {ROWS_NONZERO: zero_row},
    ),
    _in_norm(
        "L2",
        "root mean square",
        "sqrt(E_x (f_WENS(x) - f_FMA(x))^2)",
        sp.Rational(3, 2),
        "moving kinks change f by O(Delta) on a share O(Delta) of the circle: the root mean square has the exponent "
        "3/2, so that O(Delta^2) is false for it. Proof: docs/proofs/connectivity.md#averages-of-near-networks",
        {ROWS_NONZERO: zero_row, KINKS_MOVE: fixed_kinks},
    ),
    _in_norm(
        "sup",
        "largest value",
        "sup_x |f_WENS(x) - f_FMA(x)|",
        sp.Integer(1),
        "on a kink the gap is of first order, so that O(Delta^2) is false uniformly in x. Proof: "
        "docs/proofs/connectivity.md#averages-of-near-networks",
        {KINKS_MOVE: fixed_kinks},
    ),
)
