"""A statement on the rate of random rounds with memories: it lies between the two bounds that the library gives."""

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Claim, Family, Kind, Source, Statement
from bounds.fl_ntk.cases.drawn_memory import OPTIONS, DrawnMemory, drawn_memory
from bounds.mutants import reversed_comparison, scaled
from ntkfl.estimate import Estimate

# With these sizes a state has 14 numbers. For smaller states the library computes all eigenvalues, and no bounds.
SIZES = (3, 2, 2)


def _drawn(seed: int) -> DrawnMemory:
    """One to three clients, which are drawn in each round.

    For even seeds they take up to four local steps on all samples, and for odd seeds they pass over the samples once.
    alpha and the step sizes are random.
    """
    rng = np.random.default_rng([seed, 12])
    shuffled = seed % 2 > 0
    steps, reach = (1, 0.8) if shuffled else (int(rng.integers(1, 5)), 1.8)
    reach, server, pull = float(rng.uniform(0.05, reach)), float(rng.uniform(0.1, 3)), float(rng.uniform(0.1, 2))
    return drawn_memory(seed, 1 + seed // 2 % 3, steps, reach, server, pull, 0.0, steps, shuffled, SIZES)


def _any() -> SearchStrategy[DrawnMemory]:
    """Rounds like those of `_drawn`, with one step or one pass, and any step size up to a single sample's limit."""
    one, numbers = st.just(1), (st.floats(0.01, 0.9), st.floats(0.05, 4), st.floats(0.05, 4), st.just(0.0))
    drawn = st.integers(0, 2**16), st.integers(1, 3), one, *numbers, one, st.booleans()
    return st.builds(drawn_memory, *drawn, sizes=st.just(SIZES))


REMEMBERED = (Family("sphere, n=7, N=3, clients that remember are drawn or pass", _drawn, _any, trials=6, most=6),)


def _measure(case: DrawnMemory) -> tuple[Estimate, ...]:
    """For each method the lower number divided by the rate, and the rate divided by the upper number."""
    measured = []
    for method in OPTIONS:
        rate, (low, high) = case.radius(method).sqrt(), case.library(method).mean_square.rate_bounds
        root, error = float(rate.value), float(rate.error)
        measured += [
            Estimate(low / root, error * low / root**2, rate.method),
            Estimate(root / high, error / high, rate.method),
        ]
    return tuple(measured)


STATEMENTS = (
    Statement(
        id="fl-ntk/rate-sides",
        title="The rate of SCAFFOLD and FedDyn with drawn clients is between the bounds that Cholesky's method proves",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#both-sides-of-a-radius"),
        note="the map T of E z z' takes positive matrices to positive ones. If X and X - T(X)/l are positive definite, "
        "the radius of T is below l. If X - T(X)/l is positive definite and X is not, the radius is at least l. For "
        "either bound X is combined from matrices that a search for the radius has tried, and l is a level beside the "
        "radius",
        new=Claim((sp.Integer(1), sp.Integer(1)) * len(OPTIONS)),
        measure=_measure,
        left_formula=("rho_- / rho(E M otimes M)^{1/2}", "rho(E M otimes M)^{1/2} / rho_+") * len(OPTIONS),
        says_left="for SCAFFOLD with options II and I and for FedDyn: the library's lower bound divided by the root of "
        "the radius of E M (x) M over every choice of clients and orders, M the map of residual and memories; and that "
        "root divided by the upper bound",
        families=REMEMBERED,
        mutants=(scaled(sp.Rational(9_999_999, 10_000_000)), reversed_comparison()),
        uses=("fl-ntk/drawn-memory", "fl-ntk/passes-with-memory"),
    ),
)
