"""Statements on Assumption 3.2, a 1-Lipschitz and smooth loss, and on Eqs (51) and (52).

Eqs (51) and (52) bound the loss on a segment between two models, after one end of the segment is replaced by another
model. On the original segment the loss is low.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp
from flint import arb
from hypothesis import strategies as st

from bounds import FEDGUCCI, Case, Change, Claim, Family, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.case import described
from bounds.cases.network_pair import lipschitz_constant
from bounds.formula import evaluate
from bounds.mutants import MILLIONTH_MORE, power, replaced, scaled, without
from bounds.strategies import log_uniform
from bounds.symbols import b
from ntkfl.balls import ball, enclosure, precision
from ntkfl.connectivity.losses import LOSSES
from ntkfl.estimate import Estimate, Rigour
from ntkfl.messages import require_number

FAR = 80  # at outputs of this size the slopes of logistic loss and cross-entropy are within e^-80 of the largest slope
STEP = 2.0**-40


@dataclass(frozen=True, eq=False)
class LossSteepness(Case):
    """A loss of `outputs` outputs.

    The squared loss is taken only where |f - y| <= reach, since it is not Lipschitz beyond.

    Raises:
        ValueError: an unknown loss, outputs that do not fit it, or a reach that is not positive and finite.
    """

    loss: str
    outputs: int = 1
    reach: float = 1.0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"there is no loss {self.loss!r}; it is one of {', '.join(LOSSES)}")
        classes = self.loss == "cross-entropy"
        if self.outputs < 1 + classes or (self.outputs > 1 and self.loss in ("absolute", "logistic")):
            raise ValueError(f"the {self.loss} loss has {self.outputs} outputs; cross-entropy: 2 or more, others: 1")
        require_number("reach", self.reach, "be a positive finite number")

    def steepest(self) -> Estimate:
        """The largest |L(f) - L(f')| / |f - f'|_2, enclosed between one such quotient and the largest gradient."""
        with precision():
            match self.loss:
                case "absolute":
                    steepness, most = abs(arb(1)) - abs(arb(0)), arb(1)  # at y = 0, f = 1, f' = 0
                case "squared":
                    low = ball(self.reach) - ball(self.reach) * STEP
                    steepness = (ball(self.reach) ** 2 - low**2) / (ball(self.reach) * STEP)
                    most = 2 * ball(self.reach)
                case "logistic":
                    steepness = (1 + arb(FAR + 1).exp()).log() - (1 + arb(FAR).exp()).log()
                    most = arb(1)  # the absolute slope is 1 / (1 + exp(y f))
                case _:
                    # the gradient satisfies |p - e_y|^2 <= 2 (1 - p_y)^2
                    steepness, most = self._cross_entropy(), arb(2).sqrt()
            lower, upper = enclosure(steepness), enclosure(most)
        return Estimate.between(lower.lo, upper.hi, "ball", Rigour.ENCLOSED)

    def _cross_entropy(self) -> arb:
        """The mean slope of cross-entropy along a step of length sqrt 2 in the direction (1, -1, 0, ...).

        The step starts at the logits (FAR, -FAR, -FAR, ...), where the label y is the second class.
        """
        others = (self.outputs - 2) * arb(-FAR).exp()

        def loss(step: int) -> arb:
            first, second = arb(FAR + step), arb(-FAR - step)
            return (first.exp() + second.exp() + others).log() - second

        return (loss(1) - loss(0)) / arb(2).sqrt()

    describe = described("loss", "outputs", "reach")


def _loss(seed: int) -> LossSteepness:
    """A loss, each of LOSSES in turn, with up to ten outputs and a reach that is log-uniform in 1/8..8."""
    rng = np.random.default_rng([seed, 4])
    loss = list(LOSSES)[seed % len(LOSSES)]
    several = int(rng.integers(2, 11))
    outputs = {"cross-entropy": several, "squared": several - 1}.get(loss, 1)
    return LossSteepness(loss, outputs, float(2.0 ** rng.uniform(-3, 3)))


_REACH = st.floats(0.01, 100)
SCALAR_LOSSES = Family(
    "losses of a scalar output",
    lambda seed: LossSteepness(("absolute", "logistic")[seed % 2]),
    st.builds(LossSteepness, st.sampled_from(["absolute", "logistic"])),
    trials=2,  # the constant of a loss does not depend on the seed
    needs=2,
    fixed=True,
)
ALL_LOSSES = Family(
    "losses",
    _loss,
    st.one_of(
        st.builds(LossSteepness, st.sampled_from(["absolute", "logistic", "squared"]), st.just(1), _REACH),
        st.builds(LossSteepness, st.just("cross-entropy"), st.integers(2, 6), _REACH),
    ),
    trials=40,
)


@dataclass(frozen=True, eq=False)
class CircleNeuron(Case):
    """A neuron f = v relu(u.x) in the plane, with x uniform on the circle |x| = radius.

    u has the length `length`, first at the angle `angle`, and then turned by `turn`. The loss is |f - y| with y <= 0
    and v > 0. So E L = E f - E y, and E L and E f have the same gradient.

    Raises:
        ValueError: a readout, length or radius that is not positive, or a turn outside (0, pi].
    """

    readout: float
    length: float
    radius: float = 1.0
    angle: float = 0.0
    turn: float = 0.5

    def __post_init__(self) -> None:
        for name in ("readout", "length", "radius"):
            require_number(name, getattr(self, name), "be a positive finite number")
        if not 0 < self.turn <= np.pi:
            raise ValueError(f"turn is {self.turn}; it must be in (0, pi]")

    def _gradient(self, angle: arb) -> tuple[arb, arb]:
        """v E[1(u.x > 0) x], as an integral of (cos, sin) over the half circle around u."""
        scale = ball(self.readout) * ball(self.radius) / (2 * arb.pi())
        low, high = angle - arb.pi() / 2, angle + arb.pi() / 2
        return scale * (high.sin() - low.sin()), scale * (low.cos() - high.cos())

    def curvature(self) -> Estimate:
        """|grad(u') - grad(u)| / |u' - u|, where u' is the turned u.

        This quotient is a lower bound on every smoothness constant of E L.
        """
        with precision():
            start, end = ball(self.angle), ball(self.angle) + ball(self.turn)
            change = [b - a for a, b in zip(self._gradient(start), self._gradient(end), strict=True)]
            moved = [end.cos() - start.cos(), end.sin() - start.sin()]
            sizes = [(part[0] ** 2 + part[1] ** 2).sqrt() for part in (change, moved)]
            return enclosure(sizes[0] / (ball(self.length) * sizes[1]))

    describe = described(**{"v": "readout", "|u|": "length", "|x|": "radius", "turn": "turn"})


def _unit(seed: int) -> CircleNeuron:
    """A neuron with |u| log-uniform in .01..1, and v and |x| log-uniform in 1/4..4."""
    rng = np.random.default_rng([seed, 5])
    length, readout, radius = 10 ** rng.uniform(-2, 0), 4 ** rng.uniform(-1, 1), 4 ** rng.uniform(-1, 1)
    return CircleNeuron(readout, length, radius, rng.uniform(0, 6), rng.uniform(0.01, 3))


_SIZES = log_uniform(1e-3, 1e3)
CIRCLE_UNITS = Family(
    "a unit on the circle",
    _unit,
    st.builds(CircleNeuron, _SIZES, _SIZES, _SIZES, st.floats(0, 6), st.floats(0.01, 3)),
    trials=40,
)


lipschitz, readout, length, gamma = sp.symbols("c_L v u gamma", positive=True)


Point = tuple[float, float]

PIECES = 64  # initial number of pieces of the segment; pieces that may contain the supremum are then halved
FINE = 1e-9  # relative width of the enclosure of the supremum
DEEPEST, MOST_PIECES = 60, 1024


@dataclass(frozen=True)
class CurvedValley(Case):
    """The loss L(x, y) = scale huber(y + c(x)), where c(t) = p sin^2(pi t / T) - q sin^2(pi t / (2 T)).

    huber is quadratic on |y + c| <= reach. L >= 0, and its gradient is Lipschitz on the whole plane, with the constant
    `smoothness`.
    """

    amplitudes: tuple[float, float]
    period: float
    reach: float
    # the ends w_i and w_anc of the segment before the anchor is moved
    model: Point
    anchor: Point
    moved_anchor: Point  # w_anc,i, the end after the move
    scale: float = 1.0

    def loss(self, x: arb, y: arb) -> arb:
        """L at a point, in ball arithmetic."""
        p, q = (ball(amplitude) for amplitude in self.amplitudes)
        angle = x * arb.pi() / ball(self.period)
        residual = abs(y + p * angle.sin() ** 2 - q * (angle / 2).sin() ** 2)
        inside, reach = residual.min(ball(self.reach)), ball(self.reach)
        return ball(self.scale) * (inside * inside / 2 + reach * (residual - reach).max(arb(0)))

    @cached_property
    def smoothness(self) -> Estimate:
        """gamma = scale (1 + max c'^2 + reach max |c''|)."""
        with precision():
            p, q = (abs(ball(amplitude)) for amplitude in self.amplitudes)
            turn = arb.pi() / ball(self.period)
            slope, bend = turn * (p + q / 2), turn * turn * (2 * p + q / 2)
            return enclosure(ball(self.scale) * (1 + slope * slope + ball(self.reach) * bend))

    @cached_property
    def shift(self) -> Estimate:
        """|w_anc - w_anc,i|, the distance in Eq (51).

        This distance equals Definition 3.7's Gamma only if the anchor is the global minimum.
        """
        with precision():
            return enclosure(sum(((ball(a) - ball(b)) ** 2 for a, b in self._ends), arb(0)).sqrt())

    @property
    def _ends(self) -> list[tuple[float, float]]:
        return list(zip(self.anchor, self.moved_anchor, strict=True))

    @cached_property
    def at_moved_anchor(self) -> Estimate:
        """L(w_anc,i), which is 0 at a minimiser."""
        with precision():
            return enclosure(self.loss(*(ball(part) for part in self.moved_anchor)))

    @cached_property
    def old_supremum(self) -> Estimate:
        """sup over alpha of L(alpha w_i + (1 - alpha) w_anc)."""
        return _supremum(self, self.anchor)

    @cached_property
    def new_supremum(self) -> Estimate:
        """sup over alpha of L(alpha w_i + (1 - alpha) w_anc,i)."""
        return _supremum(self, self.moved_anchor)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        points = {"w_i": self.model, "w_anc": self.anchor, "w_anc,i": self.moved_anchor}
        coordinates = {name: f"({x:.4g}, {y:.4g})" for name, (x, y) in points.items()}
        return {"p": self.amplitudes[0], "q": self.amplitudes[1], "T": self.period, "scale": self.scale} | coordinates


@lru_cache(maxsize=64)
def _supremum(case: CurvedValley, end: Point) -> Estimate:
    """The supremum of L over the segment from w_i to `end`, by branch and bound.

    On a piece of width w, L is at most the larger value at the piece's ends plus gamma |w_i - `end`|^2 w^2/8.
    """
    with precision():
        ends = [(ball(a), ball(b)) for a, b in zip(case.model, end, strict=True)]
        bend = ball(float(case.smoothness.hi)) * sum(((a - b) ** 2 for a, b in ends), arb(0)) / 8

        def value(alpha: float) -> arb:
            return case.loss(*((a - b) * ball(alpha) + b for a, b in ends))

        points = [k / PIECES for k in range(PIECES + 1)]
        heights = [value(point) for point in points]
        best = max((height.lower() for height in heights), key=float)
        pieces = list(zip(points, points[1:], heights, heights[1:], strict=False))
        above = best
        for _ in range(DEEPEST):
            limit = best * (1 + FINE) + ball(1e-300)
            reach = [left.max(right).upper() + bend * ball(high - low) ** 2 for low, high, left, right in pieces]
            kept = [(piece, top.upper()) for piece, top in zip(pieces, reach, strict=True) if not top <= limit]
            above = max([limit.upper(), *(top for _, top in kept)], key=float)
            pieces = []
            for (low, high, left, right), _ in kept:
                middle = (low + high) / 2
                here = value(middle)
                best = best.max(here.lower())
                pieces += [(low, middle, left, here), (middle, high, here, right)]
            # without the limit on pieces the loop would not end if the loss is 0 on the whole segment
            if not pieces or len(pieces) > MOST_PIECES:
                break
        return enclosure(best.union(above))


def _valley(seed: int) -> CurvedValley:
    """A valley of any width. Half of the moved anchors lie on the floor of the valley, and half anywhere.

    Every third valley is straight. For a straight valley the bound `MOVED`, the repaired form of fedgucci/F17, is
    sharp.
    """
    rng = np.random.default_rng([seed, 17])
    bend = 0.0 if seed % 3 == 0 else 1.0
    amplitudes = (bend * float(rng.uniform(0, 4)), bend * float(rng.uniform(0, 2)))
    period = float(np.exp(rng.uniform(np.log(20), np.log(400))))
    x = float(rng.uniform(0, 2 * period))
    moved_x = x + float(rng.normal(0, 2))
    y = float(rng.uniform(0.2, 4))
    floor = seed % 2 == 0
    moved_y = -_floor(amplitudes, period, moved_x) if floor else y * float(rng.uniform(1, 2))
    model = (float(rng.uniform(0, 2 * period)), float(rng.uniform(-0.2, 0.2)))
    scale = float(np.exp(rng.uniform(-3, 3)))
    return CurvedValley(amplitudes, period, 12.0, model, (x, y), (moved_x if floor else x, moved_y), scale)


def _any_valley(
    amplitudes: tuple[float, float], period: float, parts: tuple[float, ...], floor: bool, near: bool
) -> CurvedValley:
    """A valley with points within two periods.

    If `floor`, the anchor moves to the floor of the valley. If `near`, its first coordinate moves by at most 2.
    """
    x, y, moved_x, moved_y, model_x, model_y = parts
    to_x = x * period + moved_x if near else moved_x * period
    if floor:
        moved_y = -_floor(amplitudes, period, to_x)
    return CurvedValley(amplitudes, period, 12.0, (model_x * period, model_y), (x * period, y), (to_x, moved_y))


def _floor(amplitudes: tuple[float, float], period: float, x: float) -> float:
    p, q = amplitudes
    return float(p * np.sin(np.pi * x / period) ** 2 - q * np.sin(np.pi * x / (2 * period)) ** 2)


_AMPLITUDES, _SHARES = (st.integers(low, high).map(lambda k: k / 64) for low, high in ((0, 512), (-128, 128)))
VALLEYS = Family(
    "curved valleys",
    _valley,
    st.builds(
        _any_valley,
        st.tuples(_AMPLITUDES, _AMPLITUDES),
        st.floats(1, 400),
        st.tuples(*[_SHARES] * 6),
        st.booleans(),
        st.booleans(),
    ),
    trials=60,
    needs=20,
)


eps, shift = sp.symbols("epsilon Delta", positive=True)
NEAR_ZERO = 1e-24  # a bound above 0, since at the float nearest to a minimiser the loss is about 1e-32
PRINTED = eps + gamma * shift**2
MOVED = (sp.sqrt(eps) + sp.sqrt(gamma / 2) * shift) ** 2

MINIMISER = Hypothesis(
    "minimiser",
    "w_anc,i minimises L_i: its loss is at most 1e-24",
    lambda case: NEAR_ZERO - float(case.at_moved_anchor.hi),
)


def planar_counterexample() -> CurvedValley:
    """A valley with a curved floor. The floor differs from the straight line between a model and a minimiser.

    Of all minimisers, the minimiser nearest to the anchor is meant. On the floor the loss is 0. The floor contains the
    model and the minimiser. Between them most of the floor lies far below the straight line, at smaller y.
    """
    return CurvedValley((4.0, 1.0), 200.0, 6.0, (0.0, 0.0), (200.0, 0.0), (200.0, 1.0))


STATEMENTS = (
    Statement(
        id="fedgucci/F2-lipschitz",
        title="The loss is 1-Lipschitz in the outputs",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Assumption 3.2, first part"),
        note="an assumption. The logistic and the absolute loss of a scalar network, the network of the theorems, "
        "meet it with the constant 1; any Lipschitz loss meets it in another unit. The new form has each loss's "
        "own constant, the L of every bound on a barrier here. Cross-entropy, the loss of the experiments, has the "
        "constant sqrt 2 in the l2 norm of the logits (a supremum that is not attained). So for cross-entropy "
        "every bound is multiplied by sqrt 2, |z| is the l2 norm of the vector of gaps, and the bounds for C "
        "outputs apply (F9, R1, R1g, sure, R4). The squared loss has no constant on an unbounded set, and 2R on |f "
        "- y| <= R",
        stated=Claim(sp.Integer(1), families=(SCALAR_LOSSES,)),
        new=Claim(lipschitz),
        constants=lambda case: {lipschitz: lipschitz_constant(case.loss, case.reach)},
        measure=lambda case: case.steepest(),
        symbols={lipschitz: "1 for absolute and logistic, sqrt 2 for cross-entropy, 2R for squared"},
        left_formula="sup_{f,f',y} |L(f,y) - L(f',y)| / |f - f'|_2",
        says_left="the largest |L(f) - L(f')| / |f - f'|_2, enclosed between one such quotient and a bound on the "
        "gradient",
        families=(ALL_LOSSES,),
        mutants=(
            scaled(sp.Rational(1001, 1000)),
            power(lipschitz, 2),
            without(lipschitz),
            replaced(lipschitz, 2 * lipschitz, "twice the constant", Change.CONSTANT),
        ),
    ),
    Statement(
        id="fedgucci/F2-smooth",
        title="The expected loss is smooth in the weights",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Assumption 3.2, second part"),
        note="an assumption: the paper says that the loss is gamma-smooth, without a number for gamma. The check is "
        "whether one gamma is valid for all weights. The check takes gamma = b v/pi, which is valid at |u| = 1; any "
        "other gamma fails in the same way at |u| < b v/(pi gamma). For a law of x without a preferred direction the "
        "gradient in u depends on u/|u| alone, so the curvature is v E relu(x_1)/|u|, and no gamma is valid near a "
        "dead row; on finite data the loss has kinks. Theorem 3.5 does not use smoothness (Lemma 3.3 needs only "
        "continuity); Theorem 3.8 uses it in (51). The repaired form is the constant on |u| >= r, attained at |u| = r",
        stated=Claim(
            gamma,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISSING_HYPOTHESIS,
            # At |u| = 1/64 the curvature is 64 times the curvature at |u| = 1.
            witness=lambda: CircleNeuron(readout=1.0, length=1 / 64),
            reading="in words, which both versions print alike",
            consequence="assume rows of at least some length r: a ReLU network is smooth only on such weights, "
            "and a bound that contains gamma (Theorem 3.8) is infinite on a domain with a dead row",
        ),
        repaired=Claim(readout * b / (sp.pi * length)),
        constants=lambda case: {
            readout: case.readout,
            length: case.length,
            b: case.radius,
            gamma: evaluate(readout * b / sp.pi, {readout: case.readout, b: case.radius}),
        },
        measure=lambda case: case.curvature(),
        symbols={
            readout: "readout weight v > 0",
            length: "|u|, of the hidden weight",
            b: "|x|, on a circle",
            gamma: "one constant for all weights; here b v/pi, the smallest that is valid at |u| = 1",
        },
        left_formula="|grad E L(u') - grad E L(u)| / |u' - u|",
        says_left="|grad E L(u') - grad E L(u)| / |u' - u| for u turned, the gradients as integrals over half circles",
        families=(CIRCLE_UNITS,),
        mutants=(
            MILLIONTH_MORE,
            power(length, 2),
            without(readout),
            power(b, 2),
            replaced(sp.pi, 2 * sp.pi, "twice the circle", Change.CONSTANT),
        ),
    ),
    Statement(
        id="fedgucci/F17",
        title="Replacing the anchor by a client's own minimiser",
        kind=Kind.UPPER,
        source=Source(FEDGUCCI, "Eqs (51)-(52); (52)-(53) of the KDD text"),
        note="(51) is checked as printed, with Delta = |w_anc - w_anc,i|. (52) puts Definition 3.7's Gamma = max_i "
        "|w_i* - w*| in place of Delta. The two are equal only if the anchor is the global minimum w*, and the theorem "
        "asks nothing of its anchor: with another anchor Gamma may be 0 and Delta any number, and d_* and F18 inherit "
        "this gap. The client's loss L_i is read on both sides (the index is missing in print; with the global loss L "
        "= w^2/2, w_i = 0, w_anc = 1, w_anc,i = 2 gives 2 > 1.5). We derived this again from the text: "
        "gamma-smoothness gives L_i(p) <= L_i(q) + grad L_i(q).(p - q) + gamma |p - q|^2/2 for points p, q of the two "
        "segments at most Delta apart; the gradient is not 0 away from the minimum, and (51) has no term for it. The "
        "inequality holds in one dimension, and for a convex L_i whose minimiser is w_anc,i; in the plane it does not. "
        "The repaired form is for L_i >= 0 that is gamma-smooth everywhere: then |grad L_i| <= sqrt(2 gamma L_i). Each "
        "point of the new segment is at most Delta from its old place, and so has sqrt(L_i) <= sqrt(epsilon) + "
        "sqrt(gamma/2) Delta; this needs no minimiser. It implies the printed bound where Delta >= 2 sqrt(2 "
        "epsilon/gamma). The loss of the witness is linear from |y + c| = 6 on, so that it is smooth on the whole "
        "plane, with gamma = 1.0177. Proof: docs/proofs/connectivity.md#groups",
        stated=Claim(
            PRINTED,
            recorded=Outcome.VIOLATED,
            nature=Nature.SUBSTANCE,
            hypotheses=(MINIMISER,),
            witness=planar_counterexample,
            reading="the KDD text and the scan agree in every sign",
            consequence="from a low barrier to the common anchor a low barrier to the client's own minimiser "
            "follows only with a term of first order in the heterogeneity; a term of second order alone is not "
            "enough",
        ),
        repaired=Claim(MOVED),
        constants=lambda case: {eps: case.old_supremum, gamma: case.smoothness, shift: case.shift},
        measure=lambda case: case.new_supremum,
        symbols={
            eps: "sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc)",
            gamma: "Lipschitz constant of the gradient of L_i",
            shift: "|w_anc - w_anc,i|, the distance of the client's minimum from the anchor",
        },
        left_formula="sup_alpha L_i(alpha w_i + (1 - alpha) w_{anc,i})",
        says_left="sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc,i), enclosed by branch and bound in balls",
        families=(VALLEYS,),
        mutants=(
            power(shift, sp.Rational(1, 2)),
            without(gamma),
            replaced(MOVED, eps + gamma * shift**2 / 2, "gradient term dropped", Change.FACTOR),
        ),
    ),
)
