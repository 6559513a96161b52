"""FedAvg of aligned models: clients permute their units to fit the broadcast model before the server averages."""

from ntkfl.training.method import Average, LocalRule, Method, Objective, Relocation, Round
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tensor, Tree

NAME = "fedavg-aligned"
NOT_LINEAR = "its clients choose permutations of their units, which jump"


def method(objective: Objective, *, server_rate: float = 1.0) -> Method:
    """w <- w + server_rate * sum_i p_i (P_i w_i - w), p_i proportional to the clients' sample counts.

    w_i is the client's model after its steps. P_i permutes the model's units and channels, layer by layer, and does not
    change the model's function. `torch_alignment.match` looks for the order of units in which w_i is nearest to w. If
    every P_i is the identity, this is FedAvg. If a round has a single client, its model is not permuted. A model
    without units that can be permuted, and parts of a model whose units must keep their order, are averaged as they
    are.

    Args:
        objective: the loss that clients descend.
        server_rate: step of the server on the mean, positive; default 1.

    Raises:
        ValueError: a server rate that is not positive. A round raises this error too, if the model has units that
            cannot be followed through its layers.

    Source: Wang et al. 2020, "Federated learning with matched averaging" (FedMA, arXiv:2002.06440); here, unlike in
    FedMA, whole models of a fixed width are matched, by the assignment problems of Git Re-Basin (arXiv:2209.04836).
    """
    return Method(NAME, objective, local=Aligned(), server=Average(server_rate))


class Aligned(LocalRule):
    """A client that aligns its model to the received model before it sends the difference."""

    def relocation(self, model: Model, x: Tensor, end: Params, broadcast: Tree, now: Round) -> Relocation | None:
        from ntkfl.connectivity.units.torch_alignment import match, permuted, weight_pairs
        from ntkfl.connectivity.units.walk import units_of

        if now.cohort == 1:
            return None
        units, _ = units_of(model.outputs, end, x)
        orders = match(weight_pairs(units, broadcast["model"], end), units.sizes).orders
        return lambda params: permuted(params, units, orders)
