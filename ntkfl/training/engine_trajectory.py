"""The trajectory of any network, and of any method, computed by the training engine.

For Algorithm 1 of FL-NTK on FL-NTK's network, `ntkfl.simulate` computes the same trajectory by other code.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp

from ntkfl import interruption
from ntkfl.algorithm1.simulation import checked_weights, keep_rounds
from ntkfl.limit.infinite_width import warn_if_unstable
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.training.checked_outputs import reason_of
from ntkfl.training.engine.devices import provenance_on, torch_device
from ntkfl.training.engine.federation import Federation, RoundResult
from ntkfl.training.method import Batch, Method
from ntkfl.training.model import Model
from ntkfl.training.optimizers import Optimizer
from ntkfl.training.tree import Params, Tree, tree_map, zeros_like
from ntkfl.training.wide_training import MOVED, network_federation, wide_federation
from ntkfl.trajectory import Trajectory


def linearised_network(network: Model, params: Params) -> Model:
    """The linearised network f(theta_0, x) + J(theta_0, x) D at the given parameters theta_0, with the Jacobian J of f.

    The parameters of the linearised network are D, which is 0 at first for every seed.
    """
    _load_forward_mode()

    def outputs(moved: Params, x: Tensor) -> Tensor:
        value, change, *_ = jvp(lambda theta: network.outputs(theta, x), (params,), (moved,))
        return value + change

    return Model(
        f"{network.name}, linearised",
        lambda seed: zeros_like(params),
        outputs,
        lambda moved, z: z,
    )


def require_forward_mode(name: str, network: Model, x: Tensor) -> None:
    """Refuse a network if PyTorch has no forward derivative of one of its operations.

    Raises:
        ValueError: there is such an operation.
    """
    try:
        network.outputs(network.initial(0), x[:1])
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"{name} cannot be linearised by torch.func.jvp: {reason_of(error)}") from error


@cache
def _load_forward_mode() -> None:
    """Take a first forward derivative without warnings. PyTorch then loads a module that warns of torch.jit."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        one = torch.ones(())
        jvp(torch.sin, (one,), (one,))


def engine_trajectory(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    *,
    device: str = "cpu",
    method: Method | None = None,
    keep: Iterable[int] = (),
    linearised: bool = False,
    movements: bool = True,
    optimizer: Optimizer | None = None,
) -> Trajectory:
    """Run `setup.rounds` rounds of federated training of FL-NTK's network, in float64 on a torch device.

    All clients take part, with full-batch steps. The default method is Algorithm 1 of FL-NTK with plain gradient
    descent. A device is cpu, cuda or cuda:NUMBER. The other arguments are explained at `ntkfl.simulate`.

    Raises:
        ValueError: as `simulate`, `torch_device` and `Federation`.
        FloatingPointError: the run overflowed; the message names the round and the stability limit.
    """
    weights = checked_weights(problem, setup, weights)
    kept_rounds, place = keep_rounds(keep, setup.rounds), torch_device(device)
    limit = warn_if_unstable(problem, setup) if method is None else None
    how: dict[str, Any] = {"method": method, "linearised": linearised, "optimizer": optimizer}
    federation = wide_federation(problem, setup, weights, device=place, **how)
    records = _NeuronRecords(problem, setup, federation, weights, linearised) if movements else _Records(problem, setup)

    def kept(model: Params) -> np.ndarray:
        return weights.hidden + model[MOVED].cpu().numpy()

    return _recorded(federation, records, keep=kept_rounds, kept=kept, limit=limit)


def network_trajectory(
    problem: Problem,
    setup: Setup,
    network: Model,
    params: Params | None = None,
    *,
    device: str = "cpu",
    method: Method | None = None,
    keep: Iterable[int] = (),
    linearised: bool = False,
    optimizer: Optimizer | None = None,
) -> Trajectory:
    """The trajectory of any network. All its parameters are trained; movements of single neurons are not recorded.

    The setup's width and sigma are not used. Training starts at `params`, by default at the network's own parameters
    for `setup.seed`. With `linearised` the network is f(theta_0, x) + J(theta_0, x) D, where theta_0 are the parameters
    at the start.

    Raises:
        ValueError: the outputs do not have the shape of the labels; and as `Model.checked_outputs` and
            `engine_trajectory`.
        FloatingPointError: the run overflowed; the message names the round.
    """
    kept_rounds, place, problem = keep_rounds(keep, setup.rounds), torch_device(device), problem.one_axis()
    start = tree_map(lambda value: value.to(place), network.initial(setup.seed) if params is None else params)
    trained = linearised_network(network, start) if linearised else network
    federation = network_federation(problem, setup, trained, device=place, method=method, optimizer=optimizer)
    first = trained.initial(0) if linearised else start
    outputs = network.checked_outputs(start, federation.data.x)
    refuse_other_outputs(network.name, tuple(outputs.shape), problem)
    finite = torch.isfinite(outputs.reshape(problem.n, -1)).all(1)
    if not finite.all():
        sample = int((~finite).nonzero()[0])
        raise ValueError(f"the output of {network.name} for sample {sample} is not finite before any training")
    if linearised:
        require_forward_mode(network.name, trained, federation.data.x)
    if not trained.mappable(first, federation.data.x):
        federation = replace(federation, at_once=1)

    def kept(model: Params) -> dict[str, np.ndarray]:
        whole = tree_map(torch.add, start, model) if linearised else model
        return {name: value.detach().cpu().numpy().copy() for name, value in whole.items()}

    return _recorded(federation, _Records(problem, setup, first), start=first, keep=kept_rounds, kept=kept)


