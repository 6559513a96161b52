"""The workloads that `ntkfl bench` measures, one file each."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from experiments.benchmarks.workload import Workload


@cache
def catalogue() -> dict[str, Workload]:
    """The workloads by name: every module of this package has a WORKLOAD."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {module.WORKLOAD.name: module.WORKLOAD for module in modules}
