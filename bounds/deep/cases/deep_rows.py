"""Cases: rows of several norms and angles, and the factor of the biases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family, Options
from bounds.case import Case
from bounds.cases.cube_networks import user_rows
from bounds.part_strategies import points
from ntkfl import gram
from ntkfl.balls import ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.error_free import row_exponents

ROWS = 6  # most rows of the user's data in a case
BITS = 20  # bits of an entry


@dataclass(frozen=True, eq=False)
class DeepRows(Case):
    """Samples, (n, d) with n at least 2, and the factor of the biases.

    `of` rounds each row to multiples of 2^-20 times the power of two of its largest entry. Inner products are then
    exact floats, and balls of them have no error that a small angle could magnify.
    """

    x: np.ndarray
    bias: float
    source: str = "drawn"

    @classmethod
    def of(cls, x: np.ndarray, bias: float, source: str = "drawn") -> DeepRows:
        """The case of these rows, rounded."""
        exponents = row_exponents(x)[:, None]
        return cls(np.ldexp(np.round(np.ldexp(x, BITS - exponents)), exponents - BITS), bias, source)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of different samples, the earlier one first."""
        return np.triu_indices(len(self.x), 1)

    @cached_property
    def products(self) -> Estimate:
        """x_i.x_j in balls, (n, n)."""
        with precision():
            x = ball_matrix(self.x)
            return enclosure(x * x.transpose())

    @cached_property
    def least_sine(self) -> float:
        """The least sine of an angle between two rows."""
        return float(np.sin(gram.angles(self.x)[self.pairs]).min())

    def kernel(self, depth: int, activation: str) -> Estimate:
        """The library's kernel with its error, and the kernel without error, which must lie within it; (2, n, n)."""
        known = gram.deep_estimate(self.x, None, depth, activation, self.bias)
        value = np.array([known.value, gram.deep(self.x, None, depth, activation, self.bias)])
        return Estimate(value, np.broadcast_to(known.error, value.shape), known.method, Rigour.ENCLOSED)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"rows": self.source, "n": len(self.x), "d": self.x.shape[1], "bias": self.bias}


def _rows(bias: float, user: tuple[str, int, bool] | None, seed: int) -> DeepRows:
    """Gaussian rows of norms from .1 to 10, two of them within 1e-1 to 1e-5 of parallel; or rows of the user's data."""
    rng = np.random.default_rng([seed, 67])
    if user is not None:
        x, _ = user_rows(*user)
        return DeepRows.of(x[rng.permutation(len(x))[:ROWS]], bias, user[0])
    x = rng.standard_normal((4, int(rng.integers(2, 9))))
    x *= 10 ** rng.uniform(-1, 1, (4, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    x[1] = rng.choice([-1, 1]) * x[0] + np.linalg.norm(x[0]) * 10 ** rng.uniform(-5, -1) * x[1] / np.linalg.norm(x[1])
    return DeepRows.of(x, bias)


def _any_rows(bias: float, user: tuple[str, int, bool] | None) -> SearchStrategy[DeepRows]:
    """Unit rows, some of them nearly parallel, of any size."""
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
