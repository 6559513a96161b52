"""FedNova (Wang et al. 2020): differences are divided by the effective number of local steps."""

from dataclasses import dataclass

import numpy as np

from ntkfl.limit.linear_round import Blocks, LinearRound, averaging
from ntkfl.training.method import Finish, Method, Objective, Round, ServerRule, moved
from ntkfl.training.methods.fed_prox import Proximal
from ntkfl.training.tree import Tree, tree_map

NAME = "fednova"


def method(objective: Objective, *, mu: float = 0.0) -> Method:
    """w <- w + (sum_i p_i a_i) sum_i p_i Delta_i / a_i, with the proximal term of FedProx.

    a_i is the length of the displacement that a constant gradient of length 1 would have caused, divided by the rate.
    For plain SGD a_i is the number of steps; with momentum a_i is larger, with mu smaller. Momenta that are kept from
    round to round are not taken into account.

    Args:
        objective: the loss that clients descend.
        mu: strength of FedProx's proximal term, at least 0, default 0.

    Raises:
        ValueError: a negative mu.
    """
    return Method(NAME, objective, local=Normalised(mu), server=EffectiveSteps())


@dataclass(frozen=True)
class Normalised(Proximal):
    """A client sends Delta_i / a_i, as "direction", and a_i, as "coefficient".

    A client that took no step sends zeros.
    """

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        divisor = end.coefficient.where(end.coefficient > 0, 1)
        direction = tree_map(lambda d: d / divisor, end.difference)
        return {"direction": direction, "coefficient": end.coefficient}, client


class EffectiveSteps(ServerRule):
    """The server adds the mean of the a_i times the mean direction."""

    takes_differences = False

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        walked = tree_map(lambda d: means["coefficient"] * d, means["direction"])
        return {"model": moved(state["model"], walked)}


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """FedProx's map at server rate 1, with E[(sum_d p_d a_d) p_c] / a_c in place of the client's weight p_c.

    The mean E is taken over the draws of clients.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    pull = method.local.pull
    weights, lengths = blocks.weights(method.weighting), blocks.lengths(pull)
    steps = np.array([lengths[owned[0]] for owned in blocks.clients.members])
    together = weights.covariance + np.outer(weights.mean, weights.mean)
    shares = (together @ steps / steps)[blocks.owner]
    return averaging(blocks, shares * blocks.response(pull), pull=pull)
