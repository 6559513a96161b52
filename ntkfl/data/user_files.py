"""Arrays from a user's .npz, .csv or idx file, and the tables that come with scikit-learn.

Nothing is ever unpickled, and the message of every error has the place in the file. The idx format is that of the MNIST
family: a magic number, the sizes as big-endian 32-bit integers, then unsigned bytes. The rows of the tables wine and
breast_cancer are divided by their norms and get two labels.
"""

import csv
import errno
import gzip
import hashlib
import logging
import math
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from ntkfl.data.image_draw import INPUTS, describe
from ntkfl.data.sklearn_tables import table
from ntkfl.messages import number_of, require_size
from ntkfl.partition import assign_owners, generator
from ntkfl.problem import Problem

UNSIGNED_BYTE = 0x08  # the code of the element type unsigned byte, the only type in the MNIST family


def read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The array of unsigned bytes in an idx file, plain or (suffix .gz) compressed, with its declared shape.

    Raises:
        ValueError: a damaged gzip stream, another magic number, a size of zero, or fewer or more bytes than declared.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error
    header = 4 * (1 + dimensions)
    if len(data) < header:
        raise ValueError(f"{path} is truncated: {len(data)} bytes, where the idx header alone takes {header}")
    magic, expected = int.from_bytes(data[:4], "big"), UNSIGNED_BYTE << 8 | dimensions
    if magic != expected:
        raise ValueError(
            f"{path} starts with the magic number 0x{magic:08x}; an idx file of unsigned bytes with "
            f"{number_of(dimensions, 'dimension')} starts with 0x{expected:08x}"
        )
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", count=dimensions, offset=4))
    if 0 in shape:
        raise ValueError(f"{path} declares the shape {shape}; every size must be at least 1")
    if len(data) - header != math.prod(shape):
        state = "is truncated" if len(data) - header < math.prod(shape) else "has bytes left over"
        raise ValueError(f"{path} {state}: {len(data) - header} bytes of data, {math.prod(shape)} for shape {shape}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


@contextmanager
def npz_archive(path: Path, example: str) -> Iterator[np.lib.npyio.NpzFile]:
    """The open archive.

    `example` has arguments of numpy.savez that write a correct archive; it is shown in the error message.

    Raises:
        OSError: no such file. ValueError: the file is no archive.
    """
    with path.open("rb") as file:  # opened here because numpy does not close the file if the archive is damaged
        try:
            archive = np.load(file, allow_pickle=False)
        # numpy's own message would be about pickles, whatever the file is
        except (ValueError, EOFError, zipfile.BadZipFile):
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


def wine(n: int | None = None, seed: int = 0, clients: int = 4, partition: str = "iid") -> Problem:
    """The 178 wines of three cultivars, 13 measurements each; y = +1 for the first cultivar, -1 for the others.

    Each measurement has mean 0 and standard deviation 1 over all wines before rows are divided by their norms.
    """
    return _drawn("wine", n, seed, clients, partition)


def breast_cancer(n: int | None = None, seed: int = 0, clients: int = 4, partition: str = "iid") -> Problem:
    """The 569 tumours with 30 measurements each, which are scaled as those of `wine`; y = +1 for malignant tumours, -1
    for benign ones.
    """
    return _drawn("breast_cancer", n, seed, clients, partition)


@cache
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows, each a unit vector, and their labels; in both tables class 0 gets y = +1."""
    x, classes = table({"wine": "wine_data.csv", "breast_cancer": "breast_cancer.csv"}[name])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(classes == 0, 1.0, -1.0)
    for array in (x, y):
        array.flags.writeable = False
    return x, y


def _drawn(name: str, n: int | None, seed: int, clients: int, partition: str) -> Problem:
    x, y = _table(name)
    size = len(x) if n is None else n
    require_size("n", size)
    if size > len(x):
        raise ValueError(f"n is {size}; {name} has {len(x)} rows")
    rows = generator(seed, INPUTS).permutation(len(x))[:size]
    options = {"n": (size, 0), "seed": (seed, 0), "clients": (clients, 4), "partition": (partition, "iid")}
    owner = assign_owners(partition, y[rows], clients, seed)
    return Problem(x[rows], y[rows], owner, name=name + describe(options, always=("n", "seed")))


# pandas reads these words as missing values; "Nan", which is written like a name, counts as a name
MISSING = frozenset(("", *"#N/A #NA -NaN -nan <NA> N/A NA NULL NaN None n/a nan null".split()))
YES_OR_NO = frozenset(["yes", "no", "y", "n", "true", "false", "t", "f"])
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
INTEGER = re.compile(r"[+-]?\d+")
SAID = 10  # the largest number of class names that a note lists

Where = Callable[[int], str]  # a function that returns the place in the file of the word with this number, for messages


def labels_of(words: Sequence[str], where: Where) -> tuple[np.ndarray, str]:
    """The labels (n,), and a sentence for the user if they were names of classes.

    Names in alphabetical order become -1 and 1, or 0, 1, 2, ... if there are more than two.

    Raises:
        ValueError: numbers mixed with words, missing names, all names different, or only one name; the message has the
            place.
    """
    if not _are_names(words, where, is_class):
        return np.array([number(word, where(k)) for k, word in enumerate(words)]), ""
    names, places = np.unique(np.array(words), return_inverse=True)
    if len(names) == len(words) > 2:
        raise ValueError(f"{where(0)}: {words[0]!r}, and all other labels, are different words: they name no classes")
    if len(names) == 1:
        raise ValueError(
            f"{where(0)}: {words[0]!r} is the label of every sample; classes need a second label, or give "
            "numbers as labels"
        )
    values = np.array([-1, 1]) if len(names) == 2 else np.arange(len(names))
    shown = [f"{name} = {value}" for name, value in zip(names[:SAID], values, strict=False)]
    return values[places].astype(float), ", ".join(shown + ["..."] * (len(names) > SAID))


def owners_of(words: Sequence[str], where: Where) -> np.ndarray:
    """The client of each sample, (n,): a number from 0, or a name; names are numbered in the order in which they occur.

    Raises:
        ValueError: numbers mixed with words, missing owners, or owners that are yes and no; the message has the place.
    """
    if _are_names(words, where, _is_client):
        numbers = {name: client for client, name in enumerate(dict.fromkeys(words))}
        if YES_OR_NO.issuperset(name.lower() for name in numbers):
            raise ValueError(
                f"{where(0)}: the owners are {' and '.join(numbers)}, which name no clients; if these are a feature, "
                "rename it and write 1 and 0"
            )
        return np.array([numbers[word] for word in words])
    return np.array([_client(word, where(k)) for k, word in enumerate(words)], int)


def number(word: str, where: str) -> float:
    """The finite number that a word stands for.

    Raises:
        ValueError: the word is no finite number, or a whole number that no float64 equals; the message has the place.
    """
    value = _finite(word, where)
    if INTEGER.fullmatch(word) and value != Decimal(word):
        raise ValueError(
            f"{where}: no float64 equals the whole number {word}; all up to 2^53 are exact: subtract a constant, or "
            f"write {value!r} if that will do"
        )
    return value


def _finite(word: str, where: str) -> float:
    value = _value(word) if "_" not in word else math.nan  # unlike other programs, Python reads 1_000 as a number
    if not math.isfinite(value):
        raise ValueError(f"{where}: {word!r} is not a finite number{_instead(word)}")
    return value


def _instead(word: str) -> str:
    """What to write in place of a word that is no finite number, if the word shows what was meant."""
    if word in MISSING:
        return ", it stands for a missing value; fill it in, or leave the sample out"
    return "; write decimals with a point" if "," in word and _is_number(word.replace(",", ".")) else ""


def _client(word: str, where: str) -> int:
    value = _finite(word, where)
    if not (value.is_integer() and 0 <= value < 2**53):
        raise ValueError(f"{where}: {word!r} is not a client number 0, 1, 2, ...")
    return int(value)


def _are_names(words: Sequence[str], where: Where, is_name: Callable[[str], bool]) -> bool:
    """Whether all words are names.

    Raises:
        ValueError: names mixed with missing values.
    """
    named = [is_name(word) for word in words]
    if not any(named):
        return False
    for place, word in enumerate(words):
        if word in MISSING:
            raise ValueError(
                f"{where(place)}: {word!r} stands for a missing value, beside names such as "
                f"{words[named.index(True)]!r}; give the name, or if this word is a name, spell it otherwise"
            )
    return all(named)


def is_class(word: str) -> bool:
    """Whether a word has a letter in it; 1,5 has none."""
    return _is_client(word) and any(c.isalpha() for c in word) and not _is_number(word.replace(",", "."))


def _is_client(word: str) -> bool:
    return word not in MISSING and not _is_number(word) and not DATE.match(word)


def _is_number(word: str) -> bool:
    return not math.isnan(_value(word))


def _value(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


FEATURES = ("x", "x_train", "features")
LABELS = ("y", "y_train", "label", "labels", "target", "targets", "class")
OWNERS = ("owner", "client", "client_id", "clientid", "cid", "partition_id", "user_id", "writer_id")
INDICES = ("index", "id", "idx", "row", "row_id", "level_0")


def matching_column(names: tuple[str, ...], columns: Sequence[str], where: str) -> str | None:
    """The column or array of the file whose name is one of `names`, in upper or lower case; an exact match of the first
    name has priority.

    Raises:
        ValueError: several names of the file are among `names`.
    """
    if names[0] in columns:
        return names[0]
    alike = [name for name in columns if name.lower() in names]
    if len(alike) > 1:
        listed = " and ".join(map(repr, alike))
        raise ValueError(
            f"{where}: {listed} may each be what is called {names[0]} here; rename the right one {names[0]}"
        )
    return alike[0] if alike else None


def warn_of_features(features: Sequence[str], where: str) -> None:
    """Warn of features whose names are those of labels, owners or row numbers."""
    doubtful = [name for name in features if name.lower() in LABELS + OWNERS + INDICES]
    if doubtful:
        listed = ", ".join(map(repr, doubtful))
        them = "it" if len(doubtful) == 1 else "them"
        warnings.warn(
            f"{where}: {listed} taken as features, as all columns but y and owner; remove {them} if not meant",
            stacklevel=2,
        )


def listed(names: Sequence[str]) -> str:
    """ "1 feature, 'a'", "2 features, 'a' and 'b'", "64 features, 'p0' to 'p63'"."""
    if len(names) == 1:
        return f"1 feature, {names[0]!r}"
    return f"{len(names)} features, {names[0]!r} {'and' if len(names) == 2 else 'to'} {names[-1]!r}"


DELIMITERS = ",;\t"
# pandas gives this name to a column without a name, such as an index that it wrote
UNNAMED = re.compile(r"Unnamed: [\d.]+")
WHOLE = re.compile(r"\d+")
NUMBER = re.compile(r"[-+]?[.\d][-+.\deE]*")

GZIP = b"\x1f\x8b"  # the first bytes of a file compressed by gzip
# the first bytes of other compressed files
COMPRESSED = {b"PK\x03\x04": "zip", b"BZh91A": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
Row = tuple[int, list[str]]  # the line's number, and the line's cells


def read_csv(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """The arrays x, y and, if the file has such a column, owner; and a sentence that names these columns.

    Raises:
        ValueError: contents that are not as `ntkfl.data.load` describes.
    """
    rows = csv_rows(path)
    if not rows:
        raise ValueError(f"{path} is empty; its first line must name the columns, one of them y")
    line, cells = rows.pop(0)
    header = [cell.strip() for cell in cells]
    header[0] = header[0].removeprefix("#").strip()  # numpy.savetxt writes # before the header
    if not rows:
        raise ValueError(f"{path} has a header and no rows; every line after the header is a sample")
    for at, row in rows:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {at}: {len(row)} cells; the header names {len(header)} columns")
    columns = {j: [row[j].strip() for _, row in rows] for j in range(len(header))}
    numbering = [j for j in columns if _numbers_rows(j, header[j], columns[j])]
    header = _header(f"{path}, line {line}", header, numbering)
    label, owner = (_column(names, header, numbering, f"{path}, line {line}") for names in (LABELS, OWNERS))
    features = [j for j in columns if j not in (label, owner, *numbering)]
    if label is None or not features:
        raise ValueError(f"{path}, line {line}: {_what_is_missing(header, label is None)}")

    def where(k: int, j: int) -> str:
        return f"{path}, line {rows[k][0]}, column {header[j]!r}"

    x = [[_feature(columns[j], k, where(k, j)) for j in features] for k in range(len(rows))]
    y, classes = labels_of(columns[label], lambda k: where(k, label))
    arrays = {"x": np.array(x), "y": y}
    notes = [f"y is column {header[label]!r}" + (f" ({classes})" if classes else "")]
    if owner is not None:
        arrays["owner"] = owners_of(columns[owner], lambda k: where(k, owner))
        notes.append(f"the owner is column {header[owner]!r} ({len(np.unique(arrays['owner']))} clients)")
    else:
        notes.append("no column is the owner")
    notes.append(listed([header[j] for j in features]))
    notes += [f"column {j + 1} ({header[j]!r}) numbers the rows and is not read" for j in numbering]
    warn_of_features([header[j] for j in features], str(path))
    return arrays, f"{path.name}: {'; '.join(notes)}"


def csv_rows(path: Path) -> list[Row]:
    """The rows that are not blank, with their line numbers counted from 1; the first row is the header."""
    try:
        with (
            gzip.open(path, "rt", newline="", encoding="utf-8-sig")
            if _is_gz(path)
            else path.open(newline="", encoding="utf-8-sig") as file
        ):
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(first), strict=True, skipinitialspace=True)
            return [(reader.line_num, row) for row in reader if len(row) > 1 or "".join(row).strip()]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x}; save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged, or not compressed by gzip: {error}") from error


def _is_gz(path: Path) -> bool:
    """Whether the file is compressed by gzip, by its suffix or by its first bytes.

    Raises:
        ValueError: the first bytes are those of another compressed file.
    """
    with path.open("rb") as file:
        first = file.read(6)
    for begins, kind in COMPRESSED.items():
        if first.startswith(begins):
            raise ValueError(f"{path} is a {kind} file, not text: uncompress it, or compress it by gzip")
    return path.suffix.lower() == ".gz" or first.startswith(GZIP)


def _delimiter(line: str) -> str:
    """The separator (comma, semicolon or tab) that splits the header into the largest number of cells."""

    def cells(mark: str) -> int:
        try:
            return sum(len(row) for row in csv.reader([line], delimiter=mark))
        except csv.Error:  # with a wrong separator a long header is one cell that exceeds the limit of the module csv
            return 0

    return max(DELIMITERS, key=cells)


def _numbers_rows(j: int, name: str, cells: Sequence[str]) -> bool:
    """Whether this column is an index.

    An index without a name, as pandas and R write it, has a different whole number or name in every cell; a column
    called index has 0..n-1 or 1..n in any order.
    """
    if name.lower() in INDICES:
        return set(cells) in [{str(k + first) for k in range(len(cells))} for first in (0, 1)]
    if not UNNAMED.fullmatch(name) and (name or j):
        return False
    whole = [bool(WHOLE.fullmatch(cell)) for cell in cells]
    return len(set(cells)) == len(cells) and (
        all(whole) or (all(cells) and not any(c[0] in "+-.0123456789" for c in cells))
    )


def _header(where: str, header: list[str], numbering: Sequence[int]) -> list[str]:
    """The names of the columns, after checks that none is missing or repeated and that they are not the numbers of a
    first sample.
    """
    if all(NUMBER.fullmatch(name) for name in header):
        names = [f"x{j}" for j in range(min(len(header) - 1, 3))] + ["..."] * (len(header) > 4) + ["y"]
        raise ValueError(
            f"{where}: all cells are numbers; the first line must name the columns, one of them y, such as "
            + ",".join(names)
        )
    first = {name: j for j, name in reversed(list(enumerate(header)))}
    for j, name in enumerate(header):
        if j in numbering:
            continue
        if not name:
            raise ValueError(f"{where}: column {j + 1} has no name")
        if UNNAMED.fullmatch(name):
            raise ValueError(f"{where}: column {j + 1} is {name!r}, which is no name; name it, or remove it")
        if first[name] != j:
            raise ValueError(f"{where}: columns {first[name] + 1} and {j + 1} are both named {name!r}; rename one")
    return header


def _column(names: tuple[str, ...], header: list[str], numbering: Sequence[int], where: str) -> int | None:
    column = matching_column(names, [name for j, name in enumerate(header) if j not in numbering], where)
    return None if column is None else header.index(column)


def _what_is_missing(header: list[str], label: bool) -> str:
    if not label:
        return f"no feature column; all columns but y and owner are features: {header}"
    names = header if len(header) <= MOST_NAMED else [*header[:3], "...", *header[-2:]]
    return (
        "no column is named y, label, target or class, so none has the labels; rename the one that does, "
        f"of {', '.join(names)}"
    )


def _feature(column: Sequence[str], k: int, where: str) -> float:
    word = column[k]
    if is_class(word) and word not in ("True", "False"):
        raise ValueError(f"{where}: {word!r} is not a finite number; make words columns of 0 and 1, one for each word")
    return float(word == "True") if word in ("True", "False") else number(word, where)  # pandas writes such booleans


SUFFIXES = (".npz", ".csv", ".csv.gz")
MOST_NAMED = 8  # the largest number of columns that a message names
ROLES = {"x": FEATURES, "y": LABELS, "owner": OWNERS, "x_test": ("x_test",), "y_test": ("y_test",)}
# logs which columns or arrays were taken as x, y and owner; the command line prints these messages
NOTES = logging.getLogger(__name__)


def is_data_file(spec: str) -> bool:
    """Whether the path has the suffix of a file of samples."""
    return spec.lower().endswith(SUFFIXES)


def is_csv(spec: str) -> bool:
    """Whether this file is a .csv file, in which each sample has a line."""
    return is_data_file(spec) and not spec.lower().endswith(".npz")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays x and y of a .npz, .csv or .csv.gz file, and owner, x_test and y_test if the file has them.

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
    arrays, note = read_csv(path) if is_csv(path.name) else _read_npz(path)
    NOTES.info(note)
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
    """The SHA-256 of a file, which is cached as long as the file is unchanged."""
    status = path.stat()
    return _digest_of(str(path.resolve()), status.st_mtime_ns, status.st_size)


@cache
def _digest_of(path: str, *stamp: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def csv_lines(path: Path) -> list[int]:
    """The line, counted from 1, in which each sample of a .csv file ends."""
    return [line for line, _ in csv_rows(path)[1:]]


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """The arrays, and a sentence that says from which arrays of the archive they come."""
    with npz_archive(path, "x=..., y=...") as archive:
        names = {role: matching_column(known, archive.files, str(path)) for role, known in ROLES.items()}
        missing = [role for role in ("x", "y") if names[role] is None]
        if missing:
            present = ", ".join(archive.files) or "none"
            raise ValueError(f"{path} has no array {missing[0]!r}; it needs x and y, and its arrays are: {present}")
        used = {role: name for role, name in names.items() if name is not None}
        arrays = {role: array_of(archive, name, path, words=role in ("y", "owner")) for role, name in used.items()}
        others = [name for name in archive.files if name not in used.values()]
    notes = {role: f"{role} is {arrays[role].shape}" for role in used}
    notes |= {role: f"{role} is {name!r}, {arrays[role].shape}" for role, name in used.items() if role != name}
    if arrays["y"].dtype.kind == "U":
        if "y_test" in arrays:
            raise ValueError(f"array {used['y']!r} of {path} holds words; beside y_test the labels must be numbers")
        arrays["y"], classes = labels_of(_words(arrays["y"]), lambda k: f"{path}: {used['y']}[{k}]")
        notes["y"] += f" ({classes})" if classes else ""
    if "owner" in arrays:
        owner = arrays["owner"]
        if owner.dtype.kind == "b":
            raise ValueError(f"array {used['owner']!r} of {path} holds True and False, which name no clients")
        if owner.dtype.kind == "U":
            arrays["owner"] = owners_of(_words(owner), lambda k: f"{path}: {used['owner']}[{k}]")
        notes["owner"] += f" ({len(np.unique(arrays['owner']))} clients)"
    else:
        notes["owner"] = "no array is the owner"
    if others:
        notes["others"] = f"not read: {', '.join(others)}"
    return arrays, f"{path.name}: {'; '.join(notes.values())}"


def _words(array: np.ndarray) -> list[str]:
    return [str(word).strip() for word in array.ravel()]
