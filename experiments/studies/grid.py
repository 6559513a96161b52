"""The grid of a study: the values that are chosen on every axis, and the cells for all their combinations."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from experiments.studies import find
from experiments.studies.running.cell_store import Cell
from experiments.studies.running.code_version import version_of
from experiments.studies.study import SEED, Axis, Study, Value
from ntkfl.messages import did_you_mean


@dataclass(frozen=True)
class Grid:
    """The cells of a study for all combinations of these values.

    Args:
        spec: the study's name, or the path of a user's file.
        axes: the study's axes, with the chosen values.
    """

    spec: str
    axes: tuple[Axis, ...]

    @property
    def study(self) -> Study:
        """The study."""
        return find(self.spec)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values on each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    def with_seeds(self, count: int) -> "Grid":
        """The grid with `count` seeds, beginning with the study's first seed.

        Args:
            count: number of seeds, at least 1.

        Raises:
            ValueError: the study has no seeds.
        """
        *others, last = self.axes
        if last.name != SEED:
            raise ValueError(
                f"{self.study.name} has no seeds; its axes are {', '.join(axis.name for axis in self.axes)}"
            )
        first = int(last.values[0])
        return replace(self, axes=(*others, replace(last, values=tuple(range(first, first + count)))))

    def cells(self) -> Iterator[Cell]:
        """Every cell; the value of the last axis changes fastest."""
        version, names = version_of(self.spec), [axis.name for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            yield Cell(self.study.name, dict(zip(names, values, strict=True)), version)


def chosen_grid(spec: str, replaced: Mapping[str, str] | None = None) -> Grid:
    """The grid of a study with the values of some axes replaced.

    Args:
        spec: name of a study, or path of a file of yours.
        replaced: the values of some axes, by the name of the axis's option without dashes. Values are a text with
            commas between them; for seeds the text is their number.

    Raises:
        ValueError: the study or an option is unknown (the message has the nearest name), values have another type than
            the defaults, there is no value, or a value occurs twice.
    """
    study = find(spec)
    flags = {axis.flag.replace("_", "-"): axis for axis in study.axes}
    given = {flag.replace("_", "-"): text for flag, text in (replaced or {}).items()}
    for flag in given:
        if flag not in flags:
            offered = f"Its options are {', '.join(f'--{flag}' for flag in flags)}"
            raise ValueError(f"{study.name} has no option --{flag}.{did_you_mean(flag, flags)} {offered}")
    axes = (replace(axis, values=_parsed(axis, given[flag])) if flag in given else axis for flag, axis in flags.items())
    return Grid(spec, tuple(axes))


def _parsed(axis: Axis, text: str) -> tuple[Value, ...]:
    if axis.name == SEED:
        return _seeds(axis, text)
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError(f"--{axis.flag} is {text!r}; it takes one value or more, with commas between: 1,2,3")
    return tuple(_value(axis, word) for word in words)


def _seeds(axis: Axis, text: str) -> tuple[int, ...]:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"--{axis.flag} is {text!r}; it takes how many seeds, a positive integer")
    first = int(axis.values[0])
    return tuple(range(first, first + count))


def _value(axis: Axis, word: str) -> Value:
    first = axis.values[0]
    if isinstance(first, str):
        if word not in axis.values:
            if axis.read is not None:
                return axis.read(word)
            known = [str(value) for value in axis.values]
            hint = did_you_mean(word, known)
            raise ValueError(f"--{axis.flag} has {word!r}.{hint} Its values are {', '.join(known)}")
        return word
    try:
        value = type(first)(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        wanted = "integers" if isinstance(first, int) else "finite numbers"
        raise ValueError(f"--{axis.flag} has {word!r}; it takes {wanted}, such as {first}")
    return value
