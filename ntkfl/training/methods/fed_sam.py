"""FedSAM (Qu et al. 2022; Caldarola et al. 2022): clients take sharpness-aware steps; the server is FedAvg's."""

from dataclasses import dataclass
from operator import mul

from ntkfl.messages import require_number
from ntkfl.training.method import Loss, Method, Objective, moved, plain_gradient
from ntkfl.training.tree import Params, Tensor, leaves, tree_map

SMALLEST_NORM = 1e-16  # if the gradient's norm is smaller, the perturbation is proportional to the gradient


@dataclass(frozen=True)
class SharpnessAware:
    """The gradient at w + e with e = rho T^2 g / |T g|, where g is the gradient at w. The norm is over all parameters.

    T is 1 (SAM) or, if `eta` is given, |w| + eta for weights and 1 for biases (ASAM). Weight decay and momentum are
    applied later, in the step from w. If g is 0, e is 0. The returned value of the loss is the loss at w. If
    `uncleared`, the gradient at w is added to the gradient at w + e, as in code that does not clear gradients between
    the two passes.

    Raises:
        ValueError: a negative rho, or a negative eta.

    Source: SAM: Foret et al. 2021. ASAM: Kwon et al. 2021. In federated learning: Caldarola et al. 2022 and Qu et al.
    2022.
    """

    rho: float
    eta: float | None = None
    uncleared: bool = False

    def __post_init__(self) -> None:
        require_number("rho, the radius of the perturbation,", self.rho, "be 0 or more")
        if self.eta is not None:
            require_number("eta, added to the size of the weights,", self.eta, "be 0 or more")

    def __call__(self, loss: Loss, params: Params) -> tuple[Params, Tensor]:
        gradient, value = plain_gradient(loss, params)
        there, _ = plain_gradient(loss, moved(params, self.perturbation(gradient, params)))
        return moved(there, gradient) if self.uncleared else there, value

    def perturbation(self, gradient: Params, params: Params) -> Params:
        """The perturbation e, with |e / T| = rho; for SAM, where T = 1, its Euclidean norm is rho."""
        from torch import stack

        sizes = {name: self._size(name, value) for name, value in params.items()}
        scaled = tree_map(mul, sizes, gradient)
        norm = stack([value.square().sum() for value in leaves(scaled)]).sum().sqrt().clamp(min=SMALLEST_NORM)
        return tree_map(lambda size, value: self.rho * size * value / norm, sizes, scaled)

    def _size(self, name: str, value: Tensor) -> Tensor:
        if self.eta is None or name.rpartition(".")[2] == "bias":
            return value.new_ones(value.shape)
        return value.abs() + self.eta


NAME = "fedsam"
NOT_LINEAR = "its gradients are taken at a point whose distance is fixed, in the direction of the gradient"


def method(objective: Objective, *, rho: float = 0.05) -> Method:
    """Each step takes the gradient at w + rho g / |g|, where g is the gradient at w. rho = 0 is FedAvg.

    Args:
        objective: the loss that clients descend.
        rho: length of the perturbation, a Euclidean norm, default .05.

    Raises:
        ValueError: a negative rho.
    """
    return Method(NAME, objective, SharpnessAware(rho))
