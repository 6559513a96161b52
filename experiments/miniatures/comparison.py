"""Settings against their baselines, seed by seed: paired differences, and whether the paper's ordering is seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from experiments.miniatures.cells import Cell
from experiments.miniatures.miniature import Miniature, Quantity, Setting, Sign
from experiments.miniatures.paper_numbers import Printed, printed

BEYOND = 2.0  # standard errors that a difference must exceed to be called one


@dataclass(frozen=True)
class Comparison:
    """One quantity of one setting.

    Args:
        mean, error: over the seeds, and its standard error; NaN: not known.
        difference, difference_error: the mean over the seeds of what it has more than its baseline with the same seed,
            and its standard error. finding: "higher", "lower", "within noise"; else why there is none.
        paper, paper_difference: as printed; None: nothing is. ordering: the paper's, beside the finding.
    """

    setting: str
    quantity: str
    unit: str
    mean: float
    error: float
    difference: float
    difference_error: float
    finding: str
    paper: Printed | None
    paper_difference: float | None
    ordering: str


def compared(miniature: Miniature, cells: Sequence[Cell]) -> list[Comparison]:
    """All quantities of all settings, quantity by quantity."""
    settings = {setting.name: setting for setting in miniature.settings}
    by_setting: dict[str, dict[int, Cell]] = {name: {} for name in settings}
    for cell in cells:
        by_setting[cell.setting][cell.seed] = cell
    return [
        _comparison(setting, settings, quantity, by_setting)
        for quantity in miniature.quantities
        for setting in miniature.settings
    ]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; NaN where there are too few values."""
    if not values:
        return math.nan, math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(np.mean(values)), error


def chance(seeds: int) -> float:
    """How likely a difference that is none, normal over the seeds, exceeds the standard errors asked for."""
    return float(2 * stats.t.sf(BEYOND, seeds - 1))


def _comparison(
    setting: Setting, settings: Mapping[str, Setting], quantity: Quantity, cells: Mapping[str, Mapping[int, Cell]]
) -> Comparison:
    own = cells[setting.name]
    values = {seed: cell.numbers[quantity.name] for seed, cell in own.items() if not cell.failure}
    paper, base = printed(setting, quantity), settings.get(setting.against or "")
    difference, paper_difference, claim = (math.nan, math.nan), None, setting.claim.get(quantity.name)
    finding = "baseline"
    if base is not None:
        theirs = {s: c.numbers[quantity.name] for s, c in cells[base.name].items() if not c.failure}
        difference = mean_and_error([values[seed] - theirs[seed] for seed in values if seed in theirs])
        finding = _finding(*difference)
        base_paper = printed(base, quantity)
        if paper and base_paper:
            paper_difference = paper.mean - base_paper.mean
            deviation = math.hypot(*np.nan_to_num([paper.deviation, base_paper.deviation]))
            claim = _claim(paper_difference, deviation)
    failed = [str(seed) for seed, cell in own.items() if cell.failure]
    if failed:
        finding = f"diverged with seed {', '.join(failed)}"
    return Comparison(
        setting.name,
        quantity.name,
        quantity.unit,
        *mean_and_error(list(values.values())),
        *difference,
        finding,
        paper,
        paper_difference,
        _ordering(finding, claim, paper_difference is not None),
    )


def _finding(difference: float, error: float) -> str:
    if math.isnan(error):
        return "too few seeds"
    if abs(difference) > BEYOND * error:
        return "higher" if difference > 0 else "lower"
    return "within noise"


def _claim(difference: float, deviation: float) -> Sign | None:
    """What printed numbers claim; nothing where they differ by less than their deviations together."""
    if abs(difference) <= deviation or not difference:
        return None
    return "higher" if difference > 0 else "lower"


def _ordering(finding: str, claim: Sign | None, has_numbers: bool) -> str:
    """The paper's claim beside what was found."""
    if claim is None:
        return "within its own noise" if has_numbers else ""
    if finding in ("higher", "lower"):
        return f"{claim}: {'seen' if finding == claim else 'the opposite is seen'}"
    return f"{claim}: {'not seen' if finding == 'within noise' else finding}"
