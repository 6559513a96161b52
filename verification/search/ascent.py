"""From a given case to other cases: cases of a higher score, and simpler cases.

A score says how near a case is to violating a claim. The search changes the continuous coordinates of a case (steps,
labels, points, radii) and its sizes so that the score rises. A simpler case has fewer samples, clients, rounds and
neurons, or rounder numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import partial, singledispatch
from itertools import takewhile
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bounds.federated_run import FederatedRun
from bounds.ladders.width_ladder import WidthLadder
from ntkfl import Problem, Setup, Weights, gram, interruption
from ntkfl.algorithm1.reference import Arithmetic

MOST = 24  # largest number of coordinates; with more, a simplex makes no progress in the evaluations that are allowed
SPREAD = 0.3  # length of the edges of the first simplex
LEAST = 1e-6  # an ascent ends if one turn of it gains less than this
GOOD = 0.1  # the evaluations for a discrete step that raises the score by more than this are not counted
MOST_ROUNDS, MOST_STEPS, MOST_NEURONS = 256, 16, 2048
STEPS = ("eta_local", "eta_global")

Rebuild = Callable[[np.ndarray], Any]


def climb(case: Any, score: Callable[[Any], float], evaluations: int) -> None:
    """Climb from a case to cases with a higher score.

    Steps to discrete neighbours alternate with runs of Nelder-Mead on the coordinates, as long as the score rises.
    `score` is called with every case on the way, and may keep the case. Half of the evaluations are for discrete steps,
    and half for Nelder-Mead. Evaluations for discrete steps that raise the score by more than a tenth are not counted.
    The number of such steps is finite, since sizes have limits.
    """
    best, reached = case, score(case)
    left = {"discrete": evaluations // 2, "simplex": evaluations // 2}
    while left["discrete"] > 0 and left["simplex"] > 0:
        start = reached
        while left["discrete"] > 0:
            interruption.check()
            scored = [(score(neighbour), neighbour) for neighbour in neighbours(best)]
            top, neighbour = max(scored, key=lambda pair: pair[0], default=(reached, best))
            left["discrete"] -= 0 if top > reached + GOOD else len(scored) + 1
            if top <= reached + LEAST:
                break
            best, reached = neighbour, top
        share = min(left["simplex"], evaluations // 6 + 1)
        left["simplex"] -= share
        moved, top = _simplex(best, score, share)
        if top > reached:
            best, reached = moved, top
        if reached <= start + LEAST:
            return


@singledispatch
def neighbours(case: Any) -> list[Any]:
    """The cases that are one discrete step away from a case; none for a class of cases that registers no steps."""
    return []


@neighbours.register
def _of_run(case: FederatedRun) -> list[Any]:
    """The runs with one round or local step less, with twice the rounds or local steps, or with doubled neurons.

    The neurons that are doubled share one activation pattern. Rounds also grow eightfold, since a quotient of the two
    sides that grows in late rounds often falls in the first rounds. When neurons are doubled, |H(0)| changes. The
    server step is then changed too, and stays the same in units of 1/|H(0)|.
    """
    setup, rounds, steps = case.setup, case.setup.rounds, case.setup.local_steps
    changed = [replace(setup, rounds=k) for k in (2 * rounds, rounds - 1, 8 * rounds) if 1 <= k <= MOST_ROUNDS]
    changed += [replace(setup, local_steps=k) for k in (2 * steps, steps - 1) if 1 <= k <= MOST_STEPS]
    hidden, signs = case.weights
    _, pattern = np.unique(hidden @ case.problem.x.T >= 0, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    cases = [replace(case, setup=setup) for setup in changed]
    for g in range(pattern.max() + 1):
        chosen = np.concatenate([np.arange(len(signs)), np.flatnonzero(pattern == g)])
        if len(chosen) <= MOST_NEURONS:
            weights = Weights(hidden[chosen], signs[chosen])
            norms = [np.linalg.norm(gram.finite(case.problem.x, net), 2) for net in (hidden, weights.hidden)]
            eta_global = setup.eta_global * float(norms[0] / norms[1] if min(norms) > 0 else 1.0)
            wider = replace(setup, width=len(chosen), eta_global=eta_global)
            cases.append(relabelled(case, replace(case, weights=weights, setup=wider)))
    return cases


def relabelled(case: FederatedRun, changed: FederatedRun) -> FederatedRun:
    """The changed case, with the residual of the old case, so that labels near the outputs stay near them."""
    y = initial_outputs(changed) + (case.problem.y - initial_outputs(case))
    return replace(changed, problem=replace(changed.problem, y=y))


def _simplex(case: Any, score: Callable[[Any], float], evaluations: int) -> tuple[Any, float]:
    """The best case of a run of Nelder-Mead, and its score."""
    best, reached = case, -np.inf
    size, rebuild = coordinates(case)
    if not 0 < size <= MOST:
        return best, reached

    def loss(v: np.ndarray) -> float:
        nonlocal best, reached
        try:
            candidate = rebuild(v)
        except ValueError:  # the step is beyond float64, or a row became zero
            return np.inf
        value = score(candidate)
        if value > reached:
            best, reached = candidate, value
        return -value

    simplex = np.vstack([np.zeros(size), SPREAD * np.eye(size)])
    minimize(loss, simplex[0], method="Nelder-Mead", options={"maxfev": evaluations, "initial_simplex": simplex})
    return best, reached


@singledispatch
def coordinates(case: Any) -> tuple[int, Rebuild]:
    """The number of continuous coordinates of a case, and a function that makes a case from offsets of the coordinates.

    Offsets 0 give the case itself. Steps and other positive numbers move in their logarithm, labels move in units of
    the residual, and points move on their spheres.
    """
    return _of_fields(case)


@coordinates.register
def _of_a_run(case: FederatedRun) -> tuple[int, Rebuild]:
    labels, points = max(float(np.abs(case.problem.y - initial_outputs(case)).max()), 1e-12), case.problem
    n, d = points.n, points.d
    size = len(STEPS) + n + n * d
    if size > MOST:
        return 2, lambda v: replace(case, setup=_scaled(case.setup, v))

    def rebuilt(v: np.ndarray) -> FederatedRun:
        problem = _moved(points, labels * v[2 : 2 + n], v[2 + n :])
        return replace(case, setup=_scaled(case.setup, v[:2]), problem=problem)

    return size, rebuilt


@coordinates.register
def _of_a_ladder(case: WidthLadder) -> tuple[int, Rebuild]:
    return _of_fields(case, points=False)  # no points are moved, since they must stay apart


def _of_fields(case: Any, points: bool = True) -> tuple[int, Rebuild]:
    """The coordinates of a dataclass.

    The coordinates are the dataclass's positive floats, the positive floats of the dataclasses within it, and the
    coordinates of its problem and its setup. Sigma is not moved, since it sets the scale. Points are moved only if
    `points` is true.
    """
    parts: list[tuple[str, int, Rebuild]] = []
    for field in fields(case) if is_dataclass(case) else ():
        value = getattr(case, field.name)
        if not field.init or field.name == "sigma":
            continue
        if isinstance(value, float) and value > 0:
            parts.append((field.name, 1, partial(_stretched, value)))
        elif isinstance(value, Setup):
            parts.append((field.name, len(STEPS), partial(_scaled, value)))
        elif isinstance(value, Problem):
            if points:
                parts.append((field.name, value.x.size, partial(_moved, value, 0.0)))
        elif is_dataclass(value) and not isinstance(value, Arithmetic):
            parts.append((field.name, *_of_fields(value)))
    ends = np.cumsum([0, *(size for _, size, _ in parts)])

    def rebuilt(v: np.ndarray) -> Any:
        changed = {
            name: part(v[a:b]) for (name, _, part), a, b in zip(parts, ends[:-1], ends[1:], strict=True) if v[a:b].any()
        }
        return replace(case, **changed)

    return int(ends[-1]), rebuilt


def _stretched(value: float, v: np.ndarray) -> float:
    return value * float(np.exp(v[0]))


def _scaled(setup: Setup, v: np.ndarray) -> Setup:
    local, server = (float(factor) for factor in np.exp(v))
    return replace(setup, eta_local=setup.eta_local * local, eta_global=setup.eta_global * server)


def _moved(problem: Problem, labels: np.ndarray | float, offset: np.ndarray) -> Problem:
    """The problem with its labels moved, and with its points moved on the spheres on which they lie."""
    x = problem.x
    if offset.any():
        moved = x + offset.reshape(x.shape) * np.linalg.norm(x, axis=1, keepdims=True)
        x = moved / np.linalg.norm(moved, axis=1, keepdims=True) * np.linalg.norm(x, axis=1, keepdims=True)
    return replace(problem, x=x, y=problem.y + labels)


def initial_outputs(case: FederatedRun) -> np.ndarray:
    """The outputs f(x_i), (n,), of the network from which the run starts."""
    return case.weights.outputs(case.problem.x)


ONE_BY_ONE = 128  # in networks with at most this many neurons, each neuron in turn is left out


def shrunk(case: Any, keeps: Callable[[Any], bool], more_time: Callable[[], bool]) -> Any:
    """The case, simplified step by step as long as `keeps` accepts a simpler case and time is left."""
    while more_time():
        interruption.check()
        candidates = takewhile(lambda _: more_time(), simpler(case))
        kept = next(filter(keeps, candidates), None)
        if kept is None:
            break
        case = kept
    return case


@singledispatch
def simpler(case: Any) -> Iterator[Any]:
    """Cases that are a little simpler than this case, beginning with the largest simplifications.

    Each of these cases differs from the given case.
    """
    yield from _fields(case) if is_dataclass(case) else ()


@simpler.register
def _simpler_runs(case: FederatedRun) -> Iterator[Any]:
    # runs in which a neuron is at its kink on some sample are left out
    yield from (run for run in _runs(case) if (run.problem.x @ run.weights.hidden.T).all())


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
    """The runs with rounded labels, or with a rounded residual if the labels cannot be rounded.

    Labels and residual are not both rounded, since each would undo the other.
    """
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
    """The runs whose points have directions with entries of one digit, or of two digits if one digit is not enough."""
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
    """The problems with one sample fewer, or with a single client."""
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
    """Fractions near the given fraction with smaller denominators.

    The fraction 0 is left out, since 0 is not a simpler form of another number.
    """
    candidates = [Fraction(1), *(value.limit_denominator(d) for d in (1, 2, 4))]
    for candidate in candidates:
        if candidate and (candidate == 1 or candidate.denominator < value.denominator) and candidate != value:
            yield candidate


def _digits(value: float) -> int:
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0"))


def _rounded(values: np.ndarray, digits: int) -> np.ndarray:
    """The entries, rounded to `digits` significant digits of the largest entry; with `digits` 0, to integers."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return values
    places = 0 if digits == 0 else digits - 1 - int(np.floor(np.log10(largest)))
    return np.round(values, places) + 0.0


def _fewer(width: int) -> Iterator[np.ndarray]:
    """Sets of neurons to keep. Each set leaves out a half, a quarter or an eighth of the neurons, or one neuron."""
    everyone = np.arange(width)
    if width > 1:
        for parts in (2, 4, 8):
            for part in np.array_split(everyone, parts) if width >= parts else ():
                yield np.setdiff1d(everyone, part)
        for r in everyone if width <= ONE_BY_ONE else ():
            yield everyone[everyone != r]
