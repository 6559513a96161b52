"""`ntkfl certify`: a proof that training of a given network converges, from its start or from some round on."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, reserved
from experiments.console.certifying import FIELDS, NOT_CERTIFIED, WATCHED_ROUNDS, after_rounds, replay, to_certify
from experiments.console.choices import one_output, setting, takes_options
from experiments.console.tables import print_lines

if TYPE_CHECKING:
    from bounds import Options
    from bounds.fl_ntk.theorem_requirements import Requirements
    from ntkfl.problem import Problem, Setup
    from verification.certification import Certified, Searched

SHARE = 1e-6  # rounds are counted until this share of the squared residual is left


@takes_options
def certify(
    options: "Options",
    after: Annotated[int, "train this many rounds first, then certify all later ones"] = 0,
    watch: Annotated[bool, "train on, for up to --rounds rounds, until the network is certified"] = False,
    search: Annotated[bool, "find the smallest width, up to 2^20, at which the network is certified"] = False,
    search_steps: Annotated[bool, "find the largest eta_local at which the network is certified at this width"] = False,
    every: Annotated[
        int,
        "number of rounds trained at a time, after which --watch tries to certify; the number changes the weights' "
        "last bits",
    ] = 50,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", "--save", help="write the certificate, and the command that replays it, as JSON"),
    ] = None,
    any_order: Annotated[bool, "prove convergence for every order of batches, clients and steps from here on"] = False,
    weights: Annotated[
        Path | None,
        "with --any-order or --method: a file of your own network, as ntkfl barrier reads it; with --network: "
        "a file of its parameters by name, layer1.weight to readout.weight; --watch and --after train it further",
    ] = None,
    momentum: Annotated[
        bool, "with --any-order or --method: tuned momentum at the server in the rounds before the certificate"
    ] = False,
    test: Annotated[
        bool, "print the share of test samples whose class is final; needs --any-order, --network or --method"
    ] = False,
    plot: Annotated[
        Path | None, "with --test: a picture of margins against the bound on their change, .png or .svg"
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:L:PHI",
            help="a proof for a network with L layers of weights, all trained, in every order of the samples or in "
            "the rounds of --method; KIND is fc or conv, PHI is relu, erf or gelu",
        ),
    ] = None,
    visits: Annotated[
        float, "with --network: the largest ratio of two samples' sums of step sizes in a window, 1 or more"
    ] = 1.0,
    attack: Annotated[
        int | None,
        "with --any-order or --network: an adversary tries this many steps, or windows of steps, to find an "
        "order that breaks the claim",
    ] = None,
    export: Annotated[
        Path | None, "with --any-order or --network: a folder with the certificate and a script that checks it alone"
    ] = None,
    loss: Annotated[
        str | None,
        "with --any-order or --network: hinge (squared; labels +-1), huber:DELTA or band:WIDTH; the rounds before "
        "the certificate train on this loss too",
    ] = None,
    method: Annotated[
        str | None, "a proof for this method (scaffold, fedavgm, ...), whose momentum, variates and duals start at 0"
    ] = None,
    option: Annotated[
        list[str] | None, "with --method: an option of the method, such as momentum=0.6; repeat it for more"
    ] = None,
) -> None:
    """Certify a network: prove that Algorithm 1 converges on it, at which rate, and how far a neuron moves at most.

    Without --after or --watch, the certified network is drawn from the seed and not trained yet. At a later
    round two theorems are tried (fl-ntk/X.11 and X.12), and the stronger result is printed. The outputs y(0), the Gram
    matrix H and the radius R of this result are those of the network at that round.

    Three options certify something else. --any-order proves that every further training, SGD included, fits the data.
    --network proves the same for networks of any depth, if training uses every sample about equally often. --method
    proves that one method converges, and at which rate, with the setting's steps on full batches. That method is
    fl-ntk, fedavg, fedavgm, fedprox, scaffold or feddyn.

    Default: data sphere, n = 4, width 64000, 2 clients, 2 local steps, eta_local .02, eta_global 1. Other data have
    default sizes and clients of their own, and the same default steps. Exit status: 0 certified, 1 not certified, 2 bad
    input, 130 stopped by Ctrl-C (with --watch, the command that certifies the last round is printed).
    """
    kinds = {"--any-order": any_order, "--network": network is not None, "--method": method is not None}
    both = ("--any-order", "--method")
    needs: dict[str, tuple[Any, tuple[str, ...]]] = {
        "--weights": (weights, tuple(kinds)),
        "--momentum": (momentum, both),
        "--plot": (plot, ("--any-order",)),
        "--attack": (attack, ("--any-order", "--network")),
        "--export": (export, ("--any-order", "--network")),
        "--loss": (loss, ("--any-order", "--network")),
        "--option": (option, ("--method",)),
        "--test": (test, tuple(kinds)),
    }
    with bad_input():
        for name, (given, of) in needs.items():
            if given is not None and given is not False and given != [] and not any(kinds[kind] for kind in of):
                raise ValueError(f"{name} needs {' or '.join(of)}")
        if visits != 1 and network is None:
            raise ValueError("--visits needs --network")
        _check(options, after, watch, search, search_steps, every)
        if any_order and sum(kinds.values()) > 1:
            raise ValueError(
                "--any-order is for two layers of ReLU in any order, --network for smooth networks, --method for one "
                "method: choose one of them, or --network with --method"
            )
        if momentum and network is not None:
            raise ValueError("--momentum trains two layers of ReLU; leave it out with --network")
        if any(kinds.values()) and (search or search_steps):
            raise ValueError(f"--search and --search-steps look at X.11 and X.12, not at {', '.join(kinds)}")
    shared: dict[str, Any] = dict(after=after, watch=watch, every=every, test=test, json_file=json_file, loss=loss)
    shared |= dict(weights=weights, method=method, option=tuple(option or ()), export=export, attack=attack)
    if network is not None:
        from experiments.console.smooth_network import Smooth, certify_smooth_network

        return certify_smooth_network(options, Smooth(**shared, network=network, visits=visits))
    if any_order or method is not None:
        from experiments.console.any_order import AnyOrder, certify_in_any_order

        return certify_in_any_order(options, AnyOrder(**shared, momentum=momentum, plot=plot))
    with bad_input():
        problem, setup = to_certify(options)
        problem = one_output(problem)
    with reserved(json_file, inputs=(options.data,)) as (write,):
        content: dict[str, Any] = {}
        with bad_input(ValueError, FloatingPointError):  # raised for steps beyond the stability limit
            if watch:
                limit = WATCHED_ROUNDS if options.rounds is None else options.rounds
                best = _watched(options, problem, setup, limit, every)
            elif search or search_steps:
                setup, best, content = _boundary(problem, setup, after, every, steps=search_steps)
            else:
                best = _after(problem, setup, after, every)
        typer.echo(str(best.certificate))
        print_lines(f"  setting: {setting(problem, setup, *FIELDS)}")
        if best.round or watch:
            typer.echo(
                f"  by {best.theorem} from round {best.round} on: y(0), H and R are of the network at that round"
            )
        if not (best.round or best.certificate.certified) and best.certificate.width_needed is None:
            _say_stable_step(best, setup)
        if not (best.certificate.certified or best.round or watch or search or search_steps):
            typer.echo("  after some training it may certify: --watch trains on until a round does")
        if write:
            from verification.json_values import strict_json

            write(as_json(strict_json(_record(options, problem, setup, best, every) | content)))
    if not best.certificate.certified:
        raise typer.Exit(NOT_CERTIFIED)


def _say_stable_step(best: "Certified", setup: "Setup") -> None:
    """Print the step that is small enough for a certificate, if there is no certificate at any width."""
    step = best.certificate.stable_step(setup)
    if step is None:
        typer.echo("  no smaller step helps: lambda_min(H(0)), of all samples or of one client's, may be 0")
    elif step < setup.eta_local:
        typer.echo(f"  the step is small enough at --eta-local {step:g}: then only the width can be too small")


def _check(options: "Options", after: int, watch: bool, search: bool, search_steps: bool, every: int) -> None:
    given = {"--watch": watch, "--search": search, "--search-steps": search_steps}
    chosen = [name for name in given if given[name]]
    if len(chosen) > 1:
        raise ValueError(f"{chosen[0]} and {chosen[1]} are given; choose one")
    if watch and after:
        raise ValueError("--watch starts at round 0; --after names one round: choose one")
    if after < 0 or every < 1:
        raise ValueError(f"after is {after} and every is {every}; they must be at least 0 and at least 1")
    if options.rounds is not None and not watch:
        raise ValueError(
            f"rounds is {options.rounds}, the limit of --watch; to train first, give --after {options.rounds}"
        )


def _after(problem: "Problem", setup: "Setup", rounds: int, every: int) -> "Certified":
    from verification.certification import Certified, certify, certify_after

    if rounds == 0:
        return Certified("fl-ntk/B.3-certificate", 0, certify(problem, setup))
    return certify_after(problem, setup, rounds, every)


def _watched(options: "Options", problem: "Problem", setup: "Setup", rounds: int, every: int) -> "Certified":
    """The certificate after the first certified round, or else the certificate that failed after the last round."""
    from verification.certification import watch

    reached = 0

    def kept() -> str:
        command = replay("ntkfl certify", options, setup, *after_rounds(reached, every))
        return f"round {reached} was the last one looked at; this command finds whether it is certified:\n{command}"

    with if_stopped(kept):
        for reached, shortfall, judged in watch(problem, setup, rounds, every):
            if judged is not None and (judged.certificate.certified or reached == rounds):
                return judged
            hope = "no contraction" if shortfall == float("inf") else f"{shortfall:.2g} times the radius"
            typer.echo(f"round {reached}: expects {hope}; certifies below 1", err=True)
    raise AssertionError("the last round is judged")


def _record(options: "Options", problem: "Problem", setup: "Setup", best: "Certified", every: int) -> dict[str, Any]:
    """The certificate for JSON, with the data and settings that identify the network, and the command to repeat it."""
    from ntkfl.trajectory import provenance
    from verification.judging.check import data_origin

    return {
        "provenance": provenance(weights=setup.seed) | data_origin(options),
        "setting": setting(problem, setup, *FIELDS),
        "theorem": best.theorem,
        "round": best.round,
        "replay": replay("ntkfl certify", options, setup, *after_rounds(best.round, every)),
        "certificate": best.certificate.to_dict(),
    }


def _boundary(
    problem: "Problem", setup: "Setup", after: int, every: int, *, steps: bool
) -> "tuple[Setup, Certified, dict[str, Any]]":
    """Search for the smallest width or the largest step with a certificate, and print it beside Theorem B.3's.

    Returns the setup with the width or step that was found, the certificate there, and a record of the search.
    """
    from bounds.fl_ntk.theorem_requirements import requirements
    from verification.certification import searched

    name = "eta_local" if steps else "width"
    certified: list[float] = []

    def say(value: float, judged: "Certified | None") -> None:
        if judged is None:
            message = "training overflowed"
        elif judged.certificate.certified:
            certified.append(value)
            message = "certified"
        else:
            message = f"needs {judged.certificate.shortfall:.2g} times the radius"
        typer.echo(f"{name} {value:g}: {message}", err=True)

    def kept() -> str:
        if not certified:
            return f"so far no {name} that was tried gives a certificate"
        best = max(certified) if steps else min(certified)
        return f"{name} {best:g} gives a certificate; --{name.replace('_', '-')} {best:g} begins the search there"

    with if_stopped(kept):
        result = searched(problem, setup, after, every, steps=steps, progress=say)
    required = requirements(problem, result.setup.eta_global, SHARE)
    _show(name, result, required)
    value = getattr(result.setup, name) if result.certified.certificate.certified else None
    record = {
        "search": {"of": name, "certifies": value, "fails": result.failing_value, "theorem_b_3": asdict(required)}
    }
    return result.setup, result.certified, record


def _show(name: str, searched: "Searched", asked: "Requirements") -> None:
    from numpy import log

    chosen, best, failed = searched.setup, searched.certified, searched.failing_value
    value = getattr(chosen, name)
    if best.certificate.certified:
        fails = "the end of the range" if failed is None else f"{failed:g} does not"
        adjective = "largest" if name == "eta_local" else "smallest"
        typer.echo(f"{adjective} {name} found that certifies: {value:g} ({fails})\n")
    else:
        typer.echo(f"no {name} that was tried certifies; shown is {value:g}\n")
    factor = best.certificate.residual_factor
    rounds = "undefined"
    if best.certificate.certified and factor < 1:
        rounds = f"{log(SHARE) / (2 * log(max(factor, 1e-300))):.3g}"
    rows: list[tuple[str, float, float, str]] = [("this certificate", chosen.width, chosen.eta_local, rounds)]
    step = asked.local_time / chosen.local_steps
    for label, width in (("stated, O-constant 1", asked.width_stated), ("as its proof needs", asked.width)):
        rows.append((f"Theorem B.3, {label}", width, step, f"{asked.rounds:.3g}"))
    typer.echo(f"  {'':<34}{'width':>12}{'eta_local':>14}{f'rounds to {SHARE:.0e} of |r|^2':>28}")
    for name, width, eta, count in rows:
        typer.echo(f"  {name:<34}{width:>12.3g}{eta:>14.3g}{count:>28}")
    typer.echo("")
