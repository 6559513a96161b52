"""Smooth activations: their values and slopes with error bounds, and bounds of their first two derivatives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit, ndtr

from ntkfl.estimate import Estimate, Rigour

LIBRARY = 2.0**-44  # of 1 + |z|: what numpy and scipy may be off by, a hundred times what a test finds


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Smooth:
    """A function phi of one variable, twice continuously differentiable but perhaps at 0."""

    name: str  # as networks have it
    function: Callable[[np.ndarray], np.ndarray]  # phi
    derivative: Callable[[np.ndarray], np.ndarray]  # phi'
    slope: float  # at least |phi'| everywhere
    bend: float  # at least |phi''| everywhere
    kink: bool = False  # whether it has one at 0

    def values(self, z: Estimate) -> Estimate:
        """phi(z)."""
        if not self.bend:
            return Estimate(self.function(z.value), z.error, z.method, z.rigour)
        return self._known(self.function(z.value), self.slope * z.error, z)

    def slopes(self, z: Estimate) -> Estimate:
        """phi'(z); of one with a kink on the side of the value: `Pass.clear` says how far from the kink that is."""
        if not self.bend:
            return Estimate.exact(self.derivative(z.value))
        return self._known(self.derivative(z.value), self.bend * z.error, z)

    def _known(self, value: np.ndarray, carried: np.ndarray, z: Estimate) -> Estimate:
        error = (carried + LIBRARY * (1 + np.abs(z.value))) * (1 + 1e-12)
        return Estimate(value, error, "rounding bound", max(z.rigour, Rigour.ENCLOSED))


IDENTITY = Smooth("identity", lambda z: z, np.ones_like, 1.0, 0.0)
SMOOTH = {
    of.name: of
    for of in (
        Smooth("erf", erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z), 1.12838, 0.96789),
        Smooth("gelu", lambda z: z * ndtr(z), lambda z: ndtr(z) + z * _density(z), 1.12891, 0.79789),
        Smooth("tanh", np.tanh, lambda z: (1 - np.tanh(z)) * (1 + np.tanh(z)), 1.0, 0.76981),
        Smooth("softplus", lambda z: np.logaddexp(0, z), expit, 1.0, 0.25),
        Smooth("sin", np.sin, np.cos, 1.0, 1.0),
        Smooth("sigmoid", expit, lambda z: expit(z) * expit(-z), 0.25, 0.09623),
        Smooth("silu", lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z)), 1.09985, 0.5),
        IDENTITY,
    )
}
RELU = Smooth("relu", lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float), 1.0, 0.0, kink=True)
ACTIVATIONS = SMOOTH | {RELU.name: RELU}
