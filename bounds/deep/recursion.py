"""The limit kernel of two samples as one sympy expression: the recursion as textbooks have it, by arccos and arcsin."""

from dataclasses import dataclass
from typing import Any

import sympy as sp

first, second = sp.symbols("s_1 s_2", positive=True)
inner, bias = sp.Symbol("g", real=True), sp.Symbol("beta", nonnegative=True)
HALF = sp.Rational(1, 2)


@dataclass(frozen=True)
class Recursion:
    """Theta of `depth` layers of weights; the other fields are ways to get it wrong."""

    activation: str  # of the hidden layers
    depth: int  # layers of weights
    one: bool = False  # a sample with itself, not two samples
    he: Any = 2  # between ReLU layers; None: 2
    readout_gain: Any = 1  # of the last layer
    with_readout: bool = True  # its part is counted
    arc: Any = sp.acos  # the inverse cosine
    slope_of: Any = 1  # multiplies E[phi' phi']
    trained_bias: bool = True  # the biases' own part is counted
    biased_readout: bool = False  # the readout has a bias too
    size: Any = 2  # of a in erf's 1 + 2 a
    curved: Any = 1  # GELU's part beside c / 4

    def expression(self) -> sp.Expr:
        """In |x|^2, |z|^2, x.z and the biases' factor."""
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
        """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] of Gaussian u, v of variances a, b and covariance c."""
        same = a == c
        if self.activation == "relu":
            if same:
                return a / 2, self.slope_of * HALF
            norms = sp.sqrt(a * b)
            share = self.arc(-c / norms) / (2 * sp.pi)
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
