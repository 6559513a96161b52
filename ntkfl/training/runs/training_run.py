"""A training run from its configuration to its results. A run can be stored, resumed and read back.

From the configuration the data, the model, the method, the optimizer and the schedule are built and checked. Together
they are a `Federation`.
"""

import math
import os
import time
import tomllib
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ntkfl import extensions, interruption
from ntkfl.data.user_files import is_data_file
from ntkfl.memory import require
from ntkfl.messages import require_size
from ntkfl.training.checkpoint import Checkpoint, restored, tensors_digest
from ntkfl.training.config import RunConfig, checked, read_toml
from ntkfl.training.datasets import load
from ntkfl.training.engine.devices import device_name, torch_device
from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.ima import averaged
from ntkfl.training.engine.local_plan import FewerEpochs, LocalWork
from ntkfl.training.engine.measurement import loss_unit, measured
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.methods import brought_by as method_from, build as build_method
from ntkfl.training.metrics import ROWS, Row, append_row, columns, read_rows, rows_digest, write_rows
from ntkfl.training.model import Model, free_on
from ntkfl.training.models import brought_by as model_from, build as build_model
from ntkfl.training.objectives import CrossEntropy, HalfSquares
from ntkfl.training.optimizers import SGD, Adam, Optimizer
from ntkfl.training.run_folder import CONFIG, OUTCOME, TRAINED, RunFolder, as_toml, differing
from ntkfl.training.runs.shortfall import shortfall
from ntkfl.training.schedules import Cyclic, Exponential, MildExploration, ReleasedCycle, Schedule, Switched
from ntkfl.training.tree import Params, Tree, leaves
from ntkfl.trajectory import package_version, provenance

DTYPES = {"float32": torch.float32, "float64": torch.float64}

# the keys that are arguments of `load`
LOADED = {"clients", "partition", "seed", "path", "samples", "test", "target", "unit", "train_share"}


def assembled(
    config: RunConfig, method: Method | None = None, data: FederatedData | None = None, model: Model | None = None
) -> Federation:
    """The federation of a configuration. A method, data or model that is given as an object replaces the named one.

    Raises:
        ValueError, OSError: the data, the model, the method or the device are faulty, or do not fit together.
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
        start = config.ima_start + config.ima_released  # IMA's released code counts rounds from 0
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
    """The method with the loss for these data.

    The method is first built with cross-entropy, also for real labels. So if a method needs classes, the error message
    is about the labels, not about the loss.
    """
    if data.classes is not None and config.reduction == "sum":
        raise ValueError("reduction is 'sum', which is for squares; cross-entropy is a mean: take target one-hot")
    method = build_method(config.method, CrossEntropy(), **config.options)
    if data.classes is None and "classes" not in method.needs:
        return build_method(config.method, HalfSquares(config.reduction), **config.options)
    return method


def _schedule(config: RunConfig) -> Schedule:
    """The schedule of the local rate; with IMA, a schedule of its Table III.

    The lowest rate is 1/200 of the first rate. IMA has the same ratio, with the rates 5e-5 and .01. IMA's text
    and released code differ in two schedules. With `ima_exploration` "epochs" the number of local passes decreases. In
    the code, the schedule of the rate then counts its rounds from the start of averaging, so the rate begins again at
    its first value. With "cyclic", the code's cycle begins at the decayed rate.
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


# number of copies of the parameters in memory while a client of FedAvg trains and is averaged; other methods need up to
# 24
TRAINING_COPIES = 12
A_STEP = 130  # bytes of one step in a client's `LocalPlan`, not counting the bytes of the step's batch


def require_round(federation: Federation, start: State) -> None:
    """Refuse a run whose rounds do not fit into memory.

    Raises:
        TooLittleMemory: the message gives the number of clients, local steps or epochs that would fit.
    """
    model, work, clients = federation.model, federation.work, federation.data.clients
    where = free_on(next(iter(start.model.values())).device)
    trained = TRAINING_COPIES * _bytes(start.model)
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


