"""A workload is work that several candidates do on the same input; one of the candidates is our code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Sizes = Mapping[str, int]
Call = Callable[[], object]  # does the work once; the numbers of its result are compared with those of other candidates


class Timed(NamedTuple):
    """A result with the seconds that the candidate itself measured.

    A candidate returns a `Timed` if its call includes other work, whose time must not count.
    """

    result: Any
    clock: float
    processor: float


@dataclass(frozen=True)
class Candidate:
    """One way to do the work."""

    name: str
    # prepares the input of these sizes, which is not measured, and returns a call that does the work once
    build: Callable[[Sizes], Call]
    # "ours"; "also ours", another way to do the work with our code; "peer", other code for the same work; or "limit",
    # the machine's best time for the dominating operation (a matrix product, a copy)
    role: str = "peer"
    needs: str | None = None  # a package without which the candidate is skipped
    peer: str | None = None  # the peer of `experiments.benchmarks.elsewhere` whose interpreter runs the candidate
    # the largest sizes at which the candidate is run, as memory or time would not suffice for more
    most: Sizes = field(default_factory=dict)
    tolerance: float | None = None  # the candidate's own tolerance, if it computes in float32


@dataclass(frozen=True)
class Workload:
    """The work, its sizes and its candidates."""

    name: str  # the name on the command line
    says: str
    sizes: tuple[Sizes, ...]  # the cases; all candidates are measured on each case
    candidates: tuple[Candidate, ...]
    along: str  # the name of the size whose power is fitted to the times, over cases that differ in this size alone
    # The largest distance of a candidate's result from ours that is allowed, relative to our largest entry. This
    # tolerance does not apply to candidates of the role "limit", since they compute other results.
    tolerance: float = 1e-5

    @property
    def ours(self) -> Candidate:
        """Our candidate, whose time the others are compared with."""
        return next(candidate for candidate in self.candidates if candidate.role == "ours")


def sizes_text(sizes: Sizes) -> str:
    """The sizes of a case as text, such as "n=300, d=10"."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def unit_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Random rows of norm 1 in float64, (n, d)."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
