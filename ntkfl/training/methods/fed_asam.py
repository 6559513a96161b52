"""FedASAM (Caldarola et al. 2022): sharpness-aware steps whose perturbation scales with the size of the weights."""

from __future__ import annotations

from ntkfl.training.method import Method, Objective
from ntkfl.training.sharpness import SharpnessAware

NAME = "fedasam"


def method(objective: Objective, *, rho: float = 0.7, eta: float = 0.2) -> Method:
    """Each step takes the gradient at w + rho T^2 g / |T g|, T = |w| + eta, 1 for biases; rho = 0 is FedAvg.

    Raises:
        ValueError: a negative rho or eta.
    """
    return Method(NAME, objective, SharpnessAware(rho, eta))
