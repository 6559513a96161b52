"""`ntkfl exponents`: the powers of the width, as the theory has them and as ladders of widths show them."""

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.bad_input import bad_input
from experiments.console.choices import chosen_problem, one_output, takes_options
from experiments.console.tables import as_lines

if TYPE_CHECKING:
    from bounds.options import Options
    from verification.exponents import Exponent

HEADER = ("quantity", "theory", "measured", "interval", "coefficient: theory", "measured", "statement")
NUMBERS = ("theory", "measured", "interval", "coefficient: theory")


@takes_options
def exponents(
    options: "Options",
    largest: Annotated[int | None, typer.Option(help="largest width (2^16; 2^20 at initialisation)")] = None,
    networks: Annotated[int | None, typer.Option(help="networks at each width, at most")] = None,
) -> None:
    """How quantities grow with the width: exponent and leading coefficient of each, theory beside measured.

    An exponent is the log-log slope over increasing widths, with a 99% interval that allows for finite-width bias; a
    coefficient is taken from the three largest widths. Default: n = 6 points in d = 4, 3 clients, 3 local steps,
    eta_local .4, 60 rounds.
    """
    from rich.text import Text

    from verification.exponents import exponents as measured
    from verification.exponents import ladders
    from verification.tables import plain_table

    with bad_input():
        if options.data is not None:
            one_output(chosen_problem(options, options.data))
        wanted = ladders(options, largest, networks)
    table = plain_table(HEADER, numbers=NUMBERS, wrapped=HEADER[:1])
    with bad_input(FloatingPointError):
        for row in measured(wanted, options.seed):
            table.add_row(*map(Text, _cells(row)))
    typer.echo(as_lines(table))
    for draw in wanted:
        name, widths = draw.name.split(", widths")[0], f"widths {min(draw.widths)} to {max(draw.widths)}"
        typer.echo(f"{name}: {sum(draw.counts)} networks of {widths}")


def _cells(row: "Exponent") -> tuple[str, ...]:
    theory = "" if row.coefficient is None else f"{row.coefficient:.4g}"
    measured = row.measured
    if measured is None:
        return row.quantity, str(row.theory), "-", "lost in the noise", theory, "-", row.statement
    interval = f"[{float(measured.lo):+.3f}, {float(measured.hi):+.3f}]"
    slope, found = f"{float(measured.value):+.3f}", f"{row.found:.4g}"
    return row.quantity, str(row.theory), slope, interval, theory, found, row.statement
