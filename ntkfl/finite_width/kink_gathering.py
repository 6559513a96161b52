"""How many neurons a wide network has close to the kinks of its samples, and how training gathers them there."""

import numpy as np
from numpy.typing import ArrayLike

from ntkfl.estimate import Estimate
from ntkfl.finite_width.boundary_layer import REPLICATES, kink_layers, over_replicates
from ntkfl.problem import Problem, Setup


def pairs_near_kinks(
    problem: Problem, setup: Setup, rounds: ArrayLike, radii: ArrayLike, *, draws: int = 512, starts: int = 32, seed=0
) -> Estimate:
    """Coefficients of m^(1/2) in the number of pairs (r, i) with |w_r(t).x_i| < radius/sqrt(m), at each of the rounds.

    The coefficients are those of the infinite-width run that starts from the residual problem.y; errors at 99%. Before
    training (t = 0) a coefficient is the sum over i of 2 radius / (sqrt(2 pi) sigma |x_i|), by the Gaussian density. A
    neuron that a sample pushes across its own kink, and that all other samples push back, stays at the kink while the
    steps fall: so the number of pairs within a fixed multiple of |r(t)|/sqrt(m) need not fall with |r(t)|.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.

    Raises:
        ValueError: rounds outside 0..T, radii of another shape or not positive; as `kink_layers`. Source: fl-ntk/X.13.
    """
    rounds, radii = np.asarray(rounds, int), np.asarray(radii, float)
    if rounds.ndim != 1 or rounds.shape != radii.shape or not (radii > 0).all():
        raise ValueError(f"rounds and radii have shapes {rounds.shape} and {radii.shape}; both must be (q,), radii > 0")
    if rounds.size and not 0 <= rounds.min() <= rounds.max() <= setup.rounds:
        wrong = rounds.min() if rounds.min() < 0 else rounds.max()
        raise ValueError(f"rounds contains {wrong}; the run has rounds 0..{setup.rounds}")
    fractions = np.zeros((REPLICATES, len(rounds)))
    margin = float(radii.max(initial=0.0))
    for layer in kink_layers(problem, setup, draws=draws, starts=starts, margin=margin, seed=seed):
        for i in np.flatnonzero(rounds == 0):
            fractions[:, i] += layer.mean(np.abs(layer.start) < radii[i])
        for step in layer.walk():
            if step.local_step == setup.local_steps:
                for i in np.flatnonzero(rounds == step.round + 1):
                    fractions[:, i] += layer.mean(np.abs(step.after) < radii[i])
    return over_replicates(fractions)
