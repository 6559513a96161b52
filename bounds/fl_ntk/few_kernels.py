"""The kernel regime on fewer seeds, for statements that take long on each case."""

from collections.abc import Callable
from dataclasses import replace

from bounds.cases.kernel_case import kernel_draws
from bounds.family import Family
from bounds.options import Options


def few_kernels(reach: float, trials: int) -> Callable[[Options], tuple[Family, ...]]:
    """The families of `kernel_draws` up to this reach, on at most so many seeds each."""
    return lambda options: tuple(replace(f, trials=min(trials, f.trials)) for f in kernel_draws(options, reach))
