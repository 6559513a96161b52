"""`ntkfl rate`: the rate of a federated method in the kernel regime, and the limits of its steps."""

import re
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.console.blocks import bad_input
from experiments.console.choices import (
    REFUSE,
    Duplicates,
    Eps,
    LocalSchedule,
    ServerSchedule,
    StepsSchedule,
    amount,
    chosen_problem,
    given_numbers,
    numbers_of,
    setting,
    takes_options,
)
from experiments.console.kernels import LIMIT, NETWORK, TWO_LAYER, condition_of, kernels, of_their_outputs
from experiments.console.method_options import method_options
from experiments.console.tables import print_lines, print_table

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl import Estimate, Problem
    from ntkfl.exact_dynamics import KernelRegime, LinearRegime, RandomRegime, SampledRounds

    AnyRegime = KernelRegime | LinearRegime | RandomRegime

NOT_STABLE = 1  # exit status
ROUNDS = 100  # default number of rounds of --runs
SHOWN = 6  # the largest number of rounds whose estimates are printed
# the largest number of rounds that is tried, since noise may keep the residual above the target for ever
NOISY = 10_000


@takes_options
def rate(
    options: "Options",
    network: Annotated[str, NETWORK] = TWO_LAYER,
    duplicates: Duplicates = REFUSE,
    eps: Eps = 1e-6,
    method: Annotated[str, "one of `ntkfl train list` that is linear in the weights"] = ("fl-ntk"),
    option: Annotated[list[str] | None, "an option of the method, such as server_rate=1.5; repeat it for more"] = None,
    momentum: Annotated[float, "momentum of the clients' steps, which is reset in each round"] = 0.0,
    client_steps: Annotated[
        str | None, typer.Option(metavar="K,K,...", help="local steps of each client, in place of --local-steps")
    ] = None,
    step_factors: Annotated[
        str | None,
        typer.Option(
            metavar="X,X,...",
            help="factors of eta_local in the first, second, ... local step; the last factor is for all later steps",
        ),
    ] = None,
    ima_window: Annotated[int | None, "the server sends out the mean of this many of its last models (IMA)"] = None,
    participation: Annotated[float, "share of the clients that a round draws"] = 1.0,
    batch_size: Annotated[
        int | None,
        "number of samples that each local step draws anew; the sum over them is scaled up (a client with fewer "
        "samples takes all)",
    ] = None,
    noise: Annotated[float, "standard deviation of noise on every weight of the clients' mean"] = 0,
    local_schedule: LocalSchedule = None,
    server_schedule: ServerSchedule = None,
    steps_schedule: StepsSchedule = None,
    cohorts: Annotated[
        str | None,
        typer.Option(
            metavar="C,C/C/...",
            help="the numbers of the clients in round 0, 1, ...; after the last entry the list is repeated",
        ),
    ] = None,
    runs: Annotated[
        int | None, "estimate the loss after --rounds rounds (100) from this many runs, even for thousands of samples"
    ] = None,
) -> None:
    """Print the rate in the kernel regime, the stability limits of the steps, and the rounds until a given residual.

    Default: Algorithm 1 on digits, n = 20, 4 clients, 2 local steps, eta_local .3, eta_global 1, at infinite width.
    With --width these numbers are also printed for the Gram matrix H(0) of a network of that width, drawn from the
    seed. For a network in a file, they are printed for that network's own kernel. Every method takes full-batch steps
    on sums of squares. (`ntkfl fastest` tunes the steps and compares the methods.)

    With --participation, --batch-size or --noise, clients, batches or noise are drawn at random. Rate, limits and
    rounds are then exact for the root mean square of the residual over the draws, and the residual that noise leaves in
    the end is printed. The step sizes and the number of local steps may be given for each round, and so may the clients
    that take part. With --runs the loss is estimated by runs with independent draws, and printed with its error,
    without rate or limits. Exit status: 0 stable, 1 not stable, 2 bad input.
    """
    import numpy as np

    from ntkfl import kernel_regime, random_rounds, sampled_rounds
    from ntkfl.estimate import Rigour
    from ntkfl.exact_dynamics import MovingWindow

    by_round = {"local-schedule": local_schedule, "server-schedule": server_schedule, "steps-schedule": steps_schedule}
    by_round["cohorts"] = cohorts
    chance = bool(participation != 1 or batch_size is not None or noise)
    random = chance or any(by_round.values())
    with bad_input():
        if not eps > 0:
            raise ValueError(f"eps is {eps}; it must be positive")
        plain = {
            "momentum": momentum,
            "client-steps": client_steps,
            "step-factors": step_factors,
            "ima-window": ima_window,
        }
        given = next((name for name, value in plain.items() if value), None)
        if random and given:
            raise ValueError(
                f"--{given} is {plain[given]}; in drawn or scheduled rounds all clients take the same plain steps"
                + (": momentum at the server is --method fedavgm" if given == "momentum" else "")
            )
        counts = given_numbers("client-steps", client_steps, int)
        factors = given_numbers("step-factors", step_factors, float)
        window = None if ima_window is None else MovingWindow(ima_window)
        rounds: dict[str, Any] = {
            "eta_local": given_numbers("local-schedule", local_schedule, float),
            "eta_global": given_numbers("server-schedule", server_schedule, float),
            "local_steps": given_numbers("steps-schedule", steps_schedule, int),
            "cohorts": None if cohorts is None else [numbers_of("cohorts", part, int) for part in cohorts.split("/")],
        }

        # This check comes before H is computed, since the error message of that computation does not name --runs.
        def fits(problem: "Problem") -> None:
            if chance and runs is None:
                from ntkfl.limit.random_regime import require_moments

                require_moments(problem.n, problem.y[0].size)

        problem = chosen_problem(options, "digits", first=fits, condition=condition_of(network), duplicates=duplicates)
        setup, chosen = options.setup(seed=options.seed), method_options(option)
        if runs is not None and not chance:
            raise ValueError(
                f"--runs is {runs}, but nothing is drawn; give --participation, --batch-size or --noise, or no --runs"
            )
        if runs is not None and options.width is not None:
            raise ValueError(f"--width is {options.width}; --runs are of the network at infinite width: leave it out")
        drawn: dict[str, Any] = {"participation": participation, "batch_size": batch_size, "noise": noise}
    if runs is not None:
        with bad_input(OverflowError, ValueError):
            own = None
            if network != TWO_LAYER:
                matrix = next(iter(kernels(network, problem, setup, finite=False).values()))
                problem, own = of_their_outputs(problem, {LIMIT: matrix}), matrix.value
            named = "".join(f", {name} = {value}" for name, value in chosen.items()) + _drawn_said(drawn, by_round)
            of = "" if network == TWO_LAYER else f"{network}, "
            title = f"{of}{method}{named}, {setting(problem, setup, 'local_steps', 'eta_local', 'eta_global')}"
            shown = sorted({int(t) for t in np.geomspace(1, options.rounds or ROUNDS, SHOWN).round()})
            drawn |= {"runs": runs, "seed": options.seed, **rounds}
            _print_estimates(sampled_rounds(problem, setup, shown, own, method, chosen, **drawn), problem.n, title)
        return
    with bad_input():
        matrices = kernels(network, problem, setup, finite=options.width is not None)
        problem = of_their_outputs(problem, matrices)
    with bad_input(OverflowError, ValueError):
        regimes: dict[str, AnyRegime] = {}
        for name, h in matrices.items():
            own = None if (network, name) == (TWO_LAYER, LIMIT) else problem.of_outputs(h.value)
            if random:
                regimes[name] = random_rounds(
                    problem,
                    setup,
                    own,
                    method,
                    chosen,
                    **drawn,
                    **rounds,
                )
            else:
                regimes[name] = kernel_regime(
                    problem,
                    setup,
                    own,
                    method,
                    chosen,
                    momentum,
                    client_steps=counts,
                    step_factors=factors,
                    ima=window,
                )
        certified = [h.rigour <= Rigour.ENCLOSED for h in matrices.values()]
        columns = {name: _column(regimes[name], h, eps, all(certified)) for name, h in matrices.items()}
    first = next(iter(regimes.values()))
    if first.stable:
        what = "the root mean square residual" if random else "the residual"
        typer.echo(f"stable: a round contracts {what} by the factor {first.rate:.9g}")
    elif undecided := _undecided(first):
        typer.echo(f"not decided whether every residual goes to 0: {undecided}")
    elif not first.step_warning:
        typer.echo(f"some residuals never vanish: {_why_some_stay(first)}")
    else:
        typer.echo("NOT STABLE: some residuals never vanish")
    steps = (*(() if client_steps else ("local_steps",)), "eta_local")
    steps += ("eta_global",) if method == "fl-ntk" or setup.eta_global != 1 else ()
    named = "".join(f", {name} = {value}" for name, value in chosen.items())
    named += f", clients' momentum = {momentum:g}" if momentum else ""
    named += "".join(f", {name.replace('-', '_')} = {plain[name]}" for name in list(plain)[1:] if plain[name])
    named += _drawn_said(drawn, by_round) if random else ""
    of = "" if network == TWO_LAYER else f"{network}, "
    print_lines(f"  setting: {of}{method}{named}, {setting(problem, setup, *steps)}", "")
    rows = [
        ["", *columns],
        *([label, *(column[label] for column in columns.values())] for label in next(iter(columns.values()))),
    ]
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(len(rows[0]))]
    for row in rows:
        typer.echo("  " + "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    growing = {name: regime.step_warning for name, regime in regimes.items() if regime.step_warning}
    if growing:
        print_lines("", f"NOT STABLE, {' and '.join(growing)}: {next(iter(growing.values()))}")
        if advice := _of_rows(problem):
            print_lines(advice)
        raise typer.Exit(NOT_STABLE)


def _of_rows(problem: "Problem") -> str:
    """A remark that rows longer than 1 allow only small steps, with a remedy; empty if no row is longer than 1."""
    import numpy as np

    from ntkfl.problem import UNIT_TOLERANCE

    norms = np.linalg.norm(problem.x, axis=1)
    if norms.max() <= 1 + UNIT_TOLERANCE:
        return ""
    message = f"the rows of {problem.name} have norms from {norms.min():.3g} to {norms.max():.3g}"
    return f"{message}, and long rows make stable steps small; --unit divides each row by its norm"


def _why_some_stay(regime: "AnyRegime") -> str:
    from ntkfl.limit.scheduled_rounds import ScheduledRegime, takes_part

    if isinstance(regime, ScheduledRegime) and regime.absent:
        return f"{takes_part(regime.absent)} in no round"
    return "lambda_min(H) is 0, or cannot be told from it"


def _undecided(regime: "AnyRegime") -> str:
    """A remark on the rate, if rounding errors leave open whether residuals fall; otherwise an empty text."""
    from ntkfl.exact_dynamics import RandomRegime

    if not regime.undecided:
        return ""
    if not isinstance(regime, RandomRegime):
        return f"the factor per round is {regime.rate:.9g}, and 1 is within its error"
    low, high = regime.mean_square.rate_bounds
    return f"the factor per round is known to be from {low:.9g} to {high:.9g} only"


def _drawn_said(drawn: dict[str, Any], by_round: dict[str, str | None]) -> str:
    sampling = f", participation = {drawn['participation']:g}, batch_size = {drawn['batch_size'] or 'all'}"
    sampling += f", noise = {drawn['noise']:g}" if drawn["noise"] else ""
    return sampling + "".join(f", {name.replace('-', '_')} = {value}" for name, value in by_round.items() if value)


def _column(regime: "AnyRegime", h: "Estimate", eps: float, certified: bool) -> dict[str, str]:
    """The column of the table for one kernel: for each name of a row, the text in that row.

    `certified` says whether all eigenvalues of the table are certified. If it is false, each eigenvalue has a remark on
    whether that eigenvalue is certified.
    """
    from ntkfl import gram

    what = ", certified" if certified else ""
    return {
        f"lambda_min(H){what}": _eigenvalue(gram.smallest_eigenvalue(h), certified),
        f"lambda_max(H){what}": _eigenvalue(gram.largest_eigenvalue(h), certified),
        **_rates(regime),
        "stable": "yes" if regime.stable else "not decided" if _undecided(regime) else "no",
        **_limits(regime),
        f"rounds to {eps:g} of the start": _rounds(regime, eps),
    }


def _eigenvalue(eigenvalue: "Estimate", all_certified: bool) -> str:
    from ntkfl.estimate import Rigour

    own = "" if all_certified else " (certified)" if eigenvalue.rigour <= Rigour.ENCLOSED else " (H in float64)"
    return amount(eigenvalue) + own


def _rates(regime: "AnyRegime") -> dict[str, str]:
    from ntkfl.exact_dynamics import RandomRegime

    if isinstance(regime, RandomRegime):
        rates = {"factor per round, root mean square": regime.rate}
        if not regime.noise.blocks.given:
            rates["factor per round, of the mean"] = regime.mean.rate
        if regime.noise.gaussian and regime.stable:
            rates["root mean square residual in the end"] = regime.stationary_mean_square() ** 0.5
    else:
        rates = {"spectral radius per round": regime.rate}
    return {label: f"{value:.9g}" for label, value in rates.items()}


def _limits(regime: "AnyRegime") -> dict[str, str]:
    from ntkfl.exact_dynamics import KernelRegime

    limits = regime.step_limits
    whole = isinstance(regime, KernelRegime)
    local = "eta_local limit, any eta_global <= 1" if whole else "eta_local below which clients contract"
    return {"eta_global limit, at this eta_local": _known(limits.eta_global), local: _known(limits.eta_local)}


def _known(limit: float) -> str:
    return "no formula" if isnan(limit) else f"{limit:.6g}"


def _rounds(regime: "AnyRegime", eps: float) -> str:
    from ntkfl.exact_dynamics import RandomRegime

    try:
        if isinstance(regime, RandomRegime) and regime.noise.gaussian:
            return str(regime.rounds_to(eps, at_most=NOISY))
        return str(regime.rounds_to(eps))
    # the steps are unstable, a part of the residual is in the null space of H, or there would be too many rounds
    except ValueError as error:
        counted = re.search(r"within (\d+) rounds", str(error))
        return f"over {counted[1]}" if counted else "never"


def _print_estimates(sampled: "SampledRounds", n: int, settings: str) -> None:
    """Print the mean of the loss of n samples, and its standard deviation over the runs, after some of the rounds."""
    import numpy as np

    mean, error = sampled.mean_square.value / n, sampled.mean_square.error / n
    print_lines(
        f"expected after {sampled.rounds[-1]} rounds: a mean square error of {mean[-1]:.4g} ± {error[-1]:.1g}, three "
        f"standard errors of {sampled.squares.shape[-1]} runs",
        f"  setting: {settings}",
        "",
    )
    columns = ["rounds", "mean square error", "±", "its deviation from run to run"]
    spread = np.sqrt(np.maximum(sampled.square_variance.value, 0)) / n
    table = zip(sampled.rounds, mean, error, spread, strict=True)
    rows = [(f"{t}", f"{m:.6g}", f"{e:.2g}", f"{s:.2g}") for t, m, e, s in table]
    print_table(columns, rows, numbers=columns)
