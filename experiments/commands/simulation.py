"""`ntkfl simulate`: Algorithm 1 on data, or what it becomes when the network is linearised or infinitely wide."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.console.bad_input import bad_input
from experiments.console.choices import chosen_problem, one_output, setting, takes_options
from experiments.console.output_files import reserved

if TYPE_CHECKING:
    from bounds.options import Options
    from ntkfl.trajectory import Trajectory

FIELDS = ("width", "local_steps", "eta_local", "eta_global", "rounds")
LINES = 10  # rounds that are printed, the first and the last among them


@takes_options
def simulation(
    options: "Options",
    network: Annotated[
        Literal["finite", "linearised", "infinite"],
        typer.Option(help="as drawn; linearised in its weights; or its limit, from the outputs of the one drawn"),
    ] = "finite",
    out: Annotated[Path | None, typer.Option(help="keep every round in this .npz file, with its provenance")] = None,
) -> None:
    """Run Algorithm 1 of FL-NTK and print how the residual falls and how far the neurons move.

    Default: digits, n = 20, 4 clients, width 4096, 2 local steps, eta_local .3, eta_global 1, 100 rounds. Exit status:
    0, 2 bad input or a run that overflows.
    """
    import numpy as np

    from ntkfl import kernel_regime, simulate
    from ntkfl.initialisation import draw
    from ntkfl.trajectory_file import as_npz

    with ExitStack() as stack:
        with bad_input():
            if out is not None and out.suffix != ".npz":
                raise ValueError(f"out is {out}; it must end in .npz")
            (write,) = stack.enter_context(reserved(out, inputs=(options.data,)))
            problem = one_output(chosen_problem(options, "digits"))
            setup = options.setup(seed=options.seed)
        with bad_input(FloatingPointError, OverflowError):
            if network == "infinite":
                start = draw(setup.width, problem.d, setup.seed, setup.sigma).outputs(problem.x)
                run = kernel_regime(problem, setup).trajectory(initial_outputs=start)
            else:
                run = simulate(problem, setup, linearised=network == "linearised")
        typer.echo(f"{network} width: {setting(problem, setup, *FIELDS)}\n")
        rounds = np.unique(np.linspace(0, run.rounds, LINES).round().astype(int))
        with np.errstate(over="ignore"):  # of a square: then inf is printed
            typer.echo("\n".join(_lines(run, rounds)))
        if write:
            write(as_npz(run))


def _lines(run: "Trajectory", rounds) -> list[str]:
    columns = {"round": None, "residual": run.residual_norm, "loss": run.loss, "|U(t) - U(0)|": run.total_movement}
    columns |= {"farthest neuron": run.movement, "flips": run.flips}
    shown = {name: values for name, values in columns.items() if name == "round" or values is not None}
    lines = ["".join(name.rjust(17) for name in shown)]
    for t in rounds:
        lines.append("".join((str(t) if values is None else f"{values[t]:.6g}").rjust(17) for values in shown.values()))
    return lines
