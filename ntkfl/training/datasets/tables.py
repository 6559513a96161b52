"""A user's own .npz or .csv file, as `ntkfl.data.load` reads it, for training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ntkfl.partition import CLASS_LIMIT
from ntkfl.problem import Problem
from ntkfl.training.datasets.samples import Samples
from ntkfl.user_files import read_arrays


def table(path: Path) -> Samples:
    """The rows of a file; labels that are 0..C-1 (all of them present), +-1 or one-hot are classes, others real.

    Raises:
        FileNotFoundError: no such file.
        ValueError: contents that are not as `ntkfl.data.load` describes.
    """
    arrays: dict[str, Any] = read_arrays(path)
    try:
        problem = Problem(**arrays)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    labels = [problem.y] if problem.y_test is None else [problem.y, problem.y_test]
    found = _classes(np.concatenate(labels))
    classes = None
    if found is not None:
        labels, classes = np.split(found, [len(problem.y)])[: len(labels)], int(found.max()) + 1
    y, y_test = labels[0], labels[1] if len(labels) > 1 else None
    return Samples("rows", problem.x, y, problem.x_test, y_test, classes, problem.owner if "owner" in arrays else None)


def _classes(y: np.ndarray) -> np.ndarray | None:
    """The labels as classes, or None if they are not."""
    if y.ndim == 2:
        hot = ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()
        return y.argmax(axis=1) if hot else None
    values = np.unique(y)
    if np.array_equal(values, [-1, 1]):
        return (y > 0).astype(int)
    if 2 <= len(values) <= CLASS_LIMIT and np.array_equal(values, np.arange(len(values))):
        return y.astype(int)
    return None
