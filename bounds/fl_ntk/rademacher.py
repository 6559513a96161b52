"""Statements on the Rademacher complexity (Theorem C.4 and Lemma C.5).

The theorem bounds the gap between population loss and sample loss by this complexity. The lemma bounds the complexity
for networks near their initial weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds import FL_NTK, Case, Change, Claim, Family, Kind, Source, Statement
from bounds.case import described
from bounds.fl_ntk.cases.generalisation_case import Loss
from bounds.fl_ntk.premises import FAILURE_PROBABILITY, UNIT_ROWS
from bounds.mutants import power, replaced, sign_flipped
from bounds.strategies import labels, unit_data
from bounds.symbols import R, delta, m, n, rho, sigma
from ntkfl import Estimate, Problem, Weights, gram
from ntkfl.initialisation import draw, draw as gaussian

EPS = np.finfo(float).eps
ENUMERATED = 12  # largest number of samples for which all 2^n signs are enumerated
DRAWS = 2000  # number of random draws of signs for larger samples
RISK = 1e-6  # probability that the stated error of a mean over draws is too small


@dataclass(frozen=True)
class FiniteClass(Case):
    """`functions` classifiers of a population with labels +-1, and n i.i.d. samples of the population.

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
        """max_f L_D(f) - L_S(f), where the expectation L_D is taken over the whole population."""
        losses = self.loss(self.outputs, self.labels)
        gaps = losses.mean(axis=1) - losses[:, self.sample].mean(axis=1)
        return Estimate(gaps.max(), (self.population + self.n + 8) * EPS * self.loss.cap, "rounding bound")

    @cached_property
    def rademacher(self) -> Estimate:
        """R_S = E max_f sum_i e_i f(x_i) / n over random signs e.

        For few samples all signs are used, otherwise drawn signs.

        Changing e_i changes the maximum by at most 2 max_f |f(x_i)| / n. So the mean over the draws has sub-Gaussian
        tails with variance proxy sum_i max_f f(x_i)^2 / n^2 / draws (McDiarmid).
        """
        values = self.outputs[:, self.sample]
        rounding = 4 * (self.n + 4) * EPS * float(np.abs(values).max())
        if self.functions == 1:
            return Estimate.exact(0.0)  # with one function there is no maximum, and E e_i = 0
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
    """The class and the sample of one seed. The loss has any Lipschitz constant and any range."""
    rng = np.random.default_rng([seed, functions])
    n, share = (np.exp(rng.uniform(*np.log(bounds))) for bounds in (sizes, mistakes))
    slope, cap = np.exp(rng.uniform(np.log(0.25), np.log(4), size=2))
    # no loss exceeds the cost of one mistake, so that a higher cap would have no effect
    loss = Loss(float(slope), float(min(cap, 2 * slope)))
    return FiniteClass(functions, 2000 if functions == 1 else 500, float(share), int(n), loss, seed)


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


# The families: one function with rare mistakes, so that R_S = 0; large classes; and small classes, for which all signs
# are enumerated.
FINITE_CLASSES = (
    Family("one function, rare mistakes", _drawn, _any_class, (1, (10, 100), (0.0005, 0.002)), trials=300),
    Family("64 functions, n = 80..200", _drawn, _any_class, (64, (80, 200), (0.3, 0.5)), trials=60),
    Family("8 functions, every sign", _drawn, _any_class, (8, (6, 12), (0.1, 0.5)), trials=100),
)


complexity, c = sp.symbols("R_S c", positive=True)
REMAINDER = 3 * c * sp.sqrt(sp.log(2 / delta) / (2 * n))


MOST_SAMPLES = 10  # largest n; all 2^n vectors of signs are enumerated


