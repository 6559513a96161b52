"""Networks of one shape as one model, which the engine trains in one batch."""

from torch import Tensor
from torch.func import vmap

from ntkfl.training.model import Model
from ntkfl.training.tree import Params, stacked


def side_by_side(network: Model, count: int) -> Model:
    """A model of `count` outputs: copies of a network of one output, each with weights of its own.

    Output s depends on the weights of copy s alone. A loss that is a sum over outputs, as `HalfSquares("sum")`, has the
    gradient of each copy's own loss for it, so that steps of sgd and weighted means train every copy as if it were
    alone, to rounding.
    """

    of_all = network.stacked

    def together(params: Params, x: Tensor) -> Tensor:
        assert of_all is not None
        return of_all(params, x[..., None, :, :]).mT

    def mapped(params: Params, x: Tensor) -> Tensor:
        return vmap(network.outputs, in_dims=(0, None), out_dims=1)(params, x)

    def initial(seed: int) -> Params:
        return stacked([network.initial(seed * count + copy) for copy in range(count)])

    return Model(
        f"{network.name}, {count} side by side",
        initial,
        mapped if of_all is None else together,
        lambda params, z: z,
        stacked=of_all and together,
    )
