"""Pictures of statements: left side against bound on the cases of `verify`."""

from experiments.pictures.figure import as_bytes, drawn

__all__ = ["as_bytes", "drawn"]
