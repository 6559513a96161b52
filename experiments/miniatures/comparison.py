"""Comparison of settings with baselines and controls, seed by seed, and whether the paper's ordering is seen.

The baseline of a setting is the setting that it is compared with. The control of a setting shares only the step size
with it.

An ordering of the paper is seen if the setting's difference from the baseline exceeds its error. If the setting has a
control, the difference from the control must exceed its error too, because an effect of the step size alone is no
effect of the method. If the baseline has a control of its own, then the setting's difference from its control is
compared with the baseline's difference from its control. A comparison also has the numbers that the paper prints, and
the change of the setting's curve over its last third. This change shows whether training has reached a plateau.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from experiments.miniatures.cells import Cell
from experiments.miniatures.miniature import Keys, Miniature, Quantity, Setting, Sign

State = Literal["flat", "moves", "unclear"]
# with the columns paper, table, dataset, model, setting, metric, method, mean, std
FILE = Path(__file__).with_name("paper_numbers.csv")
BEYOND = 2.0  # standard errors that a difference must exceed to count
SEEN, NOT_SEEN, OPPOSITE, STEP_SIZE = "seen", "not seen", "the opposite is seen", "not beyond the step size"
NO_CLAIM, OWN_NOISE = "no claim: at chance", "within its own noise"
BEFORE = {"moves": "before the plateau", "unclear": "no plateau shown"}


@dataclass(frozen=True)
class LastThird:
    """How much a setting's curves change over their last third.

    Args:
        change: the rise of the straight line that is fitted to a curve in these rounds, as the mean over the seeds;
            NaN: not known.
        error: standard error of `change`; NaN: not known.
        state: "flat" if the size of `change` plus twice its error is at most the limit. Otherwise "moves" if the size
            of `change` alone exceeds twice the error. Otherwise "unclear".
    """

    change: float
    error: float
    state: State


def last_third(curves: Sequence[Sequence[float]], limit: float, beyond: float) -> LastThird:
    """Measure the change of curves over their last third, and decide whether they are at a plateau.

    Args:
        curves: the curves of a setting: a curve for each seed, a value for each round.
        limit: the largest change of a flat curve.
        beyond: standard errors that a change must exceed to count.

    Raises:
        ValueError: a curve has fewer than 6 rounds, too few to fit a line to its last third.
    """
    changes = [_rise(np.asarray(curve, float)) for curve in curves]
    if len(changes) < 2:
        return LastThird(changes[0] if changes else math.nan, math.nan, "unclear")
    change, error = float(np.mean(changes)), float(np.std(changes, ddof=1)) / math.sqrt(len(changes))
    if abs(change) + beyond * error <= limit:
        return LastThird(change, error, "flat")
    return LastThird(change, error, "moves" if abs(change) > beyond * error else "unclear")


def _rise(curve: np.ndarray) -> float:
    """The rise of the least-squares line through the last third, from its first round to its last."""
    if len(curve) < 6:
        raise ValueError(f"the curve has {len(curve)} rounds; a plateau needs 6 or more")
    end = curve[-(len(curve) // 3) :]
    return float(np.polyfit(np.arange(len(end)), end, 1)[0] * (len(end) - 1))


class Printed(NamedTuple):
    """A mean that the paper prints, and its standard deviation; NaN: no deviation is printed."""

    mean: float
    deviation: float


def printed(setting: Setting, quantity: Quantity) -> Printed | None:
    """The number that the paper prints for this quantity and setting, or None.

    Args:
        setting: a setting of a miniature.
        quantity: a quantity that the miniature measures.

    Raises:
        ValueError: no row of the paper's numbers fits, or several rows do.
    """
    if setting.printed is None or quantity.printed is None:
        return None
    return looked_up({**quantity.printed, **setting.printed})


def looked_up(wanted: Keys) -> Printed:
    """The number that the paper prints, from the row with these values.

    Args:
        wanted: the values by column.

    Raises:
        ValueError: no row has these values, or several rows do.
    """
    rows = [row for row in _rows() if all(row[name] == value for name, value in wanted.items())]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows of {FILE.name} have {dict(wanted)}; it must be one")
    return Printed(*(float(rows[0][name] or math.nan) for name in ("mean", "std")))


@cache
def _rows() -> tuple[Mapping[str, str], ...]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


class Difference(NamedTuple):
    """The difference of two settings with the same seed, as the mean over the seeds, and its standard error.

    A difference below `resolution`, such as one test image for an accuracy, does not count, however small its error is.
    """

    mean: float = math.nan
    error: float = math.nan
    resolution: float = 0.0

    @property
    def finding(self) -> str:
        """ "higher", "lower", "within noise" or "too few seeds"."""
        if math.isnan(self.error):
            return "too few seeds"
        if abs(self.mean) > max(BEYOND * self.error, self.resolution * (1 - 1e-9)):  # a difference of one image counts
            return "higher" if self.mean > 0 else "lower"
        return "within noise"


@dataclass(frozen=True)
class Comparison:
    """The comparison of one quantity of one setting with its baseline and its control.

    Args:
        mean: the mean over the seeds; NaN: not known.
        error: standard error of the mean; NaN: not known.
        difference: the difference from the baseline.
        difference_error: standard error of the difference.
        beyond: the difference from the control; NaN: there is no control.
        beyond_error: standard error of that difference.
        finding: "higher", "lower", "within noise"; otherwise the reason why there is none.
        beyond_finding: the finding for the difference from the control.
        paper: the printed number; None: the paper prints none.
        paper_difference: the printed difference; None: the paper prints none.
        claim: the paper's ordering; None: the paper claims none.
        verdict: whether the paper's ordering is seen; "" if the paper has no ordering.
        plateau: the change of the curve over its last third; None: it is not computed.
        settled: "before the plateau" or "no plateau shown", if a curve of the setting, the baseline or a control still
            moves or may still move; otherwise "".
    """

    setting: str
    quantity: str
    unit: str
    mean: float
    error: float
    difference: float
    difference_error: float
    beyond: float
    beyond_error: float
    finding: str
    beyond_finding: str
    paper: Printed | None
    paper_difference: float | None
    claim: Sign | None
    verdict: str
    plateau: LastThird | None
    settled: str

    @property
    def ordering(self) -> str:
        """The claim and the verdict in words, followed by a remark if curves are not known to be at a plateau."""
        if self.claim is None:
            return self.verdict
        return f"{self.claim}: {self.verdict}" + (f", {self.settled}" if self.settled else "")


def compared(miniature: Miniature, cells: Sequence[Cell]) -> list[Comparison]:
    """The comparisons of all settings in all quantities, quantity by quantity.

    Args:
        miniature: the miniature whose settings are compared.
        cells: cells of all settings and seeds.
    """
    settings = {setting.name: setting for setting in miniature.settings}
    by_setting: dict[str, dict[int, Cell]] = {name: {} for name in settings}
    for cell in cells:
        by_setting[cell.setting][cell.seed] = cell
    return [
        _comparison(setting, settings, quantity, by_setting)
        for quantity in miniature.quantities
        for setting in miniature.settings
    ]


def mean_and_error(values: Sequence[float]) -> Difference:
    """The mean and its standard error; NaN if there are too few values.

    Args:
        values: a value for each seed.
    """
    if not values:
        return Difference()
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Difference(float(np.mean(values)), error)


def chance(seeds: int) -> float:
    """The probability that a difference exceeds BEYOND standard errors if it is normal over the seeds with mean 0.

    Args:
        seeds: number of seeds, at least 2.
    """
    return float(2 * stats.t.sf(BEYOND, seeds - 1))


def _comparison(
    setting: Setting, settings: Mapping[str, Setting], quantity: Quantity, cells: Mapping[str, Mapping[int, Cell]]
) -> Comparison:
    def values(name: str) -> dict[int, float]:
        return {seed: cell.numbers[quantity.name] for seed, cell in cells[name].items() if not cell.failure}

    def plateau(name: str) -> LastThird | None:
        curves = [cell.curves[quantity.name] for cell in cells[name].values() if quantity.name in cell.curves]
        return None if quantity.flat is None else last_third(curves, quantity.flat, BEYOND)

    def less(own: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
        return {seed: own[seed] - theirs[seed] for seed in own if seed in theirs}

    def known(differences: Mapping[int, float]) -> Difference:
        return mean_and_error(list(differences.values()))._replace(resolution=quantity.resolution(setting.keys))

    own, base = values(setting.name), settings.get(setting.against or "")
    beyond_control = less(own, values(setting.control)) if setting.control else {}
    base_control = base.control if base and setting.control else None
    if base and base_control:
        beyond_control = less(beyond_control, less(values(base.name), values(base_control)))
    paper = printed(setting, quantity)
    failed = [str(seed) for seed, cell in cells[setting.name].items() if cell.failure]
    mean, beyond = mean_and_error(list(own.values())), known(beyond_control)
    difference = known(less(own, values(base.name)) if base else {})
    finding = "baseline" if base is None else difference.finding
    claim, paper_difference, verdict = setting.claim.get(quantity.name), None, ""
    base_paper = printed(base, quantity) if base else None
    if paper and base_paper:
        paper_difference = paper.mean - base_paper.mean
        claim = _claim(paper_difference, math.hypot(*np.nan_to_num([paper.deviation, base_paper.deviation])))
        verdict = OWN_NOISE if claim is None else ""
        if any(_at_chance(Difference(*numbers), quantity) for numbers in (paper, base_paper)):
            claim, verdict = None, f"{NO_CLAIM} in the paper"
    if failed:
        finding = f"diverged with seed {', '.join(failed)}"
    if claim and base:
        verdict = _verdict(claim, finding, beyond if setting.control else None)
        if any(_at_chance(mean_and_error(list(values(name).values())), quantity) for name in (setting.name, base.name)):
            claim, verdict = None, f"{NO_CLAIM} here"
    there = [name for name in (setting.name, setting.against, setting.control, base_control) if name]
    states = {end.state for name in there if (end := plateau(name))}
    return Comparison(
        setting.name,
        quantity.name,
        quantity.unit,
        mean.mean,
        mean.error,
        difference.mean,
        difference.error,
        beyond.mean,
        beyond.error,
        finding,
        beyond.finding if setting.control else "",
        paper,
        paper_difference,
        claim,
        verdict,
        plateau(setting.name),
        next((text for state, text in BEFORE.items() if state in states), ""),
    )


def _at_chance(value: Difference, quantity: Quantity) -> bool:
    """Whether a model that has learnt nothing may have this mean.

    The mean must be at most BEYOND errors above the value of such a model, and below twice this value.
    """
    if quantity.chance is None or math.isnan(value.mean):
        return False
    error = 0.0 if math.isnan(value.error) else value.error
    return value.mean - BEYOND * error <= quantity.chance and value.mean < 2 * quantity.chance


def _claim(difference: float, deviation: float) -> Sign | None:
    """The ordering of two printed numbers, or None if their difference is at most its standard deviation."""
    if abs(difference) <= deviation or not difference:
        return None
    return "higher" if difference > 0 else "lower"


def _verdict(claim: Sign, finding: str, beyond: Difference | None) -> str:
    """The verdict on the paper's claim, from the findings against the baseline and against the control."""
    if finding not in ("higher", "lower"):
        return NOT_SEEN if finding == "within noise" else finding
    if finding != claim:
        return OPPOSITE
    if beyond is None or beyond.finding == claim:
        return SEEN
    return beyond.finding if beyond.finding == "too few seeds" else STEP_SIZE
