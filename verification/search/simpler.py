"""Simpler cases than a given one: fewer samples, clients, rounds and neurons, rounder numbers."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from bounds.federated_run import FederatedRun
from ntkfl import Problem, Setup, Weights, interruption
from verification.search.ascent import initial_outputs, relabelled

ONE_BY_ONE = 128  # in networks of at most this many neurons each neuron is left out in turn


def shrunk(case: Any, keeps: Callable[[Any], bool], more_time: Callable[[], bool]) -> Any:
    """The case, simplified step by step as long as `keeps` admits a simplification and time is left."""
    again = True
    while again and more_time():
        interruption.check()
        again = False
        for candidate in simpler(case):
            if not more_time():
                break
            if keeps(candidate):
                case, again = candidate, True
                break
    return case


@singledispatch
def simpler(case: Any) -> Iterator[Any]:
    """Cases a little simpler than this one, the largest simplifications first; each differs from it."""
    yield from _fields(case) if is_dataclass(case) else ()


@simpler.register
def _simpler_runs(case: FederatedRun) -> Iterator[Any]:
    yield from (run for run in _runs(case) if (run.problem.x @ run.weights.hidden.T).all())  # no neuron at its kink


def _runs(case: FederatedRun) -> Iterator[FederatedRun]:
    for problem in _problems(case.problem):
        yield replace(case, problem=problem)
    if case.problem.d > 1:
        for j in range(case.problem.d):
            yield from _without_feature(case, j)
    for kept in _fewer(case.setup.width):
        weights = Weights(case.weights.hidden[kept], case.weights.signs[kept])
        if len(kept):
            smaller = replace(case, weights=weights, setup=replace(case.setup, width=len(kept)))
            yield from (relabelled(case, smaller), smaller)
    for setup in _setups(case.setup):
        yield replace(case, setup=setup)
    yield from _rounder_labels(case)
    for hidden in (np.sign(case.weights.hidden), *(_rounded(case.weights.hidden, digits) for digits in (0, 1))):
        if hidden.any(axis=1).all() and not np.array_equal(hidden, case.weights.hidden):
            rounder = replace(case, weights=Weights(hidden, case.weights.signs))
            yield from (relabelled(case, rounder), rounder)
    yield from _rounder_points(case)


def _rounder_labels(case: FederatedRun) -> Iterator[FederatedRun]:
    """Round labels, or a round residual if labels cannot be round; not both, since one would undo the other."""
    y, outputs = case.problem.y, initial_outputs(case)
    candidates = [_rounded(y, 1), _rounded(y, 2)]
    if not np.array_equal(y, candidates[1]):
        residual = y - outputs
        scaled = residual / (float(np.abs(residual).max()) or 1.0)
        candidates += [outputs + _rounded(r, digits) for digits in (1, 2) for r in (scaled, residual)]
    for candidate in candidates:
        if not np.array_equal(candidate, y):
            yield replace(case, problem=replace(case.problem, y=candidate))


def _rounder_points(case: FederatedRun) -> Iterator[FederatedRun]:
    """Points in directions with entries of one digit, or of two digits where one is not enough."""
    for digits in (1, 2):
        x = _rounded(case.problem.x, digits)
        if not x.any(axis=1).all():
            continue
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        if np.abs(x - case.problem.x).max() <= 1e-12:
            return
        yield relabelled(case, replace(case, problem=replace(case.problem, x=x)))


def _without_feature(case: FederatedRun, j: int) -> Iterator[FederatedRun]:
    x, hidden = np.delete(case.problem.x, j, axis=1), np.delete(case.weights.hidden, j, axis=1)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if (norms > 1e-3).all() and hidden.any(axis=1).all():
        smaller = replace(
            case,
            problem=replace(case.problem, x=x / norms, x_test=None, y_test=None),
            weights=Weights(hidden, case.weights.signs),
        )
        yield relabelled(case, smaller)


def _problems(problem: Problem) -> Iterator[Problem]:
    """One sample fewer, or a single client."""
    for i in range(problem.n) if problem.n > 1 else ():
        kept = np.arange(problem.n) != i
        _, owner = np.unique(problem.owner[kept], return_inverse=True)
        yield replace(problem, x=problem.x[kept], y=problem.y[kept], owner=owner, x_test=None, y_test=None)
    if problem.n_clients > 1:
        yield replace(problem, owner=np.zeros(problem.n, int))


def _setups(setup: Setup) -> Iterator[Setup]:
    counts, steps = ("rounds", "local_steps"), ("eta_local", "eta_global", "sigma")
    for name in counts + steps:
        simplified: Callable[[Any], Iterator[Any]] = _smaller if name in counts else _rounder
        for value in simplified(getattr(setup, name)):
            yield replace(setup, **{name: value})
    if setup.seed:
        yield replace(setup, seed=0)


def _fields(case: Any) -> Iterator[Any]:
    for field in fields(case):
        value = getattr(case, field.name)
        if not field.init or isinstance(value, bool) or field.name == "sigma":
            continue
        options: Iterator[Any]
        match value:
            case Problem():
                options = _problems(value)
            case Setup():
                options = _setups(value)
            case int():
                options = _smaller(value)
            case Fraction():
                options = _rounder_fractions(value)
            case float():
                options = _rounder(value)
            case Weights():
                options = (Weights(value.hidden[k], value.signs[k]) for k in _fewer(len(value.signs)))
            case _:
                continue
        for option in options:
            with suppress(ValueError):  # the case's class refuses these values
                yield replace(case, **{field.name: option})


def _smaller(value: int) -> Iterator[int]:
    yield from sorted({v for v in (1, value // 2, value - 1) if 1 <= v < value})


def _rounder(value: float) -> Iterator[float]:
    for candidate in (1.0, float(f"{value:.1g}"), float(f"{value:.2g}")):
        if candidate != value and (candidate == 1.0 or _digits(candidate) < _digits(value)):
            yield candidate


def _rounder_fractions(value: Fraction) -> Iterator[Fraction]:
    """The fraction with smaller denominators; never 0, since 0 is not a simpler form of another number."""
    candidates = [Fraction(1), *(value.limit_denominator(d) for d in (1, 2, 4))]
    for candidate in candidates:
        if candidate and (candidate == 1 or candidate.denominator < value.denominator) and candidate != value:
            yield candidate


def _digits(value: float) -> int:
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0"))


def _rounded(values: np.ndarray, digits: int) -> np.ndarray:
    """Entries rounded to `digits` significant digits of the largest entry; digits 0: to integers."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return values
    places = 0 if digits == 0 else digits - 1 - int(np.floor(np.log10(largest)))
    return np.round(values, places) + 0.0


def _fewer(width: int) -> Iterator[np.ndarray]:
    """Sets of neurons to keep: all but a half, a quarter or an eighth of them, or all but one."""
    everyone = np.arange(width)
    if width > 1:
        for parts in (2, 4, 8):
            for part in np.array_split(everyone, parts) if width >= parts else ():
                yield np.setdiff1d(everyone, part)
        for r in everyone if width <= ONE_BY_ONE else ():
            yield everyone[everyone != r]
