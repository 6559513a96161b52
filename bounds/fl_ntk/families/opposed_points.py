"""Two nearly opposite points with equal labels: where labels are huge, one step switches the wrong neurons on."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.family import Family
from bounds.federated_run import FederatedRun, federated_run
from ntkfl import gram
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup

HUGE = 1e4  # of the label, times sqrt m / eta_l: one step then moves active neurons by 1e4, where they began within 5


def opposed_run(
    seed: int, label: float | None, *, width: int = 4096, angle: float = 2.5, local_steps: int = 1, sigma: float = 1.0
) -> FederatedRun:
    """One round on one client at eta_l = .99 lambda/(1000 kappa n^2 K), the step of B.3's proof, with eta_g = 1.

    The label None is 1e4 sqrt m / eta_l: it moves a neuron with a = -1 that is active on one point by about 1e4 the
    other way, where the neuron is active on the other point. Instead of nothing the neuron subtracts |cos(angle)| of
    what the neurons with a = 1 add, and the residual falls by a tenth of what H(0) promises. The width 4096 is also
    beyond lambda^-4 n^4 log(n/delta), about 1600 at this angle and delta = .1. The angle is in radians.
    """
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = draw(width, 2, seed, sigma)
    lowest, highest = np.linalg.eigvalsh(gram.finite(x, weights.hidden))
    eta_local = float(0.99 * lowest**2 / (4000 * highest * local_steps))
    size = HUGE * np.sqrt(width) / eta_local if label is None else label
    problem = Problem(x, np.full(2, size), name=f"two points at angle {angle:g}, y = {size:.3g}")
    setup = Setup(width, sigma, eta_local, local_steps=local_steps, rounds=1, seed=seed)
    return federated_run(problem, setup, weights)


def tiny_network() -> FederatedRun:
    """The round of huge labels in other units: outputs scale with the weights, so labels 1 are huge where sigma is."""
    huge = float(opposed_run(0, None).problem.y[0])
    return opposed_run(0, 1.0, sigma=1 / huge)


def _opposed(label: float | None, seed: int) -> FederatedRun:
    return opposed_run(seed, label)


def _any_opposed(label: float | None) -> SearchStrategy[FederatedRun]:
    """Two points at any angle at which 2048 or 4096 neurons are enough for the theorem, 1 or 2 local steps.

    Labels from .01 up: to 1 where those of the family are small, to 1e16 where they are huge.
    """
    return st.builds(
        opposed_run,
        st.integers(0, 2**16),
        st.floats(-2, 16 if label is None else 0).map(lambda power: 10.0**power),
        width=st.sampled_from([2048, 4096]),
        angle=st.floats(1.3, 2.9),
        local_steps=st.integers(1, 2),
    )


# Such rounds on other networks: labels are 1, or huge.
OPPOSED = Family("two opposed points, y = 1", _opposed, _any_opposed, (1.0,), needs=5)
OPPOSED_HUGE = Family("two opposed points, y = huge", _opposed, _any_opposed, (None,), needs=5)
