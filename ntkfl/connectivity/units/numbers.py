"""What the units of a torch network are compared by: arrays of numbers along whose axes units move."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from ntkfl.connectivity.alignment import RULES, By
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.parts import units_and_parts
from ntkfl.connectivity.units.walk import Factor, Read, Units, units_of
from ntkfl.messages import did_you_mean


class Numbers(NamedTuple):
    """An array of numbers, its axes as the factors have them."""

    values: Float[np.ndarray, "..."]
    factors: tuple[Factor, ...]


def unit_numbers(network: TorchNetwork, x: Tensor | np.ndarray, by: By = "weights") -> tuple[Units, list[Numbers]]:
    """The units of a network, and the numbers that describe them; permuting its units permutes their axes alike.

    Args:
        network: any whose axes can be followed.
        x: inputs. For weights only their shape counts, and one sample is enough.
        by: "weights": all of them, running averages too. "activations": what each layer reads, over the root of the
            samples. "outputs": the part of the outputs that goes through what each layer reads, as
            `ntkfl.connectivity.units.parts` has it, over the root of the samples.

    Returns: the units, and a list of numbers for every layer.

    Raises:
        ValueError: an unknown rule, no sample, a module that cannot be followed or that has no unit to permute, with
            the weights and the reason; activations or parts that are not finite; for outputs, no gradient.
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
    viewed = [_viewed(*each[:2], len(x)) for each in read if _moves(each)]
    for number, each in enumerate(viewed):
        if not np.isfinite(each.values).all():
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
