"""The cells of a miniature, that is, its runs: one for each setting and seed.

A cell is run, or read from the file of an earlier run.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from experiments.miniatures.miniature import Keys, Miniature, Setting
from experiments.studies.running.cell_store import write_json
from ntkfl import interruption

# called with the last finished cell, the number of finished cells, and the number of all cells
Progress = Callable[["Cell", int, int], None]


@dataclass(frozen=True)
class Cell:
    """The results of one setting with one seed.

    Args:
        keys: the names with plain values (`Keys`) that say what was run.
        numbers: the quantities by name; empty if training failed, in which case `failure` gives the reason.
        curves: the quantities that are measured in every round, a value for each round.
        seconds: processor time of the process that completed the cell.
    """

    miniature: str
    setting: str
    seed: int
    keys: Keys
    numbers: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    seconds: float = 0.0
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)


def run(
    miniature: Miniature,
    seeds: Sequence[int],
    out: Path | None = None,
    quick: bool = False,
    progress: Progress | None = None,
    where: Keys | None = None,
) -> list[Cell]:
    """Run or read all cells, seed by seed, and return them.

    Args:
        miniature: the miniature whose settings are run.
        seeds: every setting is run with each seed.
        out: a folder with a complete file for each finished cell, which is then not run again; default no folder. A
            miniature that stores rounds continues an unfinished cell after the last round that was stored for the cell.
        quick: whether the miniature's keys for a quick trial replace those of a setting.
        progress: a function that is called with each finished cell; default None.
        where: more keys, such as the `device` that trains or the `path` of the data; default none.

    Raises:
        ValueError: a file in `out` has other keys, or is not a cell's. OSError: `out` cannot be written.
    """
    planned = [planned_cell(miniature, setting, seed, quick, where) for seed in seeds for setting in miniature.settings]
    kept = [None if out is None else _kept(out, cell) for cell in planned]  # all files are read before any cell is run
    done = []
    for cell, there in zip(planned, kept, strict=True):
        interruption.check()
        if there is None:
            there = _measured(miniature, cell, out)
            if out is not None:
                write_json(path_of(out, there), asdict(there))
        done.append(there)
        if progress:
            progress(there, len(done), len(planned))
    return done


def planned_cell(
    miniature: Miniature, setting: Setting, seed: int, quick: bool = False, where: Keys | None = None
) -> Cell:
    """The cell of a setting and a seed, before it is run.

    Args:
        miniature: the cell's miniature.
        setting: a setting of the miniature.
        seed: seed of the run.
        quick: whether the miniature's keys for a quick trial are used.
        where: more keys, about the machine; default none.
    """
    keys = {**setting.keys, **(miniature.quick if quick else {}), **(where or {})}
    return Cell(miniature.label, setting.name, seed, keys)


def path_of(out: Path, cell: Cell) -> Path:
    """The path of a cell's file.

    Args:
        out: folder of the cells.
        cell: the cell of one setting and one seed.
    """
    return out / cell.miniature / f"{slug(cell.setting)}.{cell.seed}.json"


def slug(name: str) -> str:
    """The name in a form that can be part of a file's name.

    Args:
        name: name of a setting or a miniature.
    """
    return re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")


def _measured(miniature: Miniature, cell: Cell, out: Path | None) -> Cell:
    begun = time.process_time()
    keys = dict(cell.keys)
    if out is not None and miniature.keeps_rounds:
        keys["keep"] = str(out / miniature.label / "runs")
    try:
        measured = dict(miniature.measure(keys, cell.seed))
    except FloatingPointError as error:  # divergence of a setting is a result too
        return replace(cell, failure=str(error), seconds=time.process_time() - begun)
    wanted = {quantity.name: quantity for quantity in miniature.quantities}
    if sorted(measured) != sorted(wanted):
        raise KeyError(f"{miniature.name} measured {sorted(measured)}; its quantities are {sorted(wanted)}")
    values = {name: np.asarray(value, float) for name, value in measured.items()}
    curves = {name: value.tolist() for name, value in values.items() if value.ndim}
    numbers = {
        name: float(value[-wanted[name].last :].mean() if value.ndim else value) for name, value in values.items()
    }
    return replace(cell, numbers=numbers, curves=curves, seconds=time.process_time() - begun)


def _kept(out: Path, cell: Cell) -> Cell | None:
    path = path_of(out, cell)
    if not path.is_file():
        return None
    try:
        there = Cell(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no cell of a miniature: {error}") from error
    keys = json.loads(json.dumps(dict(cell.keys)))  # the keys as JSON returns them, with lists in place of tuples
    for key in {**there.keys, **keys}:
        value_there, wanted = there.keys.get(key), keys.get(key)
        if value_there != wanted and key != "path":  # the data may have been moved
            raise ValueError(
                f"{path} is of another run: {key} is {value_there!r} there and {wanted!r} here; name a new folder"
            )
    return there
