"""Pictures of statements: left side against bound on the cases of `verify`."""

from experiments.pictures.figure import as_bytes, drawn, thumbnail
from experiments.pictures.svg import pixels, themed

__all__ = ["as_bytes", "drawn", "pixels", "themed", "thumbnail"]
