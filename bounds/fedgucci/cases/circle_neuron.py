"""Case: one hidden unit on inputs uniform on a circle, whose expected gradient is an integral of sines."""

from dataclasses import dataclass

import numpy as np
from flint import arb
from hypothesis import strategies as st

from bounds import Family
from bounds.case import Case
from bounds.part_strategies import log_uniform
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate


@dataclass(frozen=True, eq=False)
class CircleNeuron(Case):
    """f = v relu(u.x), |u| = length at an angle, x uniform on |x| = radius in the plane; u is turned by `turn`.

    The loss is |f - y| with y <= 0 and v > 0, so that E L = E f - E y and its gradient is that of E f.

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
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive and finite")
        if not 0 < self.turn <= np.pi:
            raise ValueError(f"turn is {self.turn}; it must be in (0, pi]")

    def _gradient(self, angle: arb) -> tuple[arb, arb]:
        """v E[1(u.x > 0) x]: the integral of (cos, sin) over the half circle around u."""
        scale = ball(self.readout) * ball(self.radius) / (2 * arb.pi())
        low, high = angle - arb.pi() / 2, angle + arb.pi() / 2
        return scale * (high.sin() - low.sin()), scale * (low.cos() - high.cos())

    def curvature(self) -> Estimate:
        """|grad(u') - grad(u)| / |u' - u| for u turned: no smoothness constant of E L on such u is smaller."""
        with precision():
            start, end = ball(self.angle), ball(self.angle) + ball(self.turn)
            change = [b - a for a, b in zip(self._gradient(start), self._gradient(end), strict=True)]
            moved = [end.cos() - start.cos(), end.sin() - start.sin()]
            sizes = [(part[0] ** 2 + part[1] ** 2).sqrt() for part in (change, moved)]
            return enclosure(sizes[0] / (ball(self.length) * sizes[1]))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"v": self.readout, "|u|": self.length, "|x|": self.radius, "turn": self.turn}


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
