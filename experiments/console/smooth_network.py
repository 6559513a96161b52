"""`ntkfl certify --network`: a proof for every order of further training of a smooth network of any depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from experiments.console.bad_input import bad_input
from experiments.console.certifying import (
    FIELDS,
    NOT_CERTIFIED,
    TESTED,
    WATCHED_ROUNDS,
    after_rounds,
    last_judged,
    on_tests,
    replay,
    require_tests,
    to_certify,
    watch_further,
)
from experiments.console.choices import setting
from experiments.console.kernels import wide_of
from experiments.console.output_files import as_json, reserved

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl.problem import Problem, Setup
    from ntkfl.smooth_networks import NetworkCertificate
    from ntkfl.training.models.wide_networks import WideNetwork

WIDTH = 512  # unless given
COMMAND = "ntkfl certify"


@dataclass(frozen=True)
class Smooth:
    """What was asked of `ntkfl certify --network`; see its options."""

    network: str
    after: int
    watch: bool
    every: int
    visits: float
    test: bool
    json_file: Path | None


def certify_smooth_network(options: Options, asked: Smooth) -> None:
    """Train, certify, print and write. Exit status: as `ntkfl certify`."""
    with bad_input():
        network = wide_of(asked.network, ())
        if network is None:
            raise ValueError(f"network is {asked.network}; here it is a form like fc:3:gelu, files are for Python")
        problem, setup = to_certify(options, TESTED if asked.test else None)
        setup = setup if options.width is not None else replace(setup, width=WIDTH)
        if asked.test:
            require_tests(problem)
    named = [f"--network {network.name}", *([f"--visits {asked.visits:g}"] if asked.visits != 1 else [])]
    with reserved(asked.json_file, inputs=(options.data,)) as (write,):
        with bad_input(ValueError, FloatingPointError):
            round_, certificate = _judged(problem, setup, network, asked, options.rounds)
        typer.echo(
            f"{certificate}\n  setting: {setting(problem, setup, *FIELDS)}\n  {network.name} after round {round_}"
        )
        if not certificate.certified and certificate.needed_residual is not None:
            further = watch_further(asked.every, round_)
            typer.echo(f"  to train on: {replay(COMMAND, options, setup, *named, *further)}")
        record: dict[str, Any] = {**certificate.to_dict(), "round": round_, "network": network.name}
        if asked.test:
            record["test"] = on_tests(certificate, problem)
        if write:
            from ntkfl.trajectory import provenance

            words = [*named, *after_rounds(round_, asked.every), *(["--test"] if asked.test else [])]
            record |= {
                "setting": setting(problem, setup, *FIELDS),
                "replay": replay(COMMAND, options, setup, *words),
                "provenance": provenance(weights=setup.seed),
            }
            write(as_json(record))
    if not certificate.certified:
        raise typer.Exit(NOT_CERTIFIED)


def _judged(
    problem: Problem, setup: Setup, network: WideNetwork, asked: Smooth, rounds: int | None
) -> tuple[int, NetworkCertificate]:
    """The first round that certifies, or the last one judged."""
    from ntkfl.smooth_networks import certify_network
    from ntkfl.smooth_networks.watching import network_checkpoints, watch_network

    if not asked.watch:
        for checkpoint in network_checkpoints(problem, setup, network, asked.after, asked.every):
            reached, params = checkpoint
        return reached, certify_network(network, params, problem, visits=asked.visits)
    limit = WATCHED_ROUNDS if rounds is None else rounds
    return last_judged(watch_network(problem, setup, network, limit, asked.every, visits=asked.visits))