def refuse_other_outputs(name: str, shape: tuple[int, ...], problem: Problem) -> None:
    """Refuse labels with another shape than the network's outputs. The message says how to make the shapes equal.

    Raises:
        ValueError: the shapes differ.
    """
    if shape == problem.y.shape:
        return
    ending = "ends in one output" if problem.y.ndim == 1 else f"ends in {problem.y.shape[1]} outputs"
    columns = f"labels of {shape[1]} columns, one-hot for classes," if len(shape) > 1 else "one label a sample"
    raise ValueError(
        f"the network {name} has outputs of shape {shape} on these data; the labels have {problem.y.shape}: give it "
        f"{columns} or a network that {ending}"
    )


def _recorded(
    federation: Federation,
    records: _Records,
    *,
    keep: np.ndarray,
    kept: Callable[[Params], Any],
    start: Params | None = None,
    limit: str | None = None,
) -> Trajectory:
    """The trajectory of a federation that is trained from `start`.

    `limit` is the sentence that `warn_if_unstable` returned. If the run overflows, the error message ends with it.
    """
    setup, x, model = records.setup, federation.data.x, federation.model
    run = replace(federation, watch=lambda params, batch: records.of_step(model, params, batch))
    models, state = {}, run.start(start)
    try:
        for t in range(setup.rounds + 1):
            interruption.check()
            records.add_round(model.outputs(state.model, x), state.model)
            if t in keep:
                models[t] = kept(state.model)
            if t < setup.rounds:
                result = run.round(state)
                state = result.state
                if not run.method.in_turn:  # clients in turn do not all start at the round's model
                    records.add_clients(result)
    except FloatingPointError as error:
        raise FloatingPointError(f"the run overflowed, {error}: {limit or 'the steps are too large'}") from None
    return records.trajectory(models, provenance_on(x.device, weights=setup.seed))


class _Records:
    """The fields of a trajectory, filled round by round."""

    def __init__(self, problem: Problem, setup: Setup, start: Params | None = None) -> None:
        """The total movement is measured from the parameters `start`, and is not recorded if `start` is None."""
        self.problem, self.setup, self.start = problem, setup, start
        self.members = problem.members
        self.fields: dict[str, list[Any]] = {"outputs": [], "local_outputs": []}
        if start is not None:
            self.fields["total_movement"] = []

    def add_round(self, outputs: Tensor, model: Params) -> None:
        """Record the outputs of a round's global model and the movement of its weights."""
        if not torch.isfinite(outputs).all():
            raise FloatingPointError(f"round {len(self.fields['outputs'])}: an output is no longer finite")
        self.fields["outputs"].append(outputs.cpu().numpy())
        if self.start is not None:
            moved = [value - self.start[name] for name, value in model.items()]
            self.fields["total_movement"].append(math.hypot(*(part.norm().item() for part in moved)))

    def of_step(self, model: Model, params: Params, batch: Batch) -> Tree:
        """What is recorded after a client's step."""
        return {"outputs": model.outputs(params, batch.x)}

    def add_clients(self, result: RoundResult) -> None:
        """Record the local outputs of a round's clients."""
        local = np.repeat(self.fields["outputs"][-1][None], self.setup.local_steps + 1, axis=0)
        for records, members in zip(result.records, self.members, strict=True):
            if len(members):
                local[1:, members] = records["outputs"][:, : len(members)].detach().cpu().numpy()
        self.fields["local_outputs"].append(local)

    def trajectory(self, kept: dict[int, Any], origin: dict[str, Any]) -> Trajectory:
        """The trajectory of all recorded rounds."""
        values = {name: np.array(rows) for name, rows in self.fields.items() if rows}
        y, n_clients = self.problem.y, self.problem.n_clients
        return Trajectory(y=y, n_clients=n_clients, weights=kept, provenance=origin, **values)


class _NeuronRecords(_Records):
    """Records of FL-NTK's network, with the largest movement of a neuron and the share of switched activations."""

    def __init__(self, problem: Problem, setup: Setup, run: Federation, weights: Weights, frozen: bool) -> None:
        """`run` trains the network from `weights`.

        `frozen` says that the activation patterns of the network stay the patterns of `weights`.
        """
        super().__init__(problem, setup, run.model.initial(0))
        self.x, self.frozen = run.data.x, frozen
        self.before = self.x @ torch.as_tensor(np.array(weights.hidden), device=self.x.device).T
        self.fields |= {name: [] for name in ("movement", "flips", "local_movement", "step")}

    def add_round(self, outputs: Tensor, model: Params) -> None:
        super().add_round(outputs, model)
        moved = model[MOVED]
        self.fields["movement"].append(longest_row(moved).item())
        after = self.before if self.frozen else self.before + self.x @ moved.T
        self.fields["flips"].append(((after >= 0) != (self.before >= 0)).double().mean().item())

    def of_step(self, model: Model, params: Params, batch: Batch) -> Tree:
        return super().of_step(model, params, batch) | {"longest": longest_row(params[MOVED])}

    def add_clients(self, result: RoundResult) -> None:
        super().add_clients(result)
        assert result.move is not None, "it is recorded where clients are watched"
        longest = torch.stack([records["longest"] for records in result.records if len(records["longest"])]).amax(dim=0)
        self.fields["local_movement"].append(np.append(self.fields["movement"][-1], longest.cpu().numpy()))
        self.fields["step"].append(longest_row(result.move[MOVED]).item())


def longest_row(matrix: Tensor) -> Tensor:
    """The largest Euclidean norm of a row."""
    return (matrix * matrix).sum(1).max().sqrt()
