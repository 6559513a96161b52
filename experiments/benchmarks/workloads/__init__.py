"""The workloads that `ntkfl bench` measures, a file for each."""

from functools import cache

from experiments.benchmarks.workload import Workload
from ntkfl.extensions import modules_of


@cache
def catalogue() -> dict[str, Workload]:
    """The workloads by name: every module of this package has a WORKLOAD."""
    return {module.WORKLOAD.name: module.WORKLOAD for module in modules_of(__name__)}
