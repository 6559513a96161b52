"""The result of a kernel check, as data and as text, with one row for each property."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A data set on which a property fails.

    Args:
        x: the rows, (n, d).
        z: the other data set, if the property compares two. It is the second argument, or x rotated or rescaled.
        explanation: the numbers found on the data, and the numbers that are required.
    """

    x: np.ndarray
    z: np.ndarray | None
    explanation: str

    def __str__(self) -> str:
        lines = [self.explanation, f"x = np.array({self.x.tolist()})"]
        return "\n".join(lines if self.z is None else [*lines, f"z = np.array({self.z.tolist()})"])


@dataclass(frozen=True, eq=False)
class PropertyCheck:
    """One property of one kernel.

    Args:
        name: name of the property.
        requirement: the meaning of `worst` and the range that is required, in words.
        examples: number of data sets judged before the first failure. Data sets without finite output, and those
            outside the property's scope, do not count.
        worst: the number that the requirement bounds, on the shrunk counterexample. If there is no counterexample, the
            value of this number that was closest to failing.
        allowed: the range that is required there, (lowest, highest). Like `worst`, it is None if no data set could be
            judged.
        counterexample: None if no failure was found.
        note: the conditions under which the outcome was found.
        unresolved: why the check cannot decide; "" if it decides.
    """

    name: str
    requirement: str
    examples: int
    worst: float | None
    allowed: tuple[float, float] | None
    counterexample: Counterexample | None
    note: str = ""
    unresolved: str = ""

    @property
    def holds(self) -> bool:
        """Whether at least one data set was judged, and no failure was found."""
        return self.outcome == "holds"

    @property
    def outcome(self) -> str:
        """The word "holds", "broken", "unresolved" or "untested". The last means that no data set could be judged."""
        if self.counterexample is not None:
            return "broken"
        return "unresolved" if self.unresolved else "holds" if self.examples else "untested"

    @property
    def margin(self) -> float | None:
        """The distance of `worst` from the nearest end of `allowed`.

        It is negative if `worst` lies outside, and None if nothing was judged.
        """
        if self.worst is None or self.allowed is None:
            return None
        return min(self.worst - self.allowed[0], self.allowed[1] - self.worst)

    def __str__(self) -> str:
        name, outcome, _, worst, allowed = _cells(self)
        lines = [f"{name} {outcome}: {worst}, allowed {allowed}", self.requirement]
        lines += list(filter(None, (self.unresolved, self.note)))
        return "\n".join(lines if self.counterexample is None else [*lines, str(self.counterexample)])


@dataclass(frozen=True, eq=False)
class KernelReport:
    """The results of a kernel's properties. A report can be printed, and indexed by a property's name.

    Sampling supports a property and does not prove it. A counterexample refutes it, up to the allowance for rounding.
    """

    kernel: str
    properties: tuple[PropertyCheck, ...]
    seed: int

    @property
    def ok(self) -> bool:
        """Whether every property holds; a property that could not be tested does not."""
        return all(row.holds for row in self.properties)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the properties that have a counterexample."""
        return tuple(row.name for row in self.properties if row.counterexample)

    def __getitem__(self, name: str) -> PropertyCheck:
        for row in self.properties:
            if row.name == name:
                return row
        raise KeyError(
            f"no property {name!r} was checked; these were: {', '.join(row.name for row in self.properties)}"
        )

    def __str__(self) -> str:
        cells = [("property", "outcome", "examples", "worst", "allowed")] + [_cells(row) for row in self.properties]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        table = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        details = [
            "\n".join(filter(None, (f"\n{row.name}: {row.requirement}", str(row.counterexample or row.unresolved))))
            for row in self.properties
            if row.counterexample or row.unresolved
        ]
        details += [f"\n{row.name}: {row.note}" for row in self.properties if row.note]
        return "\n".join([f"{self.kernel}: {self._answer()} (seed {self.seed})", *table, *details])

    def _answer(self) -> str:
        untested = [row.name for row in self.properties if row.outcome == "untested"]
        parts = [f"breaks {', '.join(self.broken)}"] if self.broken else []
        open_ones = [row.name for row in self.properties if row.outcome == "unresolved"]
        parts += [f"leaves {', '.join(open_ones)} unresolved"] if open_ones else []
        parts += [f"no data set to test {', '.join(untested)} on"] if untested else []
        return "; ".join(parts) or f"all {len(self.properties)} properties hold"


def _cells(row: PropertyCheck) -> tuple[str, str, str, str, str]:
    if row.worst is None or row.allowed is None:
        return row.name, row.outcome, str(row.examples), "-", "-"
    low, high = row.allowed
    allowed = f"[{low:.2g}, {high:.2g}]"
    if high == np.inf:
        allowed = f">= {low:.2g}"
    elif low == -np.inf:
        allowed = f"<= {high:.2g}"
    return row.name, row.outcome, str(row.examples), f"{row.worst:.2g}", allowed
