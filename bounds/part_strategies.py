"""Hypothesis strategies for the parts of cases: sizes, points, networks, targets and steps.

Sizes are small and ranges wide: every counterexample search draws from these strategies, and the statement's hypotheses
reject cases. Steps are drawn relative to the eigenvalues that limit them, so that cases lie on both sides of each
limit. Strategies of whole cases are in the cases' modules: `federated_runs`, `kernel_cases`, `initial_networks`,
`width_ladders`.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.strategies import Range, labels, nearly_parallel, unit_data
from ntkfl.initialisation import draw as gaussian
from ntkfl.problem import Weights


def log_uniform(low: float, high: float) -> SearchStrategy[float]:
    """Positive numbers of two significant digits, log-uniform; the number nearest to 1 is the simplest.

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
    """Unit rows (n, d), no two equal; in two or more dimensions also nearly parallel rows."""
    spread = [unit_data(n=n, d=(max(2, d[0]), max(2, d[1])), distinct=True)]
    if d[0] == 1:
        spread.append(unit_data(n=(1, min(2, n[1])), d=(1, 1), distinct=True))
    if n[1] >= 2 and d[1] >= 2:
        spread.append(nearly_parallel(angle=(1e-4, 1e-1), n=(max(2, n[0]), n[1]), d=(max(2, d[0]), d[1])))
    return st.one_of(spread)


@st.composite
def networks(draw: DrawFn, d: int, width: Range = (1, 64)) -> Weights:
    """Networks on d features: Gaussian, or a few groups of equal neurons in small integer directions.

    The sizes of the groups are log-uniform up to four times the largest width, so that cases have rare neurons as often
    as common ones.
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
    """Labels (n,): all +-1; or anywhere in [-1, 1]; or the outputs plus a residual of any size and direction."""
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


def largest_block(h: np.ndarray, owner: np.ndarray) -> float:
    """The largest eigenvalue of any client's block of a Gram matrix, 0 if all blocks vanish."""
    return largest_eigenvalue(h * (owner[:, None] == owner))


def largest_eigenvalue(h: np.ndarray) -> float:
    """The largest eigenvalue of a Gram matrix, 0 if the matrix vanishes."""
    return max(float(np.linalg.eigvalsh(h)[-1]), 0.0)
