"""`ntkfl privacy`: the error that a privacy budget costs in the kernel regime, and the best number of rounds."""

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, picture_kind, reserved
from experiments.console.choices import (
    REFUSE,
    Duplicates,
    Everything,
    numbers_of,
    refuse_steps,
    setting,
    step_counts,
    takes_options,
)
from experiments.console.kernels import NETWORK, TWO_LAYER, problem_and_gram

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl.privacy import Choice, CohortChoice, PrivateRounds

SAMPLES = 200  # samples of a built-in data set
UNUSED = ("width", "sigma", "eta_global", "eta_local", "local_steps")
SHOWN = (0.25, 64.0)  # the smallest and the largest epsilon of the picture
POINTS = 13
NO_GAIN = 1  # exit status


@takes_options
def privacy(
    options: "Options",
    epsilon: Annotated[float, "epsilon of the budget (epsilon, delta), which protects each client's data"] = 4.0,
    delta: Annotated[float, "delta of the budget"] = 1e-5,
    network: Annotated[str, NETWORK] = TWO_LAYER,
    duplicates: Duplicates = REFUSE,
    steps: Annotated[str, "the numbers of local steps to try"] = "1,5",
    falls: Annotated[
        str,
        typer.Option(
            metavar="X,X,...", help="ratios to try of the last server rate to the first; 1: the rate does not fall"
        ),
    ] = "1",
    participation: Annotated[
        str, typer.Option(metavar="X,X,...", help="shares of the clients in a round to try; 1: all clients")
    ] = "1,0.5,0.25,0.125,0.0625",
    clipped: Annotated[float, "largest probability that some update is clipped"] = 0.01,
    clip: Annotated[float | None, "the norm at which updates are clipped; by default the least that suffices"] = None,
    json_file: Everything = None,
    plot: Annotated[Path | None, "a picture of the error against epsilon, .png or .svg"] = None,
) -> None:
    """Print the exact expected error of FedAvg with clipping and Gaussian noise, and the best rounds for a budget.

    Default: digits, n = 200, each sample a client of its own, at infinite width. A round clips each client's update,
    takes the plain mean of the updates and adds noise. The clipping norm is the smallest that is known to suffice,
    which means that some update is clipped with a probability of at most --clipped. As long as no update is clipped,
    mean and variance of the residual are exact. With --clip, the clipping norm is the given one, and numbers of rounds
    are left out for which the given norm is not known to suffice; if none is left, an error names the least norm that
    suffices. --rounds is the largest number of rounds that is tried (100).

    All updates of one client are protected together. Privacy is counted by the package dp-accounting. If a round draws
    some of the clients, without replacement, the budget takes that into account. The clipping norm is then the longest
    update of simulated trainings. So many trainings are simulated that the norm is too small with a chance of at most
    1e-6, for each choice of steps and rounds that is compared. A cohort is not simulated if exact bounds show that it
    is worse than another cohort. Steps, cohort and rounds are chosen by looking at the data, and the budget does not
    count this choice. Exit status: 0 done, 1 no training within the budget lowers the expected error, 2 bad input.
    """
    with bad_input():
        refuse_steps(options, UNUSED)
        kind = None if plot is None else picture_kind(plot)
        counts = step_counts(steps)
        shares, drawn = numbers_of("falls", falls, float), numbers_of("participation", participation, float)
        if options.clients is None and options.data is None:
            options = replace(options, clients=options.n or SAMPLES)
        from ntkfl.limit.random_regime import require_moments

        problem, gram = problem_and_gram(
            options, network, SAMPLES, duplicates, lambda problem: require_moments(problem.n, problem.y[0].size)
        )
    with reserved(json_file, plot, inputs=(options.data,)) as (write, draw):
        from experiments.console.progress_bar import ProgressBar
        from experiments.console.tables import print_paragraph
        from ntkfl.privacy import best_choices, best_cohorts, least_epsilon, private_settings

        with if_stopped(lambda: "no table was made"), bad_input(ImportError, OverflowError, ValueError):
            settings = private_settings(
                problem,
                gram,
                local_steps=counts,
                rounds=options.rounds or 100,
                falls=shares,
                participation=drawn,
                clipped=clipped,
            )
            with ProgressBar("settings") as bar:
                done = iter(range(len(settings)))
                choices = best_choices(
                    settings, epsilon, delta, clipped, clip, lambda label: bar.show(next(done), len(settings), label)
                )
            of = "" if network == TWO_LAYER else f"{network}, "
            before = float(settings[0].square[0])
            gains = choices[0].plan.mean_square < before
            reachable = None if gains else least_epsilon(settings, delta, clipped, clip)
            described = of + setting(problem, options.setup(seed=options.seed))
            _print(choices, before, epsilon, delta, reachable, problem.n_clients, described)
            cohorts = best_cohorts(settings, epsilon, delta, clipped, clip)
            _print_cohorts(cohorts, choices[0], problem.n_clients)
            if network == TWO_LAYER:
                print_paragraph(
                    "\nthis is the error of a model that is linear in its weights; in a ReLU network of any width the "
                    "noise of the best row turns neurons on and off, which may lose up to "
                    f"{choices[0].turned:.1%} of what is learned of a sample; initial weights c times as large divide "
                    "this share by about c"
                )
            _print_longest(settings, choices[0].cohort, epsilon, delta, clipped)
            if draw and kind is not None:
                draw(_picture(settings, before, choices[0], epsilon, delta, clipped, clip, kind))
        if write:
            content: dict[str, Any] = {
                "epsilon": epsilon,
                "delta": delta,
                "clipped": clipped,
                "mean_square_at_the_start": before,
            }
            content["least_epsilon"] = reachable if reachable is not None and isfinite(reachable) else None
            content["choices"] = [choice.to_dict() for choice in choices]
            write(as_json(content | {"cohorts": [cohort.to_dict() for cohort in cohorts]}))
    if not gains:
        raise typer.Exit(NO_GAIN)


