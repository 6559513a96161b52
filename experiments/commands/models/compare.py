"""`ntkfl compare`: methods compared over several seeds, with intervals of their differences from the first method."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.models.train import NOTHING_LEARNED, takes_keys
from experiments.console.blocks import as_json, bad_input, if_stopped, reserved, shown_warnings
from experiments.console.choices import KeptRuns

if TYPE_CHECKING:
    from experiments.method_comparison import Interval, MethodComparison


@takes_keys
def compare(
    methods: Annotated[
        list[str], typer.Argument(help="two or more, the first is the baseline; options as in fedprox:mu=0.1")
    ],
    seeds: Annotated[int, "number of seeds, beginning with --seed"] = 5,
    out: KeptRuns = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write every number as JSON")] = None,
    **keys: Any,
) -> None:
    """Train several methods with several seeds, and say which are better than the first: ntkfl compare fedavg fedprox.

    For a given seed all methods have the same data, split, initial model and sampled clients, and differences are taken
    seed by seed. The compared numbers are means over the last five rounds. Intervals are 95% t intervals; the intervals
    of the differences hold for all methods together. The options are those of `ntkfl train`, and apply to every method.
    Exit status: 0 done, 1 done and a run has learned nothing in the sense of `ntkfl train`, 2 bad input or a model that
    is no longer finite, 130 stopped by Ctrl-C (with --out the same command continues the runs).
    """
    with shown_warnings(), reserved(json_file) as (write,):
        from experiments.method_comparison import compare_methods

        given = {key: value for key, value in keys.items() if value is not None}
        kept = "nothing is kept: no --out" if out is None else f"the runs are in {out}; the same command goes on"
        with if_stopped(lambda: kept), bad_input(ValueError, OSError, FloatingPointError):
            comparison = compare_methods(
                methods,
                seeds,
                out=out,
                progress=lambda method, seed: typer.echo(f"{method}, seed {seed}", err=True),
                **given,
            )
        typer.echo("\n".join(_lines(comparison)))
        if write:
            write(as_json(comparison.to_dict()))
    if comparison.shortfalls:
        typer.echo("\n" + "\n".join(f"{method}, seed {seed}: {why}" for method, seed, why in comparison.shortfalls))
        raise typer.Exit(NOTHING_LEARNED)


def _lines(comparison: "MethodComparison") -> list[str]:
    seeds, methods = len(comparison.seeds), comparison.methods
    lines = [f"{seeds} seeds, paired; the mean of the last rounds, and the difference to {methods[0]}"]
    width = max(len(method) for method in methods)
    for measure in comparison.values:
        share = measure.endswith("accuracy")
        lines += ["", measure.replace("_", " ")]
        for k, method in enumerate(comparison.methods):
            line = f"  {method:<{width}}  {_text(comparison.mean(measure, k), share)}"
            if k:
                line += (
                    f"  {_text(comparison.difference(measure, k), share, sign=True)}  {comparison.finding(measure, k)}"
                )
            lines.append(line)
    return lines


def _text(interval: "Interval", share: bool, sign: bool = False) -> str:
    """A mean and the half-width of its interval as text: an accuracy in percent, another measure with four decimals."""
    scale, unit, places = (100, " %", 2) if share else (1, "", 4)
    plus = "+" if sign else ""
    return f"{scale * interval.mean:{plus}9.{places}f} ± {scale * interval.half:.{places}f}{unit}"
