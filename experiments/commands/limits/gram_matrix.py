"""`ntkfl gram`: the Gram matrix of data, at infinite width or of a network, with its extreme eigenvalues."""

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, reserved
from experiments.console.choices import REFUSE, Duplicates, amount, chosen_problem, takes_options
from experiments.console.kernels import LIMIT, NETWORK, TWO_LAYER, condition_of, kernels

if TYPE_CHECKING:
    from bounds import Options

# default number of clients of built-in data; if there are fewer samples, there are as many clients as samples
DEFAULT_CLIENTS = 4
UNUSED = ("eta_local", "eta_global", "local_steps", "rounds", "clients", "partition")


@takes_options
def gram_matrix(
    options: "Options",
    network: Annotated[str, NETWORK] = TWO_LAYER,
    duplicates: Duplicates = REFUSE,
    out: Annotated[Path | None, "write it to this .npy file, in the order of the data"] = None,
) -> None:
    """Compute the Gram matrix H_inf of the data, or with --width the Gram matrix H(0) of a network of that width.

    The network is drawn from the seed. Default: digits, n = 20. If the errors of the entries are proven, the errors of
    the eigenvalues are proven too. Exit status: 0 done, 2 bad input.
    """
    import numpy as np

    from ntkfl import gram

    with bad_input():
        for name in UNUSED:
            if getattr(options, name) is not None:
                raise ValueError(f"{name} is given, and a Gram matrix does not depend on it; leave it out")
        if out is not None and out.suffix != ".npy":
            raise ValueError(f"out is {out}; it must end in .npy")
    with reserved(out, inputs=(options.data,)) as (write,):
        with bad_input():
            alone = options.n is not None and options.n < DEFAULT_CLIENTS
            chosen = replace(options, clients=1) if alone else options
            problem = chosen_problem(chosen, "digits", condition=condition_of(network), duplicates=duplicates)
            setup = options.setup(seed=options.seed)
            *_, (name, matrix) = kernels(network, problem, setup, finite=options.width is not None).items()
        name = "H_inf" if name == LIMIT else name
        of = "" if network == TWO_LAYER or network in name else f"of {network} "
        size = len(matrix.value)
        typer.echo(f"{name} {of}on {problem.name}: {size} x {size}, d = {problem.d}")
        typer.echo(f"  entries known to  {np.max(matrix.error):.1e} ({matrix.method})")
        typer.echo(f"  lambda_min        {amount(gram.smallest_eigenvalue(matrix))}")
        typer.echo(f"  lambda_max        {amount(gram.largest_eigenvalue(matrix))}")
        if write:
            file = io.BytesIO()
            np.save(file, np.asarray(matrix.value), allow_pickle=False)
            write(file.getvalue())
