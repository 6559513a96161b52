"""Pictures of statements: left side against bound on the cases of `verify`."""

from experiments.pictures.panels import drawn, thumbnail
from experiments.pictures.svg import pixels, themed
from experiments.studies.drawing import as_bytes

__all__ = ["as_bytes", "drawn", "pixels", "themed", "thumbnail"]
