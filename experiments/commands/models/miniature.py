"""`ntkfl miniature`: small runs that answer the questions of the papers' tables and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.console.blocks import bad_input, if_stopped, reserved
from experiments.console.choices import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.miniatures.cells import Cell
    from experiments.miniatures.miniature import Miniature

ALL, LIST = "all", "list"


def miniature(
    names: Annotated[list[str], typer.Argument(help="names of miniatures, all, or list")],
    seeds: Annotated[int | None, typer.Option(min=1, help="number of seeds (each miniature has its own)")] = None,
    out: Annotated[Path | None, "folder that stores every run, and from which a stopped run continues"] = None,
    scale: Annotated[
        list[str] | None, "small, middle (ordering only) or paper, the papers' own sizes; repeat it for more (small)"
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=6, help="rounds of training in place of each miniature's own", show_default=False)
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:NUMBER (cpu)", show_default=False)] = None,
    path: Annotated[
        str | None, typer.Option(help="folder of data that come with no package, such as CIFAR-10", show_default=False)
    ] = None,
    quick: Annotated[bool, "a trial with fewer samples and rounds; its numbers mean nothing"] = False,
    markdown: Annotated[Path | None, "write the page to this file; else it is printed"] = None,
    csv: Annotated[Path | None, "write the numbers to this file"] = None,
) -> None:
    """Run the papers' experiments on a small scale, and compare the order of the settings with the order in the paper.

    Every setting is run with every seed. With --out each of these runs is stored in a file and not repeated, and
    pictures are written to the same folder. On a larger scale every round is stored as well, so that a stopped run
    continues with its next round. Example: ntkfl miniature ordering --scale paper --device cuda --out runs. Exit
    status: 0 done, 2 bad input, 130 stopped by Ctrl-C.
    """
    from experiments.miniatures import catalogue
    from experiments.miniatures.cells import run
    from experiments.miniatures.federated import of_rounds
    from experiments.miniatures.results.curves import drawn, with_curves
    from experiments.miniatures.results.results_page import as_csv, results_page

    with bad_input():
        everything, known = names in ([ALL], [LIST]), catalogue()
        small = list(known.values()) if everything else named(names, known, "miniature", "; alone also all or list")
        chosen = _on(scale or ["small"], small, skip=everything)
        where = _where(chosen, device, path, rounds)
        if rounds:
            chosen = [of_rounds(miniature, rounds) for miniature in chosen]
    with reserved(markdown, csv) as (write_page, write_csv):
        if names == [LIST]:
            for miniature in known.values():
                scales = ", ".join([miniature.at, *miniature.larger])
                typer.echo(f"{miniature.name:<19}{miniature.question} {miniature.source}. Scales: {scales}.")
            return
        results = []
        kept = f"what is done is kept in {out}; the same command goes on" if out else "nothing is kept: no --out"
        with if_stopped(lambda: kept), bad_input(ValueError, OSError):
            for miniature in chosen:
                numbers = range(miniature.seeds if seeds is None else seeds)
                results.append((miniature, run(miniature, numbers, out, quick, _shown, where)))
                if out is not None and with_curves(miniature):
                    _draw(drawn(*results[-1]), out / miniature.label / "curves.svg")
                if miniature.draw and out is not None:
                    figure = miniature.draw(miniature.quick if quick else {})
                    _draw(figure, out / miniature.label / f"{miniature.label}.svg")
        options = {
            "scale": scale,
            "seeds": seeds,
            "rounds": rounds,
            "device": device,
            "path": path and Path(path),
            "out": out,
        }
        text = results_page(results, _command(names, options | {"quick": quick, "markdown": markdown}))
        if write_csv:
            write_csv(as_csv(results))
        if write_page:
            write_page(text)
        else:
            typer.echo(text)


def _shown(cell: "Cell", done: int, planned: int) -> None:
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in cell.numbers.items())
    typer.echo(
        f"{cell.miniature} {done}/{planned}: {cell.setting}, seed {cell.seed}: {numbers or cell.failure}", err=True
    )


def _draw(figure: "Figure", picture: Path) -> None:
    from experiments.pictures import as_bytes, themed

    picture.write_bytes(themed(as_bytes(figure, "svg", picture.stem)))
    typer.echo(f"picture: {picture}", err=True)


def _on(scales: Sequence[str], miniatures: "Sequence[Miniature]", skip: bool) -> "list[Miniature]":
    """The miniatures in their versions on these scales.

    With `skip`, a miniature that does not exist on a scale is left out, and a message says so.

    Raises:
        ValueError: the scale is unknown, or one of these miniatures does not exist on it.
    """
    from experiments.miniatures.miniature import SCALES

    on_scale = []
    for miniature in miniatures:
        for name in scales:
            if skip and name in SCALES and name not in (miniature.at, *miniature.larger):
                why = f": {miniature.no_paper}" if name == "paper" else ""
                typer.echo(f"{miniature.name} is left out on the scale {name}{why}", err=True)
            else:
                on_scale.append(miniature.on(name))
    return on_scale


def _where(
    miniatures: "Sequence[Miniature]", device: str | None, path: str | None, rounds: int | None
) -> dict[str, str | int]:
    """The keys `device`, `path` and `rounds`, as far as they are given, which replace the keys of every setting.

    Raises:
        ValueError: a device or a number of rounds is given for a miniature that the training engine does not run, or
            one folder of data for several data sets.
    """
    for miniature in miniatures:
        if device and not all("method" in setting.keys for setting in miniature.settings):
            raise ValueError(f"{miniature.name} is computed on the CPU only; leave --device {device} out")
        if rounds and not all("rounds" in setting.keys for setting in miniature.settings):
            raise ValueError(f"{miniature.name} is not trained in rounds; leave --rounds {rounds} out")
    data = sorted({str(setting.keys.get("data")) for miniature in miniatures for setting in miniature.settings})
    if path and len(data) > 1:
        raise ValueError(f"--path {path} is the folder of one data set; these miniatures have {', '.join(data)}")
    return {name: value for name, value in (("device", device), ("path", path), ("rounds", rounds)) if value}


def _command(names: Sequence[str], options: dict[str, Any]) -> str:
    """The command with the options that were given; paths are shortened to their last part."""
    words = ["ntkfl miniature", *names]
    for name, given in options.items():
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, bool):
                words += [f"--{name}"] * value
            elif value is not None:
                words.append(f"--{name} {value.name if isinstance(value, Path) else value}")
    return " ".join(words)
