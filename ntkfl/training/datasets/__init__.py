"""Data by name. Each module reads one format; its dict DATA maps names to readers (path, size) -> `Samples`."""

from ntkfl.training.datasets.loading import catalogue, load

__all__ = ["catalogue", "load"]
