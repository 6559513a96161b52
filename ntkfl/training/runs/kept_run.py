"""A run that was kept in a folder, read back: its model, its table and what it was made of."""

from __future__ import annotations

import os
from pathlib import Path

from ntkfl.training.checkpoint import restored
from ntkfl.training.config import checked
from ntkfl.training.engine.assembly import federation as assembled
from ntkfl.training.engine.measurement import loss_unit
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.metrics import Row, read_rows, require_unaltered
from ntkfl.training.model import Model
from ntkfl.training.run_folder import RunFolder
from ntkfl.training.runs.training_run import Run, data_digest, method_file, require_objects


def load_run(
    folder: str | os.PathLike,
    method: Method | None = None,
    data: FederatedData | None = None,
    model: Model | None = None,
) -> Run:
    """The run in a folder as it was after the last round that was kept; nothing is trained, nothing is written.

    Args:
        folder: where the run was kept.
        method, data, model: those of its parts that were objects of yours, of which a folder keeps the name only.

    Raises:
        FileNotFoundError: the folder has no run.
        ValueError: a damaged run, or altered metrics; an object that is not given; data or a method's file that have
            changed since.
    """
    kept = RunFolder(Path(folder))
    stored = kept.load()
    config = checked(stored.run["config"])
    given = {"method": method, "data": data, "model": model}
    require_objects(config, {name: thing for name, thing in given.items() if thing is not None})
    if method is None:
        method_file(config.method, stored)  # refuses one that has changed
    federation = assembled(config, method, data, model)
    if stored.run["data"] != data_digest(federation.data):
        raise ValueError(f"{federation.data.name} has changed since the run in {kept.path} was begun")
    state = restored(stored.state, federation.start())
    rows: list[Row] = []
    if state.rounds:  # else it may have been stopped before there was a table
        rows = read_rows(kept.metrics, loss_unit(federation.data), state.rounds)
        require_unaltered(rows, stored.run, kept.metrics)
    return Run(config, federation, state, tuple(rows), kept.path)
