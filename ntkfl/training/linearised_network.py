"""A network linearised in its parameters: its training is exactly the kernel regime of its own kernel."""

import warnings
from functools import cache

import torch
from torch import Tensor
from torch.func import jvp

from ntkfl.training.checked_outputs import reason_of
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, zeros_like


def linearised(network: Model, params: Params) -> Model:
    """The network f(theta_0, x) + J(theta_0, x) D, whose parameters D start at 0 for every seed."""
    _load_forward_mode()

    def outputs(moved: Params, x: Tensor) -> Tensor:
        value, change, *_ = jvp(lambda theta: network.outputs(theta, x), (params,), (moved,))
        return value + change

    return Model(
        f"{network.name}, linearised",
        lambda seed: zeros_like(params),
        outputs,
        lambda moved, z: z,
    )


def require_forward_mode(name: str, network: Model, x: Tensor) -> None:
    """Refuse a network that has an operation without a forward derivative.

    Raises:
        ValueError: an operation has none.
    """
    try:
        network.outputs(network.initial(0), x[:1])
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"{name} cannot be linearised by torch.func.jvp: {reason_of(error)}") from error


@cache
def _load_forward_mode() -> None:
    """Take PyTorch's first forward derivative in this process, which loads a module that warns of its own torch.jit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one = torch.ones(())
        jvp(torch.sin, (one,), (one,))
