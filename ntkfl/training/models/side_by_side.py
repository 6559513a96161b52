"""Networks of the same shape as one model, which the engine trains in one batch."""

from torch import Tensor
from torch.func import vmap

from ntkfl.training.model import Model
from ntkfl.training.tree import Params, stacked


def side_by_side(network: Model, count: int) -> Model:
    """Copies of a network with separate weights, as one model of outputs (b, count), or (b, count, C) for C outputs.

    Output s depends only on the weights of copy s. If the loss is a sum over outputs, as `HalfSquares("sum")`, each
    copy has the gradient of its own loss. So steps of sgd and weighted means train every copy as if it were alone, up
    to rounding.
    """

    def together(params: Params, x: Tensor) -> Tensor:
        return network.outputs(params, x[..., None, :, :]).transpose(x.ndim - 2, x.ndim - 1)

    def mapped(params: Params, x: Tensor) -> Tensor:
        return vmap(network.outputs, in_dims=(0, None), out_dims=1)(params, x)

    def initial(seed: int) -> Params:
        return stacked([network.initial(seed * count + copy) for copy in range(count)])

    return Model(
        f"{network.name}, {count} side by side",
        initial,
        together if network.stacks else mapped,
        lambda params, z: z,
        stacks=network.stacks,
    )
