"""`ntkfl certify`: whether one concrete network converges, decided before any training."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.choices import BUILT_IN_SIZE, chosen_problem, one_output, setting, takes_options
from experiments.commands.output_files import reserved

if TYPE_CHECKING:
    from bounds.fl_ntk.certificate_record import Certificate
    from bounds.options import Options

NOT_CERTIFIED = 1
DEFAULTS = {"width": 64000, "eta_local": 0.02, "eta_global": 1.0, "local_steps": 2}
SPHERE_SIZE = 4  # samples on the sphere: with 64000 neurons most draws certify


@takes_options
def certify(
    options: "Options",
    json_file: Annotated[Path | None, typer.Option("--json", help="write the certificate as JSON to this file")] = None,
) -> None:
    """Certify the network that the seed draws: that Algorithm 1 converges on it, at which rate, for which radius R.

    Default: sphere, n = 4, width 64000, 2 clients, 2 local steps, eta_local .02, eta_global 1. Other data keep these
    values and bring their own size and clients. Exit status: 0 certified, 1 not certified, 2 bad input.
    """
    from ntkfl.trajectory import provenance
    from verification.certification import certify as certified_network
    from verification.verdict import strict_json

    with ExitStack() as stack:
        with bad_input():
            size = SPHERE_SIZE if options.data in (None, "sphere") else BUILT_IN_SIZE
            problem = one_output(chosen_problem(options, "sphere", size))
            setup = options.setup(seed=options.seed, **DEFAULTS)
            (write,) = stack.enter_context(reserved(json_file, inputs=(options.data,)))
        found: Certificate = certified_network(problem, setup)
        said = setting(problem, setup, "width", "sigma", "local_steps", "eta_local", "eta_global", "seed")
        typer.echo(f"{found}\n  setting: {said}")
        if write:
            content = {"provenance": provenance(weights=setup.seed), "setting": said, "certificate": found.to_dict()}
            write(json.dumps(strict_json(content), indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    if not found.certified:
        raise typer.Exit(NOT_CERTIFIED)
