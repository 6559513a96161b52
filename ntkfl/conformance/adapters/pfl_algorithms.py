"""Adapter of the conformance kit for pfl-research, in float32.

pfl runs its own algorithms, local steps and backend. The cases prescribe cohorts and batches.

Everything runs in float32, since pfl keeps differences of models in float32. The server's step is taken by an optimizer
of torch: SGD for FedAvg and FedAvgM, Adam for FedAdam.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.hyperparam.base import HyperParam
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

PACKAGES = ("pfl", "torch")
EVALUATION = 10**6  # the batch size of evaluation, by which calls for evaluation are recognised
BY_SIZE = ("fedavg", "fedavgm", "fedprox", "fedadam")


class Network(torch.nn.Module):
    """The case's model and its loss."""

    def __init__(self, case: Any) -> None:
        super().__init__()
        self.kind, self.reduction = case.model, case.loss
        first = {name: torch.tensor(value, dtype=torch.float32) for name, value in case.tensors(case.start).items()}
        if case.model == "line":
            self.w = torch.nn.Parameter(first["w"])
        else:
            classes, features = first["head.weight"].shape
            self.head = torch.nn.Linear(features, classes)
            if case.model == "network":
                hidden, inputs = first["body.0.weight"].shape
                self.body = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.Tanh())
            self.load_state_dict(first)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of a batch."""
        if self.kind == "line":
            losses = (x @ self.w - y) ** 2 / 2
        else:
            outputs = self.head(self.body(x) if self.kind == "network" else x)
            losses = torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        return losses.sum() if self.reduction == "sum" else losses.mean()

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        """A metric that is not used; pfl needs one, since it always evaluates in the first round."""
        return {"samples": Weighted(len(x), len(x))}


class Planned(Dataset):
    """A client's samples in one round, in the batches of the case. Each call of `iter` gives the next pass."""

    def __init__(self, case: Any, number: int, client: int) -> None:
        super().__init__(tuple(map(tensor, case.samples(client))), user_id=str(client))
        self.passes: list[list[Any]] = [[]]
        for batch in case.batches(number, client):
            self.passes[-1].append((tensor(batch.x), tensor(batch.y)))
            if batch.ends_pass:
                self.passes.append([])
        self.next = 0

    def iter(self, batch_size: int | None) -> Iterator[Any]:
        """The batches of the next pass. For evaluation, or without a batch size, there is one batch of all samples."""
        if batch_size in (None, EVALUATION):
            yield self.raw_data
            return
        yield from self.passes[self.next]
        self.next += 1


class Rate(HyperParam, TrainingProcessCallback):
    """Gives pfl the local rate of each round, and keeps the model after each round."""

    def __init__(self, case: Any) -> None:
        self.case, self.number = case, 0
        self.models: list[dict[str, np.ndarray]] = []

    def value(self) -> float:
        """The rate of the next round."""
        return self.case.rates[min(self.number, self.case.rounds - 1)]

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        """Keep the model after the round."""
        self.number += 1
        kept = model.pytorch_model.named_parameters()
        self.models.append({name: value.detach().numpy().copy() for name, value in kept})
        return False, Metrics()


def run(case: Any) -> Any:
    """The model after every round."""
    rate = Rate(case)
    cohorts = [case.cohort(t) for t in range(case.rounds)]
    users = iter([(t, client) for t, cohort in enumerate(cohorts) for client in cohort])
    data = FederatedDataset(lambda user: Planned(case, *user), lambda: next(users))
    counts: dict[str, Any] = {
        "central_num_iterations": case.rounds,
        "evaluation_frequency": case.rounds + 1,
        "train_cohort_size": len(cohorts[0]),
        "val_cohort_size": 0,
    }
    algorithm, parameters = chosen(case, counts)  # called first, since it refuses methods that pfl does not have
    network = Network(case)
    sizes = {len(batch.y) for t, cohort in enumerate(cohorts) for i in cohort for batch in case.batches(t, i)}
    whole = all(
        len(b.y) == case.sizes[i] for t, cohort in enumerate(cohorts) for i in cohort for b in case.batches(t, i)
    )
    passes = sum(batch.ends_pass for batch in case.batches(0, cohorts[0][0]))
    algorithm.run(
        parameters,
        SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()] if case.method in BY_SIZE else []),
        PyTorchModel(network, local_optimizer(case), central_optimizer(case, network)),
        NNTrainHyperParams(
            local_batch_size=None if whole else max(sizes),
            local_num_epochs=passes,
            local_learning_rate=rate,
            local_max_grad_norm=case.clip,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=EVALUATION),
        callbacks=[rate],
        send_metrics_to_platform=False,
    )
    return rate.models


def chosen(case: Any, counts: dict[str, Any]) -> tuple[Any, Any]:
    """pfl's algorithm for the case, and its parameters."""
    if case.method in ("fedavg", "fl-ntk", "fedavgm", "fedadam"):
        return FederatedAveraging(), NNAlgorithmParams(**counts)
    if case.method == "fedprox":
        return FedProx(), FedProxParams(**counts, mu=case.options["mu"])
    if case.method == "scaffold":
        return SCAFFOLD(), SCAFFOLDParams(
            **counts,
            population=case.population,
            use_gradient_as_control_variate=case.options["option"] == "I",
            user_state_storage=InMemoryUserStateStorage(),
        )
    raise NotImplementedError(f"pfl has no {case.method}")


def local_optimizer(case: Any) -> Any:
    """A function (parameters, rate) -> the case's SGD as an optimizer of torch."""

    def make(parameters: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr, momentum=case.momentum, weight_decay=case.weight_decay)

    return make


def central_optimizer(case: Any, network: torch.nn.Module) -> torch.optim.Optimizer:
    """The server's optimizer."""
    given = case.options
    if case.method == "fedadam":
        decays = given["first"], given["second"]
        if max(decays) >= 1:
            raise NotImplementedError("torch's Adam has no decay of 1")
        return torch.optim.Adam(network.parameters(), given["server_rate"], betas=decays, eps=given["tau"])
    momentum, nesterov = given.get("momentum", 0.0), given.get("nesterov", False)
    if nesterov and not momentum:
        nesterov = False  # without momentum Nesterov's step is the plain step, and torch refuses the option
    return torch.optim.SGD(network.parameters(), given["server_rate"], momentum=momentum, nesterov=nesterov)


def tensor(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor: float32, or int64 for whole numbers."""
    return torch.tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else torch.int64)
