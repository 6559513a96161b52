"""Two-layer networks in files of numpy (.npz), of safetensors and of torch (.pt, .pth); nothing is unpickled.

The arrays are hidden (h, l), readout (h,) or (C, h), bias (h,) and output_bias (C,), where there are such. A state of
torch's modules has two linear layers instead, whatever their names: NAME.weight and, with biases, NAME.bias.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ntkfl.connectivity.affine_network import AffineTwoLayer
from ntkfl.connectivity.network import TwoLayer
from ntkfl.data.npz_archive import array_of, npz_archive

NAMES = ("hidden", "readout")
ALL = ("hidden", "readout", "bias", "output_bias")
WRAPPERS = ("state_dict", "model_state_dict", "model")  # under which checkpoints keep the state of a module
OF_TORCH = (".pt", ".pth", ".bin", ".ckpt")


def save_network(network: TwoLayer, path: Path) -> None:
    """Write the network to a .npz file."""
    with path.open("wb") as file:
        np.savez(file, hidden=network.hidden, readout=network.readout)


def load_network(path: Path) -> TwoLayer:
    """The network without biases in a file.

    Raises:
        FileNotFoundError, ValueError: as `load_affine_network`; biases.
    """
    found = load_affine_network(path)
    if found.bias is not None or found.shifts:
        raise ValueError(
            f"{path} has an array 'bias'; here networks are f(x) = readout . relu(hidden x), without biases"
        )
    return TwoLayer(found.hidden, found.readout)


def load_biased_network(path: Path) -> tuple[TwoLayer, bool]:
    """The network in a file, and whether its hidden units have biases: then these are the last column of `hidden`.

    Raises:
        FileNotFoundError, ValueError: as `load_affine_network`; a bias of the output.
    """
    found = load_affine_network(path)
    if found.shifts:
        raise ValueError(f"{path} has a bias of the output that is not 0; subtract it from the labels and set it to 0")
    return (TwoLayer(found.hidden, found.readout), False) if found.bias is None else (found.with_feature(), True)


def load_affine_network(path: Path) -> AffineTwoLayer:
    """The network in a .npz, .safetensors or torch file, with its biases.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no such archive, pickled objects, arrays that are not those of two linear layers, or not finite.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    suffix = path.suffix.lower()
    read = _of_safetensors if suffix == ".safetensors" else _of_torch if suffix in OF_TORCH else _of_npz
    return from_arrays(read(path), str(path))


def from_arrays(arrays: Mapping[str, np.ndarray], where: str) -> AffineTwoLayer:
    """The network of these arrays, named as in this module's files. `where`: what messages call them.

    Raises:
        ValueError: as `load_affine_network`.
    """
    named = {name: arrays[name] for name in ALL if name in arrays}
    if not set(NAMES) & set(arrays) and any(name.endswith("weight") for name in arrays):
        named = _two_layers(arrays, where)
    missing = [name for name in NAMES if name not in named]
    if missing:
        found = ", ".join(arrays) or "none"
        raise ValueError(f"{where} has no array {missing[0]!r}; a network needs hidden and readout, found: {found}")
    try:
        return AffineTwoLayer(**named)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _two_layers(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """Which of a module's arrays are which: the layer whose outputs are the other's inputs comes first.

    Raises:
        ValueError: the arrays are not two linear layers, or either may come first.
    """
    weights = [name for name in sorted(arrays) if name.endswith("weight")]
    layers = [name.removesuffix("weight") for name in weights]
    others = set(arrays) - set(weights) - {f"{layer}bias" for layer in layers}
    if len(weights) != 2 or others or any(arrays[name].ndim != 2 for name in weights):
        found = ", ".join(f"{name} {arrays[name].shape}" for name in arrays)
        raise ValueError(
            f"{where} is no two-layer network, of which barriers are exact: it has {found}. Others are evaluated on a "
            "grid: train them with ntkfl train, or see ntkfl.connectivity.torch_network.TorchNetwork"
        )
    shapes = [arrays[name].shape for name in weights]
    fits = [shapes[i][0] == shapes[1 - i][1] for i in (0, 1)]
    if all(fits) and layers != ["0.", "2."]:
        raise ValueError(
            f"{where}: either of {weights[0]} {shapes[0]} and {weights[1]} {shapes[1]} may come first; name the first "
            "layer 0 and the second 2, as torch's Sequential(Linear, ReLU, Linear) does"
        )
    if not any(fits):
        raise ValueError(f"{where}: {weights[0]} {shapes[0]} and {weights[1]} {shapes[1]} do not follow one another")
    first, second = layers if fits[0] else layers[::-1]
    readout = arrays[f"{second}weight"]
    named = {"hidden": arrays[f"{first}weight"], "readout": readout[0] if len(readout) == 1 else readout}
    biases = {"bias": f"{first}bias", "output_bias": f"{second}bias"}
    return named | {name: arrays[kept] for name, kept in biases.items() if kept in arrays}


def _of_npz(path: Path) -> dict[str, np.ndarray]:
    with npz_archive(path, "hidden=..., readout=...") as archive:
        layers = [name for name in archive.files if name in ALL or name.endswith(("weight", "bias"))]
        return {name: array_of(archive, name, path) for name in layers}


def _of_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.torch import load  # numpy has no bfloat16

    try:
        return _as_arrays(load(path.read_bytes()), path)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or no safetensors file of real numbers: {error}") from error


def _of_torch(path: Path) -> dict[str, np.ndarray]:
    import pickle

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that torch did not write, which are refused here
            kept = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{path} is no file of tensors alone, and nothing else is read: save module.state_dict() ({reason})"
        ) from None
    for name in WRAPPERS:
        kept = kept[name] if isinstance(kept, Mapping) and isinstance(kept.get(name), Mapping) else kept
    if not isinstance(kept, Mapping):
        raise ValueError(f"{path} holds a {type(kept).__name__}; it must hold what module.state_dict() gives")
    return _as_arrays(kept, path)


def _as_arrays(tensors: Mapping[str, Any], path: Path) -> dict[str, np.ndarray]:
    """Tensors as float64; integers too, which are exact there.

    Raises:
        ValueError: something else, or complex numbers.
    """
    import torch

    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.is_complex():
            what = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ValueError(f"{path}: {name} is {what}; a state holds tensors of real numbers alone")
    return {name: tensor.double().cpu().numpy() for name, tensor in tensors.items()}
