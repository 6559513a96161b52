"""Whether two trajectories agree up to the rounding of their precision."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ntkfl.conformance.conformance_case import ConformanceCase
from ntkfl.conformance.kit_cases import KitCase, Trajectory, loops_of

TOLERANCE = 1e-10  # for float64: allowed error, relative to the largest number of the round if that is above 1
MARGIN = 16  # for float32: factor on the errors that rounding makes in the reference implementation


@dataclass(frozen=True)
class Difference:
    """The first difference between answer and reference: the round, from 1, the name of the values, and the error."""

    round: int
    name: str
    size: float


def first_difference(answered: Trajectory, reference: Trajectory, allowed: np.ndarray) -> Difference | None:
    """The first difference that is larger than allowed, by rounds and then by names; None if there is none."""
    for number, most in enumerate(allowed):
        for name in (name for name in reference if name in answered):
            size = float(np.abs(answered[name][number] - reference[name][number]).max())
            if not size <= most:
                return Difference(number + 1, name, size)
    return None


@cache
def allowed(case: KitCase, precision: str) -> np.ndarray:
    """The largest error that is allowed for an answer of this precision after every round, (rounds,).

    Let L be the largest absolute value in the round, but at least 1. For float64 the error is 1e-10 L. For float32 the
    error is 16 times the sum of two errors: the largest error, up to that round, of the method's reference
    implementation if it runs in float32, and the rounding error 1.2e-7 L.
    """
    if precision == "float64":
        return np.array([_of_double(case.expected, number) for number in range(case.case.rounds)])
    run = loops_of(case.case.method).run
    return np.array([most for _, most in rounds_allowed(run, case.case, case.expected, precision)])


def rounds_allowed(
    run: Callable[[ConformanceCase], Iterable[Mapping[str, np.ndarray]]],
    case: ConformanceCase,
    values: Trajectory,
    precision: str,
) -> Iterator[tuple[Mapping[str, np.ndarray], float]]:
    """The values that `run` computes after every round, and how far `values` may be from these values."""
    if precision == "float64":
        for number, double in enumerate(run(case)):
            yield double, _of_double(values, number)
        return
    lost = 0.0
    for number, (double, single) in enumerate(zip(run(case), run(case.cast(np.float32)), strict=False)):
        lost = max(lost, max(float(np.abs(single[name] - double[name]).max()) for name in double))
        yield double, MARGIN * (lost + float(np.finfo(np.float32).eps) * _largest(values, number))


def _of_double(values: Trajectory, number: int) -> float:
    return TOLERANCE * _largest(values, number)


def _largest(values: Trajectory, number: int) -> float:
    return max(1.0, *(float(np.abs(value[number]).max()) for value in values.values()))
