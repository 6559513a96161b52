"""`ntkfl connectivity-table`: bounds on the barrier between two networks, beside the exact barrier."""

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.console.blocks import bad_input, if_stopped
from experiments.console.tables import as_lines

if TYPE_CHECKING:
    from experiments.connectivity_rows import BoundsRow

HEADER = ("networks", "d", "Theorem 3.5", "R1", "sure", "R2", "largest gap", "barrier", "accuracy barrier")
WIDTH = 140  # number of characters in a line of the table, whatever the terminal's width
CLASSES = 10


def connectivity_table(
    images: Annotated[Literal["digits", "fashion-mnist"], "what the networks are trained on"] = "digits",
    samples: Annotated[int, typer.Option(min=CLASSES, help="images, half of them for each client")] = 400,
    width: Annotated[int, typer.Option(min=1, help="hidden units of the trained networks")] = 32,
    steps: Annotated[
        int, typer.Option(min=1, help="steps of gradient descent; in the federated rows, local steps over all rounds")
    ] = 300,
    clients: Annotated[int, typer.Option(min=2, help="clients of the federated rows")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="rounds of the federated rows")] = 10,
    weight: Annotated[float, typer.Option(min=0, help="weight of the connectivity loss")] = 1.0,
    delta: Annotated[float, "failure probability of Theorem 3.5 and R1"] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="seed of networks and data")] = 0,
) -> None:
    """Print bounds on the barrier between two networks, beside the exact barrier.

    There are four bounds: FedGuCci's Theorem 3.5, and three bounds that are proved here, called R1, the sure bound and
    R2 (`ntkfl show fedgucci/R1`, `fedgucci/R2`).

    The first rows are about networks drawn in cubes of side d around an anchor network. Each of these rows shows the
    draw whose gap is the largest among five draws. The other rows are about networks with both layers trained, on even
    against odd classes (logistic loss) and on ten classes (cross-entropy, for which every bound is multiplied by sqrt
    2). The networks "alone" and "connected" are trained on halves of the images, from different starts: "alone"
    without, and "connected" with the connectivity loss to an anchor that was trained on all images. "FedAvg" and
    "FedGuCci" are the two clients of the last round with the largest accuracy barrier. Their data are split by
    Dirichlet(0.3), and their anchor is the global network at the beginning of that round.

    For trained networks d is the side of the smallest cube around the anchor that holds both networks. Trained networks
    are no uniform draws from this cube. So Theorem 3.5 and R1 are shown for them only for comparison, while the sure
    bound and R2 hold. Theorem 3.5 is taken at d; the d_epsilon of the theorem is smaller than d by at most the factor
    (1 - delta)^(1/S).
    """
    from rich.text import Text

    from experiments.connectivity_rows import cube_rows, trained_rows
    from verification.tables import plain_table

    table = plain_table(HEADER, numbers=HEADER[1:])

    def kept() -> str:
        if not table.rows:
            return "no row was done"
        typer.echo(as_lines(table, least=WIDTH))
        return f"{len(table.rows)} rows were done, and are printed"

    with if_stopped(kept), bad_input(ValueError, OSError, FloatingPointError):
        if not 0 < delta < 1:
            raise ValueError(f"delta is {delta:g}; it must lie between 0 and 1")
        trained = trained_rows(
            images,
            samples,
            width,
            steps=steps,
            clients=clients,
            rounds=rounds,
            weight=weight,
            delta=delta,
            seed=seed,
        )
        for row in chain(cube_rows(delta, seed), trained):
            table.add_row(*map(Text, _cells(row)))
    typer.echo(as_lines(table, least=WIDTH))


def _cells(row: "BoundsRow") -> tuple[str, ...]:
    numbers = (row.side, row.stated, row.first, row.sure, row.by_data, row.gap, row.barrier, row.accuracy)
    return row.networks, *("" if number is None else f"{number:.3g}" for number in numbers)
