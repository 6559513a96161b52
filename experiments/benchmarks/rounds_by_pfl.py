"""Rounds of federated training by pfl-research.

`python rounds_by_pfl.py FOLDER ROUNDS` is run by the interpreter of an environment that has pfl-research; no module
imports it. The script is called as `experiments.benchmarks.elsewhere` describes. Its result is the weights after the
last round.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
work = np.load(folder / "work.npz")


class TwoLayer(torch.nn.Module):
    """The network f(x) = a . relu(W x) / sqrt m; `hidden` is W, and `scale` is a / sqrt m.

    The loss is the sum of |f(x) - y|^2 / 2 over the samples.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Parameter(torch.tensor(work["hidden"]))
        self.scale = torch.tensor(work["scale"])

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((torch.relu(x @ self.hidden.T) @ self.scale - y) ** 2).sum() / 2

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"loss": Weighted(self.loss(x, y).item(), len(x))}


class Clock(TrainingProcessCallback):
    """Records the time after each round."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        """Record the time, and return that training goes on and that there are no metrics.

        pfl-research calls this method of `TrainingProcessCallback` after each round.
        """
        self.marks.append((time.perf_counter(), time.process_time()))
        return False, Metrics()


users = {
    int(user): [torch.tensor(work[name][work["owner"] == user]) for name in ("x", "y")]
    for user in np.unique(work["owner"])
}
sampler = get_user_sampler("minimize_reuse", list(users))
data = FederatedDataset(lambda user: Dataset(users[user], user_id=user), sampler)
network, clock = TwoLayer(), Clock()
FederatedAveraging().run(
    # Only the first iteration is evaluated, and the time of that iteration does not count.
    NNAlgorithmParams(rounds, evaluation_frequency=rounds + 1, train_cohort_size=len(users), val_cohort_size=0),
    SimulatedBackend(data, data),
    PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0)),
    NNTrainHyperParams(
        local_batch_size=None, local_num_epochs=int(work["local_steps"]), local_learning_rate=float(work["rate"])
    ),
    callbacks=[clock],
    send_metrics_to_platform=False,
)
np.save(folder / "result.npy", network.hidden.detach().numpy())
(folder / "times.json").write_text(json.dumps(clock.marks))
