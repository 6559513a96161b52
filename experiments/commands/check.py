"""`ntkfl check`: a first look at the user's data.

It describes the data, tests the statements with the sharpest bounds, and gives the rate of training. A form of a
statement is one version of its claim, such as the version that a paper prints.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped
from experiments.console.choices import (
    REFUSE,
    Duplicates,
    chosen_problem,
    for_a_look,
    one_output,
    takes_options,
)
from experiments.console.kernels import momentum_rounds, rounds_said, scaled_columns
from experiments.console.progress_bar import CaseProgress
from experiments.console.tables import page_width, wrapped

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl import Problem
    from verification.first_look import Checked, FirstLook

# built-in data have SAMPLES rows by default, and a file with more than LARGE rows takes over half a minute
SAMPLES, LARGE = 100, 500
TARGET = 1e-6  # rounds are counted until this share of the first residual is left


@takes_options
def check(
    options: "Options",
    data: Annotated[str, typer.Argument(help="a .csv or .npz file; digits, wine, breast_cancer, sphere")],
    duplicates: Duplicates = REFUSE,
) -> None:
    """Take a first look at your data, on one screen: ntkfl check mine.csv

    It first shows a summary of the data. Then it tests the ten statements with the sharpest bounds, each on five
    networks. The networks have width 1024, or a smaller width if the data have more than 1024 columns. They are trained
    for 20 rounds if the statement is about training. A statement whose hypotheses need a smaller step is tested with a
    smaller step. The command also names the option that lets more statements apply. For the infinitely wide network it
    prints the smallest eigenvalue of the kernel, the rate and the limits of the steps, and the number of rounds after
    which momentum at the server leaves 1e-6 of the first residual. Last come three commands to run next. For 500 rows
    all this takes half a minute. Exit status: 0 done; 1 if a statement that is recorded to hold is violated, or if
    nothing could be tested; 2 bad input.
    """
    from bounds import Outcome, catalogue
    from ntkfl import gram
    from ntkfl.data import BUILT_IN
    from ntkfl.memory import TooLittleMemory
    from ntkfl.problem import require_magnitudes
    from verification.first_look import first_look

    with bad_input():
        problem = one_output(chosen_problem(options, data, SAMPLES, duplicates=duplicates))
        if data in BUILT_IN:
            options = replace(options, n=problem.n)
        require_magnitudes(problem)
        kernel = gram.infinite_estimate(problem.x)
        options = for_a_look(problem, options, kernel.value)
    for line in _data_lines(problem):
        typer.echo(line)
    with bad_input(TooLittleMemory), if_stopped(lambda: "nothing is kept"), CaseProgress() as progress:
        look = first_look(catalogue().values(), options, progress)
    for line in _statement_lines(look, options) + _kernel_lines(problem, options, kernel) + _next(look, options):
        typer.echo(line)
    if not look.checked or any(checked.outcome is Outcome.VIOLATED for checked in look.checked):
        raise typer.Exit(1)


def _data_lines(problem: "Problem") -> list[str]:
    """The numbers of rows and features, the labels, the clients and the norms of the rows, in words."""
    import numpy as np

    from ntkfl.messages import number_of
    from ntkfl.problem import UNIT_TOLERANCE
    from ntkfl.rounding import row_norms

    values, counts = np.unique(problem.y, return_counts=True)
    labels = ", ".join(f"{count} of {value:g}" for value, count in zip(values, counts, strict=True))
    if len(values) > 5:
        labels = f"{len(values)} values, {values[0]:.4g} to {values[-1]:.4g}"
    sizes = np.bincount(problem.owner)
    norms = row_norms(problem.x)
    unit = problem.unit_deviation <= UNIT_TOLERANCE
    rows = "rows of norm 1" if unit else f"rows of norm {norms.min():.3g} to {norms.max():.3g}"
    size = f"{sizes.min()} to {sizes.max()} rows" if sizes.min() < sizes.max() else number_of(int(sizes.max()), "row")
    clients = f"{number_of(problem.n_clients, 'client')} of {size}"
    counted = f"{number_of(problem.n, 'row')}, {number_of(problem.d, 'feature')}"
    text = f"{problem.name}: {counted}; labels: {labels}; {clients}; {rows}"
    large = [f"more than {LARGE} rows: this may take minutes"] if problem.n > LARGE else []
    return [*wrapped(text), *large, ""]


def _statement_lines(look: "FirstLook", options: "Options") -> list[str]:
    """A line for each tested statement, then how many bounds and identities apply, and how many cannot be tested.

    The last lines name the option that lets more statements apply.
    """
    from verification.applicability import Applies

    setup = options.setup()
    chosen = f"width {setup.width}, {setup.rounds} rounds of {setup.local_steps} local steps"
    head = f"of {len(look.looked)} forms about data these say most, sharpest first ({chosen}):"
    rows = [_row(checked, options) for checked in look.checked]
    # the column of steps is left out if no statement has a step of its own
    columns = 4 if any(row[3] for row in rows) else 3
    table = [row[:columns] for row in [("", "outcome", "left/right", "step"), *rows]]
    widths = [max(len(row[i]) for row in table) for i in range(columns)]
    widths[0] = min(widths[0], page_width() - sum(widths[1:]) - 2 * (columns - 1))
    lines = [*wrapped(head), *(line for row in table for line in _row_lines(row, widths))]
    rest = f"{look.count(Applies.YES)} bounds and {look.count(Applies.IDENTITY)} identities apply in all"
    if look.identities:
        rest = f"{look.count(Applies.YES)} bounds apply in all; identities, {look.identities} forms, were not looked at"
    blocked = ", ".join(f"{name} {count}" for name, count in look.blocked_forms.most_common(4))
    blocked = f"; {look.blocked_forms.total()} cannot be tested here, for want of {blocked}" if blocked else ""
    lines += ["", *wrapped(rest + blocked)]
    change, more = look.easiest
    if more:
        titles = "; ".join(statement.title for statement in more[:3])
        lines += wrapped(f"{change} would let {len(more)} more be tested: {titles}{', ...' if len(more) > 3 else ''}")
    return [*lines, ""]


def _row_lines(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """A row of the table; a title that is too long continues on the next line."""
    title, *others = wrapped(row[0], widths[0]) or [""]
    cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return ["  ".join([title.ljust(widths[0]), *cells]).rstrip(), *others]


def _row(checked: "Checked", options: "Options") -> tuple[str, str, str, str]:
    """The columns of a tested statement: id and title, outcome and numbers of cases, left/right, and its own step."""
    from verification.applicability import Applies
    from verification.verdict_page import ratio_text

    own = checked.looked.plan.options.eta_local
    step = "" if own is None or own == options.eta_local else f"{own:g}"
    exact = checked.looked.applies is Applies.IDENTITY
    ratio = f"to {checked.sharpest:.0e}" if exact else ratio_text(checked.sharpest, 3)
    statement = checked.looked.statement
    return (
        f"{statement.id}  {statement.title}",
        f"{checked.outcome.value} {checked.admitted}/{checked.drawn}",
        ratio,
        step,
    )


def _kernel_lines(problem: "Problem", options: "Options", kernel) -> list[str]:
    """Lines on the kernel at infinite width: its smallest eigenvalue, the rate, and the limits of the steps.

    Below them is the number of rounds that momentum at the server needs.
    """
    from ntkfl import gram, kernel_regime
    from ntkfl.data import BUILT_IN
    from verification.verdict_page import ratio_text

    least = gram.smallest_eigenvalue(kernel)
    regime = kernel_regime(problem, options.setup(seed=options.seed), kernel.value)
    limits = regime.step_limits
    setup = regime.setup
    leaves = f"a round leaves {ratio_text(regime.rate, 6)} of the residual in the long run"
    stable = leaves if regime.stable else "not stable"
    text = (
        f"infinite width: lambda_min {float(least.value):.4g} ± {float(least.error):.0e}; "
        f"eta_local {setup.eta_local:g}: {stable}; limits: eta_local {limits.eta_local:.3g} at eta_global up to 1, "
        f"eta_global {limits.eta_global:.3g} at this eta_local"
    )
    lines = wrapped(text)
    try:
        best = momentum_rounds(problem, TARGET, kernel.value)
    except ModuleNotFoundError:
        return [*lines, *wrapped("how fast momentum at the server trains: that needs PyTorch"), ""]
    if best is not None:
        lines += wrapped(
            f"fedavgm, one local step, momentum {best.options['momentum']:.4g} and the step in closed form: "
            f"{rounds_said(best)} to {TARGET:g} of the residual"
        )
        lines += [] if options.data in BUILT_IN else wrapped(scaled_columns(problem, TARGET, best))
    return [*lines, ""]


def _next(look: "FirstLook", options: "Options") -> list[str]:
    """Three commands to run next."""
    from verification.judging.check import option_words, replay_command

    words = " ".join(option_words(options))
    own = " ".join(option_words(replace(options, width=None, rounds=None, eta_local=None)))
    change, more = look.easiest
    data, *others = option_words(replace(options, width=None, rounds=None, eta_local=None, n=None))
    again = " ".join(["ntkfl check", data.removeprefix("--data "), *others, change])
    lines = [again if more else f"ntkfl applies {words}"]
    if look.checked:
        plan = look.checked[0].looked.plan
        lines.append(replay_command(plan.statement, plan.form, replace(plan.options, trials=None)))
    return ["next:", *(f"  {line}" for line in [*lines, f"ntkfl fastest {own}"])]
