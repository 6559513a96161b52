"""FedAdam (Reddi et al. 2021): the mean difference is a gradient for Adam on the server."""

from collections.abc import Callable

from ntkfl.messages import require_number
from ntkfl.training.method import Method, Objective, Round, ServerOptimizer
from ntkfl.training.tree import Params, Tensor, Tree, tree_map

NAME = "fedadam"
NOT_LINEAR = "its server divides by roots of mean squares, coordinate by coordinate"


def method(
    objective: Objective, *, server_rate: float = 0.01, first: float = 0.9, second: float = 0.99, tau: float = 1e-3
) -> Method:
    """w <- w + server_rate m / (sqrt v + tau), with running means m of D and v of D^2, D = sum_i p_i Delta_i.

    m = v = 0 at first, and there is no bias correction. The defaults are those of the IMA paper.

    Args:
        objective: the loss that clients descend.
        server_rate: rate of the step on the server; default 0.01.
        first: decay of m, in [0, 1], default .9.
        second: decay of v, in [0, 1], default .99.
        tau: added to sqrt v; default 0.001.

    Raises:
        ValueError: a decay `first` or `second` outside [0, 1], a rate or tau that is not positive.
    """
    return Method(NAME, objective, server=adaptive(mean_of_squares, server_rate, first, second, tau))


def mean_of_squares(v: Tensor, squares: Tensor, share: float) -> Tensor:
    """Returns (1 - share) v + share D^2; `squares` is D^2."""
    return (1 - share) * v + share * squares


def adaptive(
    following: Callable[[Tensor, Tensor, float], Tensor], server_rate: float, first: float, second: float, tau: float
) -> ServerOptimizer:
    """A server that keeps the moments m, as "first", and v, as "second".

    `following` is called with v, with D^2 and with 1 minus the decay `second`, and returns the next v.
    """
    for name, decay in (("first", first), ("second", second)):
        require_number(f"{name}, a decay of the server's,", decay, "lie in [0, 1]")
    for name, value in (("server_rate", server_rate), ("tau", tau)):
        require_number(name, value, "be positive")

    def direction(means: Tree, state: Tree, now: Round) -> tuple[Params, Tree]:
        difference = means["difference"]
        m = tree_map(lambda m, d: first * m + (1 - first) * d, state["first"], difference)
        v = tree_map(lambda v, d: following(v, d * d, 1 - second), state["second"], difference)
        return tree_map(lambda m, v: server_rate * m / (v.sqrt() + tau), m, v), {"first": m, "second": v}

    return ServerOptimizer(direction=direction, moments=("first", "second"))
