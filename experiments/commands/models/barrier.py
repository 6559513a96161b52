"""`ntkfl barrier`: the exact barriers between two or more saved networks."""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from experiments.console.blocks import as_json, bad_input, reserved, shown_warnings

if TYPE_CHECKING:
    import numpy as np

    from experiments.console.barrier_files import Compared
    from ntkfl.connectivity import Barrier, TwoLayer
    from ntkfl.estimate import Estimate

GRID = 11  # number of points of the grid that is compared with the exact barrier
LABEL = 19
Named = Literal["squared", "absolute", "logistic", "cross-entropy"]
By = Literal["weights", "activations", "outputs"]


def barrier_between(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B [C]...",
            help="networks of one shape: .npz, .safetensors or torch's files with two linear layers, or runs' folders",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="digits, fashion-mnist, sphere, or a .npz or .csv file (the run's own test samples; else digits)",
            show_default=False,
        ),
    ] = None,
    n: Annotated[int | None, typer.Option(help="samples drawn from a named data set", show_default=False)] = None,
    unit: Annotated[bool, "divide every row of the data by its norm"] = False,
    seed: Annotated[int, "seed of the samples drawn from a named data set"] = 0,
    loss: Annotated[Named, "the loss"] = "squared",
    align: Annotated[
        By | None,
        typer.Option(
            help="also permute hidden units, of B to fit A or of a group to fit each other, comparing units by this",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the numbers as JSON")] = None,
) -> None:
    """Print the exact barriers of loss and accuracy between two networks, and the estimate of a grid of 11 points.

    The segment between the networks is alpha A + (1 - alpha) B. The networks are f(x) = readout . relu(hidden x + bias)
    + bias, with or without biases. A network may be a file of the two layers' weights, as torch, safetensors, numpy or
    Flower save them. The glossary says how such files are read; nothing is unpickled. A network may also be the folder
    that `ntkfl train --out` writes with `--model two-layer:WIDTH` or `--model mlp:WIDTH`. For more than two networks,
    the barrier of their mean and the barrier of every pair are printed. For runs of other models the barriers are
    computed on a grid, which gives lower bounds.

    Networks of runs are compared on the test samples of A's run, scaled as in that run; data of the same name in
    another run may be scaled differently. With --align the numbers are printed twice, first for the networks as they
    are, then with hidden units permuted. A permutation does not change a network's function. The units of B are
    permuted to fit those of A; in a group, the units of each network are permuted to fit those of the others.
    """
    with shown_warnings():
        with bad_input():
            if len(files) < 2:
                raise ValueError(f"one network is given, {files[0]}; a barrier is between two or more")
            from experiments.console.barrier_files import compared

            compared_files = compared(files, data, n, unit, seed, loss)
        with reserved(json_file, inputs=(data, *map(str, files))) as (write,), bad_input():
            if compared_files is None:
                if data is not None or align is not None:
                    raise ValueError(
                        "--data and --align are for two-layer networks; runs of others have their own samples"
                    )
                content, lines = _on_a_grid(files, n, unit, loss)
            elif len(files) > 2:
                content, lines = _group(files, compared_files, loss, align)
            else:
                content, lines = _pair(files, compared_files, loss, align)
            typer.echo("\n".join(lines))
            if write is not None:
                write(as_json(content))


def _setting(given: "Compared", loss: str) -> tuple[dict[str, Any], str]:
    """The sizes of the networks and the data, first for JSON and then as a line of text."""
    hidden = given.networks[0].hidden.shape
    shape = {
        "hidden units": hidden[0] - given.unit,
        "features": hidden[1] - given.constant,
        "outputs": given.networks[0].n_outputs,
    }
    sizes = ", ".join(f"{size} {what if size > 1 else what[:-1]}" for what, size in shape.items())
    biases = ", biases" if given.constant else ""
    description = f"{sizes}{biases}; {given.data}, n = {len(given.x)}; {loss} loss"
    return {"data": given.data, "samples": len(given.x), "loss": loss, "biases": given.constant, **shape}, description


def _pair(files: Sequence[Path], given: "Compared", loss: str, align: By | None) -> tuple[dict[str, Any], list[str]]:
    numbers = _numbers(given.networks, given.x, given.y, loss)
    aligned = {} if align is None else _aligned(given, loss, align)
    setting, description = _setting(given, loss)
    lines = [f"{files[0]} (alpha = 1) to {files[1]} (alpha = 0)", description, *_lines(numbers)]
    if aligned:
        after = aligned["aligned"]
        before, now = after["cost before"], after["cost after"]
        lines += [f"B aligned to A by {align}: squared distance {before:.6g} -> {now:.6g}", *_lines(after["numbers"])]
    return {"A": str(files[0]), "B": str(files[1])} | setting | numbers | aligned, lines


def _group(files: Sequence[Path], given: "Compared", loss: str, align: By | None) -> tuple[dict[str, Any], list[str]]:
    """The barriers of the mean of all networks and of every pair; with `align`, also the barriers after alignment."""
    content, lines = _group_numbers(files, given.networks, given, loss)
    setting, description = _setting(given, loss)
    lines = [f"{len(files)} networks: the mean of all against their own means", description, *lines]
    aligned = {}
    if align is not None:
        from ntkfl.connectivity import align_group

        moved = align_group(_own(given), align, None if align == "weights" else given.x)
        networks = [_permuted(given, k, alignment.permutation) for k, alignment in enumerate(moved)]
        numbers, more = _group_numbers(files, networks, given, loss)
        orders = [alignment.permutation.tolist() for alignment in moved]
        aligned = {"aligned": {"by": align, "permutations": orders, "numbers": numbers}}
        lines += ["", f"each aligned to the mean of the others by {align}", *more]
    return {"networks": [str(file) for file in files]} | setting | content | aligned, lines


def _group_numbers(
    files: Sequence[Path], networks: "Sequence[TwoLayer]", given: "Compared", loss: str
) -> tuple[dict[str, Any], list[str]]:
    from ntkfl.connectivity import group_accuracy_barrier, group_barrier

    group: dict[str, Any] = {
        "group loss barrier": _number(group_barrier(networks, given.x, given.y, loss)),
        "group accuracy barrier": _or_why(
            lambda: _number(group_accuracy_barrier(networks, given.x, _classes(given.y)))
        ),
    }
    lines = [*_lines(group), "", "pairs, the largest over the segment between the two"]
    pairs = []
    for i, k in combinations(range(len(files)), 2):
        numbers = _numbers((networks[i], networks[k]), given.x, given.y, loss)
        pairs.append({"A": str(files[i]), "B": str(files[k])} | numbers)
        both = (f"loss {_line(numbers['loss barrier'], 0.0)}", f"accuracy {_line(numbers['accuracy barrier'], 0.0)}")
        lines += [f"  {files[i]} - {files[k]}", *(f"    {text}" for text in both)]
    return group | {"pairs": pairs}, lines


def _on_a_grid(files: Sequence[Path], n: int | None, unit: bool, loss: str) -> tuple[dict[str, Any], list[str]]:
    from experiments.console.barrier_files import grid_numbers

    grid = grid_numbers(files, n, unit, loss)
    lines = [
        f"model {grid['model']}; {grid['data']}, n = {grid['samples']}; {loss} loss",
        f"on a grid of {grid['grid points']} points: between them a barrier may be higher (mlp:WIDTH would be exact)",
    ]
    for names, numbers in grid["pairs"].items():
        lines.append(f"  {names}: loss {numbers['loss']:.6g}, accuracy {numbers['accuracy']:.6g}")
    if "group accuracy barrier" in grid:
        lines.append(f"  the mean of all {len(files)}: accuracy barrier {grid['group accuracy barrier']:.6g}")
    return grid, lines


def _classes(y: "np.ndarray") -> "np.ndarray":
    return y if y.ndim == 1 else y.argmax(axis=1)


def _numbers(networks: "Sequence[TwoLayer]", x: "np.ndarray", y: "np.ndarray", loss: str) -> dict[str, Any]:
    """The results by name; a result is numbers, or the reason why it is undefined.

    Raises:
        ValueError: networks, data and loss that do not fit each other.
    """
    from ntkfl.connectivity import accuracy_barrier, between, connectivity_loss, grid_barrier, loss_barrier
    from ntkfl.connectivity.losses import checked_labels, named_loss

    first, second = networks
    exact = loss_barrier(first, second, x, y, loss)
    labels = checked_labels(named_loss(loss), y, len(x), first.n_outputs)

    def at(alpha: float) -> float:
        outputs = between(first, second, alpha).outputs(x)
        return float(named_loss(loss).value(outputs if first.n_outputs > 1 else outputs.ravel(), labels).mean())

    grid = grid_barrier(at, GRID)
    return {
        "loss barrier": _as_numbers(exact),
        f"{GRID}-point grid": {"value": grid.value, "alpha": grid.at, "misses": float(exact.value.value) - grid.value},
        "accuracy barrier": _or_why(lambda: _as_numbers(accuracy_barrier(first, second, x, _classes(y)))),
        "connectivity loss": _number(connectivity_loss(first, second, x, y, loss)),
    }


def _aligned(given: "Compared", loss: str, by: By) -> dict[str, Any]:
    """The results after the second network was aligned to the first, and the cost before and after alignment."""
    from ntkfl.connectivity import align

    first, second = _own(given)
    moved = align(first, second, by, None if by == "weights" else given.x)
    networks = (given.networks[0], _permuted(given, 1, moved.permutation))
    return {
        "aligned": {
            "by": by,
            "permutation": moved.permutation.tolist(),
            "cost before": float(moved.cost_before.value),
            "cost after": float(moved.cost_after.value),
            "numbers": _numbers(networks, given.x, given.y, loss),
        }
    }


def _own(given: "Compared") -> "list[TwoLayer]":
    """The networks without the extra unit that holds the outputs' biases."""
    from ntkfl.connectivity import TwoLayer

    own = len(given.networks[0].hidden) - given.unit
    return [TwoLayer(network.hidden[:own], network.readout[..., :own]) for network in given.networks]


def _permuted(given: "Compared", k: int, order: "np.ndarray") -> "TwoLayer":
    """Network k with its own units in this order; a unit that holds the outputs' biases stays where it is."""
    import numpy as np

    from ntkfl.connectivity.alignment import permuted

    return permuted(given.networks[k], np.append(order, len(order) + np.arange(given.unit)))


def _as_numbers(barrier: "Barrier") -> dict[str, Any]:
    stopped = {"stopped": barrier.stopped} if barrier.stopped else {}
    return _number(barrier.value) | {"alpha": barrier.at, "pieces": barrier.pieces} | stopped


def _number(estimate: "Estimate") -> dict[str, Any]:
    return {"value": float(estimate.value), "error": float(estimate.error)}


def _or_why(numbers: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The numbers that the call returns, or the message of its ValueError."""
    try:
        return numbers()
    except ValueError as error:
        return {"undefined": str(error)}


def _lines(numbers: dict[str, Any]) -> list[str]:
    error = next(iter(numbers.values()))["error"]
    label = max(LABEL, *(len(what) + 2 for what in numbers))
    return [f"  {what:<{label}}{_line(estimate, error)}" for what, estimate in numbers.items()]


def _line(numbers: dict[str, Any], error: float) -> str:
    """One result as text.

    A number below its error is printed as 0. The estimate of the grid has no error of its own, and is compared with
    `error`, the error of the exact barrier.
    """
    from ntkfl.messages import number_of

    if "undefined" in numbers:
        return f"undefined: {numbers['undefined']}"
    noise = abs(numbers["value"]) <= numbers.get("error", error)
    line = f"{0 if noise else numbers['value']:.10g}"
    if "error" in numbers:
        line += f" ± {numbers['error'] + (abs(numbers['value']) if noise else 0):.1e}"
    line += f" at alpha = {numbers['alpha']:.10g}" if "alpha" in numbers else ""
    if "pieces" in numbers:
        line += f", {number_of(numbers['pieces'], 'piece')}"
    line += f"; {numbers['stopped']}" if "stopped" in numbers else ""
    return line + (
        f", misses {0 if abs(numbers['misses']) <= error else numbers['misses']:.3g}" if "misses" in numbers else ""
    )
