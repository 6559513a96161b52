"""Two nearly opposite points with equal labels: where labels are huge, one step switches the wrong neurons on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedRun, federated_run
from ntkfl import gram
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup

HUGE = 1e4  # of the label, times sqrt m / eta_l: one step then moves active neurons by 1e4, where they began within 5


def opposed_run(
    seed: int, label: float | None, *, width: int = 2048, angle: float = 2.5, local_steps: int = 1
) -> FederatedRun:
    """One round on one client at eta_l = .99 lambda/(1000 kappa n^2 K), the step of B.3's proof, with eta_g = 1.

    label: of both points; None: 1e4 sqrt m / eta_l. Then a neuron with a = -1 that is active on one point is moved by
    about 1e4 the other way, where it is active on the other point: instead of nothing it subtracts |cos(angle)| of what
    the neurons with a = 1 add, and the residual falls by a tenth of what H(0) promises. At width 2048 the width is
    beyond lambda^-4 n^4 log(n/delta) too.
    """
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = draw(width, 2, seed)
    lowest, highest = np.linalg.eigvalsh(gram.finite(x, weights.hidden))
    eta_local = float(0.99 * lowest**2 / (4000 * highest * local_steps))
    size = HUGE * np.sqrt(width) / eta_local if label is None else label
    problem = Problem(x, np.full(2, size), name=f"two points at angle {angle:g}, y = {size:.3g}")
    setup = Setup(width, eta_local=eta_local, local_steps=local_steps, rounds=1, seed=seed)
    return federated_run(problem, setup, weights)


@dataclass(frozen=True)
class OpposedDraw:
    """Such rounds on other networks; the labels are 1, or huge."""

    label: float | None
    trials: int = 20
    required: int = 5

    @property
    def name(self) -> str:
        """What reports call the family."""
        return f"two opposed points, y = {'huge' if self.label is None else f'{self.label:g}'}"

    def case(self, seed: int) -> FederatedRun:
        """The round of one seed."""
        return opposed_run(seed, self.label)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """Two points at any angle that is not small, labels from .01 to 1e16, 16 to 512 neurons, 1 or 2 local steps."""
        return st.builds(
            opposed_run,
            st.integers(0, 2**16),
            st.floats(-2, 16).map(lambda power: 10.0**power),
            width=st.sampled_from([16, 64, 512]),
            angle=st.floats(0.3, 2.9),
            local_steps=st.integers(1, 2),
        )