@dataclass(frozen=True, eq=False)
class WeightBall(Case):
    """The class F = {f(U, ., a): |u_r - u_r(0)| <= R for every r, |U - U(0)|_F <= B}, on the samples of a problem.

    Raises:
        ValueError: more than MOST_SAMPLES samples.
    """

    problem: Problem
    weights: Weights
    sigma: float
    radius: float
    budget: float
    delta: float = 0.01

    def __post_init__(self) -> None:
        if self.problem.n > MOST_SAMPLES:
            raise ValueError(
                f"n is {self.problem.n}; all 2^n signs are gone through, so it must be at most {MOST_SAMPLES}"
            )

    @property
    def width(self) -> int:
        """m."""
        return len(self.weights.hidden)

    @cached_property
    def rademacher(self) -> Estimate:
        """R_S(F), enclosed between a value for one member of the class and a bound for all members.

        Both are means over all signs e. Let Z_r(e) = a_r/sqrt(m) sum_i e_i 1{w_r.x_i >= 0} x_i. The initial features
        contribute <U - U(0), Z(e)>, which is at most B |Z(e)|_F. A neuron whose activation on x_i can change, |w_r.x_i|
        <= R |x_i|, adds at most R |x_i| / sqrt(m). The member is U(0) moved along Z(e), with every row of the move cut
        to length R. In both bounds f(U(0), .) has mean 0 over the signs.
        """
        x, (hidden, a), m, n = self.problem.x, self.weights, self.width, self.problem.n
        signs = 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1
        active = gram.activations(x, hidden)
        z = hidden @ x.T
        before = np.maximum(z, 0)
        norms, reached = np.empty(len(signs)), np.empty(len(signs))
        for index, sign in enumerate(signs):
            features = (a[:, None] * active.T * sign) @ x / np.sqrt(m)
            lengths = np.linalg.norm(features, axis=1)
            norms[index] = np.linalg.norm(lengths)
            scale = self.budget / max(norms[index], 1e-300)
            scale = scale * np.minimum(1, self.radius / np.maximum(scale * lengths, 1e-300))
            change = np.maximum(z + (scale[:, None] * features) @ x.T, 0) - before
            reached[index] = (a @ change) @ sign / np.sqrt(m)
        size = np.linalg.norm(x, axis=1)
        near = (np.abs(z) <= self.radius * size * (1 + 1e-12) + 1e-13).sum(axis=0) @ size
        # If an activation is within rounding of its kink, the sign may be wrong. Then a feature is wrong by |x_i| /
        # sqrt(m). The sums below have m n terms.
        doubt = self.budget * float(gram.doubtful(x, hidden) @ size) / np.sqrt(m)
        above = self.budget * norms.mean() + self.radius / np.sqrt(m) * near + doubt
        rounding = 4 * (m + n + 8) * EPS * (np.abs(z).sum() / np.sqrt(m) + self.budget * size.sum())
        below = max(0.0, reached.mean() - rounding)  # 0 is a lower bound, since U(0) is a member
        return Estimate.between(below / n, (above + rounding) / n, "a member found, and a bound on all")

    def redrawn(self, seed: int) -> WeightBall:
        """The same class around another Gaussian network."""
        return replace(self, weights=gaussian(self.width, self.problem.d, seed, self.sigma))

    describe = described("problem", "n", "width", R="radius", B="budget")


def _ball(reaches: tuple[float, float], seed: int) -> WeightBall:
    """3 to 5 points on the sphere and the width 2048 or 4096, with R sqrt(m)/sigma log-uniform in `reaches`.

    B is .5 to 1 times R sqrt(m). R and B do not depend on the weights, since they are drawn from another random stream.
    """
    rng = np.random.default_rng([seed, 6])
    n, d, width = int(rng.integers(3, 6)), 4, int(rng.choice([2048, 4096]))
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    sigma = float(2 ** rng.uniform(-2, 2))
    reach = sigma * np.exp(rng.uniform(*np.log(reaches)))
    problem = Problem(x, np.zeros(n), name=f"sphere(n={n}, d={d})")
    budget = float(reach * rng.uniform(0.5, 1))
    return WeightBall(problem, gaussian(width, d, seed, sigma), sigma, float(reach / np.sqrt(width)), budget)


