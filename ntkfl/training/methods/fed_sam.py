"""FedSAM (Qu et al. 2022; Caldarola et al. 2022): clients take sharpness-aware steps; the server is FedAvg's."""

from ntkfl.training.method import Method, Objective
from ntkfl.training.sharpness import SharpnessAware

NAME = "fedsam"
NOT_LINEAR = "its gradients are taken at a point whose distance is fixed, in the direction of the gradient"


def method(objective: Objective, *, rho: float = 0.05) -> Method:
    """Each step takes the gradient at w + rho g / |g|; rho = 0 is FedAvg.

    Args:
        objective: the loss that clients descend.
        rho: length of the perturbation, a Euclidean norm, default .05.

    Raises:
        ValueError: a negative rho.
    """
    return Method(NAME, objective, SharpnessAware(rho))
