"""Arrays of real numbers from a .npz archive of unknown origin; nothing in it is ever unpickled."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


@contextmanager
def npz_archive(path: Path, example: str) -> Iterator[np.lib.npyio.NpzFile]:
    """The open archive. `example`: arguments of numpy.savez that write a right archive, for the message.

    Raises:
        OSError: no such file. ValueError: the file is no archive.
    """
    with path.open("rb") as file:  # opened here because numpy leaves it open when the archive is damaged
        try:
            archive = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile):  # numpy's own message is about pickles, whatever the file is
            archive = None
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not a .npz archive; write one with numpy.savez(file, {example})")
        yield archive


def array_of(archive: np.lib.npyio.NpzFile, name: str, path: Path, words: bool = False) -> np.ndarray:
    """An array of an archive.

    Raises:
        ValueError: the array is damaged, or holds anything but real numbers.
    """
    try:
        array = archive[name]
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"array {name!r} of {path} holds pickled Python objects; loading those could run any code, so they "
                "are refused: save an array of numbers"
            ) from error
        raise ValueError(f"array {name!r} of {path} cannot be read: {error}") from error
    if words and isinstance(array, np.ndarray) and array.dtype.kind == "U" and array.ndim == 1 and array.size:
        return array
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else "no numpy array in it"
        raise ValueError(f"array {name!r} of {path} has {kind}; it must hold real numbers")
    return array
