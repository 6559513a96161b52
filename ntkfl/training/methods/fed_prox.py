"""FedProx (Li et al. 2020): local objectives with a proximal term around the model received."""

from dataclasses import dataclass
from operator import sub

from ntkfl.limit.linear_round import Blocks, LinearRound, averaging
from ntkfl.messages import require_number
from ntkfl.training.method import Average, LocalRule, Method, Objective, Step, moved
from ntkfl.training.tree import Params, tree_map

NAME = "fedprox"


def method(objective: Objective, *, mu: float = 0.01, server_rate: float = 1.0) -> Method:
    """Clients descend F_i(w) + mu/2 |w - w_received|^2, a squared norm; the server is FedAvg's.

    Args:
        objective: F_i, the loss that clients descend.
        mu: strength of the proximal term; default 0.01.
        server_rate: rate of the step on the server; default 1.

    Raises:
        ValueError: a negative mu, a server rate that is not positive.
    """
    return Method(NAME, objective, local=Proximal(mu), server=Average(server_rate))


@dataclass(frozen=True)
class Proximal(LocalRule):
    """A client adds mu (w - w_received) to its gradient, before momentum; `pull` is mu."""

    pull: float = 0.0

    def __post_init__(self) -> None:
        require_number("mu", self.pull, "be 0 or more")

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        return moved(gradient, tree_map(sub, params, step.broadcast["model"]), self.pull)


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """FedAvg's map, with the proximal term in the clients' response f(q) = eta_l sum_{k<K} (1 - eta_l (q + mu))^k.

    eta_l is the local step, K the number of local steps, and q an eigenvalue of the client's Gram matrix.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    response = blocks.shares(method.weighting) * blocks.response(method.options["mu"])
    return averaging(blocks, response, method.options["server_rate"], method.options["mu"])
