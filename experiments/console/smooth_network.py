"""`ntkfl certify --network`: a proof for every order of further training of a smooth network of any depth."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from experiments.console.bad_input import bad_input
from experiments.console.certifying import (
    FIELDS,
    GO_ON,
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
    weights: Path | None = None  # a file of the parameters, by the names that the network's model has


def certify_smooth_network(options: Options, asked: Smooth) -> None:
    """Train, certify, print and write. Exit status: as `ntkfl certify`."""
    with bad_input():
        network = wide_of(asked.network, ())
        if network is None:
            raise ValueError(f"network is {asked.network}; here it is a form like fc:3:gelu, files are for Python")
        if asked.weights is not None and (asked.watch or asked.after):
            raise ValueError("--weights brings a trained network; --watch and --after train one: choose")
        problem, setup = to_certify(options, TESTED if asked.test else None)
        setup = setup if options.width is not None else replace(setup, width=WIDTH)
        if asked.test:
            require_tests(problem)
    named = [f"--network {network.name}", *([f"--visits {asked.visits:g}"] if asked.visits != 1 else [])]
    inputs = (options.data, None if asked.weights is None else str(asked.weights))
    with reserved(asked.json_file, inputs=inputs) as (write,):
        with bad_input(ValueError, OSError, FloatingPointError):
            if asked.weights is None:
                round_, certificate = _judged(problem, setup, network, asked, options.rounds)
            else:
                round_, certificate = 0, _of_file(problem, network, asked.weights, asked.visits)
                setup = replace(setup, width=certificate.width)
        where = f"after round {round_}" if asked.weights is None else f"of {asked.weights}"
        typer.echo(f"{certificate}\n  setting: {setting(problem, setup, *FIELDS)}\n  {network.name} {where}")
        if not certificate.certified and certificate.needed_residual is not None:
            further = replay(COMMAND, options, setup, *named, *watch_further(asked.every, round_))
            typer.echo(f"  to train on: {GO_ON if asked.weights else further}")
        record: dict[str, Any] = {**certificate.to_dict(), "round": round_, "network": network.name}
        if asked.test:
            record["test"] = on_tests(certificate, problem)
        if write:
            from ntkfl.trajectory import provenance

            words = [*named, *([f"--weights {shlex.quote(str(asked.weights))}"] if asked.weights else [])]
            words += [*after_rounds(round_, asked.every), *(["--test"] if asked.test else [])]
            record |= {
                "setting": setting(problem, setup, *FIELDS),
                "replay": replay(COMMAND, options, setup, *words),
                "provenance": provenance(weights=setup.seed),
            }
            write(as_json(record))
    if not certificate.certified:
        raise typer.Exit(NOT_CERTIFIED)


def _of_file(problem: Problem, network: WideNetwork, path: Path, visits: float) -> NetworkCertificate:
    from ntkfl.connectivity.checkpoints.arrays import arrays_of
    from ntkfl.smooth_networks import certify_network

    try:
        return certify_network(network, arrays_of(path).named, problem, visits=visits)
    except ValueError as error:
        raise ValueError(f"{path}, read as {network.name}: {error}") from error


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
