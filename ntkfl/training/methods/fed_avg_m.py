"""FedAvgM (Hsu et al. 2019): FedAvg with momentum at the server."""

from ntkfl.limit.linear_round import Blocks, LinearRound, heavy_ball
from ntkfl.messages import require_number
from ntkfl.training.method import Method, Objective, Round, ServerOptimizer, moved
from ntkfl.training.tree import Params, Tree

NAME = "fedavgm"


def method(objective: Objective, *, momentum: float = 0.9, nesterov: bool = False, server_rate: float = 1.0) -> Method:
    """v <- momentum v + sum_i p_i Delta_i, then w <- w + server_rate v. p_i is proportional to the number of samples.

    Args:
        objective: the clients' loss.
        momentum: momentum of the server, in [0, 1); 0 is FedAvg; default 0.9.
        nesterov: whether the step is w <- w + server_rate (sum_i p_i Delta_i + momentum v) instead, so that the clients
            get this extrapolated w. Default False.
        server_rate: rate of the server's step; default 1.

    Raises:
        ValueError: a momentum outside [0, 1), a server rate that is not positive.

    Source: Hsu, Qi, Brown 2019 (arXiv:1909.06335).
    """
    require_number("momentum", momentum, "lie in [0, 1)")

    def direction(means: Tree, state: Tree, now: Round) -> tuple[Params, Tree]:
        velocity = moved(means["difference"], state["momentum"], momentum)
        ahead = moved(means["difference"], velocity, momentum) if nesterov else velocity
        return ahead, {"momentum": velocity}

    return Method(NAME, objective, server=ServerOptimizer(server_rate, direction=direction, moments=("momentum",)))


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """A round as a map of the residuals and v: the server's recursion is applied to FedAvg's mean difference.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    return heavy_ball(blocks, blocks.shares(method.weighting) * blocks.response(), **method.options)
