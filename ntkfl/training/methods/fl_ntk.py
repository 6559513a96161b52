"""Algorithm 1 of FL-NTK: full-batch local steps on the sum of squares, and an unweighted mean at the server."""

from ntkfl.limit.linear_round import Blocks, LinearRound, averaging
from ntkfl.training.method import Average, Method, Objective
from ntkfl.training.objectives import HalfSquares

NAME = "fl-ntk"


def method(objective: Objective | None = None, *, server_rate: float = 1.0) -> Method:
    """u <- u + eta_global / N sum_c Delta_c over N clients, whose weights are equal whatever their numbers of samples.

    Args:
        objective: the loss that clients descend; default: |f - y|^2 / 2, summed over the samples.
        server_rate: eta_global, positive, default 1.

    Raises:
        ValueError: a server rate that is not positive.

    Source: FL-NTK, Algorithm 1; fl-ntk/Alg1-update. `LocalWork(batch_size=None, steps=K)` makes the steps full-batch.
    """
    return Method(NAME, objective or HalfSquares("sum"), server=Average(server_rate), weighting="uniform")


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """The residuals r' = (I - (g/N) H P) r after a round.

    H is the Gram matrix of all samples, and H_D its blocks of samples of the same client. P = f_K(H_D) maps residuals
    to displacements of the clients after K local steps. If all these steps have the size eta_l, f_K(q) = eta_l
    sum_{k<K} (1 - eta_l q)^k. g is the server_rate, and N the number of clients.

    Source: fl-ntk/X.1.
    """
    return averaging(blocks, blocks.shares(method.weighting) * blocks.response(), method.options["server_rate"])
