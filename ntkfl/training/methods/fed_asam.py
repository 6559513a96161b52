"""FedASAM (Caldarola et al. 2022): sharpness-aware steps whose perturbation scales with the size of the weights."""

from ntkfl.training.method import Method, Objective
from ntkfl.training.methods.fed_sam import SharpnessAware

NAME = "fedasam"
NOT_LINEAR = "its gradients are taken at a point whose distance is fixed, in the direction of the gradient"


def method(objective: Objective, *, rho: float = 0.7, eta: float = 0.2) -> Method:
    """Each step takes the gradient at w + e with e = rho T^2 g / |T g|, where g is the gradient at w.

    T is |w| + eta for each weight and 1 for each bias. rho = 0 is FedAvg.

    Args:
        objective: the loss that clients descend.
        rho: length of the perturbation e, measured as |e / T|; default 0.7.
        eta: added to |w|; default 0.2.

    Raises:
        ValueError: a negative rho or eta.
    """
    return Method(NAME, objective, SharpnessAware(rho, eta))