class RunRecord:
    """The rows and the last state of a run, stored in a folder that is locked until `close`, or only in memory.

    Raises:
        OSError: the folder cannot be written, or another run is under way in it.
    """

    def __init__(
        self,
        folder: RunFolder | None,
        every: int,
        run: dict[str, Any],
        provenance: dict[str, Any],
        loss: str,
        state: State,
        rows: Sequence[Row] = (),
    ) -> None:
        self.rows = list(rows)
        self._folder, self._every, self._run, self._provenance = folder, every, run, provenance
        self._state = state  # the last state whose row is written
        self._kept: State | None = None
        self.close: Callable[[], object] = lambda: None
        if folder:
            # called once: explicitly, or when the object is deleted
            self.close = weakref.finalize(self, os.close, folder.lock())
            # written before the new checkpoint, so that the configuration never has fewer rounds than the checkpoint
            if folder.checkpoint.is_file():
                folder.describe(run["config"])
            self.keep()
            folder.describe(run["config"])
            write_rows(folder.metrics, loss, self.rows)

    def add(self, row: Row, state: State) -> None:
        """Add a row and its state.

        The row is written first, since a resumed run ignores rows that are later than its checkpoint.
        """
        if self._folder:
            append_row(self._folder.metrics, row)
        self.rows.append(row)
        self._state = state
        if state.rounds % self._every == 0:
            self.keep()

    def keep(self) -> None:
        """Write the last state, unless it is written already."""
        if self._folder and self._state is not self._kept:
            run = self._run | {ROWS: rows_digest(self.rows)}
            Checkpoint(self._state, run, self._provenance).save(self._folder.checkpoint)
            self._kept = self._state


OBJECTS = "method", "data", "model"  # arguments for which the caller may give an object in place of a name
Progress = Callable[[Row, int], None]  # called with every new row and the number of all rounds


