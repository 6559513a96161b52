"""Assumption 3.2: a loss that is 1-Lipschitz in the outputs and smooth in the weights."""

from dataclasses import dataclass

import numpy as np
import sympy as sp
from flint import arb
from hypothesis import strategies as st

from bounds import FEDGUCCI, Case, Change, Claim, Family, Kind, Nature, Outcome, Source, Statement
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

FAR = 80  # outputs at which the slopes of logistic loss and cross-entropy are within e^-80 of the largest
STEP = 2.0**-40


@dataclass(frozen=True, eq=False)
class LossSteepness(Case):
    """A loss of `outputs` outputs; the squared loss only where |f - y| <= reach, since it is not Lipschitz beyond.

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
                    steepness, most = abs(arb(1)) - abs(arb(0)), arb(1)  # y = 0, f = 1, f' = 0
                case "squared":
                    low = ball(self.reach) - ball(self.reach) * STEP
                    steepness = (ball(self.reach) ** 2 - low**2) / (ball(self.reach) * STEP)
                    most = 2 * ball(self.reach)
                case "logistic":
                    steepness = (1 + arb(FAR + 1).exp()).log() - (1 + arb(FAR).exp()).log()
                    most = arb(1)  # 1 / (1 + exp(y f))
                case _:
                    steepness, most = self._cross_entropy(), arb(2).sqrt()  # |p - e_y|^2 <= 2 (1 - p_y)^2
            lower, upper = enclosure(steepness), enclosure(most)
        return Estimate.between(lower.lo, upper.hi, "ball", Rigour.ENCLOSED)

    def _cross_entropy(self) -> arb:
        """From logits (FAR, -FAR, -FAR, ...) with y the second, one step along (1, -1, 0, ...): length sqrt 2."""
        others = (self.outputs - 2) * arb(-FAR).exp()

        def loss(step: int) -> arb:
            first, second = arb(FAR + step), arb(-FAR - step)
            return (first.exp() + second.exp() + others).log() - second

        return (loss(1) - loss(0)) / arb(2).sqrt()

    describe = described("loss", "outputs", "reach")


def _loss(seed: int) -> LossSteepness:
    """Every loss in turn, up to ten outputs, reach log-uniform in 1/8..8."""
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
    trials=2,  # the seed does not change a loss's constant
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
    """f = v relu(u.x) in the plane: x uniform on |x| = radius, |u| = length, u at `angle`, then turned by `turn`.

    The loss is |f - y| with y <= 0 and v > 0, so that E L = E f - E y, whose gradient is that of E f.

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
        """v E[1(u.x > 0) x]: the integral of (cos, sin) over the half circle around u."""
        scale = ball(self.readout) * ball(self.radius) / (2 * arb.pi())
        low, high = angle - arb.pi() / 2, angle + arb.pi() / 2
        return scale * (high.sin() - low.sin()), scale * (low.cos() - high.cos())

    def curvature(self) -> Estimate:
        """|grad(u') - grad(u)| / |u' - u| for the turned u: a lower bound on every smoothness constant of E L."""
        with precision():
            start, end = ball(self.angle), ball(self.angle) + ball(self.turn)
            change = [b - a for a, b in zip(self._gradient(start), self._gradient(end), strict=True)]
            moved = [end.cos() - start.cos(), end.sin() - start.sin()]
            sizes = [(part[0] ** 2 + part[1] ** 2).sqrt() for part in (change, moved)]
            return enclosure(sizes[0] / (ball(self.length) * sizes[1]))

    describe = described(**{"v": "readout", "|u|": "length", "|x|": "radius", "turn": "turn"})


def _unit(seed: int) -> CircleNeuron:
    """|u| log-uniform in .01..1, v and |x| in 1/4..4."""
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
            # |u| = 1/64, where the curvature is 64 times that at |u| = 1.
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
)
