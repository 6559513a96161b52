"""The statement of the limit kernels of deep networks in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Case, Change, Claim, Family, Hypothesis, Kind, Limit, Options, Source, Statement
from bounds.cases.cube_networks import user_rows
from bounds.mutants import MILLIONTH_MORE
from bounds.statement import Mutant
from bounds.strategies import points
from ntkfl import gram
from ntkfl.balls import ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate, Rigour
from ntkfl.rounding import row_exponents

ROWS = 6  # largest number of rows of the user's data in a case
BITS = 20  # number of bits of an entry


@dataclass(frozen=True, eq=False)
class DeepRows(Case):
    """Samples, (n, d) with n at least 2, and the factor of the biases.

    `of` rounds each row to multiples of 2^-20 times the power of two of its largest entry. Then float64 represents
    inner products exactly, and their balls (intervals with midpoint and radius) have no error that a small angle could
    magnify.
    """

    x: np.ndarray
    bias: float
    source: str = "drawn"

    @classmethod
    def of(cls, x: np.ndarray, bias: float, source: str = "drawn") -> DeepRows:
        """The case of these rows after rounding."""
        exponents = row_exponents(x)[:, None]
        return cls(np.ldexp(np.round(np.ldexp(x, BITS - exponents)), exponents - BITS), bias, source)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of all pairs of different samples, with the smaller index first."""
        return np.triu_indices(len(self.x), 1)

    @cached_property
    def products(self) -> Estimate:
        """The inner products x_i.x_j as balls, (n, n)."""
        with precision():
            x = ball_matrix(self.x)
            return enclosure(x * x.transpose())

    @cached_property
    def least_sine(self) -> float:
        """The least value over pairs of rows of the sine of their angle."""
        return float(np.sin(gram.angles(self.x)[self.pairs]).min())

    def kernel(self, depth: int, activation: str) -> Estimate:
        """The library's kernel with its error, and the library's kernel without error, (2, n, n).

        The second must lie within the error of the first.
        """
        enclosed = gram.deep_estimate(self.x, None, depth, activation, self.bias)
        value = np.array([enclosed.value, gram.deep(self.x, None, depth, activation, self.bias)])
        return Estimate(value, np.broadcast_to(enclosed.error, value.shape), enclosed.method, Rigour.ENCLOSED)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"rows": self.source, "n": len(self.x), "d": self.x.shape[1], "bias": self.bias}


