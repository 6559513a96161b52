"""A case in plain words and small numbers, so that a reader can redo it by hand."""

from functools import singledispatch
from typing import Any

import numpy as np

from bounds.case import case_of
from bounds.federated_run import FederatedRun
from ntkfl.messages import number_of
from ntkfl.problem import Problem, Setup, Weights
from verification.search.ascent import initial_outputs

MOST_GROUPS = 8  # largest number of groups of equal neurons that are written out


@singledispatch
def in_words(case: Any) -> list[str]:
    """A few lines on sizes and steps, points, labels and clients, and neurons.

    For a case without these, the lines are the case's description.
    """
    problem, setup, weights = (getattr(case, name, None) for name in ("problem", "setup", "weights"))
    if not isinstance(problem, Problem):
        return [", ".join(f"{name} = {value}" for name, value in case_of(case).describe().items())]
    lines = _steps(problem, setup) if isinstance(setup, Setup) else []
    lines += _points(problem)
    if isinstance(weights, Weights):
        lines.append(_neurons(*weights))
    known = {"problem", "setup", "weights", "n", "d", "N", "K", "width", "eta_local", "eta_global"}
    others = {k: v for k, v in case_of(case).describe().items() if k not in known}
    lines.append(", ".join(f"{k} = {v if isinstance(v, str | list) else _number(v)}" for k, v in others.items()))
    return [line for line in lines if line]


@in_words.register
def _run_in_words(case: FederatedRun) -> list[str]:
    residual = case.problem.y - initial_outputs(case)
    residual_line = f"residual y - y(0) = {_vector(residual)}" + (", linearised network" if case.linearised else "")
    return [*_steps(case.problem, case.setup), *_points(case.problem), residual_line, _neurons(*case.weights)]


def _steps(problem: Problem, setup: Setup) -> list[str]:
    return [
        f"{number_of(problem.n_clients, 'client')}, K = {setup.local_steps}, eta_l = {_number(setup.eta_local)}, "
        f"eta_g = {_number(setup.eta_global)}, {number_of(setup.rounds, 'round')}"
    ]


def _points(problem: Problem) -> list[str]:
    if problem.n > MOST_GROUPS:
        return [f"{problem.n} points in {problem.d} dimensions"]
    names = zip(problem.x, problem.y, problem.owner, strict=True)
    alone = problem.n_clients == 1
    return [f"x = {_vector(x)}, y = {_number(y)}" + ("" if alone else f", client {c}") for x, y, c in names]


def _neurons(hidden: np.ndarray, signs: np.ndarray) -> str:
    groups, counts = np.unique(np.column_stack([hidden, signs]), axis=0, return_counts=True)
    total = number_of(len(signs), "neuron")
    if len(groups) > MOST_GROUPS:
        return f"{total}, Gaussian or otherwise all different (the file has them)"
    written = [
        f"{n} x {'-' if row[-1] < 0 else '+'}relu({_vector(row[:-1])}.x)" for row, n in zip(groups, counts, strict=True)
    ]
    return f"{total}: {', '.join(written)}"


def _vector(values: np.ndarray) -> str:
    return "(" + ", ".join(_number(v) for v in values) + ")"


def _number(value: float) -> str:
    return f"{float(value):.6g}"
