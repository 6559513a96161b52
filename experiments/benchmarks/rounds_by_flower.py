"""Rounds of federated training by Flower's simulation.

`python rounds_by_flower.py FOLDER ROUNDS` is run by the interpreter of an environment that has Flower. The script is
called as `experiments.benchmarks.elsewhere` describes. Its result is the weights after the last round.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # set before Flower and Ray are imported

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

folder, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2])
trainer, server = ClientApp(), ServerApp()


def tensors(*names: str) -> list[torch.Tensor]:
    """The arrays with these names, as tensors.

    Each client reads the arrays again, since Ray reloads this script for each message.
    """
    with np.load(folder / "work.npz") as work:
        return [torch.tensor(work[name]) for name in names]


@trainer.train()
def train(message: Message, context: Context) -> Message:
    x, y, owner, scale, rate, local_steps = tensors("x", "y", "owner", "scale", "rate", "local_steps")
    own = owner == int(context.node_config["partition-id"])
    x, y = x[own], y[own]
    hidden = message.content["arrays"].to_torch_state_dict()["hidden"].requires_grad_()
    steps = torch.optim.SGD([hidden], lr=float(rate))
    for _ in range(int(local_steps)):
        steps.zero_grad()
        (((torch.relu(x @ hidden.T) @ scale - y) ** 2).sum() / 2).backward()
        steps.step()
    weights = ArrayRecord({"hidden": hidden.detach()})
    count = MetricRecord({"num-examples": len(x)})
    return Message(content=RecordDict({"arrays": weights, "metrics": count}), reply_to=message)


class Clock(FedAvg):
    """FedAvg, with a record of the time after each round."""

    marks: tuple[tuple[float, float], ...] = ()

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        result = super().aggregate_train(server_round, replies)
        self.marks += ((time.perf_counter(), processor_seconds()),)
        return result


@server.main()
def main(grid: Grid, context: Context) -> None:
    hidden, owner = tensors("hidden", "owner")
    # The strategy waits for this number of nodes. A fraction would count only nodes that have already connected.
    count = len(owner.unique())
    strategy = Clock(fraction_evaluate=0.0, min_train_nodes=count, min_available_nodes=count)
    start = ArrayRecord({"hidden": hidden})
    result = strategy.start(grid, start, num_rounds=rounds)
    np.save(folder / "result.npy", result.arrays.to_torch_state_dict()["hidden"].numpy())
    (folder / "times.json").write_text(json.dumps(strategy.marks))


def processor_seconds() -> float:
    """User and system time of this process and of all its descendants, as Linux counts them."""
    parents, seconds = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # the process has ended meanwhile
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while children := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= children
    return sum(seconds[process] for process in ours)


if __name__ == "__main__":
    clients = len(tensors("owner")[0].unique())
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, trainer, clients, backend_config={"client_resources": resources})
