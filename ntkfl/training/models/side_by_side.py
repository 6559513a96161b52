"""Networks of one shape as one model, which the engine trains in one batch."""

from torch import Tensor
from torch.func import vmap

from ntkfl.training.model import Model
from ntkfl.training.tree import Params, stacked


def side_by_side(network: Model, count: int) -> Model:
    """Copies of a network, each with weights of its own, as one model: outputs (b, count), of C each (b, count, C).

    Output s depends on the weights of copy s alone. If the loss is a sum over outputs, as `HalfSquares("sum")`, its
    gradient for each copy is that of the copy's own loss. So steps of sgd and weighted means train every copy as if it
    were alone, to rounding.
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
