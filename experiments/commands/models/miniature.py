"""`ntkfl miniature`: small runs that answer the questions of the papers' tables and figures."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.bad_input import bad_input
from experiments.console.interruptible import if_stopped
from experiments.console.output_files import reserved

if TYPE_CHECKING:
    from experiments.miniatures.cells import Cell
    from experiments.miniatures.miniature import Miniature

ALL, LIST = "all", "list"


def miniature(
    names: Annotated[list[str], typer.Argument(help="names of miniatures, all, or list")],
    seeds: Annotated[int | None, typer.Option(min=1, help="how many (each miniature's own)")] = None,
    out: Annotated[
        Path | None, typer.Option(help="folder that keeps every cell, from which a stopped run goes on")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a trial: fewer samples and rounds, numbers that say nothing")
    ] = False,
    markdown: Annotated[Path | None, typer.Option(help="write the page to this file; else it is printed")] = None,
    csv: Annotated[Path | None, typer.Option(help="write the numbers to this file")] = None,
) -> None:
    """Run miniatures of the papers' experiments, and hold each ordering that the paper reports against what is seen.

    Every setting is run with every seed; with --out each of these cells is kept in a file, and is not run again. A
    miniature that draws a picture puts it there too. Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C.
    """
    from experiments.miniatures import catalogue
    from experiments.miniatures.cells import run
    from experiments.miniatures.report import as_csv, page

    with ExitStack() as stack:
        with bad_input():
            chosen = _chosen(names)
            writers = stack.enter_context(reserved(markdown, csv))
        if names == [LIST]:
            for one in catalogue().values():
                typer.echo(f"{one.name:<14}{one.question} {one.source}.")
            return
        results = []
        kept = f"what is done is kept in {out}; the same command goes on" if out else "nothing is kept: no --out"
        with if_stopped(lambda: kept), bad_input(ValueError, OSError):
            for one in chosen:
                numbers = range(one.seeds if seeds is None else seeds)
                results.append((one, run(one, numbers, out, quick, _shown)))
                if one.draw and out is not None:
                    path = out / one.name / f"{one.name}.png"
                    one.draw(one.quick if quick else {}).savefig(path, dpi=110)
                    typer.echo(f"picture: {path}", err=True)
        text = page(results, _command(names, seeds, out, quick, markdown))
        write_page, write_csv = writers
        if write_csv:
            write_csv(as_csv(results))
        if write_page:
            write_page(text)
        else:
            typer.echo(text)


def _chosen(names: Sequence[str]) -> "list[Miniature]":
    """The miniatures of these names.

    Raises:
        ValueError: an unknown one, with the nearest; or more names beside all or list.
    """
    from experiments.miniatures import catalogue
    from ntkfl.nearest_name import did_you_mean

    known = catalogue()
    if list(names) in ([ALL], [LIST]):
        return list(known.values())
    for name in names:
        if name not in known:
            raise ValueError(
                f"there is no miniature {name!r}.{did_you_mean(name, known)} They are {', '.join(known)}; alone also "
                f"all or list"
            )
    return [known[name] for name in names]


def _shown(cell: "Cell", done: int, planned: int) -> None:
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in cell.numbers.items())
    typer.echo(
        f"{cell.miniature} {done}/{planned}: {cell.setting}, seed {cell.seed}: {numbers or cell.failure}", err=True
    )


def _command(names: Sequence[str], seeds: int | None, out: Path | None, quick: bool, markdown: Path | None) -> str:
    """The command that was given."""
    words = ["ntkfl miniature", *names]
    words += [] if seeds is None else [f"--seeds {seeds}"]
    words += [] if out is None else [f"--out {out.name}"]
    words += ["--quick"] if quick else []
    words += [] if markdown is None else [f"--markdown {markdown.name}"]
    return " ".join(words)
