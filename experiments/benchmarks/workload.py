"""A workload: work that several candidates, ours among them, do on the same input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Sizes = Mapping[str, int]
Call = Callable[[], object]  # does the work once; its result is compared, as numbers


class Timed(NamedTuple):
    """A result with the seconds that the candidate itself measured, if the call includes other work."""

    result: Any
    clock: float
    processor: float


@dataclass(frozen=True)
class Candidate:
    """A way to do the work."""

    name: str
    build: Callable[[Sizes], Call]  # sizes -> a call that does the work once, after an unmeasured set-up
    # "ours"; "peer", another package's code for the same work; or "limit", the machine's best time for the dominating
    # operation (a matrix product, a copy)
    role: str = "peer"
    needs: str | None = None  # a package; without it the candidate is skipped
    peer: str | None = None  # a peer of `experiments.benchmarks.elsewhere`, whose interpreter it needs
    most: Sizes = field(default_factory=dict)  # largest sizes that the candidate can run (memory, patience)
    tolerance: float | None = None  # the candidate's own tolerance, if it computes in float32


@dataclass(frozen=True)
class Workload:
    """The work, its sizes and its candidates."""

    name: str  # as on the command line
    says: str
    sizes: tuple[Sizes, ...]  # the cases, each measured with all candidates
    candidates: tuple[Candidate, ...]
    along: str  # the size against which the exponent is fitted, over cases that differ in this size alone
    # largest distance of a candidate's result from ours, over the largest entry; limits have no result
    tolerance: float = 1e-5

    @property
    def ours(self) -> Candidate:
        """Our candidate, the denominator of the ratios."""
        return next(candidate for candidate in self.candidates if candidate.role == "ours")


def sizes_text(sizes: Sizes) -> str:
    """The sizes of a case in words."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def unit_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Random unit rows (n, d), float64."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
