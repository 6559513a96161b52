"""Finds two linear layers among the arrays of a file by names, shapes and order.

If it is not certain which array is which, the file is refused.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ntkfl.problem import finite_array

# "0.weight" and "0.bias", "W1" and "b1", "Dense_0/kernel" and "Dense_0/bias" are pairs that differ in this part only
PART = re.compile(r"(weights?|kernels?|w|biases|bias|b)(?=_?\d*$)", re.IGNORECASE)


class _Reading(NamedTuple):
    """An assignment of the arrays to two layers that fits the arrays' shapes.

    The fields are the names of both weights in the layers' order, whether weights were transposed, and the layers.
    """

    names: tuple[str, ...]
    transposed: bool
    layers: tuple[tuple[np.ndarray, np.ndarray | None], ...]


def two_layers(arrays: Mapping[str, np.ndarray], where: str, ordered: bool) -> dict[str, np.ndarray]:
    """The arrays under the names hidden and readout and, if the file has biases, bias and output_bias.

    Weights named NAME.weight are (outputs, inputs), as torch has them; weights named kernel are (inputs, outputs); for
    other weights the shapes decide. The first layer has as many outputs as the second layer has inputs. If both orders
    of the layers are possible, the numbers in the names decide, or the order in the file.

    Raises:
        ValueError: the arrays do not belong to two linear layers, or it is not certain which array is which.
    """
    given = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    if any("in_proj" in name for name in arrays):
        raise ValueError(f"{where} has {given}: it is a layer of attention, no two-layer network")
    for name in arrays:
        layer, _, last = name.rpartition(".")
        if last == "running_mean":
            raise ValueError(
                f"{where} has {given}: layer {layer} is a batch normalisation, whose result for one sample depends on "
                "the others of its batch; a two-layer network is two linear layers with ReLU between them"
            )
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    vectors = [name for name, array in arrays.items() if array.ndim == 1]
    if len(matrices) != 2 or len(vectors) > 2 or len(arrays) != len(matrices) + len(vectors):
        raise ValueError(
            f"{where} has {given}: it is no two-layer network. Barriers of other networks are evaluated on a grid: "
            "train such networks with ntkfl train, or see ntkfl.connectivity.TorchNetwork; ntkfl certify has --network"
        )
    arrays = {name: finite_array(f"{where}: {name}", array) for name, array in arrays.items()}
    bias_of = _biases(list(arrays), matrices, vectors)
    if bias_of is None:
        raise ValueError(
            f"{where} has {given}: which vector is the bias of which matrix cannot be told; name them NAME.weight and "
            "NAME.bias, as torch's Sequential(Linear, ReLU, Linear) does"
        )
    readings = [
        reading
        for names in (matrices, matrices[::-1])
        for transposed in (False, True)
        if (reading := _reading(arrays, names, bias_of, transposed)) is not None
    ]
    if not readings:
        raise ValueError(f"{where}: {given} do not follow one another as two linear layers")
    (hidden, bias), (readout, output_bias) = _the_one(readings, matrices, where, given, ordered).layers
    named = {"hidden": hidden, "readout": readout[0] if len(readout) == 1 else readout}
    biases = {"bias": bias, "output_bias": output_bias}
    return named | {name: value for name, value in biases.items() if value is not None}


def _biases(names: Sequence[str], matrices: Sequence[str], vectors: Sequence[str]) -> dict[str, str] | None:
    """For each matrix with a bias, the name of the bias; None if it is unclear to which matrix a vector belongs.

    The bias is the vector whose name fits the matrix's name. In a list without such names, the bias is the vector that
    follows the matrix.
    """
    if any(PART.search(name) for name in names):
        of = {PART.sub("", name): name for name in matrices}
        matrix_of = {name: of.get(PART.sub("", name)) for name in vectors}
    else:
        before = dict(zip(names[1:], names, strict=False))
        matrix_of = {name: before.get(name) for name in vectors}
    bias_of = {matrix: name for name, matrix in matrix_of.items() if matrix is not None and matrix in matrices}
    return bias_of if len(bias_of) == len(vectors) else None


def _reading(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], bias_of: Mapping[str, str], transposed: bool
) -> _Reading | None:
    """The layers in the order `names`, with weights as (outputs, inputs); None if shapes or names do not fit."""
    if any(name.endswith("kernel" if not transposed else "weight") for name in names):
        return None
    weights = [np.ascontiguousarray(arrays[name].T) if transposed else arrays[name] for name in names]
    biases = [arrays[bias_of[name]] if name in bias_of else None for name in names]
    layers = tuple(zip(weights, biases, strict=True))
    fits = len(weights[0]) == weights[1].shape[1] and all(b is None or len(w) == len(b) for w, b in layers)
    return _Reading(tuple(names), transposed, layers) if fits else None


def _the_one(readings: Sequence[_Reading], given: Sequence[str], where: str, contents: str, ordered: bool) -> _Reading:
    """The only reading that agrees with the names and with the order of the arrays.

    Raises:
        ValueError: several readings agree with names and order.
    """
    if len({reading.names for reading in readings}) > 1:
        orders = {tuple(sorted(given, key=_numbers))} if _differ_by_number(*given) else set()
        orders |= {tuple(given)} if ordered else set()
        if len(orders) != 1:
            why = "their numbers say another order than the file" if orders else "the file has no order of its own"
            raise ValueError(
                f"{where}: either of {' and '.join(given)} may come first in {contents}, and {why}; name the first "
                "layer 0 and the second 2, as torch's Sequential(Linear, ReLU, Linear) does"
            )
        readings = [reading for reading in readings if reading.names in orders]
    if len(readings) != 1:
        raise ValueError(
            f"{where}: {contents} may be (outputs, inputs), as torch has them, or (inputs, outputs); name them "
            "NAME.weight, if they are as in torch, or NAME.kernel"
        )
    return readings[0]


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _differ_by_number(first: str, second: str) -> bool:
    return re.sub(r"\d+", "#", first) == re.sub(r"\d+", "#", second) and _numbers(first) != _numbers(second)
