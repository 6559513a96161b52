"""The default runs, linearised, or at steps so small that bounds on a round's progress apply: eta_l n K <= 1.2564.

Beside them wedges: two points at a small angle. The neurons whose kink lies between the points must separate the
labels, and move far.
"""

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options
from bounds.family import with_own
from bounds.federated_run import FederatedFamily, FederatedRun, federated_families, federated_run
from bounds.fl_ntk.families.aligned import ALIGNED_POINTS
from bounds.part_strategies import log_uniform, sizes
from ntkfl.problem import Problem, Setup, Weights


def linearised_families(options) -> tuple:
    """Networks linearised in their weights, trained in parameter space; fewer, their rounds are many columns each."""
    return federated_families(options, label="linearised", linearised=True, movements=True, rounds=40)


def small_steps(options: Options) -> tuple[FederatedFamily, ...]:
    """Default families, or the user's data, at eta_l = .03."""
    return federated_families(options, label="eta_l=.03", movements=True, eta_local=0.03)


def small_step_runs(options: Options) -> tuple[FederatedFamily, ...]:
    """Default families at eta_l = .03; on the user's data eta_l n K <= 1.2, unless the user chose a step."""
    if options.data is None:
        return small_steps(options)
    size = federated_families(options)[0].problem(options.seed).n
    step = min(0.03, 1.2 / (size * (options.local_steps or 2)))
    return federated_families(options, label=f"eta_l={step:.2g}", movements=True, eta_local=step)


def wedge(angle: float, width: int, rounds: int) -> FederatedRun:
    """Two points at `angle`, neurons evenly spread over the circle: lambda_min(H(0)) is about angle / (2 pi).

    The angle is in radians.
    """
    turn = 2 * np.pi * (np.arange(width) + 0.5) / width
    hidden = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    # K = 1: only the product counts
    setup = Setup(width, eta_local=0.01, eta_global=60.0, local_steps=1, rounds=rounds)
    return _run(angle, hidden, setup, f"wedge(angle={angle:g})")


def one_neuron_wedge() -> FederatedRun:
    """Half of 256 neurons active on both points, half on neither, and one on the first alone: lambda is about 1/512.

    Small enough to be run in balls. The residual lies along the bottom eigenvector, so the lone neuron alone must
    remove it: it moves by r_0 / (sqrt 2 sqrt m lambda), most of it within 440 rounds at eta_l eta_g = 1.8.
    """
    width = 256
    hidden = np.zeros((width, 2))
    hidden[:, 0] = np.where(np.arange(width) % 2, 1.0, -1.0)
    hidden[0] = 0.0, 1.0
    setup = Setup(width, eta_local=0.018, eta_global=100.0, local_steps=1, rounds=440)
    return _run(0.02, hidden, setup, "one neuron in the wedge")


def _run(angle: float, hidden: np.ndarray, setup: Setup, name: str) -> FederatedRun:
    """Residual (1, -1)/sqrt 2 times 1e-4, too small for any pattern to flip: the movement is the linearised one's."""
    x = np.array([[np.cos(side * angle / 2), np.sin(side * angle / 2)] for side in (1, -1)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(hidden, np.where(np.arange(len(hidden)) % 4 < 2, 1.0, -1.0))
    problem = Problem(x, weights.outputs(x) + 1e-4 * np.array([1.0, -1.0]) / np.sqrt(2), name=name)
    return federated_run(problem, setup, weights)


def _wedge(seed: int) -> FederatedRun:
    """Wedges of angle .3 down to .03, again every eight seeds; 600 rounds each: as many compiled lengths as one."""
    return wedge(float(np.geomspace(0.3, 0.03, 8)[seed % 8]), 512, rounds=600)


# Searched: wedges of any angle, few neurons and few rounds, for a search makes them anew hundreds of times.
ANY_WEDGE = st.builds(wedge, log_uniform(1e-3, 1), sizes(4, 128), st.integers(1, 40))
WEDGES = Family("wedges", _wedge, ANY_WEDGE, trials=8)

small_step_families = with_own(small_step_runs, ALIGNED_POINTS)  # the latter make the bounds sharp
moving_families = with_own(small_step_runs, WEDGES)  # in wedges the bound's power of lambda matters
