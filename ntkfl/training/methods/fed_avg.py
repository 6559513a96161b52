"""FedAvg (McMahan et al. 2017): local steps from the global model; the server takes the mean of the differences."""

from ntkfl.limit.linear_round import Blocks, LinearRound, averaging
from ntkfl.training.method import Average, Method, Objective

NAME = "fedavg"


def method(objective: Objective, *, server_rate: float = 1.0) -> Method:
    """w <- w + server_rate * sum_i p_i Delta_i, p_i proportional to the clients' sample counts.

    Args:
        objective: the loss that clients descend.
        server_rate: step of the server on the mean, positive; default 1.

    Raises:
        ValueError: a server rate that is not positive.
    """
    return Method(NAME, objective, server=Average(server_rate))


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """The residuals r' = (I - g H blockdiag_c p_c f_K(H_cc)) r after a round.

    H is the Gram matrix of all samples, and H_cc its block of client c. f_K(H_cc) maps a client's residuals to its
    displacement after K local steps. If all these steps have the size eta_l, f_K(q) = eta_l sum_{k<K} (1 - eta_l q)^k.
    g is the server_rate, and p_c the client's weight.

    Source: fl-ntk/X.1, with the weights p_c.
    """
    return averaging(blocks, blocks.shares(method.weighting) * blocks.response(), method.options["server_rate"])
