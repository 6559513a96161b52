"""`ntkfl certify --any-order` and `--method`: proofs about further training of a network.

The network is trained here or read from a file. `--any-order` proves that training in every order of batches, clients
and steps converges. `--method` proves it for one federated method.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import typer

from bounds import Options
from experiments.console.blocks import as_json, bad_input, picture_kind, reserved
from experiments.console.certifying import (
    NOT_CERTIFIED,
    WATCHED_ROUNDS,
    Asked,
    last_judged,
    on_tests,
    say_attack,
    to_certify,
)
from experiments.console.method_options import method_options
from ntkfl import AnyOrderCertificate, MethodCertificate, Problem, Setup, certify_any_order, certify_method
from ntkfl.any_order.adversary import attack_any_order
from ntkfl.any_order.certificate import pair_limits
from ntkfl.any_order.export import CHECKER, export_any_order
from ntkfl.any_order.method_certificate import require_method_memory
from ntkfl.any_order.watching import Network, certify_after, watch_any_order
from ntkfl.connectivity.network import AffineTwoLayer
from ntkfl.connectivity.network_files import load_affine_network
from ntkfl.problem import require_features
from ntkfl.rounding import row_norms

Either: TypeAlias = AnyOrderCertificate | MethodCertificate
Certify: TypeAlias = Callable[[Problem, Network], Either]


@dataclass(frozen=True)
class AnyOrder(Asked):
    """The options of `ntkfl certify --any-order` or `--method`."""

    momentum: bool
    plot: Path | None

    def certifier(self, setup: Setup) -> Certify:
        """The function that certifies a network."""
        if self.method is None:
            return partial(certify_any_order, loss=self.trained_on)
        return partial(certify_method, setup=setup, method=self.method, options=method_options(self.option))

    def require_memory(self, width: int | None, problem: Problem, setup: Setup) -> None:
        """Raise a ValueError if the certificate for the squared loss does not fit the memory.

        The memory for other losses is not checked.
        """
        width = setup.width if width is None else width
        if self.method is not None:
            require_method_memory(problem, width, setup.local_steps)
        elif self.loss in (None, "squares"):
            pair_limits(problem.y.size, width, problem.n)

    @property
    def command(self) -> str:
        """The beginning of a command line with the same options."""
        if self.method is None:
            return "ntkfl certify --any-order" + ("" if self.loss is None else f" --loss {shlex.quote(self.loss)}")
        return shlex.join(["ntkfl", "certify", "--method", self.method, *(f"--option={o}" for o in self.option)])

    def check(self) -> None:
        """Raise a ValueError if options exclude each other."""
        if self.weights is not None and self.momentum:
            raise ValueError("--momentum is tuned for networks that are drawn here; leave it out with --weights")
        if self.momentum and self.loss not in (None, "squares"):
            raise ValueError(f"--momentum is tuned for squares; leave it out with --loss {self.loss}")
        if self.export is not None and self.loss not in (None, "squares"):
            raise ValueError(f"--export is for squares, and the loss is {self.loss}")
        if self.momentum and not (self.watch or self.after):
            raise ValueError("--momentum is for the rounds of --watch or --after: give one of them")
        super().check()
        if self.plot is not None and not self.test:
            raise ValueError("--plot shows the margins of test samples: give --test too")
        if self.plot is not None:
            picture_kind(self.plot)


def certify_in_any_order(options: Options, asked: AnyOrder) -> None:
    """Train or read a network, certify it, print and write the result.

    The exit status is that of `ntkfl certify`.
    """
    inputs = (options.data, None if asked.weights is None else str(asked.weights))
    network: AffineTwoLayer | None = None
    with bad_input():
        asked.check()
        if asked.weights is not None:
            network = load_affine_network(asked.weights)
        width = None if network is None else len(network.hidden)
        problem, setup = to_certify(options, asked.test, partial(asked.require_memory, width))
        if network is not None:
            require_features(problem, network.hidden.shape[1], f"the network of {asked.weights}")
            setup = replace(setup, width=len(network.hidden))
    with reserved(asked.json_file, asked.plot, inputs=inputs) as (write, draw):
        with bad_input(ValueError, FloatingPointError):
            round_, certificate = _trained(problem, setup, asked, options.rounds, network)
        momentum = ["--momentum"] if asked.momentum else []
        asked.say(certificate, "network", options, problem, setup, round_, momentum)
        tested = on_tests(certificate, problem) if asked.test else {}
        attacked: dict[str, Any] = {}
        if asked.method is None:
            attacked = _in_any_order(certificate, problem, asked, options.seed, draw)  # type: ignore[arg-type]
        if write:
            record: dict[str, Any] = {
                **certificate.to_dict(),
                "round": round_,
                "proved": str(certificate).splitlines()[:2],
                "conditions": list(certificate.conditions()) if certificate.certified else [],
            }
            record |= asked.identity(options, problem, setup, round_, momentum if round_ else ())
            record |= {"test": tested} if tested else {}
            record |= {"attack": attacked} if attacked else {}
            write(as_json(record))
    if not certificate.certified or (attacked and attacked["broken"]):
        raise typer.Exit(NOT_CERTIFIED)


def _in_any_order(
    certificate: AnyOrderCertificate, problem: Problem, asked: AnyOrder, seed: int, draw: Callable[[bytes], None] | None
) -> dict[str, Any]:
    """Run the adversary, and make the export and the picture, if the options ask for them.

    The adversary tries to find training that contradicts the certificate. Its result is returned.
    """
    attacked = _attacked(certificate, asked.attack, seed) if asked.attack else {}
    if asked.export is not None and certificate.certified:
        _export(certificate, asked.export, problem.x_test if asked.test else None)
    elif asked.export is not None:
        typer.echo(f"  nothing is exported to {asked.export}: only a certificate that holds can be", err=True)
    if draw and asked.plot is not None:
        draw(_picture(certificate, problem, picture_kind(asked.plot)))
    return attacked


def _attacked(certificate: AnyOrderCertificate, trials: int, seed: int) -> dict[str, Any]:
    """Run the adversary, print its result and return it.

    If the certificate failed, the adversary attacks what the certificate would have claimed.
    """
    with bad_input():
        attack = attack_any_order(certificate, trials=trials, seed=seed)
    return say_attack(attack, certificate.certified)


def _export(certificate: AnyOrderCertificate, folder: Path, x_test: Any) -> None:
    """Write the certificate to the folder and check it there, and print the command that checks it again."""
    with bad_input():
        proved = export_any_order(certificate, folder, x_test)
    typer.echo(f"  checked in exact numbers, D <= {proved['distance']}; again: python {folder / CHECKER} {folder}")


def _trained(
    problem: Problem, setup: Setup, asked: AnyOrder, rounds: int | None, start: AffineTwoLayer | None
) -> tuple[int, Either]:
    """The first round at which the network is certified, or else the last round tried, and that round's certificate."""
    certify = asked.certifier(setup)
    how: dict[str, Any] = {"momentum": asked.momentum, "loss": asked.trained_on, "start": start}
    if not asked.watch:
        return asked.after, certify_after(problem, setup, asked.after, asked.every, certify, **how)
    limit = WATCHED_ROUNDS if rounds is None else rounds
    return last_judged(watch_any_order(problem, setup, limit, asked.every, certify, **how))