def _rows(bias: float, user: tuple[str, int, bool] | None, seed: int) -> DeepRows:
    """Gaussian rows of norms from .1 to 10, or rows of the user's data.

    Two of the Gaussian rows are parallel or opposite up to an angle of about 1e-5 to 1e-1.
    """
    rng = np.random.default_rng([seed, 67])
    if user is not None:
        x, _ = user_rows(*user)
        return DeepRows.of(x[rng.permutation(len(x))[:ROWS]], bias, user[0])
    x = rng.standard_normal((4, int(rng.integers(2, 9))))
    x *= 10 ** rng.uniform(-1, 1, (4, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    x[1] = rng.choice([-1, 1]) * x[0] + np.linalg.norm(x[0]) * 10 ** rng.uniform(-5, -1) * x[1] / np.linalg.norm(x[1])
    return DeepRows.of(x, bias)


def _any_rows(bias: float, user: tuple[str, int, bool] | None) -> SearchStrategy[DeepRows]:
    """Rows of equal length, some of them nearly parallel."""
    sizes = st.sampled_from([1e-3, 1.0, 10.0])
    return st.builds(lambda x, size: DeepRows.of(size * x, bias), points((2, 4), (2, 4)), sizes)


def rows_families(options: Options) -> tuple[Family, ...]:
    """A family without biases and one with biases."""
    user = (options.data, options.n or 64, options.unit) if options.data else None
    where = options.data or "near and far rows"
    return tuple(
        Family(f"{where}, {biases}", _rows, _any_rows, (bias, user), trials=options.trials or 5)
        for bias, biases in ((0.0, "no biases"), (0.5, "biases times 0.5"))
    )


first, second = sp.symbols("s_1 s_2", positive=True)
inner, bias = sp.Symbol("g", real=True), sp.Symbol("beta", nonnegative=True)
HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class Recursion:
    """The recursion for Theta of `depth` layers of weights.

    Every field from `he` on has the right value by default. Mutants set wrong values.
    """

    activation: str  # activation of the hidden layers
    depth: int  # layers of weights
    one: bool = False  # whether Theta is the entry of one sample with itself; otherwise it is the entry of two samples
    he: Any = 2  # the factor from ReLU layer to ReLU layer
    readout_gain: Any = 1  # the factor of the last layer
    with_readout: bool = True  # whether the term of the readout's own weights is counted
    arc: Any = sp.acos  # the function for the inverse cosine
    slope_of: Any = 1  # multiplies E[phi' phi']
    trained_bias: bool = True  # whether the term of the biases themselves is counted
    biased_readout: bool = False  # whether the readout has a bias too
    size: Any = 2  # the factor of a in the term 1 + 2 a of erf
    curved: Any = 1  # the factor of the term that GELU has in addition to c / 4

    def expression(self) -> sp.Expr:
        """Theta as a formula in |x|^2, |z|^2, x.z and the biases' factor."""
        square = bias**2
        a, b, c = first, first if self.one else second, first if self.one else inner
        theta = c + (square if self.trained_bias else 0)
        a, b, c = a + square, b + square, c + square
        for _ in range(self.depth - 2):
            gain = self.he if self.activation == "relu" else 1
            covariance, slope = self._moments(a, b, c)
            a, b = (gain * self._moments(v, v, v)[0] + square for v in (a, b))
            c = gain * covariance + square
            theta = gain * (covariance + theta * slope) + (square if self.trained_bias else 0)
        covariance, slope = self._moments(a, b, c)
        readout = covariance if self.with_readout else 0
        return self.readout_gain * (readout + theta * slope) + (square if self.biased_readout else 0)

    def _moments(self, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for Gaussian u, v with variances a, b and covariance c."""
        same = a == c
        if self.activation == "relu":
            if same:
                return a / 2, self.slope_of * HALF
            share = self.arc(-c / sp.sqrt(a * b)) / (2 * sp.pi)
            return sp.sqrt(a * b - c * c) / (2 * sp.pi) + c * share, self.slope_of * share
        if self.activation == "erf":
            p, q = 1 + self.size * a, 1 + self.size * b
            moment = 2 / sp.pi * sp.asin(self.size * c / (p if same else sp.sqrt(p * q)))
            return moment, self.slope_of * 4 / sp.pi / sp.sqrt(p * q - self.size**2 * c * c)
        p, q = 1 + a, 1 + b
        d = p * q - c * c
        arcsine = sp.asin(c / (p if same else sp.sqrt(p * q)))
        even = c * arcsine + (c * c + a * b * d) / (p * q * sp.sqrt(d))
        odd = arcsine + c * (1 / p + 1 / q + 1 / d) / sp.sqrt(d)
        return c / 4 + self.curved * even / (2 * sp.pi), self.slope_of * (sp.Rational(1, 4) + odd / (2 * sp.pi))


PAIRS = (("relu", 2), ("relu", 3), ("relu", 5), ("erf", 2), ("erf", 4), ("gelu", 2), ("gelu", 3))
ALONE = (("relu", 5), ("erf", 3), ("gelu", 2))
LEAST = 1e-7  # least sine of an angle; ball arithmetic of 128 bits still resolves the arccos of such an angle

CASES = tuple((*network, False) for network in PAIRS) + tuple((*network, True) for network in ALONE)


@cache
def _formulas() -> tuple[sp.Expr, ...]:
    return tuple(Recursion(*case).expression() for case in CASES)


def _wrong(name: str, sort: Change, layers: int = 0, **changed) -> Mutant:
    """A mutant in which fields of every recursion are changed, or every recursion has `layers` more layers."""

    def change(expression: sp.Expr) -> sp.Expr:
        activation, depth, one = CASES[_formulas().index(expression)]
        return Recursion(activation, depth + layers, one, **changed).expression()

    return Mutant(name, change, sort)


def _constants(case: DeepRows) -> dict:
    g, (i, j) = case.products, case.pairs
    return {first: g[i, i], second: g[j, j], inner: g[i, j]} | {bias: case.bias}


def _measure(case: DeepRows) -> tuple[Estimate, ...]:
    i, j = case.pairs
    apart = tuple(case.kernel(depth, activation)[:, i, j] for activation, depth in PAIRS)
    return apart + tuple(case.kernel(depth, activation)[:, i, i] for activation, depth in ALONE)


UNPARALLEL = Hypothesis(
    "unparallel",
    f"the sine of the angle of any two rows is at least {LEAST:g}",
    Limit("the least sine", lambda case: case.least_sine, at_least=LEAST),
    free=True,
)

STATEMENTS = (
    Statement(
        id="deep/kernel",
        title="The limit kernels of deep networks in closed form",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/finite_width.md#deep-networks"),
        note="Theta_1 = Sigma_1 = x.z + beta^2, Sigma_{l+1} = c E[phi(u) phi(v)] + beta^2 with Gaussian u, v of "
        "covariance Sigma_l, Theta_{l+1} = Sigma_{l+1} + c Theta_l E[phi'(u) phi'(v)]; c = 2 from ReLU layer to "
        "ReLU layer, 1 for erf, GELU and before the readout, which has no bias. ReLU's moments are the arc-cosine "
        "kernels, erf's an arcsine; GELU's follow by Stein's identity. A test checks by mean kernels that finite "
        "networks have this limit (tests/ntkfl/test_gram_deep.py)",
        hypotheses=(UNPARALLEL,),
        new=Claim(lambda: _formulas()),
        constants=_constants,
        measure=_measure,
        symbols={
            first: "|x_i|^2",
            second: "|x_j|^2",
            inner: "x_i.x_j",
            bias: "factor of the biases, 0 without them",
        },
        left_formula=tuple(
            f"Theta_{{{activation},{depth}}}(x_i, x_{'i' if same else 'j'})" for activation, depth, same in CASES
        ),
        says_left="by the library's gram.deep, with and without its error; left 1 to 7: the entries of pairs of "
        "samples for ReLU of 2, 3 and 5 layers of weights, erf of 2 and 4, GELU of 2 and 3; left 8 to 10: of a sample "
        "with itself for ReLU of 5, erf of 3, GELU of 2",
        families=rows_families,
        mutants=(
            MILLIONTH_MORE,
            _wrong("no factor of 2 between ReLU layers", Change.FACTOR, he=1),
            _wrong("the factor of 2 before the readout too", Change.FACTOR, readout_gain=2),
            _wrong("a layer too many", Change.INDEX, layers=1),
            _wrong("without the readout's part", Change.OTHER, with_readout=False),
            _wrong("arcsin for arccos", Change.OTHER, arc=sp.asin),
            _wrong("only the last layer trained", Change.FACTOR, slope_of=0),
            _wrong("slopes twice as steep", Change.CONSTANT, slope_of=2),
            _wrong("biases that are not trained", Change.OTHER, trained_bias=False),
            _wrong("a bias of the readout", Change.OTHER, biased_readout=True),
            _wrong("1 + a for erf's 1 + 2 a", Change.CONSTANT, size=1),
            _wrong("GELU's even part subtracted", Change.SIGN, curved=-1),
        ),
        uses=("fl-ntk/H-inf",),
    ),
)
