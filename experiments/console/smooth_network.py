"""`ntkfl certify --network`: a proof about further training of a smooth network of any depth.

The proof is for every order of the samples, or for the rounds of one method.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import typer

from bounds import Options
from experiments.console.blocks import as_json, bad_input, reserved
from experiments.console.certifying import (
    NOT_CERTIFIED,
    WATCHED_ROUNDS,
    Asked,
    last_judged,
    on_tests,
    say_attack,
    to_certify,
)
from experiments.console.kernels import wide_of
from experiments.console.method_options import method_options
from ntkfl.any_order.certificate import minimised
from ntkfl.any_order.method_certificate import linear_method
from ntkfl.connectivity.checkpoints.arrays import arrays_of
from ntkfl.gram.degeneracy import require_distinct
from ntkfl.messages import require_number
from ntkfl.problem import Problem, Setup
from ntkfl.smooth_networks import NetworkCertificate, RoundsCertificate, attack_network, certify_network, certify_rounds
from ntkfl.smooth_networks.export import SCRIPT, export_network
from ntkfl.smooth_networks.watching import network_checkpoints, require_network_memory, watch_network

Either: TypeAlias = NetworkCertificate | RoundsCertificate

if TYPE_CHECKING:  # this import loads PyTorch
    from ntkfl.training.models.wide_networks import WideNetwork

    Certify: TypeAlias = Callable[[WideNetwork, Mapping[str, Any], Problem], Either]

WIDTH = 512  # width by default


@dataclass(frozen=True)
class Smooth(Asked):
    """The options of `ntkfl certify --network`.

    The file of weights has the parameters by their names in the model.
    """

    network: str
    visits: float

    def check(self) -> None:
        """Raise a ValueError, before anything is read or trained, if options exclude each other."""
        super().check()
        _ = self.trained_on  # this call raises if there is no such loss
        require_number("visits", self.visits, "be 1 or more, and finite")
        if self.method is not None:
            for name, given in (("--export", self.export), ("--attack", self.attack), ("--loss", self.loss)):
                if given is not None:
                    raise ValueError(f"{name} is for certificates of any order; leave out --method")
            if self.visits != 1:
                raise ValueError("--visits is for any order; a round of --method visits as the method does: choose one")
        if self.export is not None and self.network.startswith("conv"):
            raise ValueError(f"--export has no convolutions, and the network is {self.network}")

    def certifier(self, setup: Setup) -> Certify:
        """The function that certifies a network.

        Raises:
            ValueError: the method is not covered, or does not have one of the options.
        """
        if self.method is None:
            return partial(certify_network, visits=self.visits, loss=self.trained_on)
        options = method_options(self.option)
        # this call raises for a wrong method or option, before anything is trained
        linear_method(self.method, options, setup)
        return partial(certify_rounds, setup=setup, method=self.method, options=options)

    def require_rows(self, x: np.ndarray) -> None:
        """Raise ParallelRows if samples are equal and the loss is squares.

        With other losses a certificate may leave out equal samples.
        """
        if self.loss in (None, "squares"):
            require_distinct(x)

    def require_memory(self, network: WideNetwork, problem: Problem, setup: Setup) -> None:
        """Raise TooLittleMemory if the network is drawn here and its certificate does not fit the memory."""
        require_network_memory(problem, network, setup.width)

    @property
    def command(self) -> str:
        """The beginning of a command line with the same options."""
        words = ["ntkfl", "certify", "--network", self.network]
        words += ["--visits", f"{self.visits:g}"] if self.visits != 1 else []
        words += ["--loss", self.loss] if self.loss is not None else []
        words += ["--method", self.method] if self.method is not None else []
        return shlex.join([*words, *(f"--option={option}" for option in self.option)])


def certify_smooth_network(options: Options, asked: Smooth) -> None:
    """Train a network, certify it, print and write the result.

    The exit status is that of `ntkfl certify`.
    """
    with bad_input():
        network = wide_of(asked.network, ())
        if network is None:
            raise ValueError(f"network is {asked.network}; here it is a form like fc:3:gelu, files are for Python")
        asked.check()
        options = replace(options, width=WIDTH if options.width is None else options.width)
        fits = partial(asked.require_memory, network) if asked.weights is None else None
        problem, setup = to_certify(options, asked.test, fits, asked.require_rows)
        # this call raises for labels that do not fit the loss, before anything is trained
        minimised(asked.trained_on, problem)
        certify = asked.certifier(setup)
    inputs = (options.data, None if asked.weights is None else str(asked.weights))
    with reserved(asked.json_file, inputs=inputs) as (write,):
        with bad_input(ValueError, OSError, FloatingPointError):
            start, setup = _of_file(setup, asked)
            round_, certificate = _judged(problem, setup, network, asked, options.rounds, certify, start)
        asked.say(certificate, network.name, options, problem, setup, round_)
        record: dict[str, Any] = {**certificate.to_dict(), "round": round_, "network": network.name}
        record |= {"method": asked.method} if asked.method is not None else {}
        if asked.test:
            record["test"] = on_tests(certificate, problem)
        if asked.attack is not None:
            record |= _attacked(certificate, asked.attack, options.seed)
        if asked.export is not None:
            _export(certificate, asked.export, problem.x_test if asked.test else None)
        if write:
            more = ["--test"] if asked.test else []
            write(as_json(record | asked.identity(options, problem, setup, round_, more)))
    if not certificate.certified or record.get("attack", {}).get("broken"):
        raise typer.Exit(NOT_CERTIFIED)


def _attacked(certificate: Either, trials: int, seed: int) -> dict[str, Any]:
    """Run the adversary against a certificate that holds, print its result, and return it for the result file."""
    if not certificate.certified:
        typer.echo("  nothing is attacked: only a certificate that holds claims something", err=True)
        return {}
    assert isinstance(certificate, NetworkCertificate)
    with bad_input():
        return {"attack": say_attack(attack_network(certificate, trials=trials, seed=seed), True)}


def _export(certificate: Either, folder: Path, x_test: Any) -> None:
    """Write the certificate to the folder and check it there, and print the command that checks it again."""
    if not certificate.certified:
        typer.echo(f"  nothing is exported to {folder}: only a certificate that holds can be", err=True)
        return
    assert isinstance(certificate, NetworkCertificate)
    with bad_input():
        proved = export_network(certificate, folder, x_test)
    typer.echo(f"  checked in exact numbers, reach <= {proved['reach']}; again: python {folder / SCRIPT} {folder}")


def _of_file(setup: Setup, asked: Smooth) -> tuple[Mapping[str, Any] | None, Setup]:
    """The parameters in the file, and the setup with the width of their last layer."""
    if asked.weights is None:
        return None, setup
    named = arrays_of(asked.weights).named
    for layer, _, last in (name.rpartition(".") for name in named):
        if last == "running_mean":
            raise ValueError(
                f"{asked.weights} has {layer}.{last}: layer {layer} is a batch normalisation, which no certificate "
                f"covers; {asked.network} has linear or convolutional layers with activations between"
            )
    readout = named.get("readout.weight")
    return named, setup if readout is None or not readout.size else replace(setup, width=readout.shape[-1])


def _judged(
    problem: Problem,
    setup: Setup,
    network: WideNetwork,
    asked: Smooth,
    rounds: int | None,
    certify: Certify,
    start: Mapping[str, Any] | None,
) -> tuple[int, Either]:
    """The first round at which the network is certified, or else the last round tried, and that round's certificate."""
    try:
        if asked.watch:
            limit = WATCHED_ROUNDS if rounds is None else rounds
            watched = watch_network(problem, setup, network, limit, asked.every, certify, start, asked.trained_on)
            return last_judged(watched)
        after = (asked.after, asked.every, start, asked.trained_on)
        for checkpoint in network_checkpoints(problem, setup, network, *after):
            reached, params = checkpoint
        return reached, certify(network, params, problem)
    except ValueError as error:
        if start is None:
            raise
        raise ValueError(f"{asked.weights}, read as {network.name}: {error}") from error
