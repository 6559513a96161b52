"""The named arrays in a file of numpy (.npz), of safetensors or of torch. No code in a pickle is ever executed."""

import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ntkfl.data.user_files import array_of, npz_archive

if TYPE_CHECKING:
    from torch import Tensor

OURS = ("hidden", "readout", "bias", "output_bias")
# keys of networks in a file; if a file has several networks, these keys are tried in this order, and the first key that
# occurs in the file names the network to read
USUAL = ("state_dict", "model_state_dict", "model")


class Arrays(NamedTuple):
    """float64 arrays by name.

    `ordered` says whether the arrays are in the order of the layers, as in all files but safetensors files.
    """

    named: Mapping[str, np.ndarray]
    ordered: bool


def arrays_of(path: Path) -> Arrays:
    """The arrays in a file. Files with suffixes other than .npz and .safetensors are read as torch's.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is damaged, has pickled objects or several networks, or its contents are no arrays of real
            numbers.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return Arrays(_of_safetensors(path), False)
    return Arrays(_of_npz(path) if suffix == ".npz" or _is_npz(path) else _of_torch(path), True)


def _is_npz(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return all(name.endswith(".npy") for name in archive.namelist())


def _of_npz(path: Path) -> dict[str, np.ndarray]:
    with npz_archive(path, "hidden=..., readout=...") as archive:
        ours = [name for name in OURS if name in archive.files]  # the file may have other entries of any kind
        return {name: array_of(archive, name, path) for name in (ours if set(ours) & set(OURS[:2]) else archive.files)}


def _of_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.torch import load  # numpy has no bfloat16

    try:
        # the entries of a safetensors file have no order
        return _as_arrays(dict(sorted(load(path.read_bytes()).items())), path)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or no safetensors file of real numbers: {error}") from error


def _of_torch(path: Path) -> dict[str, np.ndarray]:
    import pickle

    import torch

    try:
        # torch warns about files that it has not written; this function raises an error for such files
        with warnings.catch_warnings(action="ignore"):
            kept = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        text = str(error).strip()
        # torch's message may be advice to unpickle, or a bare number; neither says anything about the file
        informative = " " in text and "weights_only" not in text
        reason = f" ({text.splitlines()[0]})" if informative else ""
        raise ValueError(
            f"{path} is no file of tensors alone, and nothing else is read: save module.state_dict(){reason}"
        ) from None
    states = dict(_states(kept))
    if not states:
        keys = ", ".join(map(str, kept)) if isinstance(kept, Mapping) else ""
        holds = f"a {type(kept).__name__}" + (f" of {keys}" if keys else "")
        raise ValueError(f"{path} holds {holds}; it must hold what module.state_dict() gives, or a dict with that")
    if len(states) > 1 and not set(USUAL) & set(states) and all(map(_is_layer, states.values())):
        layers = {f"{at}.{name}": value for at, state in states.items() for name, value in state.items()}
        return _as_arrays(layers, path)
    chosen = next(iter(states)) if len(states) == 1 else _usual(states, path)
    return _as_arrays(states[chosen], path)


def _is_layer(state: Mapping[str, Any]) -> bool:
    """Whether the arrays are one matrix and at most one vector, which are a single layer and no network."""
    return sorted(getattr(value, "ndim", 0) for value in state.values()) in ([2], [1, 2])


def _states(kept: Any, at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every dict or list in the contents that has a matrix. Its name joins the keys that lead to this dict or list.

    Optimizers' states are left out.
    """
    import torch

    if isinstance(kept, list | tuple):
        kept = {str(number): entry for number, entry in enumerate(kept)}
    if not isinstance(kept, Mapping):
        return
    if any(isinstance(value, torch.Tensor) and value.ndim > 1 for value in kept.values()):
        yield at, {str(name): value for name, value in kept.items()}
        return
    for key, inner in kept.items():
        if not str(key).startswith("optim"):
            yield from _states(inner, f"{at}.{key}" if at else str(key))


def _usual(states: Mapping[str, Any], path: Path) -> str:
    """The name of the network that is read if a file has several networks: the first key of USUAL in `states`.

    Raises:
        ValueError: no network is under a key of USUAL.
    """
    names = ", ".join(states)
    chosen = next((name for name in USUAL if name in states), None)
    if chosen is None:
        for name, state in states.items():  # a quantised module keeps the arrays of each layer in a tuple
            for tensor in state.values():
                _refuse_quantised(tensor, f"{path}: {name}")
        raise ValueError(f"{path} has several networks: {names}; save the one that is meant in a file of its own")
    warnings.warn(f"{path} has several networks, {names}: {chosen} is read", stacklevel=2)
    return chosen


def _as_arrays(tensors: Mapping[str, Any], path: Path) -> dict[str, np.ndarray]:
    """The tensors as float64 arrays. Integers up to 2^53 stay exact.

    Raises:
        ValueError: an entry is no tensor, or a tensor has no real numbers.
    """
    return {name: _as_array(tensor, f"{path}: {name}") for name, tensor in tensors.items()}


def _as_array(tensor: "Tensor", name: str) -> np.ndarray:
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.is_complex() or tensor.is_nested:
        kind = "nested" if isinstance(tensor, torch.Tensor) and tensor.is_nested else getattr(tensor, "dtype", None)
        raise ValueError(f"{name} is {kind or type(tensor).__name__}; a state holds tensors of real numbers alone")
    if tensor.is_meta:
        raise ValueError(f"{name} is on the device meta, without numbers; save the state of a module that has weights")
    _refuse_quantised(tensor, name)
    with warnings.catch_warnings(action="ignore"):  # torch warns that its support of sparse formats is in beta
        return tensor.detach().to_dense().double().cpu().numpy()


def _refuse_quantised(tensor: Any, name: str) -> None:
    if getattr(tensor, "is_quantized", False):
        raise ValueError(f"{name} is quantised ({tensor.dtype}); save its dequantize(), if those weights are meant")
