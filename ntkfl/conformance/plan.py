"""Makes cases: draws data and a start model, and draws cohorts and batches as the training engine draws them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntkfl.conformance.conformance_case import FORMAT, ConformanceCase
from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan

SIZES = (5, 3, 9, 4, 7)
CLASSES = 3
Samples = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y, and the client of each sample
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "line": {"w": (3,)},
    "logistic": {"head.weight": (CLASSES, 4), "head.bias": (CLASSES,)},
    "lora": {"base.weight": (CLASSES, 3), "lora_A": (2, 3), "lora_B": (CLASSES, 2)},
    "network": {
        "body.0.weight": (5, 4),
        "body.0.bias": (5,),
        "head.weight": (CLASSES, 5),
        "head.bias": (CLASSES,),
    },
}


@dataclass(frozen=True)
class DrawnData:
    """Data and start of a model of `SHAPES`, drawn from a seed."""

    model: str
    sizes: tuple[int, ...] = SIZES  # each client's number of samples
    copies: int = 0  # if not 0: the number of clients, all of which have copies of the first client's samples
    lacking: bool = False  # whether some clients have no samples of one class
    rank: int = 2  # rank of LoRA's factors
    seed: int = 0

    def samples(self) -> Samples:
        """The samples. The clients' samples are mixed, unless they are copies."""
        rng = np.random.default_rng(self.seed)
        owner = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        features = SHAPES[self.model][next(iter(SHAPES[self.model]))][-1]
        x = rng.standard_normal((len(owner), features))
        if self.model == "line":
            optima = 2 + rng.standard_normal((len(self.sizes), features))
            y = (x * optima[owner]).sum(axis=1) + 0.1 * rng.standard_normal(len(owner))
        else:
            y = rng.integers(0, CLASSES, len(owner))
            if self.lacking:
                y = np.where((y == owner % CLASSES) & (owner % 2 == 0), (y + 1) % CLASSES, y)
            x = x + 0.5 * y[:, None]
        if self.copies:
            own = owner == 0
            x, y = np.tile(x[own], (self.copies, 1)), np.tile(y[own], self.copies)
            owner = np.repeat(np.arange(self.copies), own.sum())
        return x, y, owner

    def start(self) -> dict[str, np.ndarray]:
        """The start model: Gaussian entries, divided by the root of a tensor's input width. LoRA's B is 0."""
        rng = np.random.default_rng([self.seed, 1])
        adapted = {"lora_A": (self.rank, 3), "lora_B": (CLASSES, self.rank)} if self.model == "lora" else {}
        return {
            name: rng.standard_normal(shape) / np.sqrt(shape[-1] if len(shape) > 1 else 4) * (name != "lora_B")
            for name, shape in (SHAPES[self.model] | adapted).items()
        }


@dataclass(frozen=True)
class Setting:
    """How clients train, and on which data. The rate is multiplied by `decay` after every round."""

    data: DrawnData
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
    """A case of this method and setting. The case lists every client's samples in every step of every round."""
    (x, y, owner), start = data or (setting.data.samples(), setting.data.start())
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
        "model": setting.data.model,
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
