"""A trajectory as one .npz file, with an array for each field and the provenance as JSON; nothing is pickled."""

import io
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ntkfl.trajectory import Trajectory

WEIGHTS = "weights_at_round_"


def as_npz(trajectory: Trajectory) -> bytes:
    """The content of the file: every field that is not None, under the field's name.

    The weights u(t) are stored as `weights_at_round_t`. If parameters have names, the parameter NAME is stored as
    `weights_at_round_t/NAME`.

    Args:
        trajectory: a run.
    """
    values: dict[str, Any] = {field.name: getattr(trajectory, field.name) for field in fields(trajectory)}
    weights, provenance = values.pop("weights"), values.pop("provenance")
    arrays = {name: np.asarray(value) for name, value in values.items() if value is not None}
    for round_, kept in weights.items():
        named = {f"/{name}": value for name, value in kept.items()} if isinstance(kept, Mapping) else {"": kept}
        arrays |= {f"{WEIGHTS}{round_}{name}": value for name, value in named.items()}
    arrays["provenance"] = np.array(json.dumps(provenance))
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read_npz(path: Path) -> Trajectory:
    """The trajectory in a file.

    Args:
        path: the file.

    Raises:
        OSError: no such file. ValueError: the file is no trajectory.
    """
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                values: dict[str, Any] = {name: archive[name] for name in archive.files}
            values["provenance"] = json.loads(str(values["provenance"]))
            values["n_clients"] = int(values["n_clients"])
            weights: dict[int, Any] = {}
            for key in [key for key in values if key.startswith(WEIGHTS)]:
                round_, _, name = key.removeprefix(WEIGHTS).partition("/")
                if name:
                    weights.setdefault(int(round_), {})[name] = values.pop(key)
                else:
                    weights[int(round_)] = values.pop(key)
            values["weights"] = weights
            return Trajectory(**values)
        except (ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
            raise ValueError(f"{path} is no trajectory as `ntkfl simulate --out` writes it: {error}") from error
