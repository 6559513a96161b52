"""A case from numbers: data, a first model, and who trains on what, drawn as the training engine draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ntkfl.conformance.case import FORMAT, Case
from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan


def case(
    method: str,
    options: Mapping[str, Any],
    model: str,
    samples: tuple[np.ndarray, np.ndarray, np.ndarray],
    start: Mapping[str, np.ndarray],
    rates: Sequence[float],
    work: LocalWork,
    *,
    name: str = "",
    limit: str = "",
    loss: str = "mean",
    clients: int | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    clip: float | None = None,
    participation: float = 1.0,
    seed: int = 0,
    draws: int = 0,
) -> Case:
    """A case of as many rounds as there are rates.

    Args:
        method, options, model, loss, momentum, weight_decay, clip, participation, seed: as in training.
        rates: a round each.
        work: local steps or passes. name: of the case.
        samples: x, y and the client of each sample. start: the model's tensors by name. limit: what must hold exactly.
        clients: how many there are, where some own nothing. draws: uniform numbers that a step gets.
    """
    x, y, owner = samples
    population = clients or int(owner.max()) + 1
    members = [np.flatnonzero(owner == client) for client in range(population)]

    def client_round(number: int, client: int) -> dict[str, Any]:
        plan = local_plan(members, [client], work, seed, number, draws)
        steps = [
            {
                "samples": plan.index[0, s][plan.real[0, s]].tolist(),
                "draws": plan.draws[0, s].tolist(),
                "ends_pass": bool(plan.ends_epoch[0, s]),
            }
            for s in range(plan.active.shape[1])
        ]
        return {"client": client, "steps": steps}

    document = {
        "format": FORMAT,
        "name": name,
        "method": method,
        "options": dict(options),
        "limit": limit,
        "model": model,
        "loss": loss,
        "clients": population,
        "local": {"momentum": momentum, "weight_decay": weight_decay, "clip": clip},
        "tensors": list(start),
        "rounds": [
            {
                "rate": rate,
                "clients": [client_round(number, client) for client in cohort(population, participation, seed, number)],
            }
            for number, rate in enumerate(rates)
        ],
    }
    arrays = {"x": x, "y": y, "owner": owner, **{f"start/{key}": value for key, value in start.items()}}
    return Case(document, arrays)
