"""Case: a loss as a function of the network's outputs, and an enclosure of its Lipschitz constant."""

from dataclasses import dataclass

import numpy as np
from flint import arb
from hypothesis import strategies as st

from bounds import Family
from bounds.case import Case
from ntkfl.balls import ball, enclosure, precision
from ntkfl.connectivity.losses import LOSSES
from ntkfl.estimate import Estimate, Rigour

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
        if not 0 < self.reach < np.inf:
            raise ValueError(f"reach is {self.reach}; it must be positive and finite")

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

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"loss": self.loss, "outputs": self.outputs, "reach": self.reach}


def _loss(seed: int) -> LossSteepness:
    """Every loss in turn, up to ten outputs, reach log-uniform in 1/8..8."""
    rng = np.random.default_rng([seed, 4])
    loss = list(LOSSES)[seed % len(LOSSES)]
    several = int(rng.integers(2, 11))
    outputs = {"cross-entropy": several, "squared": several - 1}.get(loss, 1)
    return LossSteepness(loss, outputs, float(2.0 ** rng.uniform(-3, 3)))


def _scalar_loss(seed: int) -> LossSteepness:
    """The absolute and the logistic loss in turn."""
    return LossSteepness(("absolute", "logistic")[seed % 2])


_REACH = st.floats(0.01, 100)
SCALAR_LOSSES = Family(
    "losses of a scalar output",
    _scalar_loss,
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
