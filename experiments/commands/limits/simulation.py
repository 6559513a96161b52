"""`ntkfl simulate`: a run of Algorithm 1 with any network, compared with the network's infinitely wide limit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, reserved
from experiments.console.choices import REFUSE, Duplicates, chosen_problem, one_output, setting, takes_options
from experiments.console.kernels import condition_of, exact_run, network_of, own_kernel

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl.trajectory import Trajectory

FIELDS = ("width", "local_steps", "eta_local", "eta_global", "rounds")
FL_NTK = ("finite", "linearised", "infinite")  # FL-NTK's network, its linearisation, and its infinitely wide limit
DEEP_WIDTH = 512  # default width of other networks
LINES = 10  # number of rounds that are printed, the first and the last included


@takes_options
def simulation(
    options: "Options",
    network: Annotated[
        str,
        typer.Option(
            metavar="finite|linearised|infinite|fc:L:PHI|conv:L:PHI|FILE.py",
            help="FL-NTK's network, its linearisation, or its infinite-width limit; a fully connected or convolutional "
            "network with L layers of weights, all trained, and activation PHI (relu, erf, gelu); or that of a file",
        ),
    ] = "finite",
    duplicates: Duplicates = REFUSE,
    out: Annotated[Path | None, "keep every round in this .npz file, with its provenance"] = None,
) -> None:
    """Run Algorithm 1 of FL-NTK and print how the residual falls and how far the neurons move.

    Default: digits, n = 20, 4 clients, width 4096 (512 for networks other than FL-NTK's), 2 local steps, eta_local .3,
    eta_global 1, 100 rounds. For a network other than FL-NTK's the command also prints how far the outputs are from
    those of the network's infinite-width limit, and from those of the kernel regime of the network's own kernel at the
    start. Both are computed exactly, from the same outputs before training. Exit status: 0 done, 2 bad input or a run
    that overflows.
    """
    import numpy as np

    from ntkfl import kernel_regime, simulate, simulate_network
    from ntkfl.initialisation import draw
    from ntkfl.trajectory_file import as_npz

    with bad_input():
        if out is not None and out.suffix != ".npz":
            raise ValueError(f"out is {out}; it must end in .npz")
    with reserved(out, inputs=(options.data,)) as (write,):
        with bad_input():
            condition = condition_of(network, FL_NTK)
            problem = chosen_problem(options, "digits", condition=condition, duplicates=duplicates)
            if network in FL_NTK:
                problem, setup = one_output(problem), options.setup(seed=options.seed)
            else:
                setup = options.setup(seed=options.seed, width=DEEP_WIDTH)
                model, wide = network_of(network, problem, setup, FL_NTK)
        exact: dict[str, Trajectory] = {}
        with bad_input(ValueError, FloatingPointError, OverflowError):
            if network == "infinite":
                start = draw(setup.width, problem.d, setup.seed, setup.sigma).outputs(problem.x)
                run = kernel_regime(problem, setup).trajectory(initial_outputs=start)
            elif network in FL_NTK:
                run = simulate(problem, setup, linearised=network == "linearised")
            else:
                run = simulate_network(problem, setup, model)
                limit = {} if wide is None else {"its limit": wide.kernel(problem.x)}
                for name, matrix in (limit | {"its own kernel": own_kernel(model, problem, setup).value}).items():
                    exact[name] = exact_run(problem, setup, matrix, run.outputs[0])
        label = f"{network} width" if network in FL_NTK else model.name
        typer.echo(f"{label}: {setting(problem, setup, *FIELDS[0 if network in FL_NTK else 1 :])}\n")
        rounds = np.unique(np.linspace(0, run.rounds, LINES).round().astype(int))
        with np.errstate(over="ignore"):  # a square that overflows is printed as inf
            typer.echo("\n".join(_lines(run, rounds, exact)))
        if write:
            write(as_npz(run))


def _lines(run: "Trajectory", rounds, exact: "dict[str, Trajectory]") -> list[str]:
    import numpy as np

    moved = "|U(t) - U(0)|" if run.movement is not None or not exact else "parameters moved"
    columns = {"round": None, "residual": run.residual_norm, "loss": run.loss, moved: run.total_movement}
    columns |= {"farthest neuron": run.movement, "flips": run.flips}
    for name, other in exact.items():
        columns[f"off {name}"] = np.linalg.norm((run.outputs - other.outputs).reshape(len(run.outputs), -1), axis=1)
    shown = {name: values for name, values in columns.items() if name == "round" or values is not None}
    widths = [max(17, len(name) + 3) for name in shown]
    lines = ["".join(name.rjust(width) for name, width in zip(shown, widths, strict=True))]
    for t in rounds:
        cells = (str(t) if values is None else f"{values[t]:.6g}" for values in shown.values())
        lines.append("".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))
    return lines
