"""Gamma, FedGuCci's distance of the clients' minimisers from the global minimiser, for quadratic losses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.estimate import Estimate
from ntkfl.problem import finite_array
from ntkfl.rounding import LEAST

EPS = np.finfo(float).eps
UNDERFLOW = 1e-150  # bound of the sum of all underflows, for numbers that are scaled to 1


@dataclass(frozen=True, eq=False)
class QuadraticClient:
    """A client with the strongly convex loss (w - w*)' H (w - w*) / 2 + const.

    Args:
        hessian: H, (S, S), symmetric and positive definite.
        minimiser: w*, (S,).
        weight: the client's weight in the mean of the losses, positive.

    Raises:
        ValueError: the shapes do not fit; the Hessian is not symmetric or not positive definite; the weight is not
            positive.
    """

    hessian: Float[np.ndarray, "S S"]
    minimiser: Float[np.ndarray, " S"]
    weight: float = 1.0

    def __post_init__(self) -> None:
        hessian, minimiser = finite_array("hessian", self.hessian), finite_array("minimiser", self.minimiser)
        if minimiser.ndim != 1 or hessian.shape != (len(minimiser), len(minimiser)):
            raise ValueError(f"the Hessian has shape {hessian.shape}, the minimiser {minimiser.shape}: (S, S) and (S,)")
        if not np.array_equal(hessian, hessian.T):
            raise ValueError(f"the Hessian is not symmetric: it differs by {np.abs(hessian - hessian.T).max():.3g}")
        lowest, highest = np.linalg.eigvalsh(hessian)[[0, -1]]
        if not lowest > 8 * len(hessian) * EPS * highest:
            raise ValueError(
                f"the Hessian's smallest eigenvalue is {lowest:.3g}; it must be positive: otherwise the minimisers "
                "are a whole set, and the closest of them is not defined by the loss alone"
            )
        if not 0 < self.weight < np.inf:
            raise ValueError(f"the client's weight is {self.weight}; it must be positive")
        object.__setattr__(self, "hessian", hessian)
        object.__setattr__(self, "minimiser", minimiser)


def global_minimiser(clients: Sequence[QuadraticClient]) -> Estimate:
    """The minimiser of the weighted mean of the clients' losses, (S,).

    Args:
        clients: the clients with their quadratic losses.

    Raises:
        ValueError: there is no client, or clients have different numbers of parameters.
    """
    if not clients:
        raise ValueError("there is no client; at least one is needed")
    sizes = {len(client.minimiser) for client in clients}
    if len(sizes) > 1:
        raise ValueError(f"the clients have {sorted(sizes)} parameters; they must agree")
    # numbers are scaled by powers of two; then no product or square overflows or underflows, in whatever units losses
    # and weights are given
    share = _exponent([client.weight for client in clients])
    weights = [np.ldexp(client.weight, -share) for client in clients]
    curvature, length = (_exponent([getattr(c, name) for c in clients]) for name in ("hessian", "minimiser"))
    hessians = [np.ldexp(client.hessian, -curvature) for client in clients]
    minimisers = [np.ldexp(client.minimiser, -length) for client in clients]
    total = sum(p * h for p, h in zip(weights, hessians, strict=True))
    pull = sum(p * h @ w for p, h, w in zip(weights, hessians, minimisers, strict=True))
    minimiser = np.linalg.solve(total, pull)
    eigenvalues = np.linalg.eigvalsh(total)
    lowest = eigenvalues[0] - 4 * len(total) * EPS * eigenvalues[-1]
    # The error ||w - w*|| is at most ||residual|| / lambda_min. The second summand is the rounding of the residual and
    # of the sums.
    terms = sum(p * np.abs(h) @ np.abs(w) for p, h, w in zip(weights, hessians, minimisers, strict=True))
    size = np.linalg.norm(np.abs(total) @ np.abs(minimiser) + terms)
    left = np.linalg.norm(total @ minimiser - pull) + 2 * (len(minimiser) + len(clients) + 4) * EPS * size + UNDERFLOW
    error = np.ldexp(1.01 * left / lowest, length) + LEAST
    return Estimate(
        np.ldexp(minimiser, length), np.full(len(minimiser), error), "residual over the smallest eigenvalue"
    )


def _exponent(values: Sequence[float | np.ndarray]) -> int:
    """The exponent of the least power of two that exceeds the largest absolute value of the entries."""
    return int(np.frexp(max(float(np.abs(value).max()) for value in values))[1])


def heterogeneity(clients: Sequence[QuadraticClient]) -> Estimate:
    """Gamma = max over clients of |w_i* - w*|, a number, for clients with strongly convex quadratic losses.

    Gamma is computed only for quadratic losses. The minimisers of a ReLU network are unbounded sets, and to find "the"
    closest minimiser one would have to project onto a set that is not convex.

    Args:
        clients: the clients with their quadratic losses.

    Raises:
        ValueError: as `global_minimiser`.
    Source: FedGuCci, Definition 3.7; fedgucci/F18.
    """
    centre = global_minimiser(clients)
    distances = [(centre - client.minimiser).norm() for client in clients]
    # the maxima of two lists differ by at most the largest difference of their entries
    value, error = (max(float(getattr(distance, name)) for distance in distances) for name in ("value", "error"))
    return Estimate(value, error, "residual over the smallest eigenvalue")
