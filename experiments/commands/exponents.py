"""`ntkfl exponents`: the powers of the width, as the theory has them and as ladders of widths show them."""

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.choices import takes_options

if TYPE_CHECKING:
    from bounds.options import Options
    from bounds.width_rate import Quantity, WidthRate

PIPED_WIDTH = 120
HEADER = ("quantity", "theory", "measured", "interval", "coefficient: theory", "measured", "statement")
NUMBERS = ("theory", "measured", "interval", "coefficient: theory")
FEWEST_WIDTHS, FEWEST_NETWORKS = 4, 2


@takes_options
def exponents(
    options: "Options",
    largest: Annotated[int | None, typer.Option(help="largest width (2^16; 2^20 at initialisation)")] = None,
    networks: Annotated[int | None, typer.Option(help="networks at each width, at most")] = None,
) -> None:
    """The table of exponents: each quantity's power of the width and its leading coefficient, theory beside measured.

    Every power is the log-log slope over a ladder of widths, with a 99% interval that includes finite-width bias; every
    coefficient is taken at the three largest widths. Default: n = 6 points in d = 4, 3 clients, 3 local steps,
    eta_local .4, 60 rounds.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    with bad_input():
        ladders = _ladders(options, largest, networks)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in HEADER:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=name != HEADER[0])
    with bad_input(FloatingPointError):
        for draw, statements in ladders.items():
            ladder = draw.case(options.seed)
            for statement in statements:
                for quantity in statement.quantities:
                    table.add_row(*(Text(cell) for cell in (*_cells(quantity, ladder), statement.id)))
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=PIPED_WIDTH if piped else None)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
    for draw in ladders:
        name, widths = draw.name.split(", widths")[0], f"widths {min(draw.widths)} to {max(draw.widths)}"
        typer.echo(f"{name}: {sum(draw.counts)} networks of {widths}")


def _ladders(options: "Options", largest: int | None, networks: int | None) -> "dict[Any, list[WidthRate]]":
    """The statements of exponents by the ladder of widths that they are measured on.

    Raises:
        ValueError: fewer than four widths or two networks are left.
    """
    from bounds.initial_ladder import InitialLadderDraw
    from bounds.listing import catalogue
    from bounds.width_ladder import LadderDraw
    from bounds.width_rate import WidthRate

    if networks is not None and networks < FEWEST_NETWORKS:
        raise ValueError(f"networks is {networks}; a spread needs at least {FEWEST_NETWORKS} at each width")
    statements = [statement for statement in catalogue().values() if isinstance(statement, WidthRate)]
    drawn = ((draw, s) for s in statements for form in s.forms for draw in s.families(form, options))
    families = [(draw, s) for draw, s in drawn if isinstance(draw, LadderDraw | InitialLadderDraw)]
    needed = max(sorted(draw.widths)[FEWEST_WIDTHS - 1] for draw, _ in families)
    if largest is not None and largest < needed:
        raise ValueError(f"largest is {largest}; a slope needs {FEWEST_WIDTHS} widths, so it must be at least {needed}")
    found: dict[Any, list[WidthRate]] = {}
    for draw, statement in families:
        found.setdefault(_shortened(draw, largest, networks), []).append(statement)
    return found


def _shortened(draw: Any, largest: int | None, networks: int | None) -> Any:
    rungs = [
        (width, count if networks is None else min(count, networks))
        for width, count in zip(draw.widths, draw.counts, strict=True)
        if largest is None or width <= largest
    ]
    widths, counts = zip(*rungs, strict=True)
    return replace(draw, widths=widths, counts=counts)


def _cells(quantity: "Quantity", ladder: Any) -> tuple[str, ...]:
    from bounds.slopes import NoSlope

    theory = "" if quantity.coefficient is None else f"{quantity.coefficient(ladder):.4g}"
    try:
        found, coefficient = quantity.exponent_on(ladder), quantity.coefficient_on(ladder)
    except NoSlope:
        return quantity.name, str(quantity.exponent), "-", "lost in the noise", theory, "-"
    interval = f"[{float(found.lo):+.3f}, {float(found.hi):+.3f}]"
    return quantity.name, str(quantity.exponent), f"{float(found.value):+.3f}", interval, theory, f"{coefficient:.4g}"
