"""What a name of data means: the reader behind it, a size, domains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ntkfl.data.user_files import SUFFIXES
from ntkfl.extensions import modules_of
from ntkfl.nearest_name import did_you_mean
from ntkfl.training.datasets.samples import Reader, Samples
from ntkfl.training.datasets.tables import table


@cache
def catalogue() -> dict[str, Reader]:
    """The reader of every name, in the order of the names."""
    formats = modules_of("ntkfl.training.datasets")
    found = {name: reader for module in formats for name, reader in getattr(module, "DATA", {}).items()}
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Spec:
    """ "NAME:SIZE+domains" taken apart; a file's path stays whole.

    Args:
        text: as the user wrote it. name: a name of the catalogue, or the path. size: None where none is given.
        domains: whether the images are to be in several domains.

    Raises:
        ValueError: an unknown name (with the nearest one), a size that is no positive integer, another suffix.
    """

    text: str
    name: str
    size: int | None = None
    domains: bool = False

    @classmethod
    def parsed(cls, text: str) -> Spec:
        if Path(text).suffix.lower() in SUFFIXES:
            return cls(text, text)
        front, plus, suffix = text.partition("+")
        name, colon, size = front.partition(":")
        if name not in catalogue():
            raise ValueError(
                f"there are no data named {name!r}.{did_you_mean(name, catalogue())} Data are "
                f"{', '.join(catalogue())}, or the path of a {' or '.join(SUFFIXES)} file"
            )
        if plus and suffix != "domains":
            raise ValueError(f"{text!r} ends in {plus + suffix!r}; only '+domains' may follow a name of data")
        if colon and not (size.isascii() and size.isdigit() and int(size)):
            raise ValueError(f"{text!r} has the size {size!r}; it must be a positive integer, as in {name + ':32'!r}")
        return cls(text, name, int(size) if colon else None, bool(plus))

    def read(self, path: Path | None, target: str | None = None) -> Samples:
        """The samples, from the user's path where the data do not come with a package; `target` is for `table`.

        Raises:
            FileNotFoundError, ValueError: as the reader; a path beside a file, domains of what is not images.
        """
        if self.name in catalogue():
            found = catalogue()[self.name](path, self.size)
        elif path is not None:
            raise ValueError(f"{self.text} is a file; path={path} must be left out")
        else:
            found = table(Path(self.name), target)
        if self.domains and found.kind != "images":
            raise ValueError(f"{self.text!r}: only images can be in several domains; these are {found.kind}")
        return found
