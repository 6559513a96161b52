"""A user's own .npz or .csv file, as `ntkfl.data.load` reads it, for training."""

from pathlib import Path
from typing import Any

import numpy as np

from ntkfl.data.user_files import read_arrays
from ntkfl.partition import CLASS_LIMIT
from ntkfl.problem import Problem
from ntkfl.training.datasets.samples import Samples


def table(path: Path, target: str | None = None) -> Samples:
    """The rows of a file; labels that are 0..C-1 (all present), +-1 or one-hot are classes, other labels real.

    With the target "real" labels are unchanged; any other target makes classes of whole numbers, in ascending order.

    Raises:
        FileNotFoundError: no such file.
        ValueError: contents that are not as `ntkfl.data.load` describes; whole numbers that may be classes (1..C) or
            quantities, without a target that says which.
    """
    arrays: dict[str, Any] = read_arrays(path)
    try:
        problem = Problem(**arrays).one_axis()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    labels = [problem.y] if problem.y_test is None else [problem.y, problem.y_test]
    numbered = None if target == "real" else _classes(np.concatenate(labels), str(path), named=target is not None)
    classes = None
    if numbered is not None:
        labels, classes = np.split(numbered, [len(problem.y)])[: len(labels)], int(numbered.max()) + 1
    y, y_test = labels[0], labels[1] if len(labels) > 1 else None
    return Samples("rows", problem.x, y, problem.x_test, y_test, classes, problem.owner if "owner" in arrays else None)


def _classes(y: np.ndarray, name: str, named: bool) -> np.ndarray | None:
    """The labels as classes, or None if they are not classes; `named`: whether the user's target is classes."""
    if y.ndim == 2:
        hot = ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()
        return y.argmax(axis=1) if hot else None
    values, places = np.unique(y, return_inverse=True)
    if np.array_equal(values, [-1, 1]):
        return (y > 0).astype(int)
    numbered = len(values) >= 2 and np.array_equal(values, np.arange(len(values)))
    if numbered and (named or len(values) <= CLASS_LIMIT):
        return y.astype(int)
    if not (2 <= len(values) < len(y) and (values == np.rint(values)).all()):
        return None
    if not named:
        few = ", ".join(f"{value:g}" for value in values[:3])
        raise ValueError(
            f"{name}: the {len(values)} labels {few}{', ...' * (len(values) > 3)} may be classes or quantities; say "
            "target 'classes' or 'real'"
        )
    return places
