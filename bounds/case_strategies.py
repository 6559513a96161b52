"""Hypothesis strategies for whole cases: runs of Algorithm 1, kernel cases, networks at initialisation, ladders.

Small sizes and wide ranges: a counterexample search draws from these whatever the statement is, and its hypotheses sort
them. Steps are drawn relative to the eigenvalues that limit them, so that both sides of each limit are met.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.federated_run import FederatedRun
from bounds.initial_network import InitialNetwork
from bounds.kernel_case import KernelCase
from bounds.strategies import Range, labels, nearly_parallel, partitions, unit_data
from bounds.width_ladder import WidthLadder
from ntkfl import gram
from ntkfl.initialisation import draw as gaussian
from ntkfl.problem import Problem, Setup, Weights

RUNGS = tuple(2**power for power in range(7, 13))  # fewer than six would leave finite-size bias out of the slope
NETWORKS = 8  # at each width
SMALLEST_EIGENVALUE = 1e-9  # of H_inf, below which its Cholesky factor is not to be had in floats


def log_uniform(low: float, high: float) -> SearchStrategy[float]:
    """Positive numbers, log-uniform, of two significant digits; the simplest is the one nearest to 1.

    Raises:
        ValueError: a range that is empty, or not positive and finite.
    """
    if not 0 < low <= high < np.inf:
        raise ValueError(f"the range is {(low, high)}; it must be (lowest, highest), positive, finite and not empty")
    exponents = st.floats(np.log10(low), np.log10(high))
    return exponents.map(lambda power: min(max(float(f"{10**power:.2g}"), low), high))


def sizes(low: int, high: int) -> SearchStrategy[int]:
    """Integers, log-uniform."""
    return log_uniform(low, high).map(lambda size: min(max(round(size), low), high))


def points(n: Range = (1, 3), d: Range = (1, 3)) -> SearchStrategy[np.ndarray]:
    """Unit rows (n, d), no two equal; in two dimensions or more also nearly parallel ones."""
    spread = [unit_data(n=n, d=(max(2, d[0]), max(2, d[1])), distinct=True)]
    if d[0] == 1:
        spread.append(unit_data(n=(1, min(2, n[1])), d=(1, 1), distinct=True))
    if n[1] >= 2 and d[1] >= 2:
        spread.append(nearly_parallel(angle=(1e-4, 1e-1), n=(max(2, n[0]), n[1]), d=(max(2, d[0]), d[1])))
    return st.one_of(spread)


@st.composite
def networks(draw: DrawFn, d: int, width: Range = (1, 64)) -> Weights:
    """Networks on d features: Gaussian, or a few groups of equal neurons in small integer directions.

    The sizes of the groups are log-uniform up to four times the largest width, so that rare neurons are met as often as
    common ones.
    """
    if draw(st.booleans()):
        return gaussian(draw(sizes(*width)), d, draw(st.integers(0, 2**16)))
    rows = st.lists(st.integers(-3, 3), min_size=d, max_size=d).filter(any)
    groups = draw(
        st.lists(st.tuples(sizes(1, 4 * width[1]), rows, st.sampled_from([1.0, -1.0])), min_size=1, max_size=4)
    )
    counts = [count for count, _, _ in groups]
    return Weights(
        np.repeat(np.array([row for _, row, _ in groups], float), counts, axis=0),
        np.repeat([sign for _, _, sign in groups], counts),
    )


@st.composite
def targets(draw: DrawFn, outputs: np.ndarray) -> np.ndarray:
    """Labels (n,): +-1, anywhere in [-1, 1], or the outputs plus a residual of any size in any direction."""
    n = len(outputs)
    if draw(st.booleans()):
        return draw(labels(n))
    direction = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    return outputs + draw(log_uniform(1e-8, 10)) * np.array(direction, float)


@st.composite
def steps(
    draw: DrawFn, largest_block: float, largest: float, clients: int, local_steps: Range, rounds: Range
) -> dict[str, Any]:
    """Fields of a Setup: eta_l relative to the largest block's eigenvalue, eta_g plain or rho relative to |H|."""
    k = draw(st.integers(*local_steps))
    eta_local = draw(log_uniform(1e-4, 8)) / (largest_block or 1.0)
    eta_global = draw(
        st.one_of(log_uniform(0.05, 4), log_uniform(1e-2, 4).map(lambda u: u * clients / (eta_local * k * largest)))
        if largest
        else log_uniform(0.05, 4)
    )
    return {
        "eta_local": float(eta_local),
        "eta_global": float(eta_global),
        "local_steps": k,
        "rounds": draw(sizes(*rounds)),
    }


