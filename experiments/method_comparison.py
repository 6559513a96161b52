"""A comparison of federated methods with the first of them, over several seeds.

For each seed all methods have the same data, split, initial model and cohorts.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments.console.method_options import method_options
from ntkfl.training.run_folder import RunFolder
from ntkfl.training.runs.summary import MEASURES, summary
from ntkfl.training.runs.training_run import prepared, run

LEVEL = 0.95
Progress = Callable[[str, int], None]  # called before each run, with its method and seed


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and the half-width of its interval."""

    mean: float
    half: float

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval, so that a difference counts as established."""
        return abs(self.mean) > self.half


@dataclass(frozen=True)
class MethodComparison:
    """The results of every method with every seed.

    Args:
        methods: the compared methods with their options; the first one is the baseline.
        seeds: the seeds of the runs.
        values: for each measure, an array (methods, seeds) of means over the last rounds, as in
            `ntkfl.training.runs.summary`.
        shortfalls: for each run that has learned nothing, the method, the seed, and a sentence about it.
    """

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, np.ndarray]
    shortfalls: tuple[tuple[str, int, str], ...] = ()

    def mean(self, measure: str, method: int) -> Interval:
        """The mean over the seeds with its 95% interval by the t distribution.

        Args:
            measure: a key of `values`.
            method: index of the method.
        """
        return _interval(self.values[measure][method], LEVEL)

    def difference(self, measure: str, method: int) -> Interval:
        """The mean over the seeds of a method's difference from the baseline with the same seed.

        The intervals of all methods hold together with at least 95%: each is at the level 1 - 5% / (methods - 1).

        Args:
            measure: a key of `values`.
            method: index of the method.
        """
        gaps = self.values[measure][method] - self.values[measure][0]
        return _interval(gaps, 1 - (1 - LEVEL) / max(len(self.methods) - 1, 1))

    def finding(self, measure: str, method: int) -> str:
        """Whether the method is "better" or "worse" than the baseline, or the two are "not told apart".

        Args:
            measure: a key of `values`.
            method: index of the method.
        """
        difference = self.difference(measure, method)
        if not difference.excludes_zero:
            return "not told apart"
        higher_is_better = MEASURES[measure] is max
        return "better" if (difference.mean > 0) == higher_is_better else "worse"

    def to_dict(self) -> dict[str, Any]:
        """All results as plain JSON types: for each measure and method the values, the mean and the difference."""
        by_measure = {}
        for measure in self.values:
            rows = []
            for k, method in enumerate(self.methods):
                mean, more = self.mean(measure, k), self.difference(measure, k)
                row: dict[str, Any] = {"method": method, "values": self.values[measure][k].tolist()}
                row |= {"mean": mean.mean, "half_width": mean.half}
                if k:
                    row |= {"difference": more.mean, "difference_half_width": more.half}
                    row |= {"finding": self.finding(measure, k)}
                rows.append(row)
            by_measure[measure] = rows
        failures = [{"method": method, "seed": seed, "why": why} for method, seed, why in self.shortfalls]
        return {
            "seeds": list(self.seeds),
            "baseline": self.methods[0],
            "measures": by_measure,
            "nothing_learned": failures,
        }


def compare_methods(
    methods: Sequence[str], seeds: int, *, out: Path | None = None, progress: Progress | None = None, **keys: Any
) -> MethodComparison:
    """Train every method with every seed, and compare each with the first.

    Args:
        methods: names or files as `ntkfl.training.run` takes them, with options: "fedprox:mu=0.1,other=2".
        seeds: the number of seeds, from `keys["seed"]` (0) on. A seed gives every method the same data, split, start
            and cohorts.
        out: a folder in which every run is stored; runs that it has already are continued; default no folder.
        progress: a function that is called with each method and seed before the run; default None.
        keys: fields of `RunConfig`, for all runs.

    Raises:
        ValueError, OSError: there are fewer than two methods or seeds, or a method is given twice; or as
            `ntkfl.training.run`.
        FloatingPointError: a model is no longer finite; the message names the method, the seed and the round.
    """
    if len(methods) < 2 or len(set(methods)) < len(methods):
        raise ValueError(f"the methods are {', '.join(methods) or 'none'}; name two or more different ones")
    if seeds < 2:
        raise ValueError(f"seeds is {seeds}; an interval needs two or more")
    first = keys.pop("seed", 0)
    chosen = range(first, first + seeds)
    parts = [parsed(method) for method in methods]
    for name, options in parts:  # this raises for impossible settings, before any training
        made = prepared(name, seed=first, **(keys | {"options": options} if options else keys))
        if made.federation.data.x_test is None and not made.config.train_loss:
            raise ValueError(
                "nothing is measured: the data have no test samples; --train-loss measures the training loss"
            )
    by_measure: dict[str, list[list[float]]] = {name: [] for name in MEASURES}
    shortfalls: list[tuple[str, int, str]] = []
    for method, (name, options) in zip(methods, parts, strict=True):
        rows = []
        for seed in chosen:
            if progress is not None:
                progress(method, seed)
            folder = None if out is None else out / re.sub(r"[^\w.=-]+", "_", method) / f"seed-{seed}"
            resume = folder is not None and RunFolder(folder).checkpoint.is_file()
            given = keys | {"options": options} if options else keys
            try:
                done = run(name, seed=seed, out=folder, resume=resume, **given)
            except FloatingPointError as error:
                raise FloatingPointError(f"{method}, seed {seed}, {error}") from None
            rows.append(summary(done.rows))
            shortfalls += [(method, seed, done.shortfall)] if done.shortfall else []
        for measure, values in by_measure.items():
            values.append([row[measure].mean if measure in row else math.nan for row in rows])
    arrays = {name: np.array(values) for name, values in by_measure.items()}
    known = {name: values for name, values in arrays.items() if np.isfinite(values).all()}
    if not known:
        raise ValueError("no measure is finite in every run, so nothing is compared; a smaller rate may help")
    return MethodComparison(tuple(methods), tuple(chosen), known, tuple(shortfalls))


def parsed(method: str) -> tuple[str, dict[str, Any]]:
    """A method's name and its options: "fedprox:mu=0.1,other=2".

    Args:
        method: a name, with options after a colon.

    Returns: the name, and the options by name.
    """
    name, _, typed = method.partition(":")
    return name, method_options([text for text in typed.split(",") if text])


def _interval(values: np.ndarray, level: float) -> Interval:
    count = len(values)
    spread = float(values.std(ddof=1)) / math.sqrt(count)
    return Interval(float(values.mean()), float(stats.t.ppf((1 + level) / 2, count - 1)) * spread)
