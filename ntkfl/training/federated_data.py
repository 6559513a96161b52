"""Data on which federated models are trained: inputs of any shape, split over clients, with a test set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ntkfl.problem import Problem, number_array


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Samples, the client that owns each, and test samples.

    Args:
        x: inputs (n, ...), finite.
        y: classes (n,) as integers 0..C-1, or real labels (n,) or (n, C).
        owner: client of each sample, (n,) integers in 0..clients-1. A client without samples takes no step.
        x_test: test inputs, shaped as `x`; None: no test set.
        y_test: labels of the test inputs, as `y`; None: no test set.
        classes: the number of classes C; None for real labels.
        name: the name of the data in reports.

    Raises:
        ValueError: fields that do not fit; the message says what is wrong, the value found and what would be right.
    """

    x: Tensor
    y: Tensor
    owner: np.ndarray
    clients: int
    x_test: Tensor | None = None
    y_test: Tensor | None = None
    classes: int | None = None
    name: str = "data"

    def __post_init__(self) -> None:
        for name in ("x", "y", "x_test", "y_test"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, Tensor) or given.is_complex()):
                kind = f"complex ({given.dtype})" if isinstance(given, Tensor) else f"a {type(given).__name__}"
                raise ValueError(f"{name} is {kind}; it must be a torch tensor of real numbers")
        if len(self.x) != len(self.y) or not len(self.x):
            raise ValueError(
                f"there are {len(self.x)} inputs and {len(self.y)} labels; one label per input, at least 1"
            )
        owner = number_array("owner", self.owner)
        if owner.shape != (len(self.x),) or owner.dtype.kind not in "iu":
            raise ValueError(
                f"owner has shape {owner.shape}, dtype {owner.dtype}; it must be ({len(self.x)},) integers"
            )
        if owner.min() < 0 or owner.max() >= self.clients:
            raise ValueError(f"owner names client {owner.max()} or {owner.min()}; clients are 0..{self.clients - 1}")
        if (self.x_test is None) != (self.y_test is None):
            raise ValueError("only one of x_test and y_test is given; give both or neither")
        for part, x, y in (("", self.x, self.y), ("_test", self.x_test, self.y_test)):
            if x is None or y is None:
                continue
            if x.shape[1:] != self.x.shape[1:]:
                raise ValueError(
                    f"test inputs have shape {tuple(x.shape[1:])}, training ones {tuple(self.x.shape[1:])}"
                )
            if not torch.isfinite(x).all():
                raise ValueError(f"x{part} contains NaN or infinity; every entry must be finite")
            if self.classes is None:
                if not y.is_floating_point() or not torch.isfinite(y).all():
                    raise ValueError(f"y{part} must be finite real numbers; classes=C makes them classes")
            elif y.is_floating_point() or y.ndim != 1 or y.min() < 0 or y.max() >= self.classes:
                raise ValueError(f"y{part} must be integers 0..{self.classes - 1}, shape (n,)")
        object.__setattr__(self, "owner", owner)

    @classmethod
    def from_problem(cls, problem: Problem, dtype: torch.dtype = torch.float64, classes: bool = False) -> FederatedData:
        """The samples and clients of a `Problem`; with `classes`, one-hot or +-1 labels become integers.

        Args:
            problem: samples, labels and owners.
            dtype: dtype of the inputs, and of labels that stay real; default float64.
            classes: whether labels become classes: one-hot labels (n, C) become 0..C-1, and labels ±1, (n,) or (n, 1),
                become 0 and 1. Default: no.

        Example:
            >>> import torch
            >>> from ntkfl.data import sphere
            >>> from ntkfl.training import FederatedData
            >>> FederatedData.from_problem(sphere(), dtype=torch.float64).x.shape
            torch.Size([8, 8])
        """
        problem = problem.one_axis() if classes else problem
        labels = [problem.y, problem.y_test]
        count = None
        if classes:
            several = problem.y.ndim == 2
            count = problem.y.shape[1] if several else 2
            labels = [None if y is None else (y.argmax(axis=1) if several else (y > 0).astype(int)) for y in labels]

        def tensor(array: np.ndarray | None, kind: torch.dtype) -> Any:
            return None if array is None else torch.tensor(array, dtype=kind)

        x, x_test = (tensor(array, dtype) for array in (problem.x, problem.x_test))
        y, y_test = (tensor(array, torch.int64 if classes else dtype) for array in labels)
        return cls(x, y, problem.owner, problem.n_clients, x_test, y_test, count, problem.name)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FederatedData:
        """The same data on a device, with inputs and real labels converted to the given dtype.

        Args:
            device: a device of torch, such as "cpu" or "cuda:0".
            dtype: the torch dtype of inputs and real labels.
        """

        def moved(tensor: Tensor | None) -> Any:
            if tensor is None:
                return None
            return tensor.to(device, dtype if tensor.is_floating_point() else None)

        return replace(self, **{name: moved(getattr(self, name)) for name in ("x", "y", "x_test", "y_test")})

    def members(self) -> list[np.ndarray]:
        """For each client the indices of its samples, (n_c,), ascending."""
        order = np.argsort(self.owner, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.owner, minlength=self.clients))[:-1])

    def class_counts(self) -> np.ndarray:
        """The number of samples of each class that each client has, (clients, C); (clients, 0) for real labels."""
        counts = np.zeros((self.clients, self.classes or 0))
        if self.classes:
            np.add.at(counts, (self.owner, self.y.cpu().numpy()), 1)
        return counts
