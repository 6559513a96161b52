"""Three models of any kind in the plane through them: losses and accuracies there and in their triangle."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ntkfl.connectivity.planes import Plane, plane_grid, plane_through
from ntkfl.training import FederatedData, Model
from ntkfl.training.engine.evaluation import Score, evaluate
from ntkfl.training.tree import Params


@dataclass(frozen=True, eq=False)
class ThreeModels:
    """Three models, one a row of `models`, and the data on whose test samples they are evaluated."""

    model: Model
    data: FederatedData
    models: Params

    def vectors(self) -> np.ndarray:
        """The parameters of each, (3, S)."""
        return torch.cat([rows.reshape(len(rows), -1) for rows in self.models.values()], 1).double().numpy()

    def score(self, vector: np.ndarray) -> Score:
        """Mean loss and accuracy of the model with these parameters."""
        params, place = {}, 0
        for name, rows in self.models.items():
            size = rows[0].numel()
            part = torch.as_tensor(vector[place : place + size]).to(rows.dtype)
            params[name], place = part.reshape(rows.shape[1:]), place + size
        x, y = self.data.x_test, self.data.y_test
        assert x is not None and y is not None  # image sets have test samples

        def outputs(some: Tensor) -> Tensor:
            return self.model.outputs(params, some)

        return evaluate(outputs, x, y)

    def corners(self) -> list[Score]:
        """Of the three."""
        return [self.score(vector) for vector in self.vectors()]

    def centre(self) -> Score:
        """Of their mean."""
        return self.score(self.vectors().mean(0))

    def rise(self, parts: int = 12) -> float:
        """The largest loss in the triangle, on a grid of so many parts a side, less the largest at its corners."""
        vectors = self.vectors()
        largest = max(self.score(weights @ vectors).loss for weights in _triangle(parts))
        return largest - max(corner.loss for corner in self.corners())

    def losses(self, points: int) -> tuple[Plane, np.ndarray, np.ndarray, np.ndarray]:
        """The plane, the coordinates s and t of a grid, and the mean loss at each of its points, (points, points)."""
        plane = plane_through(list(self.vectors()))
        s, t = plane.axes(points)
        return plane, s, t, plane_grid(plane, lambda vector: self.score(vector).loss, s, t)


def _triangle(parts: int) -> Iterator[np.ndarray]:
    """Barycentric coordinates of a regular grid, its corners among them."""
    for i in range(parts + 1):
        for j in range(parts + 1 - i):
            yield np.array([i, j, parts - i - j]) / parts
