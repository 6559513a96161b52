"""A study: a question, the grid of cells that answers it, the measurement of one cell, and the summary of all."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bounds import Outcome
from experiments.studies.chart import Chart
from ntkfl.estimate import Estimate

if TYPE_CHECKING:
    import xarray

Value = int | float | str
Point = Mapping[str, Any]  # one value of every axis, of the axis's type
Cells: TypeAlias = "xarray.Dataset"  # the cells of a whole grid: a variable a quantity, NaN where a cell is missing
Numbers: TypeAlias = "xarray.DataArray"  # a variable of `Cells`, or an array computed from such
Measured = Mapping[str, "float | Estimate | list[float]"]
SEED = "seed"


@dataclass(frozen=True)
class Axis:
    """One direction of a grid, or of a cell's measurement.

    Args:
        name: name of the dimension in the results.
        values: the default values, all of one type.
        says: the meaning of the axis.
        unit: "1" for pure numbers.
        option: the axis's name on the command line, by default its own name (`widths` for `--widths 64,128`); the
            seeds' option takes their number.
        least: lower limit of a number, allowed itself; None: no limit.
        above: lower limit of a number, not allowed itself; None: no limit.
        below: upper limit of a number, not allowed itself; None: no limit.
        read: (a word that is not among the values) -> a value, or ValueError; None: only the values are allowed.

    Raises:
        ValueError: no values, one of them twice or out of bounds, or values that are not all int, all float or all str.
    """

    name: str
    values: tuple[Value, ...]
    says: str
    unit: str = "1"
    option: str = ""
    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    read: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"the axis {self.name!r} has no values; it needs at least one")
        kinds = {type(value) for value in self.values}
        if len(kinds) > 1 or not kinds <= {int, float, str}:
            types = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(
                f"the axis {self.name!r} has values of type {types}; all must be int, all float or all str"
            )
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"the axis {self.name!r} has a value twice in {list(self.values)}; each makes a cell once")
        for value in self.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"--{self.flag} has {value:g}; it must be finite")
            if not isinstance(value, str) and not (self.least <= value < self.below and value > self.above):
                limits = {"at least": self.least, "above": self.above, "below": self.below}
                limited = " and ".join(f"{word} {bound:g}" for word, bound in limits.items() if math.isfinite(bound))
                raise ValueError(f"--{self.flag} has {value:g}; it must be {limited}")

    @property
    def flag(self) -> str:
        """Its option's name, without the dashes."""
        return self.option or ("seeds" if self.name == SEED else self.name.replace("_", "-"))


def seeds(count: int, says: str = "of what is drawn") -> Axis:
    """The axis of the seeds 0, 1, 2, ..., count - 1.

    Args:
        count: number of seeds, at least 1.
        says: the thing that is drawn, in words; default "of what is drawn".
    """
    return Axis(SEED, tuple(range(count)), says)


@dataclass(frozen=True)
class Quantity:
    """One thing that a cell measures; `along`: names of the study's inner axes, for an array."""

    name: str
    says: str
    unit: str = "1"
    along: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """One sentence of a study's summary, compared with theory.

    Args:
        claim: the claim of theory, in one line.
        source: paper and label of the claim.
        theory: the number by theory; None: the claim is an inequality or order.
        measured: the number in the runs; its error is the half-width of the deciding interval.
        outcome: holds, violated, unresolved or untested.
        note: a remark for the reader.
        recorded: the known outcome; violated for a claim that is wrong as printed.
        settled_by: while the answer is unresolved or untested, names of the axes of which further values may settle it;
            default the seeds'.
    """

    claim: str
    source: str
    theory: float | None
    measured: Estimate | None
    outcome: Outcome
    note: str = ""
    recorded: Outcome = Outcome.HOLDS
    settled_by: tuple[str, ...] = (SEED,)

    @property
    def surprises(self) -> bool:
        """Whether the answer is violated and is not recorded so."""
        return self.outcome is Outcome.VIOLATED and self.recorded is not Outcome.VIOLATED


def counted(outcomes: Iterable[Outcome]) -> str:
    """The number of answers, and of answers of each outcome, in words.

    Args:
        outcomes: outcomes of the answers.
    """
    by_outcome = Counter(outcomes)
    plural = {Outcome.HOLDS: "hold", Outcome.TOUCHES: "touch"}
    counts = [(by_outcome[outcome], outcome) for outcome in Outcome if by_outcome[outcome]]
    words = (f"{n} {outcome.value if n == 1 else plural.get(outcome, outcome.value)}" for n, outcome in counts)
    summary = ", ".join(words)
    return f"{by_outcome.total()} answer{'' if by_outcome.total() == 1 else 's'}: {summary or 'none'}"


@dataclass(frozen=True)
class Study:
    """A question and the way to its answer.

    Args:
        name: the study's name on the command line.
        question: the question in one line.
        source: paper and label of the question's origin.
        axes: axes of the grid; if there is an axis of seeds, it is named SEED and is the last. The results have the
            axes as dimensions, in this order.
        inner: axes of a cell's measurement.
        quantities: the measured quantities, by name.
        measure: (point) -> the quantities of that cell; depends on the point alone. An `Estimate` is stored as NAME and
            NAME_error.
        summarise: all cells (missing ones NaN) -> answers, returned or yielded.
        charts: all cells -> the study's figures; None: those of `default_charts`.
        seconds: processor time of one cell at a point, roughly; `--dry-run` adds them up; default one second.
        megabytes: memory of one cell at a point, roughly; default: what a process has loaded before its first
            measurement.

    Raises:
        ValueError: a name that no option or file can have, a name used twice, seeds that are not last, or a quantity
            along an axis that is not among the inner ones.
    """

    name: str
    question: str
    source: str
    axes: tuple[Axis, ...]
    quantities: tuple[Quantity, ...]
    measure: Callable[[Point], Measured]
    summarise: Callable[[Cells], Iterable[Answer]]
    charts: Callable[[Cells], Iterable[Chart]] | None = None
    seconds: Callable[[Point], float] = lambda point: 1.0
    megabytes: Callable[[Point], float] = lambda point: 450.0
    inner: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(f"a study's name is {self.name!r}; it must be of a-z and 0-9, with single dashes between")
        errors = tuple(error_of(quantity.name) for quantity in self.quantities)
        names = [axis.name for axis in (*self.axes, *self.inner)] + [quantity.name for quantity in self.quantities]
        flags = [axis.flag for axis in self.axes]
        for used in ([*names, *errors], flags):
            twice = sorted({name for name in used if used.count(name) > 1})
            if twice:
                raise ValueError(f"{self.name} uses {', '.join(twice)} twice; every axis and quantity has its own name")
        if SEED in names and names.index(SEED) != len(self.axes) - 1:
            raise ValueError(f"{self.name} has its axes as {names[: len(self.axes)]}; {SEED!r} must be the last")
        for quantity in self.quantities:
            missing = set(quantity.along) - {axis.name for axis in self.inner}
            if missing:
                raise ValueError(
                    f"{self.name}'s quantity {quantity.name!r} lies along {', '.join(sorted(missing))}; its inner axes "
                    f"are {', '.join(axis.name for axis in self.inner) or 'none'}"
                )

    def answers(self, cells: Cells) -> tuple[Answer, ...]:
        """The answers from all cells.

        Args:
            cells: cells at all points, NaN where one is missing.
        """
        return tuple(self.summarise(cells))


def error_of(name: str) -> str:
    """The name under which the error of a quantity that is an `Estimate` is stored.

    Args:
        name: name of the quantity.
    """
    return f"{name}_error"
