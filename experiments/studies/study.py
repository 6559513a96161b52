"""A study: a question, the grid of cells that answers it, what one cell measures, what is made of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bounds.statement import Outcome
from experiments.studies.chart import Chart
from ntkfl.estimate import Estimate

if TYPE_CHECKING:
    import xarray

Value = int | float | str
Point = Mapping[str, Value]  # one value of every axis
Measured = Mapping[str, "float | Estimate | list[float]"]
SEED = "seed"


@dataclass(frozen=True)
class Axis:
    """One direction of a grid, or of what a cell measures.

    Args:
        name: the dimension's, as in the results. values: by default, all of one type.
        says: what it is. unit: "1" for pure numbers.
        option: on the command line (`widths` for `--widths 64,128`); the seeds' takes how many instead.
    """

    name: str
    values: tuple[Value, ...]
    says: str
    unit: str = "1"
    option: str = ""


@dataclass(frozen=True)
class Quantity:
    """One thing that a cell measures; `along`: names of the study's inner axes, for an array."""

    name: str
    says: str
    unit: str = "1"
    along: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """One sentence of a study's summary, held against theory.

    Args:
        claim: what theory says, in one line. source: paper and label. theory: its number; None: an inequality or order.
        measured: the same of the runs; its error is the half-width of the interval that decides.
        outcome: holds, violated, unresolved or untested. note: what a reader must know beside it.
    """

    claim: str
    source: str
    theory: float | None
    measured: Estimate | None
    outcome: Outcome
    note: str = ""


@dataclass(frozen=True)
class Study:
    """A question and how it is answered.

    Args:
        name: as on the command line. question: in one line. source: paper and label that raise it.
        axes: of the grid, the seeds' (named SEED) last if it has one; the result's dimensions in this order.
        inner: axes of what a cell measures. quantities: what it measures, by name.
        measure: (point) -> the quantities of that cell; depends on the point alone. An `Estimate` is stored as NAME
            and NAME_error.
        summarise: all cells (missing ones NaN) -> answers. charts: the same -> its figures.
        seconds, megabytes: of one cell, roughly, at a point; what `--dry-run` adds up.
    """

    name: str
    question: str
    source: str
    axes: tuple[Axis, ...]
    quantities: tuple[Quantity, ...]
    measure: Callable[[Point], Measured]
    summarise: Callable[[xarray.Dataset], tuple[Answer, ...]]
    charts: Callable[[xarray.Dataset], tuple[Chart, ...]]
    seconds: Callable[[Point], float]
    megabytes: Callable[[Point], float]
    inner: tuple[Axis, ...] = ()
