"""From a configuration to a federation: data, model, method, optimizer and schedule, each built and checked."""

import math

import torch

from ntkfl.memory import require
from ntkfl.training.config import RunConfig
from ntkfl.training.datasets import load
from ntkfl.training.engine.devices import torch_device
from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.ima import averaged
from ntkfl.training.engine.local_plan import FewerEpochs, LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.methods import build as build_method
from ntkfl.training.model import Model, free_on
from ntkfl.training.models import build as build_model
from ntkfl.training.objectives import CrossEntropy, HalfSquares
from ntkfl.training.optimizers import SGD, Adam, Optimizer
from ntkfl.training.schedules import Cyclic, Exponential, MildExploration, ReleasedCycle, Schedule, Switched
from ntkfl.training.tree import Tree, leaves

DTYPES = {"float32": torch.float32, "float64": torch.float64}

LOADED = {"clients", "partition", "seed", "path", "samples", "test", "target", "unit", "train_share"}  # keys of `load`


def federation(
    config: RunConfig, method: Method | None = None, data: FederatedData | None = None, model: Model | None = None
) -> Federation:
    """The federation of a configuration; a method, data or model given here replaces the named one.

    Raises:
        ValueError, OSError: a fault of the data, the model, the method or the device, or that they do not fit together.
    """
    device, dtype = torch_device(config.device), DTYPES[config.dtype]
    if data is None:
        data = load(config.data, **config.model_dump(include=LOADED), dtype=dtype)
    data = data.to(device, dtype)
    if config.clients not in (None, data.clients):
        raise ValueError(f"clients is {config.clients}, and {data.name} has {data.clients}")
    if model is None:
        model = build_model(config.model, data, dtype=dtype, device=device, seed=config.seed)
    for name, value in model.initial(config.seed).items():
        if (value.dtype, value.device.type) != (dtype, device.type):
            raise ValueError(
                f"{name!r} of {model.name} is {value.dtype} on {value.device.type}; this run is {dtype} on "
                f"{device.type}: build the model so, or change dtype or device"
            )
    if method is None:
        method = _method(config, data)
    if config.ima:
        start = config.ima_start + config.ima_released  # the released code counts rounds from 0
        method = averaged(method, config.ima_window, start, config.ima_order, config.ima_restart)
    return Federation(
        model,
        data,
        method,
        _schedule(config),
        _optimizer(config),
        _work(config),
        config.participation,
        config.seed,
        config.at_once,
        config.keep_optimizer,
    )


def _method(config: RunConfig, data: FederatedData) -> Method:
    """The method, built with cross-entropy first: a method for classes is then refused for labels, not for its loss."""
    if data.classes is not None and config.reduction == "sum":
        raise ValueError("reduction is 'sum', which is for squares; cross-entropy is a mean: take target one-hot")
    method = build_method(config.method, CrossEntropy(), **config.options)
    if data.classes is None and "classes" not in method.needs:
        return build_method(config.method, HalfSquares(config.reduction), **config.options)
    return method


def _schedule(config: RunConfig) -> Schedule:
    """The local rates; with IMA, the rates of its Table III, the lowest of which is 1/200 of the first (5e-5 for .01).

    IMA's text and released code differ in two schedules. If the rate falls with the passes, the code counts rounds from
    the start of averaging, so that the rate begins again at its first value. The code's cycle begins at the decayed
    rate.
    """
    base, start, lowest = Exponential(config.rate, config.rate_decay), config.ima_start, config.rate / 200
    if config.ima and config.ima_released and config.ima_exploration == "epochs":
        return Switched(base, base, start)
    if not config.ima or config.ima_exploration in ("none", "epochs"):
        return base
    if config.ima_exploration == "constant":
        return Switched(base, Exponential(lowest), start)
    if config.ima_exploration == "cyclic" and config.ima_released:
        return Switched(base, ReleasedCycle(base(start), lowest, config.ima_period), start)
    if config.ima_exploration == "cyclic":
        return Switched(base, Cyclic(config.rate, lowest, config.ima_period), start)
    return MildExploration(config.rate, start, config.rate_decay, config.ima_decay)


def _work(config: RunConfig) -> LocalWork:
    size = None if config.batch_size == "full" else config.batch_size
    if config.ima and config.ima_exploration == "epochs":
        return FewerEpochs(config.epochs or 1, size, config.local_steps, config.ima_start, config.ima_period)
    return LocalWork(config.epochs or 1, size, config.local_steps)


def _optimizer(config: RunConfig) -> Optimizer:
    if config.optimizer == "adam":
        return Adam(weight_decay=config.weight_decay, clip=config.clip)
    return SGD(config.momentum, config.weight_decay, config.clip)


TRAINED = 12  # copies of the parameters while a client of FedAvg trains and is averaged; other rules: up to 24
A_STEP = 130  # bytes of a step of a client's plan, beside its batch


def require_round(federation: Federation, start: State) -> None:
    """Refuse a run whose rounds do not fit into memory.

    Raises:
        TooLittleMemory: the message gives the clients, local steps or epochs that would fit.
    """
    model, work, clients = federation.model, federation.work, federation.data.clients
    where = free_on(next(iter(start.model.values())).device)
    trained = TRAINED * _bytes(start.model)
    require(f"training {model.name}", lambda: trained, where, "a smaller model needs less")

    kept = 2 * _bytes(federation.method.local.initial(model, federation.method.server.broadcast(start.server, 0)))
    require("what the clients keep between rounds", lambda clients: kept * clients, clients=clients)

    largest = max(map(len, federation.data.members()))
    batch = min(largest, work.batch_size or largest)
    plan = federation.together(start.model, clients) * (A_STEP + 17 * batch)
    if work.most_steps is not None:
        require("the plan of a round", lambda local_steps: plan * local_steps, local_steps=work.most_steps)
    else:
        a_pass = plan * math.ceil(largest / batch)
        require("the plan of a round", lambda epochs: a_pass * epochs, epochs=work.epochs)


def _bytes(tree: Tree) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in leaves(tree))
