"""What goes through the numbers that layers read to a network's outputs: each number times the outputs' gradient to it.

In a two-layer ReLU network this is what each hidden unit adds to the outputs. In a ReLU network of any depth a layer's
parts still sum to the outputs, less what biases above it add; of other networks they are parts to first order.
Rescaling a unit, its weights in by c and those out by 1/c, changes no part of any layer.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ntkfl import interruption
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.walk import Factor, Read, Units, units_of
from ntkfl.memory import require


def units_and_parts(network: TorchNetwork, weights: Mapping[str, Tensor], x: Any) -> tuple[Units, list[Read]]:
    """The units of a network, and for every layer whose inputs they move, the parts: (outputs, *shape of the inputs).

    Inputs that several layers read count once: their gradient is that of all ways to the outputs.

    Args:
        network: any.
        weights: those of it whose axes are followed, by name.
        x: inputs, as the module gets them.

    Returns: the units, and the parts of each layer.

    Raises:
        ValueError: as `units_of`; outputs without a gradient.
        TooLittleMemory: parts that do not fit.
    """
    trained = {name for name, _ in network.module.named_parameters(remove_duplicate=False)}
    own = {n: value.detach().requires_grad_() if n in trained else value for n, value in weights.items()}
    outputs: list[Tensor] = []

    def watched(given: Mapping[str, Tensor], inputs: Any) -> Tensor:
        # what is saved is copied: a module may write in place what a gradient needs
        with torch.enable_grad(), saved_tensors_hooks(lambda value: value.detach().clone(), lambda value: value):
            outputs.append(network.evaluated(given, inputs))
        return outputs[0]

    units, reads = units_of(watched, own, x, network.tied())
    moved = {read.edge: read for read in reads if any(factor.group is not None for factor in read.factors)}
    return units, _parts(outputs[0], list(moved.values()))


def _parts(outputs: Tensor, reads: list[Read]) -> list[Read]:
    if not reads:
        return []
    edges = [read.edge for read in reads if read.edge is not None]
    if not outputs.requires_grad or len(edges) < len(reads):
        raise ValueError(
            "the network's outputs have no gradient to what its layers read, which is needed to compare units by "
            "outputs: evaluate it with gradients, or compare by weights or activations"
        )
    rows = outputs.flatten(1) if outputs.ndim > 1 else outputs.reshape(-1, 1)
    each = 8 * sum(read.values.numel() for read in reads) * 3 / len(rows)  # as given, and twice of two networks
    require("the parts of the outputs", lambda n, outputs: each * n * outputs, n=len(rows), outputs=rows.shape[1])
    parts: list[list[Tensor]] = [[] for _ in reads]
    for column in rows.unbind(1):
        interruption.check()
        gradients = torch.autograd.grad(column.sum(), edges, retain_graph=True, allow_unused=True)
        for part, read, gradient in zip(parts, reads, gradients, strict=True):
            part.append(torch.zeros_like(read.values) if gradient is None else gradient * read.values)
    count = Factor(rows.shape[1], None)
    return [Read(torch.stack(part), (count, *read.factors)) for part, read in zip(parts, reads, strict=True)]
