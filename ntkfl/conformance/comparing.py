"""Whether two trajectories agree, but for the rounding of their precision."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ntkfl.conformance.catalogue import KitCase, Trajectory, loops_of

TOLERANCE = 1e-10  # of float64, times the largest number of the round if that is above 1
MARGIN = 16  # times what rounding to float32 does to the plain loop


@dataclass(frozen=True)
class Difference:
    """Where an answer first leaves the reference: the round, from 1, the name, and how far off its numbers are."""

    round: int
    name: str
    size: float


def first_difference(found: Trajectory, reference: Trajectory, allowed: np.ndarray) -> Difference | None:
    """The first round, and in it the first name, where `found` is farther off than is allowed in that round.

    Args:
        found, reference: arrays by name, a row a round. allowed: the largest difference of each round.
    """
    for number, most in enumerate(allowed):
        for name in (name for name in reference if name in found):
            size = float(np.abs(found[name][number] - reference[name][number]).max())
            if not size <= most:
                return Difference(number + 1, name, size)
    return None


@cache
def allowed(case: KitCase, precision: str) -> np.ndarray:
    """How far an answer of this precision may be off after every round, (rounds,).

    For float64 1e-10 of the largest number. For float32 16 times what the plain loop itself loses when all its numbers
    are float32, until then, and as many roundings of the largest number.
    """
    if precision == "float64":
        return np.array([of_double(case.expected, number) for number in range(case.case.rounds)])
    run, lost, most = loops_of(case.case.method).run, 0.0, []
    for number, (single, double) in enumerate(zip(run(case.case.cast(np.float32)), run(case.case), strict=True)):
        lost = max(lost, loss(single, double))
        most.append(of_single(lost, case.expected, number))
    return np.array(most)


def of_double(values: Trajectory, number: int) -> float:
    """What float64 may be off by in this round, with these values."""
    return TOLERANCE * _largest(values, number)


def of_single(lost: float, values: Trajectory, number: int) -> float:
    """What float32 may be off by in this round, where the computation has `lost` so much until then.

    Args:
        lost: what float32 loses until then. values: arrays by name. number: of the round.
    """
    return MARGIN * (lost + float(np.finfo(np.float32).eps) * _largest(values, number))


def loss(single: Mapping[str, np.ndarray], double: Mapping[str, np.ndarray]) -> float:
    """How far the two are apart in a round."""
    return max(float(np.abs(single[name] - double[name]).max()) for name in double)


def _largest(values: Trajectory, number: int) -> float:
    return max(1.0, *(float(np.abs(value[number]).max()) for value in values.values()))
