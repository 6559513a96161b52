"""A statement on the expected iterate of local SGD with an outer rate on a quadratic (Khaled et al. 2025)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import Case, Change, Claim, Family, Kind, Provenance, Source, Statement
from bounds.mutants import MILLIONTH_MORE, power, replaced
from bounds.symbols import K, T, eta_local
from ntkfl.estimate import Estimate

KHALED = (
    "Khaled, Kale, Douillard, Jin, Fergus and Zaheer, Understanding Outer Optimizers in Local SGD (NeurIPS 2025, arXiv "
    "2509.10439), section 3.2, read in a machine's conversion, which has lost the displayed formulas"
)
CLIENTS = 2
outer = sp.Symbol("gamma", positive=True)
curvatures, starts = sp.symbols("q_1 q_2", positive=True), sp.symbols("x_1 x_2", real=True)


@dataclass(frozen=True, eq=False)
class SmallQuadratic(Case):
    """The quadratic f(x) = x'Qx/2 with Q = A'A, in two dimensions.

    A stochastic gradient is twice the gradient of the part of f that belongs to one row of A, drawn at random.
    """

    rows: np.ndarray  # A, (2, 2)
    start: np.ndarray  # x_0, (2,)
    step: float  # eta
    outer: float  # gamma
    steps: int  # H
    rounds: int

    @cached_property
    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues of Q, ascending, and its eigenvectors."""
        return np.linalg.eigh(self.rows.T @ self.rows)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        parts = {name: getattr(self, name) for name in ("step", "outer", "steps", "rounds")}
        return {"case": "two clients on a quadratic", "rows": self.rows.tolist(), "start": self.start.tolist()} | parts

    def iterate(self, outer: float) -> tuple[Estimate, Estimate]:
        """E x after the rounds, in the coordinates along the eigenvectors of Q.

        The mean is over all sequences of rows, for every client.
        """
        sequences = list(product(range(2), repeat=self.steps))
        models = [self.start]
        for _ in range(self.rounds):
            models = [
                model + outer * (np.mean(ends, axis=0) - model)
                for model in models
                for ends in product([self._local(model, rows) for rows in sequences], repeat=CLIENTS)
            ]
        values, vectors = self.eigen
        size = max(float(np.abs(models).max()), float(np.abs(self.start).max()))
        error = 1e-13 * size * (1 + float(values[1] / (values[1] - values[0])))
        first, second = vectors.T @ np.mean(models, axis=0)
        return Estimate(first, error, "rounding, generous"), Estimate(second, error, "rounding, generous")

    def _local(self, x: np.ndarray, rows: tuple[int, ...]) -> np.ndarray:
        for row in rows:
            x = x - self.step * 2 * self.rows[row] * (self.rows[row] @ x)
        return x


def _case(seed: int) -> SmallQuadratic:
    """One or two local steps and rounds. Step sizes go up to the edge of stability, and outer rates up to 2."""
    rng = np.random.default_rng([seed, 43])
    return _quadratic(seed, float(rng.uniform(0.05, 1.9)), float(rng.uniform(0.1, 2)), 1 + seed % 2, 1 + seed // 2 % 2)


def _quadratic(seed: int, reach: float, outer: float, steps: int, rounds: int) -> SmallQuadratic:
    rng = np.random.default_rng([seed, 44])
    rows, start = rng.standard_normal((2, 2)), rng.standard_normal(2)
    top = float(np.linalg.eigvalsh(rows.T @ rows)[-1])
    return SmallQuadratic(rows, start, reach / top, outer, steps, rounds)


def _any() -> st.SearchStrategy:
    counts = st.integers(1, 2)
    return st.builds(_quadratic, st.integers(0, 2**16), st.floats(0.01, 1.9), st.floats(0.01, 2), counts, counts)


def _constants(case: SmallQuadratic) -> dict:
    values, vectors = case.eigen
    error = 1e-14 * float(values[-1])
    constants = {q: Estimate(float(v), error, "rounding") for q, v in zip(curvatures, values, strict=True)}
    begun = vectors.T @ case.start
    size = 1e-14 * float(np.linalg.norm(case.start)) * (1 + float(values[-1] / (values[-1] - values[0])))
    constants |= {x: Estimate(float(v), size, "rounding") for x, v in zip(starts, begun, strict=True)}
    return constants | {outer: case.outer, eta_local: case.step, K: case.steps, T: case.rounds}


ENDS = [(1 - outer + outer * (1 - eta_local * q) ** K) ** T * x for q, x in zip(curvatures, starts, strict=True)]
SYMBOLS = (
    {outer: "the outer rate"}
    | {q: f"eigenvalue {i + 1} of Q" for i, q in enumerate(curvatures)}
    | {x: f"x_0 along eigenvector {i + 1}" for i, x in enumerate(starts)}
)


SOURCE = Source(KHALED, "section 3.2, after Proposition 1", read=Provenance.SCAN)


STATEMENTS = (
    Statement(
        id="outer/quadratic",
        title="Local SGD with an outer rate on a quadratic: the expected iterate",
        kind=Kind.EQUALITY,
        source=SOURCE,
        note="E x_R = ((1 - gamma) I + gamma (I - eta Q)^H)^R x_0 on f(x) = x'Qx/2, for unbiased gradients; here along "
        "the eigenvectors of Q, with K local steps and T rounds. The machine's conversion of the paper "
        "lacks the exponent R; since such conversions lose exponents, the formula is read with R",
        stated=Claim(tuple(ENDS)),
        constants=_constants,
        measure=lambda case: case.iterate(case.outer),
        symbols=SYMBOLS,
        left_formula=("E <v_1, x_T>", "E <v_2, x_T>"),
        says_left="the mean of the model after the rounds, over every sequence of stochastic gradients of two clients, "
        "each trained step by step",
        families=(Family("d=2, N=2, one row a step", _case, _any()),),
        mutants=(
            MILLIONTH_MORE,
            power(outer, 2),
            replaced(K, K + 1, "a local step more", Change.INDEX),
            replaced(T, 2 * T, "twice as many rounds", Change.INDEX),
        ),
    ),
)
