"""Barriers between networks of any depth, computed on a grid of points of the segment between the networks.

Barriers on a grid are lower bounds of the exact barriers. w_1 and w_2 are two models, L_1 and L_2 their losses, A_1 and
A_2 their accuracies, and L(w) and A(w) are the loss and the accuracy of a model w between them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ntkfl.training.tree import Params, tree_map

# from stacked models to their mean losses and accuracies, each (rows,)
Scores = Callable[[Params], tuple[Tensor, Tensor]]
POINTS = 21


@dataclass(frozen=True, eq=False)
class Segments:
    """Losses and accuracies on segments between models, each (points, rows).

    The first and the last point are the two models.
    """

    losses: Tensor
    accuracies: Tensor

    def loss_barriers(self) -> Tensor:
        """The largest L(alpha w_1 + (1 - alpha) w_2) - alpha L_1 - (1 - alpha) L_2 on the grid, (rows,), at least 0."""
        return (self.losses - _line(self.losses)).amax(0)

    def accuracy_barriers(self) -> Tensor:
        """The largest 1 - A(alpha w_1 + (1 - alpha) w_2) / (alpha A_1 + (1 - alpha) A_2) on the grid, (rows,).

        The barrier is at least 0. If both models classify nothing correctly, the ratio is undefined, and the result is
        NaN.
        """
        return (1 - self.accuracies / _line(self.accuracies)).amax(0)


def segments(scores: Scores, first: Params, second: Params, points: int = POINTS) -> Segments:
    """Losses and accuracies on the segments from each model in `first` to the same row of `second`.

    `second` may also be a single model, at which all segments end.

    Source: FedGuCci, Definition 2.1 and Table 1.
    """
    curves = [
        scores(tree_map(lambda a, b, t=t: (1 - t) * a + t * b, first, second))
        for t in torch.linspace(0, 1, points, dtype=torch.float64).tolist()
    ]
    losses, accuracies = (torch.stack(parts) for parts in zip(*curves, strict=True))
    return Segments(losses, accuracies)


def group_barriers(scores: Scores, models: Params, size: int) -> Tensor:
    """The accuracy barriers of groups of `size` consecutive models, (groups,).

    The barrier of a group is 1 - a / b. Here a is the accuracy of the mean model, and b is the mean of the accuracies
    of the models.

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
    """The values on the straight line between the first and the last value."""
    t = torch.linspace(0, 1, len(values), dtype=values.dtype)[:, None]
    return (1 - t) * values[0] + t * values[-1]
