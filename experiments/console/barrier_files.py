"""The networks that `ntkfl barrier` compares, read from files or runs, and the data on which they are compared.

The exact barrier needs two-layer ReLU networks. For runs of other models the loss is computed on a grid of points of
the segment; between these points it may be higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ntkfl.connectivity.losses import named_loss

if TYPE_CHECKING:  # PyTorch is imported where it is used, since networks in files are compared without PyTorch
    from torch import Tensor

    from experiments.miniatures.grid_barriers import Scores
    from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
    from ntkfl.training.tree import Params


CLASSES = 10  # number of classes of the built-in images
CROSS_ENTROPY, DEFAULT_DATA = "cross-entropy", "digits"
# models of `ntkfl train` that may be two-layer ReLU networks, as exact barriers need
EXACT_MODELS = ("two-layer", "mlp")


@dataclass(frozen=True)
class Compared:
    """Two-layer networks, samples (n, l), and the labels of the samples.

    If `constant` is true, the samples have a last feature that is always 1, which stands for the biases. If `unit` is
    true, the last hidden unit stands for the bias of the output.
    """

    networks: Sequence[TwoLayer]
    x: np.ndarray
    y: np.ndarray
    data: str
    constant: bool
    unit: bool


def compared(
    paths: Sequence[Path], spec: str | None, n: int | None, unit: bool, seed: int, loss: str
) -> Compared | None:
    """The networks and their data, or None if all paths are runs of models other than two-layer ReLU networks.

    Without `n` all samples are taken. `unit` divides rows by their norms. The loss is "squared", "logistic" or
    "cross-entropy".

    Raises:
        ValueError, OSError: files cannot be read, or only some of them are two-layer ReLU networks.
    """
    from ntkfl.connectivity.network import check_shapes, checked_inputs, with_constant, without_biases

    if n is not None and n < 1:
        raise ValueError(f"n is {n}; it must be a positive integer")
    read_from = [_network(path) for path in paths]
    others = [path for path, network in zip(paths, read_from, strict=True) if network is None]
    if len(others) == len(paths):
        return None
    if others:
        raise ValueError(
            f"{others[0]} is no run of a two-layer ReLU network, as the others are: compare networks of one kind"
        )
    read = [network for network in read_from if network is not None]
    check_shapes(read, [str(path) for path in paths])
    networks, constant, added = without_biases(read)
    if spec is None and paths[0].is_dir():
        x, y, name = samples_of_run(paths[0], n, unit, loss)
    else:
        x, y, name = _samples(networks[0].n_outputs, spec or DEFAULT_DATA, n, unit, seed, loss)
    x = checked_inputs(read[0], x.reshape(len(x), -1))
    return Compared(networks, with_constant(x) if constant else x, y, name, constant, added)


def _network(path: Path) -> AffineTwoLayer | None:
    """The network in a file or of the run in a folder, or None for a run of another model.

    Raises:
        ValueError, OSError: the path has no network.
    """
    from ntkfl.connectivity.network_files import from_arrays, load_affine_network

    if not path.is_dir():
        return load_affine_network(path)
    from ntkfl.training.run_folder import RunFolder

    stored = RunFolder(path).load()
    model = str(stored.run["config"].get("model") or "").partition(":")[0]
    arrays = {name: tensor.double().cpu().numpy() for name, tensor in stored.state.model.items()}
    layers = [array for name, array in arrays.items() if array.ndim > 1]
    flat = len(layers) == 2 and all(array.ndim == 2 for array in layers)
    return from_arrays(arrays, str(path), True) if model in EXACT_MODELS and (flat or "hidden" in arrays) else None


def _samples(
    outputs: int, spec: str, n: int | None, unit: bool, seed: int, loss: str
) -> tuple[np.ndarray, np.ndarray, str]:
    """Samples of a built-in data set or a file, labels that fit the networks' outputs and the loss, and a name."""
    from experiments.console.choices import BUILT_IN_SIZE
    from ntkfl import data
    from ntkfl.data.image_draw import describe

    size = BUILT_IN_SIZE if n is None and spec in data.BUILT_IN else n
    target = None
    if outputs > 1 and spec in data.BUILT_IN:
        if spec == "sphere" or outputs != CLASSES:
            has = "labels ±1 only" if spec == "sphere" else f"labels ±1 for one output or {CLASSES} classes"
            raise ValueError(f"the networks have {outputs} outputs; {spec} has {has}: give a .npz file as --data")
        if loss not in ("squared", CROSS_ENTROPY):
            raise ValueError(
                f"the {loss} loss is for one output, the networks have {outputs}; use --loss cross-entropy, or "
                "squared for the one-hot labels"
            )
        target = "one-hot"
    problem = data.named(spec, n=size, seed=seed, target=target, clients=1, partition="iid", unit=unit)
    y = problem.y
    if loss == CROSS_ENTROPY and y.ndim == 2 and ((y == 1).sum(axis=1) == 1).all() and ((y == 0) | (y == 1)).all():
        y = y.argmax(axis=1)
    if spec in data.BUILT_IN:
        drawn = describe({"n": (problem.n, None), "seed": (seed, None), "target": (target, None)})
    else:
        drawn = describe({"unit": (unit, False)})
    return problem.x, y, Path(spec).name + drawn


