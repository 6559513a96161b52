"""Pictures of statements, which show the left side of a claim against its bound on the cases of `ntkfl verify`."""

from experiments.pictures.panels import drawn, thumbnail
from experiments.pictures.svg import pixels, themed
from experiments.studies.drawing import as_bytes

__all__ = ["as_bytes", "drawn", "pixels", "themed", "thumbnail"]
