"""Arrays from a user's .npz or .csv file; nothing is ever unpickled, and every error names its place in the file."""

import errno
import hashlib
import logging
import stat
from functools import cache
from pathlib import Path

import numpy as np

from ntkfl.data.csv_table import csv_rows, read_csv
from ntkfl.data.npz_archive import array_of, npz_archive
from ntkfl.data.roles import INPUTS, LABELS, OWNERS, taken
from ntkfl.data.words import labels_of, owners_of

SUFFIXES = (".npz", ".csv", ".csv.gz")
ROLES = {"x": INPUTS, "y": LABELS, "owner": OWNERS, "x_test": ("x_test",), "y_test": ("y_test",)}
# names the columns or arrays that were taken as x, y and owner; the command line prints these messages
NOTES = logging.getLogger(__name__)


def is_data_file(spec: str) -> bool:
    """Whether this is the path of a file of rows."""
    return spec.lower().endswith(SUFFIXES)


def is_csv(spec: str) -> bool:
    """Whether the samples of this file have lines."""
    return is_data_file(spec) and not spec.lower().endswith(".npz")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays x and y, and where present owner, x_test and y_test, of a .npz, .csv or .csv.gz file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another suffix, or contents that are not as `ntkfl.data.load` describes.
    """
    if not is_data_file(path.name):
        raise ValueError(
            f"{path} has the suffix {path.suffix!r}; data files are {', '.join(SUFFIXES)}. From pandas: "
            "df.to_csv('data.csv', index=False)"
        )
    require_file(path)
    arrays, said = read_csv(path) if is_csv(path.name) else _read_npz(path)
    NOTES.info(said)
    return arrays


def require_file(path: Path) -> None:
    """Refuse a path that is no readable file; the message says what the path is instead.

    Raises:
        OSError: the path is no readable file.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{path} is a link that leads back to itself; name a file") from None
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise FileNotFoundError(f"{path}: there is no such file") from None
        raise OSError(f"{path} cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is a pipe or a device; name a file")


def file_digest(path: Path) -> str:
    """SHA-256 of a file; computed once as long as the file is unchanged."""
    status = path.stat()
    return _digest_of(str(path.resolve()), status.st_mtime_ns, status.st_size)


@cache
def _digest_of(path: str, *stamp: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def csv_lines(path: Path) -> list[int]:
    """The line, from 1, in which each sample of a .csv file ends."""
    return [line for line, _ in csv_rows(path)[1:]]


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """The arrays, and a sentence that names their source in the archive."""
    with npz_archive(path, "x=..., y=...") as archive:
        names = {role: taken(known, archive.files, str(path)) for role, known in ROLES.items()}
        missing = [role for role in ("x", "y") if names[role] is None]
        if missing:
            present = ", ".join(archive.files) or "none"
            raise ValueError(f"{path} has no array {missing[0]!r}; it needs x and y, and its arrays are: {present}")
        used = {role: name for role, name in names.items() if name is not None}
        arrays = {role: array_of(archive, name, path, words=role in ("y", "owner")) for role, name in used.items()}
        others = [name for name in archive.files if name not in used.values()]
    said = {role: f"{role} is {arrays[role].shape}" for role in used}
    said |= {role: f"{role} is {name!r}, {arrays[role].shape}" for role, name in used.items() if role != name}
    if arrays["y"].dtype.kind == "U":
        if "y_test" in arrays:
            raise ValueError(f"array {used['y']!r} of {path} holds words; beside y_test the labels must be numbers")
        arrays["y"], classes = labels_of(_words(arrays["y"]), lambda k: f"{path}: {used['y']}[{k}]")
        said["y"] += f" ({classes})" if classes else ""
    if "owner" in arrays:
        owner = arrays["owner"]
        if owner.dtype.kind == "b":
            raise ValueError(f"array {used['owner']!r} of {path} holds True and False, which name no clients")
        if owner.dtype.kind == "U":
            arrays["owner"] = owners_of(_words(owner), lambda k: f"{path}: {used['owner']}[{k}]")
        said["owner"] += f" ({len(np.unique(arrays['owner']))} clients)"
    else:
        said["owner"] = "no array is the owner"
    if others:
        said["others"] = f"not read: {', '.join(others)}"
    return arrays, f"{path.name}: {'; '.join(said.values())}"


def _words(array: np.ndarray) -> list[str]:
    return [str(word).strip() for word in array.ravel()]
