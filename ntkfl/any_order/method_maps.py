"""The effect of a linear method's round on coefficients, as matrices whose every entry is enclosed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ntkfl.estimate import Estimate
from ntkfl.limit.cohorts import CohortWeights

if TYPE_CHECKING:
    from ntkfl.training.method import Method

COVERED = ("fl-ntk", "fedavg", "fedavgm", "fedprox", "scaffold", "feddyn")
REMEMBER = ("fedavgm", "scaffold", "feddyn")


@dataclass(frozen=True, eq=False)
class RoundMatrices:
    """One round on the linear model, as a map of z: the residual and at most one remembered vector of coefficients.

    Source: docs/proofs/any_method.md#state-maps-by-steps.
    """

    state: Estimate  # T, (s, s)
    # N_j, (p, s): y less the outputs, on all rows, of the models at which gradients are taken: the server's model, and
    # each client's after each local step but the last one
    models: tuple[Estimate, ...]
    ends: tuple[Estimate, ...]  # (p, s): y less the outputs of each client's last model
    unit: float  # about how far a remembered vector of length 1 moves the model, for norms of states


def round_matrices(
    method: Method, kernel: Estimate, owner: Int[np.ndarray, " p"], eta: float, steps: int
) -> RoundMatrices:
    """T and all N_j of a method, one of COVERED, for K (p, p) and the client of each of its rows."""
    name, options = method.name, method.options
    p, sizes = len(kernel.value), np.bincount(owner)
    clients, remembers = len(sizes), name in REMEMBER
    unit = np.eye(p * (1 + remembers))
    residual, memory = unit[:p], unit[p:] if remembers else np.zeros((p, p))
    inverse, rate = _inverse(Estimate.exact(float(clients))), float(options.get("server_rate", 1.0))
    pull = float(options.get("mu", options.get("alpha", 0.0)))
    weights = CohortWeights.of(sizes, clients, method.weighting).mean
    total, mean, models, ends = _zeros(residual), _zeros(residual), [Estimate.exact(residual)], []
    for client in range(clients):
        mine = np.repeat((owner == client)[:, None], unit.shape[1], axis=1).astype(float)
        drift = _zeros(residual)
        if name == "scaffold":
            drift = inverse * memory - mine * memory
        elif name == "feddyn":
            drift = Estimate.exact(mine * memory)
        moved, left = _zeros(residual), Estimate.exact(residual)
        for _ in range(steps):
            moved = moved + eta * (mine * left - pull * moved + drift)
            left = residual - kernel @ moved
            models.append(left)
        ends.append(models.pop())
        total = total + moved
        share = Estimate(float(weights[client]), 2 * np.spacing(float(weights[client])))
        mean = mean + share * moved
    length, remembered = 1.0, None
    if name == "fedavgm":
        momentum, length = float(options["momentum"]), rate
        remembered = momentum * memory + mean
        move = rate * (mean + momentum * remembered if options["nesterov"] else remembered)
    elif name == "scaffold":
        length = steps * eta
        exact = options["option"] == "I"
        remembered = Estimate.exact(residual) if exact else _inverse(Estimate.exact(float(steps)) * eta) * total
        move = rate * (inverse * total)
    elif name == "feddyn":
        length = 1 / pull
        remembered = memory - pull * total
        move = inverse * (total - _inverse(Estimate.exact(pull)) * remembered)
    else:
        move = rate * mean
    rows = [residual - kernel @ move, *([] if remembered is None else [remembered])]
    state = Estimate(
        np.concatenate([row.value for row in rows]), np.concatenate([row.error for row in rows]), "rounding bound"
    )
    return RoundMatrices(state, tuple(models), tuple(ends), length)


def _zeros(like: Float[np.ndarray, "p s"]) -> Estimate:
    return Estimate.exact(np.zeros_like(like))


def _inverse(number: Estimate) -> Estimate:
    """1 / a positive number."""
    low, high = 1 / float(number.hi), 1 / float(number.lo)
    return Estimate.between(np.nextafter(low, 0), np.nextafter(high, np.inf), "rounding bound")
