"""A model as pure functions of its parameters, split into features and head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ntkfl.training.tree import Params


@dataclass(frozen=True, eq=False)
class Model:
    """f(params, x) = head(params, features(params, x)), for one client's parameters.

    Args:
        name: what reports call it.
        initial: seed -> parameters, a dict of tensors; a pure function of the seed.
        features: (params, x (b, ...)) -> z (b, k). head: (params, z) -> outputs (b, C), or (b,) for one output.
        head_names: the parameters that `head` uses and `features` does not.
    """

    name: str
    initial: Callable[[int], Params]
    features: Callable[[Params, Tensor], Tensor]
    head: Callable[[Params, Tensor], Tensor]
    head_names: tuple[str, ...] = ()

    def outputs(self, params: Params, x: Tensor) -> Tensor:
        """f(params, x)."""
        return self.head(params, self.features(params, x))

    def size(self) -> int:
        """Number of parameters, P."""
        return sum(tensor.numel() for tensor in self.initial(0).values())


def from_modules(
    name: str, make: Callable[[], tuple[nn.Module, nn.Module]], dtype: torch.dtype, device: torch.device | str
) -> Model:
    """A model from two modules, body and head, as `make` builds them; drawn on the CPU, so alike on every device.

    Raises:
        ValueError: a module with buffers (running statistics of BatchNorm cannot be averaged: use GroupNorm or none),
            with dropout, or without parameters in the head.
    """
    with torch.device("meta"):  # only their structure is used: no memory, and no numbers drawn
        body, head = make()
    for module in (body, head):
        refuse_state(name, module)
    head_names = tuple(f"head.{key}" for key, _ in head.named_parameters())
    if not head_names:
        raise ValueError(f"the head of {name} has no parameters; a head is the last layer, with its weights")

    def initial(seed: int) -> Params:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            modules = make()
        return {
            f"{part}.{key}": value.detach().to(device, dtype).clone()
            for part, module in zip(("body", "head"), modules, strict=True)
            for key, value in module.named_parameters()
        }

    return Model(
        name,
        initial,
        lambda params, x: functional_call(body, _part(params, "body."), (x,)),
        lambda params, z: functional_call(head, _part(params, "head."), (z,)),
        head_names,
    )


def refuse_state(name: str, module: nn.Module) -> None:
    """Refuse what is neither a parameter nor a pure function: buffers, dropout.

    Raises:
        ValueError: naming the first such thing.
    """
    for key, _ in module.named_buffers():
        raise ValueError(
            f"{name} has the buffer {key!r}; what is not a parameter is not averaged (running statistics of BatchNorm, "
            "say): use GroupNorm or no norm"
        )
    for key, part in module.named_modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            raise ValueError(f"{name} has dropout at {key!r}; a model must be a function of parameters and input")


def _part(params: Params, prefix: str) -> Params:
    return {key.removeprefix(prefix): value for key, value in params.items() if key.startswith(prefix)}
