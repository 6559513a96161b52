"""Data by name, a file for each format: a module with DATA, which maps names to readers (path, size) -> `Samples`."""

from ntkfl.training.datasets.loading import catalogue, load

__all__ = ["catalogue", "load"]
