"""Algorithm 1, or another method, on the wide network by the training engine: the trajectory the simulator returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntkfl.algorithm1.simulation import checked_weights, keep_rounds
from ntkfl.limit.algorithm1_limit import warn_if_unstable
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.training.displaced_network import MOVED
from ntkfl.training.engine.devices import provenance_on, torch_device
from ntkfl.training.engine.federation import State
from ntkfl.training.engine.watched_clients import WATCHED, longest_row, watched
from ntkfl.training.method import Method
from ntkfl.training.optimizers import Optimizer
from ntkfl.training.tree import Tree
from ntkfl.training.wide_training import wide_federation
from ntkfl.trajectory import Trajectory


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
    """Run `setup.rounds` rounds of federated training, all clients, full-batch steps, in float64 on a torch device.

    Args:
        problem, setup, weights, keep, linearised, movements: as of `ntkfl.simulate`, which computes the same.
        device: cpu, cuda or cuda:NUMBER. The other arguments are those of `ntkfl.simulate`, which computes the same.
        method, optimizer: default: Algorithm 1 of FL-NTK, plain gradient descent; see `wide_federation`.

    Raises:
        ValueError: as `simulate`, `torch_device` and `Federation`.
        FloatingPointError: the run overflowed; the message names the round and the stability limit.
    """
    weights = checked_weights(problem, setup, weights)
    kept_rounds, place = keep_rounds(keep, setup.rounds), torch_device(device)
    limit = warn_if_unstable(problem, setup) if method is None else None
    how: dict[str, Any] = {"method": method, "linearised": linearised, "optimizer": optimizer}
    federation = wide_federation(problem, setup, weights, device=place, **how)
    widest, rows = int(np.bincount(problem.owner).max()), MOVED if movements else None
    federation = replace(federation, method=watched(federation.method, setup.local_steps, widest, rows))
    x = federation.data.x
    before = x @ torch.as_tensor(np.array(weights.hidden), device=place).T if movements else None
    records = _Records(problem, setup.local_steps, x, before, linearised)
    kept, state = {}, federation.start()
    try:
        for t in range(setup.rounds + 1):
            records.add_round(federation.model.outputs(state.model, x), state.model[MOVED])
            if t in kept_rounds:
                kept[t] = weights.hidden + state.model[MOVED].cpu().numpy()
            if t < setup.rounds:
                state = federation.round(state).state
                records.add_clients(state)
    except FloatingPointError as error:
        raise FloatingPointError(f"the run overflowed, {error}: {limit or 'the steps are too large'}") from None
    return records.trajectory(kept, provenance_on(place, weights=setup.seed))


class _Records:
    """The fields of a trajectory, round by round."""

    def __init__(self, problem: Problem, local_steps: int, x: Tensor, before: Tensor | None, frozen: bool) -> None:
        """before: pre-activations at the start, None where no movements are recorded. frozen: patterns stay theirs."""
        self.problem, self.local_steps, self.x, self.before, self.frozen = problem, local_steps, x, before, frozen
        self.members = problem.clients()
        moves = () if before is None else ("movement", "total_movement", "flips", "local_movement", "step")
        self.fields: dict[str, list[Any]] = {name: [] for name in ("outputs", "local_outputs", *moves)}

    def add_round(self, outputs: Tensor, moved: Tensor) -> None:
        """The global model of a round: its outputs, and how far its weights have moved."""
        if not torch.isfinite(outputs).all():
            raise FloatingPointError(f"round {len(self.fields['outputs'])}: an output is no longer finite")
        self.fields["outputs"].append(outputs.cpu().numpy())
        if self.before is not None:
            self.fields["movement"].append(longest_row(moved).item())
            self.fields["total_movement"].append(moved.norm().item())
            after = self.before if self.frozen else self.before + self.x @ moved.T
            self.fields["flips"].append(((after >= 0) != (self.before >= 0)).double().mean().item())

    def add_clients(self, state: State) -> None:
        """The clients of the round that led to this state, and the step that the server took."""
        seen: Tree = state.clients["rule"][WATCHED]
        local = np.tile(self.fields["outputs"][-1], (self.local_steps + 1, 1))
        for row, members in zip(seen["outputs"].numpy(), self.members, strict=True):
            local[1:, members] = row[:, : len(members)]
        self.fields["local_outputs"].append(local)
        if self.before is not None:
            longest = seen["longest"].numpy().max(axis=0)
            self.fields["local_movement"].append(np.append(self.fields["movement"][-1], longest))
            self.fields["step"].append(longest_row(state.server[WATCHED][MOVED]).item())

    def trajectory(self, kept: dict[int, np.ndarray], origin: dict[str, Any]) -> Trajectory:
        """All of it."""
        values = {name: np.array(rows) for name, rows in self.fields.items()}
        y, n_clients = self.problem.y, self.problem.n_clients
        return Trajectory(y=y, n_clients=n_clients, weights=kept, provenance=origin, **values)
