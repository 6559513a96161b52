"""The numbers by which the units of a torch network are compared: arrays along whose axes the units move."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ntkfl import interruption
from ntkfl.connectivity.alignment import RULES, By
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.walk import Factor, Read, Units, units_of
from ntkfl.memory import require
from ntkfl.messages import did_you_mean


def units_and_parts(network: TorchNetwork, weights: Mapping[str, Tensor], x: Any) -> tuple[Units, list[Read]]:
    """The units, and the parts, (outputs, *shape of the inputs), of each layer whose inputs the units permute.

    A part is a number that the layer reads times the gradient of the outputs in this number; in a two-layer ReLU
    network it is a hidden unit's contribution to the outputs. Multiplying a unit's incoming weights by c and dividing
    its outgoing weights by c changes no part. Inputs that several layers read count once: their gradient is the sum
    over all paths to the outputs.

    Args:
        network: any module.
        weights: the weights whose axes are followed, by name.
        x: inputs in the module's form.

    Returns: the units, and the parts of each layer.

    Raises:
        ValueError: as `units_of`; outputs without a gradient.
        TooLittleMemory: parts that do not fit.
    """
    trained = {name for name, _ in network.module.named_parameters(remove_duplicate=False)}
    own = {n: value.detach().requires_grad_() if n in trained else value for n, value in weights.items()}
    outputs: list[Tensor] = []

    def watched(given: Mapping[str, Tensor], inputs: Any) -> Tensor:
        # saved values are copied: a module may write in place on values that a gradient needs
        with torch.enable_grad(), saved_tensors_hooks(lambda value: value.detach().clone(), lambda value: value):
            outputs.append(network.evaluated(given, inputs))
        return outputs[0]

    units, reads = units_of(watched, own, x, network.tied())
    moved = {read.edge: read for read in reads if _moves(read)}
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
    # the parts of the first network, and two copies of the parts of the second
    per_row = 8 * sum(read.values.numel() for read in reads) * 3 / len(rows)
    require("the parts of the outputs", lambda n, outputs: per_row * n * outputs, n=len(rows), outputs=rows.shape[1])
    parts: list[list[Tensor]] = [[] for _ in reads]
    for column in rows.unbind(1):
        interruption.check()
        gradients = torch.autograd.grad(column.sum(), edges, retain_graph=True, allow_unused=True)
        for part, read, gradient in zip(parts, reads, gradients, strict=True):
            part.append(torch.zeros_like(read.values) if gradient is None else gradient * read.values)
    count = Factor(rows.shape[1], None)
    return [Read(torch.stack(part), (count, *read.factors)) for part, read in zip(parts, reads, strict=True)]


class Numbers(NamedTuple):
    """An array of numbers, with the factors of its axes."""

    values: Float[np.ndarray, "..."]
    factors: tuple[Factor, ...]


def unit_numbers(network: TorchNetwork, x: Tensor | np.ndarray, by: By = "weights") -> tuple[Units, list[Numbers]]:
    """The units of a network, and the numbers that describe the units; permuting units permutes the numbers' axes.

    Args:
        network: any module whose axes can be followed.
        x: inputs. For weights only their shape counts, and one sample is enough.
        by: "weights": all weights, running averages too. "activations": the numbers that each layer reads, over the
            square root of the number of samples. "outputs": the parts of `units_and_parts`, over the square root of the
            number of samples; default weights.

    Returns: the units, and a list of numbers for every layer.

    Raises:
        ValueError: an unknown rule, no sample. A module that cannot be followed, or has no unit to permute; the message
            names the weights and the reason. Activations or parts that are not finite; for outputs, no gradient.
        TooLittleMemory: for outputs, parts that do not fit.
    """
    if by not in RULES:
        raise ValueError(f"units are compared by {', '.join(RULES)}, not by {by!r};{did_you_mean(by, RULES)}")
    if not len(x):
        raise ValueError("x has no sample; at least one is needed")
    weights = {name: value for name, value in network.state.items() if value.is_floating_point()}
    inputs = network.inputs(x)
    if by == "outputs":
        units, read = units_and_parts(network, weights, inputs)
    else:
        units, read = units_of(network.evaluated, weights, inputs, network.tied())
    if not units.names:
        why = "; ".join(f"{name}: {reason}" for name, reason in units.held.items())
        raise ValueError("the network has no units that could be permuted" + (f" ({why})" if why else ""))
    if by == "weights":
        return units, [_viewed(weights[name], factors, 1) for name, factors in units.factors.items()]
    viewed = [_viewed(*view[:2], len(x)) for view in read if _moves(view)]
    for number, view in enumerate(viewed):
        if not np.isfinite(view.values).all():
            what = "activations" if by == "activations" else "parts of the outputs"
            raise ValueError(
                f"of {len(viewed)} layers that read units' values number {number}, counted from 0, has {what} that are "
                "not finite; all must be: take other inputs, or compare by weights"
            )
    return units, viewed


def _moves(read: Read) -> bool:
    return any(factor.group is not None for factor in read.factors)


def _viewed(values: Tensor, factors: tuple[Factor, ...], n: int) -> Numbers:
    array: Any = values.detach().double().cpu().numpy().reshape([factor.size for factor in factors])
    return Numbers(array if n == 1 else array / np.sqrt(n), factors)
