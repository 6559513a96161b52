"""Federations of the engine that train as Algorithm 1 of FL-NTK does, on FL-NTK's wide network or any other network."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from ntkfl.connectivity.network import TwoLayer
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.methods import fl_ntk
from ntkfl.training.model import Model
from ntkfl.training.models.two_layer import relu
from ntkfl.training.optimizers import SGD, Optimizer
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import Params, stacked

MOVED = "moved"
AT_ONCE = 2**28  # largest number of parameters of all clients that are trained together: 2 GiB of float64


def wide_federation(
    problem: Problem,
    setup: Setup,
    weights: Weights,
    *,
    device: torch.device | str = "cpu",
    method: Method | None = None,
    linearised: bool = False,
    participation: float = 1.0,
    optimizer: Optimizer | None = None,
) -> Federation:
    """`network_federation` of FL-NTK's network with these initial weights."""
    run = network_federation(
        problem,
        setup,
        displaced_network(weights, device, linearised=linearised),
        device=device,
        method=method,
        participation=participation,
        optimizer=optimizer,
    )
    return replace(run, at_once=max(1, min(problem.n_clients, AT_ONCE // weights.hidden.size)))


def network_federation(
    problem: Problem,
    setup: Setup,
    network: Model,
    *,
    device: torch.device | str = "cpu",
    method: Method | None = None,
    participation: float = 1.0,
    optimizer: Optimizer | None = None,
) -> Federation:
    """A federation whose rounds have `setup.local_steps` full-batch steps on any network, in float64.

    The default method is Algorithm 1 of FL-NTK. Another method has its own server step, and does not use
    `setup.eta_global`. The objective of the method must be for real labels, such as Algorithm 1's `HalfSquares("sum")`.
    The optimizer's state begins anew in each round.
    """
    return Federation(
        network,
        FederatedData.from_problem(problem).to(device, torch.float64),
        method or fl_ntk.method(server_rate=setup.eta_global),
        Exponential(setup.eta_local),
        optimizer or SGD(),
        work=LocalWork(batch_size=None, steps=setup.local_steps),
        participation=participation,
        seed=setup.seed,
    )


def displaced_network(weights: Weights, device: torch.device | str = "cpu", *, linearised: bool = False) -> Model:
    """The network f(x) = signs . relu((U + D) x) / sqrt(m) with fixed U and signs.

    D, (m, d) float64, is trained from 0. The gradient by D equals the gradient by the hidden weights w, with the
    indicator of w.x >= 0. If U + D itself were trained, it would be rounded to the digits of U after every step, and D
    would be inaccurate. Statements about movements measure D, which is of order m^(-1/2).

    Source: FL-NTK, section 3 (Eq 1) and Algorithm 1.
    """
    hidden, signs = weights
    start = torch.as_tensor(np.array(hidden), dtype=torch.float64, device=device)
    scale = torch.as_tensor(signs / np.sqrt(len(signs)), dtype=torch.float64, device=device)

    def features(params: Params, x: Tensor) -> Tensor:
        before = x @ start.T
        z = before + x @ params[MOVED].mT
        return torch.where(before >= 0, z, 0) if linearised else relu(z)

    return Model(
        f"ntk:{len(signs)}" + (" linearised" if linearised else ""),
        lambda seed: {MOVED: torch.zeros_like(start)},
        features,
        lambda params, z: z @ scale,
        stacks=True,
    )


def displaced_networks(weights: Sequence[Weights]) -> Model:
    """One model with an output for each of the given weights: the `displaced_network` of these weights.

    All weights have the same width.
    """
    start = torch.as_tensor(np.array([own.hidden for own in weights]))
    scale = torch.as_tensor(np.array([own.signs / np.sqrt(len(own.signs)) for own in weights]))
    return Model(
        f"ntk:{scale.shape[1]}, {len(weights)} side by side",
        lambda seed: {MOVED: torch.zeros_like(start)},
        lambda params, x: relu(x @ start.mT + x @ params[MOVED].mT).transpose(0, 1),
        lambda params, z: torch.einsum("bsm,sm->bs", z, scale),
    )


def networks(weights: Weights, params: Params) -> list[TwoLayer]:
    """The networks f(x) = v . relu(u x) with hidden weights u = U + D, for every row of stacked D (rows, m, d)."""
    readout = weights.signs / np.sqrt(len(weights.signs))
    return [TwoLayer(weights.hidden + row, readout) for row in params[MOVED].cpu().numpy()]


def side_by_side(network: Model, count: int) -> Model:
    """Copies of a network with separate weights, as one model with outputs (b, count), or (b, count, C) for C outputs.

    Output s depends only on the weights of copy s. If the loss is a sum over outputs, as `HalfSquares("sum")` is, the
    gradient by the weights of a copy is the gradient of this copy's own loss. So sgd and weighted means train every
    copy as if it were alone, up to rounding errors.
    """

    def together(params: Params, x: Tensor) -> Tensor:
        return network.outputs(params, x[..., None, :, :]).transpose(x.ndim - 2, x.ndim - 1)

    def mapped(params: Params, x: Tensor) -> Tensor:
        return vmap(network.outputs, in_dims=(0, None), out_dims=1)(params, x)

    def initial(seed: int) -> Params:
        return stacked([network.initial(seed * count + copy) for copy in range(count)])

    return Model(
        f"{network.name}, {count} side by side",
        initial,
        together if network.stacks else mapped,
        lambda params, z: z,
        stacks=network.stacks,
    )
