"""The numbers that the papers print, those that a miniature is compared with."""

import csv
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from experiments.miniatures.miniature import Keys, Quantity, Setting

FILE = Path(__file__).with_name("paper_numbers.csv")  # paper, table, dataset, model, setting, metric, method, mean, std


class Printed(NamedTuple):
    """A printed mean and its standard deviation; NaN: none is printed."""

    mean: float
    deviation: float


def printed(setting: Setting, quantity: Quantity) -> Printed | None:
    """What the paper prints of this quantity for this setting; None where it has no such number.

    Raises:
        ValueError: not one row, but none or several.
    """
    if setting.printed is None or quantity.printed is None:
        return None
    return looked_up({**quantity.printed, **setting.printed})


def looked_up(wanted: Keys) -> Printed:
    """The one row that has these values.

    Raises:
        ValueError: none, or several.
    """
    rows = [row for row in _rows() if all(row[name] == value for name, value in wanted.items())]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows of {FILE.name} have {dict(wanted)}; it must be one")
    return Printed(*(float(rows[0][name] or math.nan) for name in ("mean", "std")))


@cache
def _rows() -> tuple[Mapping[str, str], ...]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))
