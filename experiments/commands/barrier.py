"""`ntkfl barrier`: the exact barriers between two saved networks."""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.output_files import reserved

if TYPE_CHECKING:
    import numpy as np

    from ntkfl.connectivity.barrier import Barrier
    from ntkfl.connectivity.network import TwoLayer

CLASSES = 10  # of the built-in images
CROSS_ENTROPY, DEFAULT_DATA = "cross-entropy", "digits"
GRID = 11
LABEL = 19
Named = Literal["squared", "absolute", "logistic", "cross-entropy"]


def barrier_between(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="a network: .npz with hidden (h, l) and readout, or a run's folder")
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="a network of the same shape")],
    data: Annotated[
        str | None,
        typer.Option(
            help="digits, fashion-mnist, sphere, or a .npz or .csv file (the run's own test samples; else digits)",
            show_default=False,
        ),
    ] = None,
    n: Annotated[int | None, typer.Option(help="samples drawn from a named data set", show_default=False)] = None,
    unit: Annotated[bool, typer.Option("--unit", help="divide every row of the data by its norm")] = False,
    seed: Annotated[int, typer.Option(help="of the samples drawn from a named data set")] = 0,
    loss: Annotated[Named, typer.Option(help="the loss")] = "squared",
    json_file: Annotated[Path | None, typer.Option("--json", help="write the numbers as JSON")] = None,
) -> None:
    """The loss and accuracy barriers between two networks, exactly, and what a grid of 11 points makes of them.

    The segment is alpha A + (1 - alpha) B. The networks are f(x) = readout . relu(hidden x): .npz files, or the folders
    that `ntkfl train --model two-layer:WIDTH --out` leaves. Networks of runs are compared on the test samples of A's
    run, as it had them; named data may be scaled otherwise.
    """
    with bad_input(), ExitStack() as stack:
        networks, x, y, name = _read(first, second, data, n, unit, seed, loss)
        (write,) = stack.enter_context(reserved(json_file, inputs=(data, str(first), str(second))))
        found = _numbers(networks, x, y, loss)
        shape = {"hidden units": len(networks[0].hidden), "features": x.shape[1], "outputs": networks[0].n_outputs}
        setting = {"A": str(first), "B": str(second), "data": name, "samples": len(x), "loss": loss, **shape}
        if write is not None:
            write(json.dumps(setting | found, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    typer.echo(f"{first} (alpha = 1) to {second} (alpha = 0)")
    sizes = ", ".join(f"{size} {what if size > 1 else what[:-1]}" for what, size in shape.items())
    typer.echo(f"{sizes}; {name}, n = {len(x)}; {loss} loss")
    error = found["loss barrier"]["error"]
    for what, numbers in found.items():
        typer.echo(f"  {what:<{LABEL}}{_line(numbers, error)}")


def _read(
    first: Path, second: Path, spec: str | None, n: int | None, unit: bool, seed: int, loss: str
) -> "tuple[tuple[TwoLayer, TwoLayer], np.ndarray, np.ndarray, str]":
    """The networks, the inputs, the labels and the name of the data.

    Raises:
        ValueError, OSError: files that cannot be read, sizes that are none.
    """
    from experiments.commands.choices import BUILT_IN_SIZE
    from ntkfl import data

    if n is not None and n < 1:
        raise ValueError(f"n is {n}; it must be a positive integer")
    networks = _network(first), _network(second)
    if spec is None and first.is_dir():
        return networks, *_test_samples(first, n, unit, loss)
    spec = spec or DEFAULT_DATA
    size = BUILT_IN_SIZE if n is None and spec in data.BUILT_IN else n
    outputs, target = networks[0].n_outputs, None
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
    problem = data.named(spec, size, seed, target, None, 1, "iid", unit)
    y = problem.y
    if loss == CROSS_ENTROPY and y.ndim == 2 and ((y == 1).sum(axis=1) == 1).all() and ((y == 0) | (y == 1)).all():
        y = y.argmax(axis=1)
    return (
        networks,
        problem.x,
        y,
        re.sub(r"(, )?(clients=1\b|partition='iid')", "", problem.name).replace("()", "").replace("(, ", "("),
    )


def _network(path: Path) -> "TwoLayer":
    """The network in a .npz file, or that of the run in a folder.

    Raises:
        ValueError, OSError: there is none, or the run is of another model.
    """
    if not path.is_dir():
        from ntkfl.connectivity.network_files import load_network

        return load_network(path)
    from ntkfl.training.models.two_layer import to_network
    from ntkfl.training.run_folder import RunFolder

    params = RunFolder(path).load().state.model
    try:
        return to_network(params)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _test_samples(folder: Path, n: int | None, unit: bool, loss: str) -> "tuple[np.ndarray, np.ndarray, str]":
    """The test samples of a run, their labels (one-hot for the squared loss) and what to call them.

    Raises:
        ValueError: as `load_run`; a run without test samples, or with fewer than n; `unit`, since they are as they are.
    """
    import numpy as np

    from ntkfl.training.kept_run import load_run

    data = load_run(folder).federation.data
    if unit:
        raise ValueError(f"--unit is for --data; the test samples of {folder} are as its run had them")
    if data.x_test is None or data.y_test is None:
        raise ValueError(f"the run in {folder} has no test samples; name --data")
    if n is not None and n > len(data.x_test):
        raise ValueError(f"n is {n}; the run in {folder} has {len(data.x_test)} test samples")
    x, y = data.x_test[:n].flatten(1).double().cpu().numpy(), data.y_test[:n].cpu().numpy()
    if data.classes is not None and loss != CROSS_ENTROPY:
        y = np.eye(data.classes)[y]
    return x, y, f"{data.name}, test samples of {folder}"


def _numbers(networks: "tuple[TwoLayer, TwoLayer]", x: "np.ndarray", y: "np.ndarray", loss: str) -> dict[str, Any]:
    """What is printed and written: name to numbers, or to the reason why there are none.

    Raises:
        ValueError: networks, data and loss that do not fit each other.
    """
    from ntkfl.connectivity.barrier import accuracy_barrier, connectivity_loss, loss_barrier
    from ntkfl.connectivity.curves import grid_barrier
    from ntkfl.connectivity.losses import checked_labels, named_loss
    from ntkfl.connectivity.network import between

    exact = loss_barrier(*networks, x, y, loss)
    labels = checked_labels(named_loss(loss), y, len(x), networks[0].n_outputs)

    def at(alpha: float) -> float:
        outputs = between(*networks, alpha).outputs(x)
        return float(named_loss(loss).value(outputs if networks[0].n_outputs > 1 else outputs.ravel(), labels).mean())

    grid = grid_barrier(at, GRID)
    found: dict[str, Any] = {
        "loss barrier": _as_numbers(exact),
        f"{GRID}-point grid": {"value": grid.value, "alpha": grid.at, "misses": float(exact.value.value) - grid.value},
    }
    try:
        classes = y if y.ndim == 1 else y.argmax(axis=1)
        found["accuracy barrier"] = _as_numbers(accuracy_barrier(*networks, x, classes))
    except ValueError as error:
        found["accuracy barrier"] = {"undefined": str(error)}
    mean = connectivity_loss(*networks, x, y, loss)
    return found | {"connectivity loss": {"value": float(mean.value), "error": float(mean.error)}}


def _as_numbers(barrier: "Barrier") -> dict[str, Any]:
    value = barrier.value
    return {
        "value": float(value.value),
        "error": float(value.error),
        "alpha": barrier.at,
        "pieces": barrier.pieces,
    }


def _line(numbers: dict[str, Any], error: float) -> str:
    """One line; what is below its error, or for the grid the exact barrier's, is printed as 0."""
    if "undefined" in numbers:
        return f"undefined: {numbers['undefined']}"
    noise = abs(numbers["value"]) <= numbers.get("error", error)
    line = f"{0 if noise else numbers['value']:.10g}"
    if "error" in numbers:
        line += f" ± {numbers['error'] + (abs(numbers['value']) if noise else 0):.1e}"
    line += f" at alpha = {numbers['alpha']:.10g}" if "alpha" in numbers else ""
    if "pieces" in numbers:
        line += f", {numbers['pieces']} piece{'s' if numbers['pieces'] != 1 else ''}"
    return line + (
        f", misses {0 if abs(numbers['misses']) <= error else numbers['misses']:.3g}" if "misses" in numbers else ""
    )
