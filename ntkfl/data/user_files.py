"""Arrays from a user's .npz or .csv file; nothing is ever unpickled, and every error says where in the file it is."""

import csv
import errno
import hashlib
import math
import stat
from functools import cache
from pathlib import Path

import numpy as np

from ntkfl.data.npz_archive import array_of, npz_archive

SUFFIXES = (".npz", ".csv")
NAMES = ("x", "y", "owner", "x_test", "y_test")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays x and y, and where present owner, x_test and y_test, of a .npz or .csv file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another suffix, or contents that are not as `ntkfl.data.load` describes.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; data files are {' or '.join(SUFFIXES)}")
    require_file(path)
    return _read_npz(path) if suffix == ".npz" else _read_csv(path)


def require_file(path: Path) -> None:
    """Refuse what is no file that can be read, and say what it is instead.

    Raises:
        OSError: so it is.
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
    """SHA-256 of a file; computed once while it stands unchanged."""
    found = path.stat()
    return _digest_of(str(path.resolve()), found.st_mtime_ns, found.st_size)


@cache
def _digest_of(path: str, *stamp: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def csv_lines(path: Path) -> list[int]:
    """The line, from 1, in which each sample of a .csv file ends."""
    return [line for line, _ in _csv_rows(path)[1:]]


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with npz_archive(path, "x=..., y=...") as archive:
        missing = [name for name in ("x", "y") if name not in archive.files]
        if missing:
            found = ", ".join(archive.files) or "none"
            raise ValueError(f"{path} has no array {missing[0]!r}; it needs x and y, and its arrays are: {found}")
        return {name: array_of(archive, name, path) for name in NAMES if name in archive.files}


def _csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with their lines; the first is the header."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True, skipinitialspace=True)
            return [(reader.line_num, row) for row in reader if len(row) > 1 or "".join(row).strip()]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x}") from error
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    rows = _csv_rows(path)
    if not rows:
        raise ValueError(f"{path} is empty; its first line must name the columns, one of them y")
    header = _header(path, *rows.pop(0))
    if not rows:
        raise ValueError(f"{path} has a header and no rows; every line after the header is a sample")
    if "owner" in header:
        rows = _with_numbered_owners(rows, header.index("owner"))
    table = np.array([_numbers(path, line, header, row) for line, row in rows])
    features = [j for j, name in enumerate(header) if name not in ("y", "owner")]
    arrays = {"x": table[:, features], "y": table[:, header.index("y")]}
    return arrays | ({"owner": table[:, header.index("owner")].astype(int)} if "owner" in header else {})


def _with_numbered_owners(rows: list[tuple[int, list[str]]], column: int) -> list[tuple[int, list[str]]]:
    """The rows with clients numbered from 0 as they come, where all of them have names; else as they are."""
    names = dict.fromkeys(row[column].strip() for _, row in rows if column < len(row))
    if any(not name or _is_number(name) for name in names):
        return rows
    number = {name: str(client) for client, name in enumerate(names)}
    return [(line, [number[cell.strip()] if j == column else cell for j, cell in enumerate(row)]) for line, row in rows]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    header = [cell.strip() for cell in cells]
    for j, name in enumerate(header):
        if not name:
            raise ValueError(f"{path}, line {line}: column {j + 1} has no name")
        if header.index(name) != j:
            raise ValueError(
                f"{path}, line {line}: columns {header.index(name) + 1} and {j + 1} are both named {name!r}"
            )
    if "y" not in header:
        raise ValueError(
            f"{path}, line {line}: no column is named y; the first line must name the columns, found: {header}"
        )
    if not set(header) - {"y", "owner"}:
        raise ValueError(f"{path}, line {line}: no feature column; all columns but y and owner are features: {header}")
    return header


def _numbers(path: Path, line: int, header: list[str], row: list[str]) -> list[float]:
    if len(row) != len(header):
        raise ValueError(f"{path}, line {line}: {len(row)} cells; the header names {len(header)} columns")
    return [_number(path, line, name, cell) for name, cell in zip(header, row, strict=True)]


def _number(path: Path, line: int, name: str, cell: str) -> float:
    try:
        value = float(cell) if "_" not in cell else math.nan  # Python alone reads 1_000 as a number
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path}, line {line}, column {name!r}: {cell!r} is not a finite number")
    if name == "owner" and not (value.is_integer() and 0 <= value < 2**53):
        raise ValueError(f"{path}, line {line}, column 'owner': {cell!r} is not a client number 0, 1, 2, ...")
    return value
