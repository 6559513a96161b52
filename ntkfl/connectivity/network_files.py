"""Two-layer networks in .npz files with the arrays hidden (h, l) and readout (h,) or (C, h); nothing is unpickled."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from ntkfl.connectivity.network import TwoLayer

NAMES = ("hidden", "readout")


def save_network(network: TwoLayer, path: Path) -> None:
    """Write the network to a .npz file."""
    with path.open("wb") as file:
        np.savez(file, hidden=network.hidden, readout=network.readout)


def load_network(path: Path) -> TwoLayer:
    """The network in a .npz file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no .npz archive, a missing array, pickled objects, or weights that `TwoLayer` refuses.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile):  # numpy's own message is about pickles, whatever it is
            archive = None
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not a .npz archive; write one with numpy.savez(file, hidden=..., readout=...)")
        missing = [name for name in NAMES if name not in archive.files]
        if missing:
            found = ", ".join(archive.files) or "none"
            raise ValueError(f"{path} has no array {missing[0]!r}; a network needs hidden and readout, found: {found}")
        hidden, readout = (_weights(path, archive, name) for name in NAMES)
    try:
        return TwoLayer(hidden, readout)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _weights(path: Path, archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    try:
        array = archive[name]
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds pickled Python objects, which are refused" if "allow_pickle" in str(error) else error
        raise ValueError(f"array {name!r} of {path} cannot be read: {reason}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"array {name!r} of {path} has dtype {array.dtype}; it must hold real numbers")
    return array