def samples_of_run(folder: Path, n: int | None, unit: bool, loss: str) -> tuple[np.ndarray, np.ndarray, str]:
    """The test samples of a run in their own shape, their labels (one-hot for the squared loss), and a name.

    Raises:
        ValueError: as `load_run`; or the run has no test samples, or fewer than n; or `unit` is true, although the
            samples of a run are not divided by their norms here.
    """
    from ntkfl.training.runs.training_run import load_run

    data = load_run(folder).federation.data
    if unit:
        raise ValueError(f"--unit is for --data; the test samples of {folder} are as its run had them")
    if data.x_test is None or data.y_test is None:
        raise ValueError(f"the run in {folder} has no test samples; name --data")
    if n is not None and n > len(data.x_test):
        raise ValueError(f"n is {n}; the run in {folder} has {len(data.x_test)} test samples")
    x, y = data.x_test[:n].double().cpu().numpy(), data.y_test[:n].cpu().numpy()
    if data.classes is not None and loss != CROSS_ENTROPY:
        y = np.eye(data.classes)[y]
    return x, y, f"{data.name}, test samples of {folder}"


def grid_numbers(paths: Sequence[Path], n: int | None, unit: bool, loss: str) -> dict[str, Any]:
    """The barriers on a grid, of every pair and, for more than two runs, of the group.

    Raises:
        ValueError: the runs have different models, or as `samples_of_run`.
    """
    from experiments.miniatures.grid_barriers import POINTS, group_barriers, segments
    from ntkfl.training.runs.training_run import load_run
    from ntkfl.training.tree import stacked

    runs = [load_run(path) for path in paths]
    shapes = [{name: tuple(w.shape) for name, w in run.state.model.items()} for run in runs]
    for path, shape in zip(paths, shapes, strict=True):
        if shape != shapes[0]:
            raise ValueError(f"{path} has another model than {paths[0]}; only networks of one shape lie on a segment")
    x, y, name = samples_of_run(paths[0], n, unit, loss)
    scores = _scores(runs[0].model, x, y, loss)
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


def _scores(model: Any, x: np.ndarray, y: np.ndarray, loss: str) -> Scores:
    import torch

    inputs, classes = torch.as_tensor(x), y if y.ndim == 1 else y.argmax(axis=1)

    def scores(models: Params) -> tuple[Tensor, Tensor]:
        losses, accuracies = [], []
        for row in range(len(next(iter(models.values())))):
            with torch.no_grad():
                outputs = model.outputs({name: weights[row] for name, weights in models.items()}, inputs).numpy()
            chosen = outputs.argmax(axis=1) if outputs.ndim > 1 else np.sign(outputs)
            losses.append(float(named_loss(loss).value(outputs, y).mean()))
            accuracies.append(float((chosen == classes).mean()))
        return torch.tensor(losses, dtype=torch.float64), torch.tensor(accuracies, dtype=torch.float64)

    return scores
