"""`ntkfl requirements`: the width, the local step and the number of rounds of Theorem B.3, in numbers."""

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input
from experiments.console.choices import chosen_problem, one_output, takes_options

if TYPE_CHECKING:
    from bounds import Options
    from bounds.fl_ntk.theorem_requirements import Requirements

DEFAULT_SIZES = ((4, 4), (4, 16), (8, 8), (12, 12), (20, 20), (20, 100))  # pairs of n and d
UNUSED = ("width", "eta_local", "local_steps", "rounds", "sigma")
HEADER = ("n", "d", "N", "λ", "κ", "width, mean r_0", "width, r_0 of B.8", "η_l K at most", "2/μ", "rounds")


@takes_options
def requirements(
    options: "Options",
    share: Annotated[float, "fraction of the initial squared residual to reach"] = 1e-6,
) -> None:
    """Print the width and the local step that Theorem B.3 of FL-NTK requires, and the number of rounds at its rate.

    By default there are six data sets on the sphere, of different n and d, with 2 clients, and eta_global is 1. With
    --data or --n only the data set that these options name is taken. lambda and kappa are the smallest eigenvalue and
    the condition number of H_inf. The standard deviation sigma of the initial weights is 1, and the failure probability
    delta is .1.
    """
    from bounds.fl_ntk.theorem_requirements import requirements as asked
    from ntkfl import data

    with bad_input():
        for name in UNUSED:
            if getattr(options, name) is not None:
                raise ValueError(
                    f"{name} is given, but the theorem's own {name.replace('_', ' ')} is used here; leave it out"
                )
        if options.data is None and options.n is None:
            clients, partition = options.clients or 2, options.partition or "iid"
            problems = [
                data.sphere(n, d, seed=options.seed, clients=clients, partition=partition) for n, d in DEFAULT_SIZES
            ]
        else:
            problems = [one_output(chosen_problem(options, "sphere"))]
        rows = [_row(asked(problem, options.eta_global or 1.0, share)) for problem in problems]
    cells = [HEADER, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADER))]
    for row in cells:
        typer.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    typer.echo(
        "\nwidth: 6.4e7 n^3 r_0^2/λ^4, at which the proof has R ≤ λ/(1000 n)\n"
        "mean r_0: r_0^2 = |y|^2 + n/2, its mean over the networks; r_0 of B.8: the bound that Lemma B.8 proves\n"
        "η_l K at most: λ/(1000 κ n^2); below 2/μ a local step is stable, for every K, N and partition (X.3)\n"
        f"rounds: until |y - y(t)|^2 is {share:g} of its start, by Eq (7) at that step"
    )


def _row(needs: "Requirements") -> tuple[str, ...]:
    return (
        str(needs.n),
        str(needs.d),
        str(needs.clients),
        f"{needs.smallest_eigenvalue:.3f}",
        f"{needs.condition_number:.1f}",
        f"{needs.width:.1e}",
        f"{needs.width_by_lemma:.1e}",
        f"{needs.local_time:.1e}",
        f"{needs.stable_step:.2f}",
        f"{needs.rounds:.1e}",
    )
