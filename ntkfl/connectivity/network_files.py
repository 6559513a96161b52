"""Two-layer networks in files of numpy (.npz), of safetensors and of torch (.pt, .pth). No code in a file is executed.

The arrays of a file are hidden (h, l), readout (h,) or (C, h) and, if there are biases, bias (h,) and output_bias (C,).
A file may also have two linear layers under other names:

- the result of torch's module.state_dict() or dict(module.named_parameters()); the file may have this result itself, a
  dict with this result under any key, or one dict for each layer;
- arrays W1, b1, W2, b2;
- a list of arrays in order, as Flower's np.savez(f, *arrays) writes it.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ntkfl.connectivity.checkpoints.arrays import OURS, arrays_of
from ntkfl.connectivity.checkpoints.layers import two_layers
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer

NAMES = OURS[:2]


def save_network(network: TwoLayer, path: Path) -> None:
    """Write the network to a .npz file.

    Args:
        network: weights U (h, l) and v.
        path: the file.
    """
    with path.open("wb") as file:
        np.savez(file, hidden=network.hidden, readout=network.readout)


def load_network(path: Path) -> TwoLayer:
    """Read a network without biases from a file.

    Args:
        path: the file.

    Raises:
        FileNotFoundError, ValueError: as `load_affine_network`; or the network has biases.
    """
    network = load_affine_network(path)
    if network.bias is not None or network.shifts:
        raise ValueError(
            f"{path} has an array 'bias'; here networks are f(x) = readout . relu(hidden x), without biases"
        )
    return TwoLayer(network.hidden, network.readout)


def load_affine_network(path: Path) -> AffineTwoLayer:
    """The network in a .npz, .safetensors or torch file, with its biases.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file cannot be read; or it has pickled objects, arrays that are not two linear layers, or
            numbers that are not finite.
    """
    arrays, ordered = arrays_of(path)
    return from_arrays(arrays, str(path), ordered)


def from_arrays(arrays: Mapping[str, np.ndarray], where: str, ordered: bool) -> AffineTwoLayer:
    """The network of these arrays, which have names as in the files that this module reads.

    Args:
        arrays: the arrays by name.
        where: where the arrays come from, for messages.
        ordered: whether the arrays are in the order of the layers.

    Raises:
        ValueError: as `load_affine_network`.
    """
    if not set(NAMES) & set(arrays):
        named = two_layers(arrays, where, ordered)
    else:
        named = {name: arrays[name] for name in OURS if name in arrays}
    missing = [name for name in NAMES if name not in named]
    if missing:
        present = ", ".join(arrays)
        raise ValueError(f"{where} has no array {missing[0]!r}; a network needs hidden and readout, found: {present}")
    try:
        return AffineTwoLayer(**named)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
