"""Barriers between runs of any model, on a grid of the segment; between the grid points they may be higher."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.console.barrier_files import samples_of_run
from experiments.miniatures.grid_barriers import POINTS, Scores, group_barriers, segments
from ntkfl.connectivity.losses import named_loss
from ntkfl.training.runs.training_run import load_run
from ntkfl.training.tree import Params, stacked


def grid_numbers(paths: Sequence[Path], n: int | None, unit: bool, loss: str) -> dict[str, Any]:
    """Barriers of every pair and, for more than two runs, of the group.

    Raises:
        ValueError: runs of different models, or as `samples_of_run`.
    """
    runs = [load_run(path) for path in paths]
    shapes = [{name: tuple(w.shape) for name, w in run.state.model.items()} for run in runs]
    for path, shape in zip(paths, shapes, strict=True):
        if shape != shapes[0]:
            raise ValueError(f"{path} has another model than {paths[0]}; only networks of one shape lie on a segment")
    x, y, name = samples_of_run(paths[0], n, unit, loss)
    scores = _scores(runs[0].model, torch.as_tensor(x), y, loss)
    models = [{name: w.double().cpu() for name, w in run.state.model.items()} for run in runs]
    pairs = {}
    for i, k in combinations(range(len(models)), 2):
        on_segment = segments(scores, stacked([models[i]]), stacked([models[k]]))
        numbers = {"loss": float(on_segment.loss_barriers()[0]), "accuracy": float(on_segment.accuracy_barriers()[0])}
        pairs[f"{paths[i]} - {paths[k]}"] = numbers
    setting = {"data": name, "samples": len(x), "loss": loss, "model": runs[0].model.name, "grid points": POINTS}
    result: dict[str, Any] = setting | {"pairs": pairs}
    if len(models) > 2:
        result["group accuracy barrier"] = float(group_barriers(scores, stacked(models), len(models))[0])
    return result


def _scores(model: Any, x: Tensor, y: np.ndarray, loss: str) -> Scores:
    classes = y if y.ndim == 1 else y.argmax(axis=1)

    def scores(models: Params) -> tuple[Tensor, Tensor]:
        losses, accuracies = [], []
        for row in range(len(next(iter(models.values())))):
            with torch.no_grad():
                outputs = model.outputs({name: weights[row] for name, weights in models.items()}, x).numpy()
            chosen = outputs.argmax(axis=1) if outputs.ndim > 1 else np.sign(outputs)
            losses.append(float(named_loss(loss).value(outputs, y).mean()))
            accuracies.append(float((chosen == classes).mean()))
        return torch.tensor(losses, dtype=torch.float64), torch.tensor(accuracies, dtype=torch.float64)

    return scores
