"""A workload: one piece of work that several candidates do, ours among them, on the same input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Sizes = Mapping[str, int]
Call = Callable[[], object]  # does the work once; its result is compared, as numbers


class Timed(NamedTuple):
    """A result with the seconds that whoever made it measured, where the call itself takes longer for other reasons."""

    result: Any
    clock: float
    processor: float


@dataclass(frozen=True)
class Candidate:
    """A way to do the work."""

    name: str
    build: Callable[[Sizes], Call]  # sizes -> a call that does the work once, after all that is not measured
    # ours; a peer, another package's code for the same work; or a limit, the machine's best time for the operation that
    # dominates (a matrix product, a copy)
    role: str = "peer"
    needs: str | None = None  # the package without which it is skipped
    peer: str | None = None  # a peer of `experiments.benchmarks.elsewhere`, whose interpreter it needs
    most: Sizes = field(default_factory=dict)  # sizes up to which it can be run at all (memory, patience)
    tolerance: float | None = None  # its own, where it computes in float32


@dataclass(frozen=True)
class Workload:
    """What is measured."""

    name: str  # as on the command line
    says: str
    sizes: tuple[Sizes, ...]  # the cases, each measured with all candidates
    candidates: tuple[Candidate, ...]
    along: str  # the size whose growth the fitted exponent is of, among the cases that differ in it alone
    # how far a candidate's result may be from ours, relative to the largest entry; limits have none
    tolerance: float = 1e-5

    @property
    def ours(self) -> Candidate:
        """The candidate that the ratios are of."""
        return next(candidate for candidate in self.candidates if candidate.role == "ours")


def said(sizes: Sizes) -> str:
    """The sizes of a case in words."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def unit_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Random unit rows (n, d), float64."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
