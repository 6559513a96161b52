"""A run that was kept in a folder, read back: its model, its table and what it was made of."""

import os
from pathlib import Path

from ntkfl.training.config import checked
from ntkfl.training.engine.assembly import federation as assembled
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.model import Model
from ntkfl.training.run_folder import RunFolder
from ntkfl.training.runs.training_run import Run, kept, method_file, require_objects


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
    there = RunFolder(Path(folder))
    stored = there.load()
    config = checked(stored.run["config"])
    given = {"method": method, "data": data, "model": model}
    require_objects(config, {name: thing for name, thing in given.items() if thing is not None})
    if method is None:
        method_file(config.method, stored)  # refuses one that has changed
    federation = assembled(config, method, data, model)
    state, rows = kept(there, stored, federation)
    return Run(config, federation, state, tuple(rows), there.path)
