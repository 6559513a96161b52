"""Parses names of data into reader, size and domains."""

from functools import cache
from pathlib import Path

from ntkfl.data.user_files import SUFFIXES, is_data_file
from ntkfl.extensions import modules_of
from ntkfl.messages import did_you_mean
from ntkfl.training.datasets.samples import Reader, Samples
from ntkfl.training.datasets.tables import table


@cache
def catalogue() -> dict[str, Reader]:
    """The reader of every name, in the order of the names."""
    formats = modules_of("ntkfl.training.datasets")
    readers = {name: reader for module in formats for name, reader in getattr(module, "DATA", {}).items()}
    return dict(sorted(readers.items()))


def read(spec: str, path: Path | None, target: str | None = None) -> tuple[Samples, int | None, bool]:
    """The samples of "NAME:SIZE+domains" or of a file, the size, and whether images are to be put in domains.

    `target` as in `tables.table`.

    Raises:
        FileNotFoundError: as the reader.
        ValueError: an unknown name (with the nearest one), a size that is no positive integer, another suffix, a path
            beside a file, domains of data that are not images; as the reader.
    """
    if is_data_file(spec):
        if path is not None:
            raise ValueError(f"{spec} is a file; path={path} must be left out")
        return table(Path(spec), target), None, False
    front, plus, suffix = spec.partition("+")
    name, colon, size = front.partition(":")
    if name not in catalogue():
        raise ValueError(
            f"there are no data named {name!r}.{did_you_mean(name, catalogue())} Data are "
            f"{', '.join(catalogue())}, or the path of a {', '.join(SUFFIXES)} file"
        )
    if plus and suffix != "domains":
        raise ValueError(f"{spec!r} ends in {plus + suffix!r}; only '+domains' may follow a name of data")
    if colon and not (size.isascii() and size.isdigit() and int(size)):
        raise ValueError(f"{spec!r} has the size {size!r}; it must be a positive integer, as in {name + ':32'!r}")
    number = int(size) if colon else None
    reader = catalogue()[name](path, number)
    if plus and reader.kind != "images":
        raise ValueError(f"{spec!r}: only images can be in several domains; these are {reader.kind}")
    return reader, number, bool(plus)