def _print(
    choices: "list[Choice]",
    before: float,
    epsilon: float,
    delta: float,
    reachable: float | None,
    clients: int,
    described: str,
) -> None:
    from experiments.console.tables import print_lines, print_paragraph, print_table

    best = choices[0].plan
    print_paragraph(
        f"training within epsilon = {epsilon:g}, delta = {delta:g} brings the mean square error from {before:.3g} to "
        f"{best.mean_square:.3g}, in expectation"
        if reachable is None
        else f"no training within epsilon = {epsilon:g}, delta = {delta:g} lowers the mean square error {before:.3g}, "
        "in expectation: the noise outweighs it; "
        + (
            f"epsilon = {reachable:.3g} is the least at which it falls"
            if isfinite(reachable)
            else "it falls at no epsilon"
        )
    )
    print_lines(f"  setting: {described}", "")
    columns = ["K", "eta_local", "server rate", "clients", "rounds", "clip", "noise a weight", "mean square error"]
    rows = []
    for choice in choices:
        plan = choice.plan
        rate = f"{choice.server_rate:.3g}" + (
            f" to {choice.last_rate:.3g}" if choice.last_rate != choice.server_rate else ""
        )
        cells = (plan.clip, plan.noise, plan.mean_square)
        counts = (f"{choice.cohort} of {clients}", str(plan.rounds))
        numbers = (f"{value:.3g}" for value in cells)
        rows.append((str(choice.local_steps), f"{choice.eta_local:.3g}", rate, *counts, *numbers))
    print_table(columns, rows, numbers=columns)


