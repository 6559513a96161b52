"""`ntkfl rate`: how fast Algorithm 1 converges in the kernel regime, and how large its steps may be."""

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.choices import amount, chosen_problem, setting, takes_options

if TYPE_CHECKING:
    from bounds.options import Options
    from ntkfl.estimate import Estimate
    from ntkfl.infinite_width import KernelRegime


@takes_options
def rate(
    options: "Options",
    eps: Annotated[float, typer.Option(help="residual to reach, as a fraction of the initial one")] = 1e-6,
) -> None:
    """The kernel-regime rate, the stability limits of the steps, and the rounds to a given residual.

    Default: digits, n = 20, 4 clients, 2 local steps, eta_local .3, eta_global 1. At infinite width; with --width also
    for the Gram matrix H(0) of the network of that width that the seed draws.
    """
    from ntkfl import gram, kernel_regime
    from ntkfl.initialisation import draw

    with bad_input():
        if not eps > 0:
            raise ValueError(f"eps is {eps}; it must be positive")
        problem = chosen_problem(options, "digits")
        setup = options.setup(seed=options.seed)
    matrices = {"infinite width": gram.infinite_estimate(problem.x)}
    if options.width is not None:
        hidden = draw(setup.width, problem.d, setup.seed, setup.sigma).hidden
        matrices[f"H(0) at width {setup.width}"] = gram.finite_estimate(problem.x, hidden)
    with bad_input(OverflowError):
        regimes = {
            name: kernel_regime(problem, setup, None if name == "infinite width" else h.value)
            for name, h in matrices.items()
        }
        columns = {name: _column(regimes[name], h, eps) for name, h in matrices.items()}
    first = regimes["infinite width"]
    if first.stable:
        typer.echo(f"stable: a round contracts the residual by the factor {first.rate:.9g}")
    else:
        typer.echo("NOT STABLE: some residuals never vanish")
    typer.echo(f"  setting: {setting(problem, setup, 'local_steps', 'eta_local', 'eta_global')}\n")
    rows = [
        ["", *columns],
        *([label, *(column[label] for column in columns.values())] for label in columns["infinite width"]),
    ]
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(len(rows[0]))]
    for row in rows:
        typer.echo("  " + "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _column(regime: "KernelRegime", h: "Estimate", eps: float) -> dict[str, str]:
    from ntkfl import gram

    limits = regime.step_limits
    return {
        "lambda_min(H), certified": amount(gram.smallest_eigenvalue(h)),
        "lambda_max(H), certified": amount(gram.largest_eigenvalue(h)),
        "spectral radius per round": f"{regime.rate:.9g}",
        "stable": "yes" if regime.stable else "no",
        "eta_global limit, at this eta_local": f"{limits.eta_global:.6g}",
        "eta_local limit, any eta_global <= 1": f"{limits.eta_local:.6g}",
        f"rounds to {eps:g} of the start": _rounds(regime, eps),
    }


def _rounds(regime: "KernelRegime", eps: float) -> str:
    try:
        return str(regime.rounds_to(eps))
    except ValueError:  # unstable steps, or a part of the residual where H is zero
        return "never"
