"""FedYogi (Reddi et al. 2021): FedAdam whose second moment moves by a bounded amount."""

from ntkfl.training.method import Method, Objective
from ntkfl.training.methods.fed_adam import adaptive
from ntkfl.training.tree import Tensor

NAME = "fedyogi"
NOT_LINEAR = "its server divides by roots of squares, coordinate by coordinate"


def method(
    objective: Objective, *, server_rate: float = 0.01, first: float = 0.9, second: float = 0.99, tau: float = 1e-3
) -> Method:
    """FedAdam with v <- v - (1 - second) D^2 sign(v - D^2), where D = sum_i p_i Delta_i.

    This function raises the same exceptions as the `method` of fed_adam.py.

    Args:
        objective: the loss that clients descend.
        server_rate: rate of the step on the server; default 0.01.
        first: decay of m, in [0, 1], default .9.
        second: decay of v, in [0, 1], default .99.
        tau: added to sqrt v; default 0.001.
    """
    return Method(NAME, objective, server=adaptive(towards_squares, server_rate, first, second, tau))


def towards_squares(v: Tensor, squares: Tensor, share: float) -> Tensor:
    """Returns v - share D^2 sign(v - D^2); `squares` is D^2."""
    return v - share * squares * (v - squares).sign()