@cache
def federated_runs(
    *,
    n: Range = (1, 3),
    d: Range = (1, 3),
    clients: Range = (1, 3),
    width: Range = (1, 64),
    local_steps: Range = (1, 4),
    rounds: Range = (1, 8),
    linearised: bool = False,
    in_balls: bool = False,
) -> SearchStrategy[FederatedRun]:
    """Small runs of Algorithm 1 on any data, labels, partition, network and steps; equal arguments, equal strategy."""
    return _federated_runs(n, d, clients, width, local_steps, rounds, linearised, in_balls)


@st.composite
def _federated_runs(draw: DrawFn, n, d, clients, width, local_steps, rounds, linearised, in_balls) -> FederatedRun:
    from ntkfl.reference import BALL

    x = draw(points(n, d))
    owner = draw(partitions(len(x), clients=clients))
    weights = draw(networks(x.shape[1], width))
    assume((x @ weights.hidden.T).all())  # a neuron at its kink makes a case of the convention for relu'(0)
    h = gram.finite(x, weights.hidden)
    outputs = weights.outputs(x)
    problem = Problem(x, draw(targets(outputs)), owner, name="drawn")
    chosen = draw(steps(_largest_block(h, owner), _largest(h), problem.n_clients, local_steps, rounds))
    setup = Setup(width=len(weights.signs), **chosen)
    run = FederatedRun(problem, setup, weights, linearised=linearised)
    return run.with_arithmetic(BALL) if in_balls else run


@cache
def kernel_cases() -> SearchStrategy[KernelCase]:
    """The kernel regime of up to four points, with steps on both sides of the stability limits."""
    return _kernel_cases()


@st.composite
def _kernel_cases(draw: DrawFn) -> KernelCase:
    x = draw(points((1, 4), (1, 3)).filter(lambda x: _smallest(gram.infinite(x)) > SMALLEST_EIGENVALUE))
    owner = draw(partitions(len(x), clients=(1, 4)))
    h = gram.infinite(x)
    problem = Problem(x, draw(labels(len(x))), owner, name="drawn")
    chosen = draw(steps(_largest_block(h, owner), _largest(h), problem.n_clients, (1, 6), (1, 1)))
    return KernelCase(problem, Setup(**chosen))


@cache
def initial_networks() -> SearchStrategy[InitialNetwork]:
    """Gaussian networks of any width up to 2^9 and sigma on up to four points, with R and delta of any size."""
    return _initial_networks()


@st.composite
def _initial_networks(draw: DrawFn) -> InitialNetwork:
    x = draw(points((1, 4), (1, 3)))
    width, sigma = draw(sizes(1, 512)), draw(st.one_of(st.just(1.0), log_uniform(0.05, 4)))
    weights = gaussian(width, x.shape[1], draw(st.integers(0, 2**16)), sigma)
    problem = Problem(x, draw(labels(len(x))), name="drawn")
    radius, delta = draw(log_uniform(1e-3, 0.99)), draw(log_uniform(0.02, 0.9))
    return InitialNetwork(problem, weights, sigma, radius * sigma, delta)


@cache
def width_ladders(setup: Setup) -> SearchStrategy[WidthLadder]:
    """Ladders of widths 2^7..2^12, eight networks each, of a few rounds with a step up to the stability limit.

    What they do not choose (sigma) is as in `setup`; their labels are the initial residual.
    """
    return _width_ladders(setup)


@st.composite
def _width_ladders(draw: DrawFn, setup: Setup) -> WidthLadder:
    x = draw(unit_data(n=(2, 4), d=(2, 3), distinct=True).filter(apart))
    owner = draw(partitions(len(x), clients=(1, len(x))))
    problem = Problem(x, draw(labels(len(x)).filter(np.any)), owner, name="drawn")
    eta_local = draw(log_uniform(1e-3, 1.9)) / _largest_block(gram.infinite(x), owner)
    chosen = replace(
        setup,
        eta_local=float(eta_local),
        eta_global=draw(log_uniform(0.1, 1)),
        local_steps=draw(st.integers(1, 4)),
        rounds=draw(st.integers(1, 5)),
    )
    return WidthLadder(problem, chosen, RUNGS, (NETWORKS,) * len(RUNGS), draw(st.integers(0, 2**16)))


def apart(x: np.ndarray) -> bool:
    """Whether the lines through the rows are 37 degrees or more apart, so that small networks see them apart too.

    Between two nearly parallel points a small network has no neuron at all, and its rates are not those of the limit.
    """
    return bool((np.abs(x @ x.T)[~np.eye(len(x), dtype=bool)] <= 0.8).all())


def _largest_block(h: np.ndarray, owner: np.ndarray) -> float:
    return _largest(h * (owner[:, None] == owner))


def _largest(h: np.ndarray) -> float:
    return max(float(np.linalg.eigvalsh(h)[-1]), 0.0)


def _smallest(h: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(h)[0])
