"""Barriers between networks of any depth on a grid of points of the segment: lower bounds of the exact barriers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ntkfl.training.tree import Params, tree_map

Scores = Callable[[Params], tuple[Tensor, Tensor]]  # stacked models -> mean losses and accuracies, each (rows,)
POINTS = 21


@dataclass(frozen=True, eq=False)
class Segments:
    """Losses and accuracies on segments, each (points, rows); the first and the last point are the ends."""

    losses: Tensor
    accuracies: Tensor

    def loss_barriers(self) -> Tensor:
        """sup over the grid of L(alpha w_1 + (1 - alpha) w_2) - alpha L_1 - (1 - alpha) L_2, (rows,); at least 0."""
        return (self.losses - _line(self.losses)).amax(0)

    def accuracy_barriers(self) -> Tensor:
        """sup over the grid of 1 - A(alpha w_1 + (1 - alpha) w_2) / (alpha A_1 + (1 - alpha) A_2), (rows,); at least 0.

        If both ends classify nothing correctly, the ratio is undefined, and NaN.
        """
        return (1 - self.accuracies / _line(self.accuracies)).amax(0)


def segments(scores: Scores, first: Params, second: Params, points: int = POINTS) -> Segments:
    """The segments from each row of `first` to the same row of `second`, or to `second` if it is a single model.

    Source: FedGuCci, Definition 2.1 and Table 1.
    """
    curves = [
        scores(tree_map(lambda a, b, t=t: (1 - t) * a + t * b, first, second))
        for t in torch.linspace(0, 1, points, dtype=torch.float64).tolist()
    ]
    losses, accuracies = (torch.stack(parts) for parts in zip(*curves, strict=True))
    return Segments(losses, accuracies)


def group_barriers(scores: Scores, models: Params, size: int) -> Tensor:
    """1 - accuracy of the mean of `size` models / mean of their accuracies, for each of the groups, one after another.

    Raises:
        ValueError: the number of models is not a multiple of `size`.
    Source: FedGuCci, Definition 3.6.
    """
    count = len(next(iter(models.values())))
    if count % size:
        raise ValueError(f"{count} models cannot be split into groups of {size}")
    means = tree_map(lambda w: w.reshape(-1, size, *w.shape[1:]).mean(1), models)
    alone, together = scores(models)[1], scores(means)[1]
    return 1 - together / alone.reshape(-1, size).mean(1)


def _line(values: Tensor) -> Tensor:
    """The straight line between the values at the two ends."""
    t = torch.linspace(0, 1, len(values), dtype=values.dtype)[:, None]
    return (1 - t) * values[0] + t * values[-1]
