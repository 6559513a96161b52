"""A study: a question, the grid of cells that answers it, the measurement of one cell, and the summary of all cells."""

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
Point = Mapping[str, Any]  # a value of every axis, by the axis's name
# the cells of a whole grid, with a variable for each quantity, and NaN for missing cells
Cells: TypeAlias = "xarray.Dataset"
Numbers: TypeAlias = "xarray.DataArray"  # a variable of `Cells`, or an array that is computed from variables
Measured = Mapping[str, "float | Estimate | list[float]"]
SEED = "seed"


@dataclass(frozen=True)
class Axis:
    """One axis of a grid, or an inner axis: an axis of an array that is measured in one cell.

    Args:
        name: name of the dimension in the results.
        values: the default values, all of one type.
        says: the meaning of the axis.
        unit: "1" for pure numbers.
        option: the name of the axis on the command line, such as `widths` for `--widths 64,128`; by default the name of
            the axis. The option for seeds takes their number.
        least: the smallest number that is allowed; by default there is no limit.
        above: a limit that numbers must exceed; by default there is none.
        below: a limit that numbers must stay below; by default there is none.
        read: a function that takes a word that is not among the values. The function returns a value, or raises
            ValueError. None: only the values are allowed.

    Raises:
        ValueError: there are no values, a value occurs twice or is not allowed, or values are not all int, all float or
            all str.
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
        """The name of the axis's option, without dashes."""
        return self.option or ("seeds" if self.name == SEED else self.name.replace("_", "-"))


def seeds(count: int, says: str = "of what is drawn") -> Axis:
    """The axis of the seeds 0, 1, 2, ..., count - 1.

    Args:
        count: number of seeds, at least 1.
        says: words that say what is drawn with the seeds, such as "of the initial network"; default "of what is drawn".
    """
    return Axis(SEED, tuple(range(count)), says)


@dataclass(frozen=True)
class Quantity:
    """One quantity that a cell measures.

    If the quantity is an array, `along` has the names of its axes, which are inner axes of the study.
    """

    name: str
    says: str
    unit: str = "1"
    along: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """One answer of a study: a measured result, compared with a claim of theory.

    Args:
        claim: the claim of theory, in one line.
        source: paper and label of the claim.
        theory: the number by theory; None: the claim is an inequality or about an order.
        measured: the number in the runs. Its error is the half-width of the interval from which the outcome is decided.
        outcome: holds, violated, unresolved or untested.
        note: a remark for the reader.
        recorded: the outcome on record, which is "violated" for a claim that is known to be wrong as printed.
        settled_by: names of axes. More values of these axes may settle an answer that is unresolved or untested. The
            default is the axis of the seeds.
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
        """Whether the claim is violated although it is not recorded as violated."""
        return self.outcome is Outcome.VIOLATED and self.recorded is not Outcome.VIOLATED


def counted(outcomes: Iterable[Outcome]) -> str:
    """The number of answers, and the number with each outcome, in words.

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
    """A question, and how it is answered.

    Args:
        name: the study's name on the command line.
        question: the question in one line.
        source: the paper and the label from which the question comes.
        axes: axes of the grid, which are the dimensions of the results in this order. An axis of seeds has the name
            SEED and is the last.
        inner: axes of quantities that are arrays in each cell.
        quantities: the measured quantities, by name.
        measure: a function that takes a point and returns the quantities of the cell at this point. They must depend on
            the point alone. An `Estimate` is stored as NAME and NAME_error.
        summarise: a function that takes all cells and returns or yields the answers. A missing cell has NaN.
        charts: a function that takes all cells and returns the study's figures; None: the figures of `default_charts`.
        seconds: a function that takes a point and returns roughly the processor time of the cell at this point, in
            seconds. `--dry-run` adds these times up. By default each cell takes one second.
        megabytes: a function that takes a point and returns roughly the memory of the cell at this point. The default
            is the memory that a process takes before its first measurement.

    Raises:
        ValueError: a name cannot be that of an option or a file, a name is used twice, the axis of seeds is not the
            last, or a quantity is along an axis that is not an inner one.
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
