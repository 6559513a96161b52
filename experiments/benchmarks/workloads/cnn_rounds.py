"""Rounds of FedAvg on a convolutional network with batches of 32, against a loop over the clients with nn.Module."""

from itertools import islice

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload

ROUNDS = 2


def _federation(sizes: Sizes):
    import torch

    from ntkfl.training.datasets import load
    from ntkfl.training.engine.federation import Federation
    from ntkfl.training.methods import fed_avg
    from ntkfl.training.models import build
    from ntkfl.training.objectives import CrossEntropy
    from ntkfl.training.optimizers import SGD
    from ntkfl.training.schedules import Exponential

    data = load("fashion-mnist", clients=sizes["N"], samples=sizes["n"], test=0, dtype=torch.float32)
    model = build("simple-cnn", data, dtype=torch.float32, device="cpu")
    return Federation(model, data, fed_avg.method(CrossEntropy()), Exponential(0.05), SGD(0.9))


def _moved(start, end) -> np.ndarray:
    """The change of all weights as one vector."""
    return np.concatenate([(end[name] - start[name]).numpy().ravel() for name in start])


def _ours(sizes: Sizes) -> Call:
    run = _federation(sizes)
    return lambda: _moved(run.start().model, [state.model for state in islice(run.states(), ROUNDS + 1)][-1])


def _loop(sizes: Sizes) -> Call:
    """A loop over the clients, with SimpleCNN as the paper prints it.

    The engine's network pools before the ReLU, which gives the same outputs.
    """
    import torch
    from torch import nn

    from ntkfl.training.engine.local_plan import local_plan

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers: list[nn.Module] = []
            for inputs, outputs in ((1, 32), (32, 64)):
                layers += [nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.MaxPool2d(2)]
            layers += [nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 3 * 3, 64), nn.ReLU()]
            self.body, self.head = nn.Sequential(*layers), nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.body(x))

    run, module = _federation(sizes), Plain()
    members = run.data.members()

    def work():
        start = params = run.start().model
        for number in range(ROUNDS):
            mean = {name: torch.zeros_like(value) for name, value in params.items()}
            for client, own in enumerate(members):
                module.load_state_dict(params)
                optimizer = torch.optim.SGD(module.parameters(), run.schedule(number), run.optimizer.momentum)
                plan = local_plan(members, [client], run.work, run.seed, number, 0)
                for rows, real in zip(plan.index[0], plan.real[0], strict=True):
                    optimizer.zero_grad()
                    outputs, labels = module(run.data.x[rows[real]]), run.data.y[rows[real]]
                    nn.functional.cross_entropy(outputs, labels).backward()
                    optimizer.step()
                for name, value in module.state_dict().items():
                    mean[name] += len(own) / len(run.data.x) * (value - params[name])
            params = {name: value + mean[name] for name, value in params.items()}
        return _moved(start, params)

    return work


WORKLOAD = Workload(
    name="cnn-rounds",
    says=f"{ROUNDS} rounds of FedAvg on SimpleCNN, n images of Fashion-MNIST on N clients, in batches of 32, float32",
    sizes=({"n": 3200, "N": 50},),
    candidates=(Candidate("ntkfl", _ours, "ours"), Candidate("plain loop", _loop)),
    along="n",
    tolerance=1e-3,  # computed in float32; errors are relative to the largest change of a weight
)
