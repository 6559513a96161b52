"""A case from numbers: data, a first model, and each client's samples and batches, drawn as the engine draws them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntkfl.conformance.conformance_case import FORMAT, ConformanceCase
from ntkfl.conformance.problems import Problem, Samples
from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan


@dataclass(frozen=True)
class Setting:
    """How clients' samples and training are chosen; every round multiplies the rate by `decay`."""

    problem: Problem
    rate: float
    work: LocalWork
    decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    participation: float = 1.0
    loss: str = "mean"
    seed: int = 3


def case(
    method: str,
    options: Mapping[str, Any],
    setting: Setting,
    rounds: int,
    *,
    name: str = "",
    limit: str = "",
    data: tuple[Samples, Mapping[str, np.ndarray]] | None = None,
    clients: int | None = None,
    draws: int = 0,
    noise: bool = False,
) -> ConformanceCase:
    """A case of this method and setting, with every client's samples in every step of every round."""
    (x, y, owner), start = data or (setting.problem.samples(), setting.problem.start())
    population = clients or int(owner.max()) + 1
    members = [np.flatnonzero(owner == client) for client in range(population)]

    def client_round(number: int, client: int) -> dict[str, Any]:
        plan = local_plan(members, [client], setting.work, setting.seed, number, draws)
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
        "model": setting.problem.model,
        "loss": setting.loss,
        "clients": population,
        "local": {"momentum": setting.momentum, "weight_decay": setting.weight_decay, "clip": setting.clip},
        "tensors": list(start),
        "rounds": [
            {
                "rate": setting.rate * setting.decay**number,
                "clients": [
                    client_round(number, client)
                    for client in cohort(population, setting.participation, setting.seed, number)
                ],
            }
            for number in range(rounds)
        ],
    }
    arrays = {"x": x, "y": y, "owner": owner, **{f"start/{key}": value for key, value in start.items()}}
    if noise:
        size = sum(value.size for value in start.values())
        arrays["noise"] = np.random.default_rng([setting.seed, 1]).standard_normal((rounds, size))
    return ConformanceCase(document, arrays)