@st.composite
def _any_ball(draw: DrawFn, *_: Any) -> WeightBall:
    """Classes with any R and B, around small networks at up to five points."""
    x = draw(unit_data(n=(1, 5), d=(1, 4)))
    problem = Problem(x, draw(labels(len(x))), name="drawn")
    width, seed = draw(st.integers(1, 256)), draw(st.integers(0, 2**16))
    sigma, radius, budget = (10.0 ** draw(st.floats(-2, 1)) for _ in range(3))
    return WeightBall(
        problem, gaussian(width, x.shape[1], seed, sigma), sigma, radius, budget, draw(st.floats(0.01, 0.5))
    )


# In the first family R is so small that the term in B dominates the bound. In the second R goes up to where the term in
# R^2 dominates.
WEIGHT_BALLS = (
    Family("networks near initialisation, R sqrt(m) up to sigma/10", _ball, _any_ball, ((0.001, 0.1),), trials=60),
    Family("networks near initialisation, R sqrt(m) up to 10 sigma", _ball, _any_ball, ((0.1, 10.0),), trials=40),
)


B = sp.Symbol("B", positive=True)
LOG = 2 * sp.log(2 / delta)
LINEAR = B / sp.sqrt(2 * n) * (1 + (LOG / m) ** sp.Rational(1, 4))


def _constants_c_5(case: WeightBall) -> dict:
    return {
        n: case.problem.n,
        m: case.width,
        sigma: case.sigma,
        R: case.radius,
        B: case.budget,
        delta: case.delta,
    }


def _long_rows() -> WeightBall:
    """Two points of length 100, for which every output moves a hundred times as far."""
    problem = Problem(100 * np.eye(2), np.zeros(2), name="two points of length 100")
    return WeightBall(problem, draw(256, 2, 0), 1.0, radius=1e-4, budget=5e-4)


STATEMENTS = (
    Statement(
        id="fl-ntk/C.4",
        title="Population loss against sample loss, by Rademacher complexity",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Theorem C.4"),
        note="a standard result, quoted from ADH+19a, Theorem B.1. Here rho is the Lipschitz constant, not eta_g "
        "eta_l K/N, and R_S is the Rademacher complexity of the given sample. For an infinite class the left side "
        "is a supremum that cannot be evaluated; for a finite class and population every term can be evaluated",
        hypotheses=(FAILURE_PROBABILITY,),
        stated=Claim(2 * rho * complexity + REMAINDER, failure=delta),
        constants=lambda case: {
            complexity: case.rademacher,
            rho: case.loss.slope,
            c: case.loss.cap,
            n: case.n,
            delta: case.delta,
        },
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
    Statement(
        id="fl-ntk/C.5",
        title="Rademacher complexity of the networks near initialisation",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Lemma C.5"),
        note="quoted from ADH+19a, Lemma 5.4; it needs unit rows. The supremum over the class is not computed but "
        "bracketed. The term 2 R^2 sqrt(m)/sigma bounds (R/sqrt m) times the number of neurons within R of a kink. "
        "The mean of this number is below sqrt(2/pi) R m/sigma for each sample, so that .80 would do for the "
        "factor 2. Because of this term the bound is useful only where R is far below m^(-1/4) sqrt(sigma). "
        "Definition C.3 prints eps in R^d, where R^n is meant",
        hypotheses=(FAILURE_PROBABILITY, UNIT_ROWS),
        stated=Claim(
            LINEAR + 2 * R**2 * sp.sqrt(m) / sigma + R * sp.sqrt(LOG),
            failure=delta,
            note="the lemma is for all B > 0 at once; here B is chosen independently of the network",
        ),
        constants=_constants_c_5,
        measure=lambda case: case.rademacher,
        symbols={B: "bound on |U - U(0)|_F over the class", R: "bound on |u_r - u_r(0)| for every neuron"},
        left_formula="R_S(F)",
        says_left="R_S of the class over all signs, enclosed between the values of known members and a bound on all "
        "members",
        families=WEIGHT_BALLS,
        mutants=(power(B, 2), power(n, 3), replaced(B, 0, "term in B dropped", Change.FACTOR)),
        necessity={"unit-rows": _long_rows},
    ),
)
