"""Theorem C.4: the Rademacher complexity bounds how far the population loss exceeds the sample loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import FL_NTK, Case, Change, Claim, Family, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.generalisation_case import Loss
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import replaced, sign_flipped
from bounds.symbols import delta, n, rho
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps
ENUMERATED = 12  # most samples for which all 2^n signs are enumerated
DRAWS = 2000  # random draws of signs for larger samples
RISK = 1e-6  # probability that the stated error of a mean over draws is too small


@dataclass(frozen=True)
class FiniteClass(Case):
    """`functions` classifiers of a population with labels +-1, and `n` i.i.d. samples of it.

    Every classifier outputs the label, except on round(mistakes * population) points of its own (at least one), where
    it outputs the opposite sign. S is drawn with replacement, so that the samples are independent.
    """

    functions: int
    population: int
    mistakes: float
    n: int
    loss: Loss
    seed: int
    delta: float = 0.01

    @cached_property
    def labels(self) -> np.ndarray:
        """y, (population,)."""
        return np.random.default_rng([self.seed, 0]).choice([-1.0, 1.0], size=self.population)

    @cached_property
    def outputs(self) -> np.ndarray:
        """f(x), (functions, population)."""
        count = max(1, round(self.mistakes * self.population))
        rank = np.random.default_rng([self.seed, 1]).random((self.functions, self.population)).argsort(axis=1)
        return np.where(rank < count, -self.labels, self.labels)

    @cached_property
    def sample(self) -> np.ndarray:
        """The indices of S, (n,)."""
        return np.random.default_rng([self.seed, 2]).integers(self.population, size=self.n)

    @property
    def largest_gap(self) -> Estimate:
        """max_f L_D(f) - L_S(f), the expectation taken over the whole population."""
        losses = self.loss(self.outputs, self.labels)
        gaps = losses.mean(axis=1) - losses[:, self.sample].mean(axis=1)
        return Estimate(gaps.max(), (self.population + self.n + 8) * EPS * self.loss.cap, "rounding bound")

    @cached_property
    def rademacher(self) -> Estimate:
        """R_S = E max_f sum_i e_i f(x_i) / n over random signs e: all signs for few samples, else drawn ones.

        Changing e_i changes the maximum by at most 2 max_f |f(x_i)| / n. So the mean over the draws has sub-Gaussian
        tails with variance proxy sum_i max_f f(x_i)^2 / n^2 / draws (McDiarmid).
        """
        values = self.outputs[:, self.sample]
        rounding = 4 * (self.n + 4) * EPS * float(np.abs(values).max())
        if self.functions == 1:
            return Estimate.exact(0.0)  # no maximum to take, and E e_i = 0
        if self.n <= ENUMERATED:
            signs = 2.0 * ((np.arange(2**self.n) >> np.arange(self.n)[:, None]) & 1) - 1
            return Estimate((values @ signs).max(axis=0).mean() / self.n, rounding, "all signs, rounding bound")
        signs = np.random.default_rng([self.seed, 3]).choice([-1.0, 1.0], size=(self.n, DRAWS))
        proxy = (np.abs(values).max(axis=0) ** 2).sum() / self.n**2 / DRAWS
        half = np.sqrt(2 * proxy * np.log(2 / RISK)) + rounding
        return Estimate((values @ signs).max(axis=0).mean() / self.n, half, f"{DRAWS} draws of signs, 1 - {RISK:g}")

    def redrawn(self, seed: int) -> FiniteClass:
        """The same sizes and loss, with a new class and a new sample."""
        return replace(self, seed=seed)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return asdict(self) | {"loss": str(self.loss)}


def _drawn(functions: int, sizes: tuple[int, int], mistakes: tuple[float, float], seed: int) -> FiniteClass:
    """The class and the sample of one seed; the loss has any Lipschitz constant and any range."""
    rng = np.random.default_rng([seed, functions])
    n, share = (np.exp(rng.uniform(*np.log(bounds))) for bounds in (sizes, mistakes))
    slope, cap = np.exp(rng.uniform(np.log(0.25), np.log(4), size=2))
    loss = Loss(float(slope), float(min(cap, 2 * slope)))  # a cap above the cost of one mistake would never be reached
    population = 2000 if functions == 1 else 500
    return FiniteClass(functions, population, float(share), int(n), loss, seed)


def _any_class(*_: Any) -> SearchStrategy[FiniteClass]:
    """Finite classes of any size, with any loss."""
    positive = st.floats(0.01, 100)
    return st.builds(
        FiniteClass,
        functions=st.integers(1, 64),
        population=st.integers(2, 500),
        mistakes=st.floats(0, 1),
        n=st.integers(1, 200),
        loss=st.builds(Loss, slope=positive, cap=positive, floor=st.floats(0, 1), shift=st.floats(-1, 1)),
        seed=st.integers(0, 2**16),
        delta=st.floats(0.001, 0.5),
    )


# One function with rare mistakes, so that R_S = 0; large classes; small classes with every sign enumerated.
FINITE_CLASSES = (
    Family("one function, rare mistakes", _drawn, _any_class, (1, (10, 100), (0.0005, 0.002)), trials=300),
    Family("64 functions, n = 80..200", _drawn, _any_class, (64, (80, 200), (0.3, 0.5)), trials=60),
    Family("8 functions, every sign", _drawn, _any_class, (8, (6, 12), (0.1, 0.5)), trials=100),
)


complexity, c = sp.symbols("R_S c", positive=True)
REMAINDER = 3 * c * sp.sqrt(sp.log(2 / delta) / (2 * n))


def _constants(case: FiniteClass) -> dict:
    return {complexity: case.rademacher, rho: case.loss.slope, c: case.loss.cap, n: case.n, delta: case.delta}


STATEMENTS = (
    Statement(
        id="fl-ntk/C.4",
        title="Population loss against sample loss, by Rademacher complexity",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Theorem C.4",
            note="a standard result, quoted from ADH+19a, Theorem B.1. Here rho is the Lipschitz constant, not eta_g "
            "eta_l K/N, and R_S is the Rademacher complexity of the given sample. For an infinite class the left side "
            "is a supremum that cannot be evaluated; for a finite class and population every term can be evaluated",
        ),
        hypotheses=(FAILURE_PROBABILITY,),
        forms={Form.STATED: Claim(2 * rho * complexity + REMAINDER, failure=delta)},
        constants=_constants,
        measure=lambda case: case.largest_gap,
        symbols={
            rho: "Lipschitz constant of the loss in its first argument",
            complexity: "R_S(F) = E max_f sum_i e_i f(x_i) / n over random signs e",
            c: "largest value of the loss",
        },
        left_formula="max_f (L_D(f) - L_S(f))",
        says_left="max_f L_D(f) - L_S(f) over every function of the class, L_D the mean over the whole population",
        families=FINITE_CLASSES,
        mutants=(
            sign_flipped(complexity, "the complexity"),
            sign_flipped(c, "the remainder"),
            replaced(c, 0, "remainder dropped", Change.FACTOR),
        ),
    ),
)
