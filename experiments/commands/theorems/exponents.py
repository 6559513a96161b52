"""`ntkfl exponents`: the powers of the width with which quantities grow, by theory and as measured."""

from collections.abc import Iterable, Sequence
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped
from experiments.console.choices import chosen_problem, one_output, takes_options
from experiments.console.tables import as_lines, console, print_lines

if TYPE_CHECKING:
    from bounds import Options
    from bounds.ladders.rungs import WidthFamily
    from verification.exponents import Exponent

HEADER = ("quantity", "theory", "measured", "interval", "coefficient: theory", "measured", "statement")
WIDER = 1000  # number of columns, larger than the width of any table
NUMBERS = ("theory", "measured", "interval", "coefficient: theory")


@takes_options
def exponents(
    options: "Options",
    largest: Annotated[int | None, "largest width (2^16; 2^20 at initialisation)"] = None,
    networks: Annotated[int | None, "networks at each width, at most"] = None,
) -> None:
    """Print how quantities grow with the width: exponents and leading coefficients, theory beside measured.

    An exponent is the log-log slope over increasing widths, with a 99% interval that allows for finite-width bias. A
    coefficient is taken from the three largest widths. Default: n = 6 points in d = 4 dimensions, 3 clients, 3 local
    steps, eta_local .4, 60 rounds. This takes some 25 s of processor time. After Ctrl-C the quantities that were
    measured are printed.
    """
    from verification.exponents import exponents as measured, ladders

    with bad_input():
        if options.data is not None:
            one_output(chosen_problem(options, options.data))
        wanted = ladders(options, largest, networks)
    with bad_input(FloatingPointError):
        _print(measured(wanted, options.seed), [draw for draw in wanted for s in wanted[draw] for _ in s.quantities])
    for draw in wanted:
        widths = f"widths {min(draw.widths)} to {max(draw.widths)}"
        print_lines(f"{_name(draw)}: {sum(draw.counts)} networks of {widths}")


def _print(measured: "Iterable[Exponent]", draws: "Sequence[WidthFamily]") -> None:
    """Print the quantities of these draws as a table.

    After an interrupt or an error, the quantities that were measured are printed.
    """
    from experiments.console.progress_bar import ProgressBar

    rows: list[Exponent] = []
    try:
        with (
            if_stopped(lambda: f"{len(rows)} of {len(draws)} quantities were measured"),
            ProgressBar("quantities") as bar,
        ):
            bar.show(0, len(draws), f"networks of {_name(draws[0])}")
            for row in measured:
                rows.append(row)
                bar.show(len(rows), len(draws), f"networks of {_name(draws[min(len(rows), len(draws) - 1)])}")
    finally:
        if rows:
            typer.echo("\n".join(lines_of(rows)))


def _name(draw: "WidthFamily") -> str:
    return draw.name.split(", widths")[0]


def lines_of(rows: "Sequence[Exponent]") -> list[str]:
    """The lines of the table, with a statement's title under its first row.

    In a narrow terminal the names of quantities stand above their numbers.
    """
    from rich.text import Text

    from verification.tables import plain_table

    cells = [_cells(row) for row in rows]
    named_above = ["", *(row.title for row in rows)]  # the title of a statement is printed once, above all its rows
    titles = [
        "" if row.title in (row.quantity, above) else row.title for row, above in zip(rows, named_above, strict=False)
    ]
    whole = plain_table(HEADER, numbers=NUMBERS)
    for row in cells:
        whole.add_row(*map(Text, row))
    # a measured table is never wider than its console
    room, needed = console().width, console(WIDER).measure(whole).maximum
    if needed <= room:
        head, *lines = as_lines(whole).splitlines()
        return [head, *chain(*([line, *_under(title, room)] for line, title in zip(lines, titles, strict=True)))]
    numbers = plain_table(HEADER[1:-1], numbers=NUMBERS)
    for row in cells:
        numbers.add_row(*map(Text, row[1:-1]))
    head, *lines = as_lines(numbers, least=needed).splitlines()
    named = [f"{row[0]} ({row[-1]})" for row in cells]
    leads = ([name, *_under(title, room)] for name, title in zip(named, titles, strict=True))
    return ["quantity (statement)", head, *chain(*([*lead, line] for lead, line in zip(leads, lines, strict=True)))]


def _under(title: str, room: int) -> list[str]:
    return wrap(title, room, initial_indent="  ", subsequent_indent="  ")


def _cells(row: "Exponent") -> tuple[str, ...]:
    theory = "" if row.coefficient is None else f"{row.coefficient:.4g}"
    measured = row.measured
    if measured is None:
        return row.quantity, str(row.theory), "-", "lost in the noise", theory, "-", row.statement
    interval = f"[{float(measured.lo):+.3f}, {float(measured.hi):+.3f}]"
    slope, coefficient = f"{float(measured.value):+.3f}", f"{row.measured_coefficient:.4g}"
    return row.quantity, str(row.theory), slope, interval, theory, coefficient, row.statement
