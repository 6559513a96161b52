"""`ntkfl fastest`: which federated method, number of local steps and step sizes need the fewest rounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, picture_kind, reserved
from experiments.console.choices import (
    REFUSE,
    Duplicates,
    Eps,
    Everything,
    refuse_steps,
    setting,
    step_counts,
    takes_options,
)
from experiments.console.kernels import NETWORK, TWO_LAYER, problem_and_gram, rounds_said, scaled_columns
from experiments.console.tables import print_lines, print_paragraph, print_table, wrapped

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl.fastest_method import Fastest, Tuned
    from ntkfl.fastest_trained import Trained

SAMPLES = 50  # default number of samples of a built-in data set
UNUSED = ("width", "sigma", "rounds", "eta_global", "local_steps")


@takes_options
def fastest(
    options: "Options",
    network: Annotated[str, NETWORK] = TWO_LAYER,
    duplicates: Duplicates = REFUSE,
    eps: Eps = 1e-6,
    steps: Annotated[str, "the numbers of local steps to try"] = "1,2,5,10,20",
    budget: Annotated[int | None, "compare the residuals that are left after this many rounds"] = None,
    train: Annotated[
        int | None,
        typer.Option(min=1, help="train a network of this width with each method's best setting, and count rounds"),
    ] = None,
    tiles: Annotated[
        Literal["none", "auto", "float64", "float32"],
        "for large data: keep the Gram matrix in tiles of this precision, and decompose no matrix",
    ] = "none",
    json_file: Everything = None,
    plot: Annotated[Path | None, "a picture of rounds against local steps, .png or .svg"] = None,
) -> None:
    """On these data, tune every method that is linear in the weights, and count its rounds exactly, at infinite width.

    Default: digits, n = 50, 4 clients. Each method takes full-batch local steps on sums of squares. Its server step,
    its momentum, mu or alpha, and eta_local are searched for. The best values need the fewest rounds to eps, or leave
    the least residual after --budget rounds. eta_local is between .03 and 1.9 times 1 / max_c |H_cc|; beyond 2 / max_c
    |H_cc| training of a client alone diverges. The search promises no optimum. On random problems, dense grids found up
    to 15% fewer rounds for averaging and cyclic training, a quarter fewer for SCAFFOLD, and now and then over half
    fewer for FedDyn and momentum.

    The floor is the least condition number that any method can reach if its clients use only their own data. A number
    of rounds is printed after the floor. At this condition number and for the worst labels, the best momentum at the
    server takes this number of rounds. Labels along the eigenvectors of large eigenvalues may take fewer rounds.

    If there are more than 150 samples, steps are searched for on 60 of them, and the best steps are tuned on all.
    --train tests the ranking on one two-layer network, which is drawn from --seed and trained with the best setting of
    each method.

    With --tiles, steps are searched for in the Krylov space of the labels, with six values of eta_local, and the best
    setting of each method is run. For SCAFFOLD, FedDyn and cyclic training every setting is run, most settings on 1000
    of the samples, and about ten on all samples. With --tiles, rate and floor are not known, since rounding hides the
    smallest eigenvalue. After Ctrl-C no file is written.
    """
    with bad_input():
        refuse_steps(options, UNUSED)
        kind = None if plot is None else picture_kind(plot)
        counts = step_counts(steps)
        if train is not None and network != TWO_LAYER:
            raise ValueError(f"--train is for the two-layer network; leave it out with --network {network}")
        if tiles != "none" and (train is not None or network != TWO_LAYER):
            raise ValueError(f"--tiles {tiles} is for the two-layer network at infinite width; leave out the other")
        problem, gram = problem_and_gram(options, network, SAMPLES, duplicates)
    with reserved(json_file, plot, inputs=(options.data,)) as (write, draw):
        from ntkfl.data import BUILT_IN
        from ntkfl.fastest_method import fastest as compared

        with if_stopped(lambda: "no table was made"), bad_input():
            comparison = compared(
                problem,
                gram,
                local_steps=counts,
                eta_local=options.eta_local,
                eps=eps,
                budget=budget,
                matrix_free={"none": False, "auto": True}.get(tiles, tiles),
                progress=lambda label: typer.echo(f"tuning {label}", err=True),
                answered=lambda tuned: print_lines(f"  {_first_word(tuned, tiles != 'none')}", err=True),
            )
        of = "" if network == TWO_LAYER else f"{network}, "
        _print(comparison, counts, of + setting(problem, options.setup(seed=options.seed)))
        if network == TWO_LAYER and tiles == "none" and options.data not in BUILT_IN and comparison.best:
            with if_stopped(lambda: "the table above is whole"):
                for line in wrapped(scaled_columns(problem, eps, comparison.best[0])):
                    typer.echo(line)
        rows: tuple[Trained, ...] = ()
        if train is not None:
            from ntkfl.fastest_trained import train_fastest

            with if_stopped(lambda: "the table of exact rounds is whole; the networks' is not made"), bad_input():
                rows = train_fastest(
                    problem, comparison, train, options.seed, lambda label: typer.echo(f"training {label}", err=True)
                )
            _print_trained(comparison, rows, train)
        if draw and kind is not None:
            draw(_picture(comparison, counts, kind))
        if write:
            trained = {} if train is None else {"width": train, "trained": [row.to_dict() for row in rows]}
            write(as_json(comparison.to_dict() | trained))


def _print(comparison: "Fastest", counts: tuple[int, ...], text: str) -> None:
    from ntkfl.fastest_method import FARTHEST, MOST_ROUNDS, MOST_RUN

    tuned = "" if comparison.budget is None else f"; steps tuned for the least after {comparison.budget}"
    typer.echo(
        f"rounds until {comparison.eps:g} of the residual is left, by local steps a round{tuned}\n  setting: {text}\n"
    )
    numbers = [*(f"K={count}" for count in counts), "vectors"]
    numbers += [] if comparison.budget is None else [f"left after {comparison.budget}"]
    columns = ["method", *numbers, "tuned to, at its best K"]
    rows = []
    for best in comparison.best:
        of = {tuned.local_steps: tuned for tuned in comparison.tuned if tuned.label == best.label}
        cells = [_rounds(of[count]) if count in of else "-" for count in counts]
        left = [] if comparison.budget is None else [_left(best)]
        rows.append((best.label, *cells, _shown(best.vectors), *left, _steps(best)))
    print_table(columns, rows, numbers=numbers)
    if any(tuned.estimate is not None for tuned in comparison.tuned):
        print_lines("", f"~: more than {MOST_ROUNDS} rounds, whose number is found by powers of a round's map")
    if any(tuned.rounds is None and tuned.estimate is None for tuned in comparison.tuned):
        none = f"with these steps the residual does not fall to {comparison.eps:g} within {FARTHEST:.0e} rounds"
        if comparison.tiles is not None:
            none = (
                f"the number of rounds is not known; up to {MOST_RUN} rounds are run, and only if fewer rounds leave "
                f"so small a residual that {MOST_RUN} may suffice"
            )
        print_paragraph(f"\n-: {none}")
    if comparison.tiles is not None:
        typer.echo(
            f"\n{comparison.tiles} tiles: rounds up to 1000 are counted by running them;\n  rate and floor are not "
            "resolved, since the smallest eigenvalue is lost in rounding"
        )
    elif comparison.floor is None:
        typer.echo("\nfloor: none, since the Gram matrix is singular")
    else:
        print_paragraph(
            "\nfloor: a method whose clients use only their own data brings the condition number to "
            f"{comparison.condition:.4g} at the least; the best momentum at the server then takes some "
            f"{comparison.floor} rounds for the worst labels"
        )


def _print_trained(comparison: "Fastest", rows: "tuple[Trained, ...]", width: int) -> None:
    """Print the rounds of a trained network beside the predicted rounds.

    Below them are the pairs of methods that the network ranks in another order than predicted.
    """
    from ntkfl.fastest_trained import reversed_pairs

    typer.echo(f"\na network of width {width}: rounds until {comparison.eps:g} of its first residual is left\n")
    columns = ("method", "infinite width", "H(0) kept", "trained", "farthest off")
    cells = []
    for row in rows:
        trained = (
            _shown(row.trained) if row.trained is not None else f"{row.residual_left:.2g} left after {row.rounds_run}"
        )
        cells.append((row.label, str(row.predicted), _shown(row.linearised), trained, f"{row.output_distance:.2g}"))
    print_table(columns, cells, numbers=columns[1:])
    typer.echo("\nfarthest off: the largest distance of its outputs from those at infinite width, over |r(0)|")
    pairs = reversed_pairs(rows)
    for first, other in pairs:
        typer.echo(f"parted: {first.label} before {other.label} is predicted, the network has it the other way round")
    if not pairs:
        typer.echo("the network ranks the methods as predicted")


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def _first_word(tuned: "Tuned", tiled: bool) -> str:
    """The best steps and the rounds of a method, in one line.

    The line is printed as soon as the steps are known, before the table.
    """
    if tuned.residual_left is not None:
        said = f"{_left(tuned)} left"
    else:
        said = "no known number of rounds" if tiled and tuned.rounds is None else rounds_said(tuned)
    return f"{said} with {_steps(tuned)}"


def _rounds(tuned: "Tuned") -> str:
    return _shown(tuned.rounds) if tuned.estimate is None else f"~{tuned.estimate:.0e}"


def _left(tuned: "Tuned") -> str:
    return (
        f"{tuned.residual_left:.2g}"
        if tuned.residual_error is None
        else f"{tuned.residual_left:.4g} ± {tuned.residual_error:.0e}"
    )


def _steps(tuned: "Tuned") -> str:
    named = {"K": tuned.local_steps, "eta_local": tuned.eta_local} | tuned.options
    return ", ".join(f"{name} {value:.4g}" if not isinstance(value, bool) else name for name, value in named.items())


def _picture(comparison: "Fastest", counts: tuple[int, ...], kind: str) -> bytes:
    """The picture of rounds against local steps, with a line for each method."""
    from experiments.pictures import as_bytes
    from experiments.studies.chart import Chart, Label, Panel, Series
    from experiments.studies.drawing import draw

    lines = []
    for best in comparison.best:
        of = {
            tuned.local_steps: tuned.rounds for tuned in comparison.tuned if tuned.label == best.label and tuned.rounds
        }
        exact = [float(rounds) for rounds in of.values()]
        lines.append(Series(best.label, "measured", list(of), exact, exact, exact))
    if comparison.floor:
        floor = [float(comparison.floor)] * len(counts)
        lines.append(Series("floor of client-local methods, worst labels", "bound", counts, floor))
    x, y = Label("local steps K", log=True), Label(f"rounds to {comparison.eps:g} of the residual", log=True)
    return as_bytes(draw(Chart("fastest", "", "", (Panel("", x, y, tuple(lines)),))), kind, "fastest")
