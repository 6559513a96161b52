"""`ntkfl tune`: the best outer optimizer, number of local steps and rates for a budget of rounds.

The choices are compared by the loss that is expected over all draws of batches and clients.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, picture_kind, reserved
from experiments.console.choices import (
    REFUSE,
    Duplicates,
    Everything,
    refuse_steps,
    setting,
    step_counts,
    takes_options,
)
from experiments.console.kernels import NETWORK, TWO_LAYER, problem_and_gram

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl.tuned_outer import OuterChoice

SAMPLES = 50  # samples of a built-in data set
ROUNDS = 20  # the default budget
UNUSED = ("width", "sigma", "eta_global", "eta_local", "local_steps")


@takes_options
def tune(
    options: "Options",
    outer: Annotated[
        str, "the outer optimizers to try, out of average, momentum, nesterov, falling"
    ] = "average,momentum,nesterov",
    steps: Annotated[str, "the numbers of local steps to try"] = "1,4,16",
    samples: Annotated[
        int | None, "the budget as a number of gradients of single samples, over all clients, in place of --rounds"
    ] = None,
    batch_size: Annotated[int | None, "samples in each local step, drawn anew (all samples of the client)"] = None,
    participation: Annotated[float, "share of the clients that a round draws"] = 1.0,
    noise: Annotated[float, "standard deviation of noise on every weight of the clients' mean"] = 0,
    network: Annotated[str, NETWORK] = TWO_LAYER,
    duplicates: Duplicates = REFUSE,
    json_file: Everything = None,
    plot: Annotated[Path | None, "a picture of the loss against local steps, .png or .svg"] = None,
) -> None:
    """Tune the server's optimizer, rate and momentum, and the clients' steps, by the exact expected loss.

    The loss is the expected loss at the end of a budget. The budget is a number of rounds or of gradients (--samples).
    The clients' steps have the number K and the size eta_local. Default: digits, n = 50, 4 clients, 20 rounds, at
    infinite width. The server's optimizer (the outer optimizer) steps along the mean of the clients' displacements:
    plainly, with heavy-ball momentum, or with Nesterov's momentum as DiLoCo does. With --outer falling the steps are
    plain, and their rate falls by the same factor in every round. Batches are drawn without replacement and
    independently in every step, not by shuffled passes. The table compares the expected mean square errors at the end
    of the budget. The search promises no optimum.

    The floor is a lower bound on the error, at the same K and eta_local, of every outer optimizer that fixes its
    coefficients in advance. It leaves out the noise of the draws. With some steps the error would grow if training went
    on after the budget; the table says so, or says that this is not decided. Exit status: 0 done, 2 bad input.
    """
    with bad_input():
        refuse_steps(options, UNUSED)
        kind = None if plot is None else picture_kind(plot)
        counts = step_counts(steps)
        if samples is not None and options.rounds is not None:
            raise ValueError("--rounds and --samples are both given; give one of them, the budget")
        from ntkfl.tuned_outer import Drawn, require_outer, tune_outer

        names = tuple(part.strip() for part in outer.split(","))
        first = partial(require_outer, outer=names)
        problem, gram = problem_and_gram(options, network, SAMPLES, duplicates, first)
    with reserved(json_file, plot, inputs=(options.data,)) as (write, draw):
        with if_stopped(lambda: "no table was made"), bad_input():
            choices = tune_outer(
                problem,
                gram,
                rounds=None if samples is not None else options.rounds or ROUNDS,
                samples=samples,
                local_steps=counts,
                outer=names,
                drawn=Drawn(batch_size, participation, noise),
                progress=lambda label: typer.echo(f"tuning {label}", err=True),
            )
        of = "" if network == TWO_LAYER else f"{network}, "
        _print(choices, of + setting(problem, options.setup(seed=options.seed)))
        if draw and kind is not None:
            draw(_picture(choices, kind))
        if write:
            write(as_json({"choices": [asdict(choice) for choice in choices]}))


def _print(choices: "list[OuterChoice]", settings: str) -> None:
    from experiments.console.tables import print_lines, print_table

    best = choices[0]
    print_lines(
        f"least expected: {best.mean_square:.3g} after {best.rounds} rounds, with {best.outer} and K = "
        f"{best.local_steps}",
        f"  setting: {settings}",
        "",
    )
    numbers = ["K", "rounds", "eta_local", "server rate", "momentum", "mean square error", "floor"]
    later = [] if all(choice.stable for choice in choices) else ["in the long run"]
    wrapped = ["server rate", "mean square error", *later]
    rows = []
    for choice in choices:
        rate = f"{choice.server_rate:.3g}" + (f" to {choice.last_rate:.3g}" if choice.last_rate is not None else "")
        cells = (choice.momentum, choice.mean_square, choice.floor)
        counts = (str(choice.local_steps), str(choice.rounds))
        after = ["" if choice.stable else choice.long_run] * len(later)
        shown = (f"{value:.3g}" for value in cells)
        rows.append((choice.outer, *counts, f"{choice.eta_local:.3g}", rate, *shown, *after))
    print_table(["outer", *numbers, *later], rows, numbers=numbers, wrapped=wrapped)


def _picture(choices: "list[OuterChoice]", kind: str) -> bytes:
    """The picture of the loss against local steps, with a line for each outer optimizer."""
    from matplotlib.figure import Figure

    from experiments.pictures import as_bytes

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(choice.outer for choice in choices):
        of = {choice.local_steps: choice.mean_square for choice in choices if choice.outer == name}
        counts = sorted(of)
        axes.plot(counts, [of[count] for count in counts], "o-", label=name)
    axes.set(xscale="log", yscale="log", xlabel="local steps K", ylabel="expected mean square error")
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.legend(fontsize="small")
    return as_bytes(figure, kind, "tune")
