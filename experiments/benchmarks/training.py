"""Seconds for a round by the training engine, a plain PyTorch loop over clients, pfl-research and Flower's simulation.

Run `python -m experiments.benchmarks.training --peer-python pfl=PATH flower=PATH`, each PATH the interpreter of an
environment that has that simulator; peers not given are skipped. All candidates do the same work, in turn, and their
last weights are compared. Times are medians, on the clock and on the processor; on a loaded machine only processor
times are meaningful, but not those of Flower, whose clients mostly wait for messages.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.benchmarks.candidate import timed
from experiments.benchmarks.elsewhere import Seconds, by_script, how_to_get, interpreters
from ntkfl.initialisation import draw
from ntkfl.problem import Problem
from ntkfl.training.datasets import load
from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import fed_avg, fl_ntk
from ntkfl.training.models import build
from ntkfl.training.models.two_layer import ntk_network
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import Params

PEERS = ("pfl", "flower", "fedjax")


@dataclass(frozen=True, eq=False)
class Workload:
    """The training that all candidates do."""

    name: str
    run: Federation  # by the engine
    # module, loss: the same model for a plain loop, with the engine's names of parameters, and (outputs, labels) ->
    # scalar
    module: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    # arrays for the peers' scripts; empty if peers do not do this work
    given: dict[str, np.ndarray] = field(default_factory=dict)


class PlainTwoLayer(nn.Module):
    """signs . relu(hidden x) / sqrt m."""

    def __init__(self, hidden: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.hidden, self.scale = nn.Parameter(hidden.clone()), scale

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.hidden.T) @ self.scale


class PlainCNN(nn.Module):
    """SimpleCNN on images of 1 x 28 x 28, as printed (the engine's pools before the ReLU, which gives the same)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((1, 32), (32, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.MaxPool2d(2)]
        flat = 64 * 3 * 3
        layers += [nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(flat, 64), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def two_layer(clients: int, samples: int = 1000, features: int = 32, width: int = 4096, steps: int = 5) -> Workload:
    """FL-NTK's Algorithm 1 on unit inputs with random signs as labels, float32, full batches, clients of one size."""
    rng, rate, dtype = np.random.default_rng(0), 0.002, torch.float32
    x = rng.standard_normal((samples, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    owner = np.repeat(np.arange(clients), samples // clients)
    problem = Problem(x[: len(owner)], rng.choice([-1.0, 1.0], len(owner)), owner)
    weights = draw(width, features, 0, 1.0)
    data, work = FederatedData.from_problem(problem, dtype), LocalWork(batch_size=None, steps=steps)
    run = Federation(ntk_network(weights, dtype), data, fl_ntk.method(), Exponential(rate), work=work)
    hidden = run.model.initial(0)["hidden"]
    scale = torch.as_tensor(weights.signs / np.sqrt(width), dtype=dtype)
    arrays = {"x": data.x, "y": data.y, "hidden": hidden, "scale": scale}
    given = {name: tensor.numpy() for name, tensor in arrays.items()}
    given |= {"owner": owner, "rate": np.array(rate), "local_steps": np.array(steps)}
    name = f"two-layer: {len(owner)} samples, d={features}, m={width}, {clients} clients, {steps} full-batch steps"
    return Workload(name, run, PlainTwoLayer(hidden, scale), lambda f, y: ((f - y) ** 2).sum() / 2, given)


def convolutional(data: FederatedData, device: torch.device | str = "cpu") -> Workload:
    """FedAvg on SimpleCNN, one pass in batches of 32, momentum .9."""
    data = data.to(device, torch.float32)
    model = build("simple-cnn", data, dtype=torch.float32, device=device)
    run = Federation(model, data, fed_avg.method(CrossEntropy()), Exponential(0.05), SGD(0.9))
    name = f"SimpleCNN: {len(data.x)} images, {data.clients} clients, one epoch in batches of 32, on {device}"
    return Workload(name, run, PlainCNN().to(device), nn.functional.cross_entropy)


def loop_round(work: Workload, params: Params, number: int) -> Params:
    """A round with nn.Module and torch.optim, one client after the other."""
    run, members = work.run, work.run.data.members()
    assert isinstance(run.optimizer, SGD)
    total, mean = sum(map(len, members)), {name: torch.zeros_like(value) for name, value in params.items()}
    for client, own in enumerate(members):
        work.module.load_state_dict(params)
        optimizer = torch.optim.SGD(work.module.parameters(), run.schedule(number), run.optimizer.momentum)
        plan = local_plan(members, [client], run.work, run.seed, number, 0)
        for step, (rows, real) in enumerate(zip(plan.index[0], plan.real[0], strict=True)):
            if not step or not plan.same_batch:
                x, y = run.data.x[rows[real]], run.data.y[rows[real]]
            optimizer.zero_grad()
            work.loss(work.module(x), y).backward()
            optimizer.step()
        share = len(own) / total if run.method.weighting == "size" else 1 / len(members)
        for name, value in work.module.state_dict().items():
            mean[name] += share * (value - params[name])
    return {name: value + mean[name] for name, value in params.items()}


def by_peer(peer: str, python: str, work: Workload, rounds: int, threads: int) -> tuple[Seconds, Params]:
    """Seconds of the rounds after the first, and the last weights, from a simulator in its own process."""
    seconds, weights = by_script(f"rounds_by_{peer}", python, work.given, rounds, threads=threads)
    return seconds, {"hidden": torch.tensor(weights)}


def by_engine_and_loop(work: Workload, rounds: int) -> dict[str, tuple[Seconds, Params]]:
    """The seconds and last weights of the engine and of the plain loop, which run their rounds in turn."""
    state = work.run.start()
    params, seconds = state.model, {"engine": Seconds(), "plain loop": Seconds()}

    def measured(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        def finished() -> Any:
            result = call(*arguments)
            if work.run.data.x.is_cuda:
                torch.cuda.synchronize()
            return result

        result, clock, processor = timed(finished)
        seconds[name].append((clock, processor))
        return result

    for number in range(rounds):
        result = measured("engine", work.run.round, state)
        params = measured("plain loop", loop_round, work, params, number)
        state = result.state
    return {"engine": (seconds["engine"][1:], state.model), "plain loop": (seconds["plain loop"][1:], params)}


def distance(first: Params, second: Params, start: Params) -> float:
    """The largest difference of two models, relative to the largest change since the start."""
    off = max(float((first[name] - second[name]).abs().max()) for name in start)
    return off / max(float((second[name] - start[name]).abs().max()) for name in start)


def report(work: Workload, peers: dict[str, str], rounds: int, repetitions: int, threads: int) -> list[str]:
    """The table of one workload: medians over all rounds but the first of each repetition."""
    start = work.run.start().model
    seconds: dict[str, Seconds] = {}
    ends: dict[str, Params] = {}
    for _ in range(repetitions):
        timings = by_engine_and_loop(work, rounds)
        timings |= {peer: by_peer(peer, python, work, rounds, threads) for peer, python in peers.items() if work.given}
        for name, (some, end) in timings.items():
            seconds.setdefault(name, []).extend(some)
            ends[name] = end
    medians = {name: np.median(some, axis=0) for name, some in seconds.items()}
    lines = [work.name, f"  {'':12}{'clock':>10}{'processor':>11}   over the engine's   off the plain loop's end"]
    for name, (clock, processor) in medians.items():
        ratios = medians[name] / medians["engine"]
        off = distance(ends[name], ends["plain loop"], start)
        lines.append(f"  {name:12}{clock:8.3f} s{processor:9.3f} s{ratios[0]:12.1f}{ratios[1]:8.1f}{off:17.1e}")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer-python", nargs="*", default=[], metavar="PEER=PATH", help=", ".join(f"{p}=PATH" for p in PEERS)
    )
    parser.add_argument("--clients", type=int, nargs="*", default=[10, 100], help="of the two-layer workloads")
    parser.add_argument("--images", type=int, default=3200, help="of Fashion-MNIST, over 50 clients; 0: leave it out")
    parser.add_argument("--device", default="cpu", help="of the convolutional workload")
    parser.add_argument("--rounds", type=int, default=6, help="rounds; the first does not count")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each process")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    try:
        peers = interpreters(given.peer_python)
    except ValueError as error:
        parser.error(str(error))
    for peer in PEERS:
        if peer not in peers:
            print(how_to_get(peer))
    print(f"{given.threads} threads, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for clients in given.clients:
        print("\n".join(report(two_layer(clients), peers, given.rounds, given.repetitions, given.threads)), flush=True)
    if given.images:
        data = load("fashion-mnist", clients=50, samples=given.images, test=0, dtype=torch.float32)
        work = convolutional(data, given.device)
        print("\n".join(report(work, {}, given.rounds, given.repetitions, given.threads)), flush=True)


if __name__ == "__main__":
    main()