def _picture(certificate: AnyOrderCertificate, problem: Problem, kind: str) -> bytes:
    """The picture of the test samples' sorted quotients of margin and 2 D |a| |x|, a bound on the margin's change.

    If the quotient of a sample x is above 1, the class of the sample is final. D bounds the distance to the certified
    fit, and |a| is the norm of the readout.
    """
    from matplotlib.figure import Figure

    from experiments.pictures import as_bytes

    assert problem.x_test is not None
    outputs, final = certificate.enclosure(problem.x_test), certificate.final(problem.x_test)
    if outputs.value.size == len(final):
        margin = np.abs(outputs.value.reshape(-1))
    else:
        top = np.sort(outputs.value, axis=1)
        margin = (top[:, -1] - top[:, -2]) / 2
    scale = certificate.prediction_radius * row_norms(certificate.inputs(problem.x_test))
    ratio = margin / np.where(scale > 0, scale, np.inf) if certificate.certified else np.zeros(len(margin))
    order = np.argsort(ratio)
    share, settled = (np.arange(len(ratio)) + 0.5) / len(ratio), (final != "open")[order]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for here, color, name in ((settled, "tab:blue", "final"), (~settled, "tab:red", "open")):
        if here.any():
            axes.plot(share[here], ratio[order][here], ".", color=color, label=f"{name}: {here.sum()} of {len(here)}")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(
        xlabel="share of test samples, by margin",
        ylabel="margin / (2 D |a| |x|)",
        title=f"{problem.name}, n = {problem.n}",
    )
    if (ratio > 0).any():
        axes.set_yscale("log")
    axes.legend()
    return as_bytes(figure, kind, "any-order")
