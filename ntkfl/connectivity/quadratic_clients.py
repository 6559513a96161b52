"""How far the clients' minimisers lie from the global one: Gamma, where it can be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class QuadraticClient:
    """A client with the loss (w - w*)' H (w - w*) / 2 + const, strongly convex.

    Args:
        hessian: H, (S, S), symmetric, positive definite. minimiser: w*, (S,). weight: its share, positive.

    Raises:
        ValueError: shapes that do not fit, a Hessian that is not symmetric or not positive definite, a bad weight.
    """

    hessian: Float[np.ndarray, "S S"]
    minimiser: Float[np.ndarray, " S"]
    weight: float = 1.0

    def __post_init__(self) -> None:
        hessian, minimiser = np.asarray(self.hessian, float), np.asarray(self.minimiser, float)
        if minimiser.ndim != 1 or hessian.shape != (len(minimiser), len(minimiser)):
            raise ValueError(f"the Hessian has shape {hessian.shape}, the minimiser {minimiser.shape}: (S, S) and (S,)")
        if not np.isfinite(hessian).all() or not np.isfinite(minimiser).all():
            raise ValueError("the Hessian or the minimiser has an entry that is not finite")
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

    Raises:
        ValueError: no client, or clients with different numbers of parameters.
    """
    if not clients:
        raise ValueError("there is no client; at least one is needed")
    sizes = {len(client.minimiser) for client in clients}
    if len(sizes) > 1:
        raise ValueError(f"the clients have {sorted(sizes)} parameters; they must agree")
    total = sum(client.weight * client.hessian for client in clients)
    pull = sum(client.weight * client.hessian @ client.minimiser for client in clients)
    found = np.linalg.solve(total, pull)
    lowest = np.linalg.eigvalsh(total)[0]
    # ||w - w*|| <= ||residual|| / lambda_min; the second summand is the rounding of the residual and of the sums
    terms = sum(client.weight * np.abs(client.hessian) @ np.abs(client.minimiser) for client in clients)
    size = np.linalg.norm(np.abs(total) @ np.abs(found) + terms)
    left = np.linalg.norm(total @ found - pull) + 2 * (len(found) + len(clients) + 4) * EPS * size
    return Estimate(found, np.full(len(found), 1.01 * left / lowest), "residual over the smallest eigenvalue")


def heterogeneity(clients: Sequence[QuadraticClient]) -> Estimate:
    """Gamma = max over clients of |w_i* - w*|, for strongly convex quadratic clients, whose minimisers are declared.

    For a ReLU network the minimisers are unbounded sets, and "the" closest one needs a projection onto a set that is
    not convex; so Gamma is offered only here.

    Raises:
        ValueError: as `global_minimiser`.
    Source: FedGuCci, Definition 3.7; ledger F13.
    """
    centre = global_minimiser(clients)
    distances = [float(np.linalg.norm(client.minimiser - centre.value)) for client in clients]
    largest = max(distances)
    error = float(centre.error.max()) + (len(centre.value) + 8) * EPS * largest
    return Estimate(largest, error, "residual over the smallest eigenvalue")
