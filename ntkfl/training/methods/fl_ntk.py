"""Algorithm 1 of FL-NTK: full-batch local steps on the sum of squares; the server's mean is unweighted."""

from ntkfl.limit.linear_round import Blocks, LinearRound, averaging
from ntkfl.training.method import Average, Method, Objective
from ntkfl.training.objectives import HalfSquares

NAME = "fl-ntk"


def method(objective: Objective | None = None, *, server_rate: float = 1.0) -> Method:
    """u <- u + eta_global / N sum_c Delta_c, whatever the clients' sizes; the loss is |f - y|^2 / 2 summed.

    Args:
        objective: the loss that clients descend; default: half the squares, summed.
        server_rate: eta_global, positive, default 1.

    Raises:
        ValueError: a server rate that is not positive.

    Source: FL-NTK, Algorithm 1; fl-ntk/Alg1-update. `LocalWork(batch_size=None, steps=K)` makes the steps full-batch.
    """
    return Method(NAME, objective or HalfSquares("sum"), server=Average(server_rate), weighting="uniform")


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """r' = (I - (g/N) H P) r, P = f_K(H_D). Source: fl-ntk/X.1."""
    return averaging(blocks, blocks.shares(method.weighting) * blocks.response(), method.options["server_rate"])