def _print_cohorts(cohorts: "list[CohortChoice]", best: "Choice", clients: int) -> None:
    """Print the error for every size of the cohort, and the sizes whose error cannot be told apart from the best."""
    if len(cohorts) == 1:
        return
    from experiments.console.tables import print_paragraph, print_table

    columns = ["clients a round", "K", "rounds", "mean square error"]
    rows, lowest = [], best.plan.mean_square
    for tried in cohorts:
        if tried.choice is None:
            rows.append((str(tried.cohort), "", "", f"more than {lowest:.3g}"))
            continue
        own, least = tried.choice, tried.least if tried.least is not None else lowest
        reached = f"{own.plan.mean_square:.3g}" + (
            f", {least:.3g} at least" if least <= lowest and not tried.is_best else ""
        )
        rows.append((str(tried.cohort), str(own.local_steps), str(own.plan.rounds), reached))
    typer.echo(f"\nthe cohort: {best.cohort} of {clients} clients a round are best of those tried\n")
    print_table(columns, rows, numbers=columns)
    equal = [str(tried.cohort) for tried in cohorts if tried.as_good and tried.cohort != best.cohort]
    if equal:
        print_paragraph(
            f"\n{best.cohort} and {' and '.join(equal)} clients a round are not told apart: the difference of their "
            "errors is within the uncertainty from the bound on the clip and from the last percent of the accountant's "
            "noise"
        )


def _print_longest(settings: "list[PrivateRounds]", cohort: int, epsilon: float, delta: float, clipped: float) -> None:
    """Print the number of rounds from which on, with this cohort, no clipping norm is known to suffice.

    Nothing is printed if fewer rounds were tried.

    Nothing is printed about other cohorts, because more of their rounds would have to be simulated only to print this
    number.
    """
    from experiments.console.tables import print_paragraph

    ran = [setting for setting in settings if setting.has_run and setting.cohort == cohort]
    # more rounds need more noise, so the first number of rounds without such a norm decides
    for rounds in ran[0].counts:
        plans = []
        for tried in ran:
            plans.append(tried.plan(epsilon, delta, rounds, clipped))
            if isfinite(plans[-1].clip):
                break
        else:
            least = min(plan.moved for plan in plans)
            print_paragraph(
                f"\nfrom {rounds} rounds on no clip is known to be inactive: in {rounds} rounds the noise may move "
                f"a client's update by {least:.3g} times the clip, with {cohort} client{'s' * (cohort > 1)} a round "
                "and any server rate that was run"
            )
            return


def _picture(
    settings: "list[PrivateRounds]",
    before: float,
    best: "Choice",
    epsilon: float,
    delta: float,
    clipped: float,
    clip: float | None,
    kind: str,
) -> bytes:
    """The picture of the error against epsilon, with a line for each number of local steps.

    If several cohorts are tried, a second panel shows the size of the best cohort for each number of local steps.
    """
    import numpy as np
    from matplotlib.figure import Figure

    from experiments.pictures import as_bytes
    from ntkfl.privacy import best_choices

    grid = np.geomspace(*SHOWN, num=POINTS)
    lines: dict[int, list[tuple[float, float, int]]] = {}
    for spent in grid:
        try:
            choices = best_choices(settings, float(spent), delta, clipped, clip)
        except ValueError:  # in every setting an update may be clipped
            continue
        for choice in choices:
            lines.setdefault(choice.local_steps, []).append((spent, choice.plan.mean_square, choice.cohort))
    several, clients = len({setting.cohort for setting in settings}) > 1, settings[0].regime.problem.n_clients
    figure = Figure(figsize=(7, 5.4 if several else 4.2), layout="constrained")
    panels = figure.subplots(1 + several, sharex=True, squeeze=False, height_ratios=(3, 1) if several else (1,))[:, 0]
    axes = panels[0]
    for count, points in sorted(lines.items()):
        spent, values, cohorts = zip(*points, strict=True)
        axes.plot(spent, values, "o-", label=f"K = {count}")
        if several:
            panels[1].plot(spent, cohorts, "o-")
    axes.axhline(before, color="black", linestyle=":", label="without training")
    chosen = f"chosen: {best.cohort} of {clients} clients a round"
    axes.plot([epsilon], [best.plan.mean_square], "k*", markersize=11, label=chosen)
    lowest = min(value for points in lines.values() for _, value, _ in points)
    axes.set(xscale="log", yscale="log", ylabel="expected mean square error")
    if isfinite(lowest):
        axes.set_ylim(0.7 * lowest, 3 * before)
    axes.legend(fontsize="small")
    if several:
        panels[1].set(ylabel="clients a round", ylim=(0, 1.1 * clients))
    panels[-1].set_xlabel(f"epsilon, at delta = {delta:g}")
    return as_bytes(figure, kind, "privacy")
