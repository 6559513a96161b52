"""A data set before anything is drawn, scaled or split."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True, eq=False)
class OnDemand:
    """Inputs that are computed one by one, whenever rows are indexed."""

    count: int  # number of inputs
    # shape, dtype: the shape and the dtype of one input
    shape: tuple[int, ...]
    dtype: Any
    one: Callable[[int], Any]  # number of an input -> the input

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> np.ndarray:
        chosen = np.arange(self.count)[index]
        rows = np.empty((len(chosen), *self.shape), self.dtype)
        for place, number in enumerate(chosen):
            rows[place] = self.one(number)
        return rows


Rows = np.ndarray | OnDemand  # inputs in memory, or computed on demand


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs with labels, and the test set if one is published."""

    # the kind of inputs: "images" (n, channels, height, width), "tokens" (n, t) as integers, padded with 0, or "rows"
    # of real numbers (n, d)
    kind: Literal["images", "tokens", "rows"]
    # x, y: inputs and labels; labels are integers 0..classes-1, or real numbers (n,) or (n, C)
    x: Rows
    y: np.ndarray
    # x_test, y_test: the published test set; if it is None, test samples are drawn from x and y
    x_test: Rows | None = None
    y_test: np.ndarray | None = None
    classes: int | None = None  # number of classes; None for real labels
    owner: np.ndarray | None = None  # the client of each sample, if the data have clients
    peak: float = 255.0  # the largest value a pixel can have
    signed: bool = False  # whether pixels are scaled to [-1, 1] and not to [0, 1]


Reader = Callable[[Path | None, int | None], Samples]  # (the user's path or None, the given size or None) -> samples


def folder_of(name: str, path: Path | None, inner: str, files: tuple[str, ...], advice: str) -> Path:
    """The folder with all `files`: the folder `inner` of the user's folder if there is one, else the user's folder.

    Raises:
        FileNotFoundError: no path is given, or a file is missing; the message names the first missing file and ends
            with `advice`.
    """
    if path is None:
        raise FileNotFoundError(f"{name} needs path=FOLDER, the folder of its files: {advice}")
    folder = path / inner if (path / inner).is_dir() else path
    for file in files:
        if not (folder / file).exists():
            raise FileNotFoundError(f"{name}: there is no {file} in {folder}; {advice}")
    return folder


def check_labels(where: Path, labels: np.ndarray, classes: int) -> None:
    """Refuse labels that are not classes.

    Raises:
        ValueError: a label is `classes` or more.
    """
    if labels.max() >= classes:
        at = int(labels.argmax())
        raise ValueError(f"{where}: sample {at} has the label {labels[at]}; the classes are 0 to {classes - 1}")