@dataclass(frozen=True, eq=False)
class Run:
    """A run that is completed, or completed up to a number of rounds.

    Args:
        config: all settings.
        federation: the parts of the run.
        state: the state after the last round.
        rows: the measurements before training and after every round, also of rounds before the run was resumed.
        folder: the folder that keeps the run.
    """

    config: RunConfig
    federation: Federation
    state: State
    rows: tuple[Row, ...]
    folder: Path | None

    @property
    def metrics(self) -> Mapping[str, np.ndarray]:
        """The measurements. Each column is an array (rounds + 1,), and its entry 0 is the value before training."""
        return columns(self.rows)

    @cached_property
    def shortfall(self) -> str | None:
        """The sentence of `ntkfl.training.runs.shortfall` if the run has learned nothing; None if it has learned."""
        return shortfall(self.federation, self.state, self.rows)

    @property
    def model(self) -> Model:
        """The model, a function of its parameters."""
        return self.federation.model

    @property
    def params(self) -> Params:
        """The parameters of the global model after the last round."""
        return self.state.model


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that is checked and not yet trained. Its folder is locked until the end of training."""

    config: RunConfig
    federation: Federation
    start: State
    record: RunRecord
    folder: Path | None

    def train(self, progress: Progress | None = None) -> Run:
        """Train the remaining rounds. If training is stopped, the last completed round is stored.

        Raises:
            FloatingPointError: the model is no longer finite. KeyboardInterrupt: Ctrl-C.
        """
        state, config = self.start, self.config
        try:
            if not self.record.rows:
                self.record.add(measured(self.federation, state, config.train_loss), state)
            while state.rounds < config.rounds:
                interruption.check()
                begun = time.perf_counter()
                result = self.federation.round(state, keep_ends=config.client_accuracy)
                seconds = time.perf_counter() - begun
                state = result.state
                self.record.add(measured(self.federation, state, config.train_loss, result, seconds), state)
                if progress:
                    progress(self.record.rows[-1], config.rounds)
        finally:
            try:
                self.record.keep()
            finally:
                self.record.close()
        done = Run(config, self.federation, state, tuple(self.record.rows), self.folder)
        if self.folder:
            (self.folder / OUTCOME).write_text(f"{done.shortfall or TRAINED}\n", encoding="utf-8")
        return done


def run(
    method: str | Method | None = None,
    data: str | FederatedData | None = None,
    model: str | Model | None = None,
    *,
    progress: Progress | None = None,
    **keys: Any,
) -> Run:
    """Train, and measure after every round: `prepared` and then `PreparedRun.train`.

    Args:
        method: a name, or a `Method` of yours; default: fedavg, or the method of the resumed run.
        data: a name, or `FederatedData` of yours; default: digits, or the data of the resumed run.
        model: a name, or a `Model` of yours; default: a model that suits the data, or the model of the resumed run.
        progress: called with every new row and the number of all rounds; default: nothing is called.
        keys: out, resume and checkpoint_every of `prepared`, and the other keys of `RunConfig`; `rate` is the step size
            on the batch's mean loss, unless `reduction` is "sum" (docs/glossary.md#steps).
    """
    return prepared(method, data, model, **keys).train(progress)


def prepared(
    method: str | Method | None = None,
    data: str | FederatedData | None = None,
    model: str | Model | None = None,
    *,
    out: str | os.PathLike | None = None,
    resume: bool = False,
    checkpoint_every: int = 1,
    **keys: Any,
) -> PreparedRun:
    """A run that is checked and ready for its first round.

    Raises:
        ValueError, OSError: the settings are impossible, or the folder has another run or other files.
    """
    require_size("checkpoint_every", checkpoint_every)
    if resume and out is None:
        raise ValueError("resume is for a run that was kept; name its folder with out")
    named: dict[str, Any] = {"method": method, "data": data, "model": model}
    objects = {name: thing for name, thing in named.items() if not isinstance(thing, str | None)}
    given = named | {name: f"<{thing.name}>" for name, thing in objects.items()} | keys
    folder = None if out is None else RunFolder(Path(out))
    stored = folder.load() if folder and resume else None
    if stored and folder:
        given = _edited(folder, stored) | {key: value for key, value in given.items() if value is not None}
    config = checked(given) if stored is None else _resumed(stored, given)
    if folder and stored is None:
        folder.require_free(config.model_dump())
    require_objects(config, objects)
    if config.ima and config.ima_start > config.rounds:
        warnings.warn(
            f"ima_start is {config.ima_start}, after the last of {config.rounds} rounds: no model is averaged until "
            "the run is resumed with more",
            stacklevel=2,
        )
    brought = _brought(config, objects, stored)
    federation = assembled(config, **objects)
    start, rows = (federation.start(), []) if stored is None or folder is None else kept(folder, stored, federation)
    identity, made = {"config": config.model_dump(), "data": data_digest(federation.data)}, _provenance(config)
    identity |= brought
    if stored and folder and stored.provenance["versions"] != made["versions"]:
        warnings.warn(
            f"the run in {folder.path} was begun with other versions; it may differ from an unstopped run", stacklevel=2
        )
    require_round(federation, start)
    record = RunRecord(folder, checkpoint_every, identity, made, loss_unit(federation.data), start, rows)
    return PreparedRun(config, federation, start, record, folder.path if folder else None)


def load_run(
    folder: str | os.PathLike,
    method: Method | None = None,
    data: FederatedData | None = None,
    model: Model | None = None,
) -> Run:
    """The run in a folder, after its last stored round. Nothing is trained and nothing is written.

    Args:
        folder: the folder that keeps the run.
        method: the method, if it was an object of yours, since a folder stores only its name; default: the method that
            the run named.
        data: the data, if they were an object of yours; default: the data that the run named.
        model: the model, if it was an object of yours; default: the model that the run named.

    Raises:
        FileNotFoundError: the folder has no run.
        ValueError: the run is damaged, or its metrics were altered; an object of yours is not given; the data, or the
            file of the method or the model, have changed since.
    """
    there = RunFolder(Path(folder))
    stored = there.load()
    config = checked(stored.run["config"])
    given = {"method": method, "data": data, "model": model}
    objects = {name: thing for name, thing in given.items() if thing is not None}
    require_objects(config, objects)
    _brought(config, objects, stored)  # called because it refuses files that have changed
    federation = assembled(config, method, data, model)
    state, rows = kept(there, stored, federation)
    return Run(config, federation, state, tuple(rows), there.path)


def kept(folder: RunFolder, stored: Checkpoint, federation: Federation) -> tuple[State, list[Row]]:
    """The state after the last round stored in a folder, on the federation's device, and the rows up to that round.

    Raises:
        ValueError: the data have changed since, the checkpoint is of another model, or the rows were altered.
    """
    if stored.run["data"] != data_digest(federation.data):
        raise ValueError(f"{federation.data.name} has changed since the run in {folder.path} was begun")
    state = restored(stored.state, federation.start())
    if not state.rounds:  # the run may have been stopped before it wrote its metrics
        return state, []
    rows = read_rows(folder.metrics, loss_unit(federation.data), state.rounds)
    # a checkpoint of an older version of this package has no digest of rows
    if stored.run.get(ROWS) not in (None, rows_digest(rows)):
        raise ValueError(
            f"{folder.metrics} was altered: its rows up to round {len(rows) - 1} are not those that were written "
            "beside the checkpoint; put it back, or begin another run"
        )
    return state, rows


def require_objects(config: RunConfig, objects: Mapping[str, Any]) -> None:
    """Refuse a configuration that has the name of a user's object, if the object itself is not given.

    Raises:
        ValueError: an object is missing.
    """
    for name in OBJECTS:
        if name not in objects and getattr(config, name).startswith("<"):
            raise ValueError(f"the {name} of this run, {getattr(config, name)}, was an object; give it again")


def _edited(folder: RunFolder, stored: Checkpoint) -> dict[str, Any]:
    """The new number of rounds, if it was edited in the folder's config.toml. No other key may be edited.

    Raises:
        ValueError: another key was changed, added or removed, or the file is no TOML.
    """
    file = folder.path / CONFIG
    if not file.is_file():
        return {}
    there, written = read_toml(file), tomllib.loads(as_toml(stored.run["config"]))
    checked(there, where=f"{file}: ")
    if key := differing(written, there):
        raise ValueError(
            f"{file}: {key} is {there.get(key, 'left out')!r}, and {written.get(key, 'nothing')!r} in the run that is "
            "resumed; only rounds may change: put it back, or begin another run in another folder"
        )
    return {} if there.get("rounds") == written["rounds"] else {"rounds": there["rounds"]}


def _resumed(stored: Checkpoint, given: Mapping[str, Any]) -> RunConfig:
    """The stored configuration with the given number of rounds.

    Raises:
        ValueError: another key differs, or more rounds are done than the given number.
    """
    before, done = checked(stored.run["config"]).model_dump(), stored.state.rounds
    # these keys may differ, since the samples themselves are compared
    moved = {"path", "data"} if is_data_file(before["data"]) else {"path"}
    config = checked(before | {key: value for key, value in given.items() if value is not None})
    before |= {key: getattr(config, key) for key in moved if before[key] is not None}
    if key := differing(before, config.model_dump()):
        here = getattr(config, key)
        raise ValueError(f"{key} is {here!r}, and {before[key]!r} in the run that is resumed; only rounds may change")
    if config.rounds < done:
        raise ValueError(f"rounds is {config.rounds}, and {done} are done; give at least as many")
    return config


def _brought(config: RunConfig, objects: Mapping[str, Any], stored: Checkpoint | None) -> dict[str, Mapping[str, str]]:
    """The files or packages from which the method and the model come, to be stored with the run.

    Raises:
        ValueError: a file is missing, or differs from the file of the resumed run; such a file is not executed.
    """
    kept: dict[str, Mapping[str, str]] = {}
    for kind, spec, brought_by in (("method", config.method, method_from), ("model", config.model, model_from)):
        before = {} if stored is None else stored.run.get(kind, {})
        if kind in objects:
            continue
        if "file" in before and extensions.digest(file := spec.partition(":")[0]) != before["sha256"]:
            raise ValueError(
                f"{file} has changed since the run was begun with it (its SHA-256 was {before['sha256'][:12]}...); a "
                f"run goes on with the {kind} it was begun with: restore the file, or begin another run"
            )
        if brought := brought_by(spec):
            kept[kind] = dict(brought)
    return kept


def data_digest(data: FederatedData) -> str:
    """A digest of the samples, labels and owners. A run is resumed only on data with the same digest."""
    owner = torch.as_tensor(data.owner)
    tensors = {"x": data.x, "y": data.y, "owner": owner, "x_test": data.x_test, "y_test": data.y_test}
    return tensors_digest({name: tensor for name, tensor in tensors.items() if tensor is not None})


def _provenance(config: RunConfig) -> dict[str, Any]:
    """The provenance of a run: versions, device, dtype."""
    made = provenance(run=config.seed)
    made["versions"] |= {name: package_version(name) for name in ("torch", "safetensors")}
    return made | {"dtype": config.dtype, "device": device_name(torch_device(config.device))}
