"""The case of clients that train alone from a shared start, at several widths.

The barrier of the group of clients on the circle is measured, and the limit of this barrier is computed. On a ladder
the same quantity is measured at several widths.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.case import prepared
from bounds.ladders.rungs import OTHER, SPACING, Rungs
from ntkfl import Problem, Setup, Weights, kernel_regime
from ntkfl.connectivity.client_training import circle_outputs, trained_clients
from ntkfl.initialisation import draw

WIDTHS = tuple(round(2 ** (8 + half / 2)) for half in range(11))
COUNTS = (200, 200, 200, 160, 160, 120, 100, 80, 64, 48, 40)  # the number of starts at each width
CIRCLE_POINTS = (
    # number of points of the circle over which the limit is averaged; the integrand is smooth except at some points
    2048
)
FREQUENCIES = 3


class Averaged(NamedTuple):
    """The measurements of one group of clients.

    barrier: L(FMA) - mean_k L(w_k). For the squared loss this is exactly the excess minus the variance of the clients'
    outputs, averaged over the circle. gap: root mean square of f_FMA - f_WENS over the circle. excess: L(FMA) -
    L(WENS).
    """

    barrier: float
    gap: float
    excess: float


@dataclass(frozen=True, eq=False)
class GroupLadder(Rungs):
    """Groups of clients at several widths, with several starts at each width. No two starts share neurons.

    The label of a point, for training or on the circle, is the sum of a function of the angle and the network's initial
    output. So the change of the outputs fits the function, as if the initial outputs were 0.
    """

    # (FREQUENCIES, 2): in the function, the coefficients of cos and sin of 0, 1, ... times the angle
    amplitudes: np.ndarray
    angles: np.ndarray  # angles of the training points, (n,)
    owner: np.ndarray  # the clients of the training points, (n,)
    # the step size and the number of local steps are the same for every client
    eta_local: float
    local_steps: int
    # the widths, and the number of starts at each width
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int  # seed of the first start
    spacing: ClassVar[int] = 2 * SPACING
    other: ClassVar[int] = OTHER * 2 * SPACING

    @cached_property
    def problem(self) -> Problem:
        """The training points on the unit circle."""
        x = np.stack([np.cos(self.angles), np.sin(self.angles)], axis=1)
        return Problem(x, self.target(self.angles), self.owner, name=f"{len(x)} points on the circle")

    def target(self, angles: np.ndarray) -> np.ndarray:
        """The function that is learnt."""
        turn = np.cos(angles) + 1j * np.sin(angles)  # this is several times faster than np.exp of a complex number
        total = np.zeros_like(turn)
        for cosine, sine in self.amplitudes[::-1]:
            total = total * turn + (cosine - 1j * sine)
        return total.real

    @cached_property
    def limit(self) -> float:
        """-E_x Var_k f_k, where f_k are the clients' predictions at infinite width."""
        angles = 2 * np.pi * np.arange(CIRCLE_POINTS) / CIRCLE_POINTS
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        setup = Setup(eta_local=self.eta_local, local_steps=self.local_steps, rounds=1)
        clients = [Problem(self.problem.x[own], self.problem.y[own]) for own in self.problem.members]
        return -float(np.var([kernel_regime(client, setup).predict(x, 1) for client in clients], axis=0).mean())

    @prepared
    def groups(self) -> list[list[Averaged]]:
        """The measurements of the groups, by width."""
        return self.at_each("groups", lambda row, i: self._group(self.widths[row], self.seeds(row)[i]))

    def _group(self, width: int, seed: int) -> Averaged:
        gaussian = draw(width, 2, seed)
        lengths = np.linalg.norm(gaussian.hidden, axis=1, keepdims=True)
        weights = Weights(gaussian.hidden * (np.sqrt(2) / lengths), gaussian.signs)
        x, y = self.problem.x, self.problem.y
        start = weights.outputs(x)
        setup = Setup(width, eta_local=self.eta_local, local_steps=self.local_steps)
        models = trained_clients(self.problem, setup, weights, y + start)
        circle = circle_outputs(np.stack([weights.hidden, models.mean(axis=0), *models]), weights.signs)
        averaged, *clients = circle.outputs[1:] - circle.outputs[0]
        target, ensemble = self.target(circle.angles), np.mean(clients, axis=0)
        difference = averaged - ensemble
        gap = float(np.sqrt(circle.mean(difference**2)))
        excess = float(circle.mean(difference * (averaged + ensemble - 2 * target)))
        variance = float(np.mean([circle.mean((client - ensemble) ** 2) for client in clients]))
        return Averaged(excess - variance, gap, excess)

    def samples(self, name: str) -> list[np.ndarray]:
        """The values of one field for every group: an array for each width."""
        return [np.array([getattr(group, name) for group in row]) for row in self.groups]

    def describe(self) -> dict:
        """What identifies the case in a report."""
        sizes = {"N": self.problem.n_clients, "K": self.local_steps, "eta_local": self.eta_local}
        return {"problem": self.problem.name} | sizes | super().describe()


def _ladder(seed: int) -> GroupLadder:
    """Three clients with three points each, in thirds of the circle. `seed` is the seed of the first start."""
    rng = np.random.default_rng([seed, 23])
    owner = np.repeat(np.arange(3), 3)
    angles = 2 * np.pi / 3 * (owner + rng.uniform(size=9))
    amplitudes = rng.normal(size=(FREQUENCIES, 2)) / 4
    return GroupLadder(amplitudes, angles, owner, 0.5, 8, WIDTHS, COUNTS, seed)


def _short_ladder(seed: int, clients: int, local_steps: int, eta_local: float) -> GroupLadder:
    """A ladder of widths 2^8..2^12 with 60 groups at each width."""
    rng = np.random.default_rng([seed, 29])
    owner = np.repeat(np.arange(clients), 3)
    amplitudes = rng.normal(size=(FREQUENCIES, 2))
    angles = rng.uniform(0, 2 * np.pi, len(owner))
    widths = tuple(2**power for power in range(8, 13))
    return GroupLadder(amplitudes, angles, owner, eta_local, local_steps, widths, (60,) * 5, seed)


# This family has one ladder. The user's data are not used, since they give no law of x for the average.
GROUP_LADDERS = Family(
    "three clients on the circle, widths 2^8..2^13",
    _ladder,
    st.builds(
        _short_ladder,
        st.integers(0, 2**16),
        st.integers(2, 4),
        st.integers(1, 30),
        # these step sizes are below 2 / |H_cc|, which is at least 4/3 for three points
        st.sampled_from([0.1, 0.3, 0.6]),
    ),
    trials=1,
    needs=20,  # this is a number of groups, not of ladders
    fixed=True,
)
