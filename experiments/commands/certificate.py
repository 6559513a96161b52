"""`ntkfl certify`: whether one concrete network converges, before any training or from a round of it on."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.certificate_search import search as search_boundary
from experiments.commands.choices import BUILT_IN_SIZE, chosen_problem, one_output, setting, takes_options
from experiments.commands.output_files import reserved

if TYPE_CHECKING:
    from bounds.options import Options
    from ntkfl.problem import Problem, Setup
    from verification.certification import Certified

NOT_CERTIFIED, INTERRUPTED = 1, 130
DEFAULTS = {"width": 64000, "eta_local": 0.02, "eta_global": 1.0, "local_steps": 2}
SPHERE_SIZE = 4  # samples on the sphere: with 64000 neurons most draws certify
WATCHED_ROUNDS = 2000  # unless --rounds says otherwise
FIELDS = ("width", "sigma", "local_steps", "eta_local", "eta_global", "seed")


@takes_options
def certify(
    options: "Options",
    after: Annotated[int, typer.Option(help="train this many rounds first, then certify all later ones")] = 0,
    watch: Annotated[bool, typer.Option("--watch", help="train on, up to --rounds, until a round certifies")] = False,
    search: Annotated[bool, typer.Option("--search", help="the smallest width, up to 2^20, that certifies")] = False,
    search_steps: Annotated[
        bool, typer.Option("--search-steps", help="the largest eta_local that certifies at this width")
    ] = False,
    every: Annotated[
        int, typer.Option(help="rounds trained in one leg; --watch looks after each. Reproduces the weights exactly")
    ] = 50,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", "--save", help="write the certificate, and the command that replays it, as JSON"),
    ] = None,
) -> None:
    """Certify a network: that Algorithm 1 converges on it, at which rate, and how far no neuron ever moves.

    Without --after or --watch: the network that the seed draws, before any training. From a later round on, two
    theorems are tried (fl-ntk/X.11 and X.12) and the one that says more is printed; its y(0), H and R are those of the
    network at that round.

    Default: sphere, n = 4, width 64000, 2 clients, 2 local steps, eta_local .02, eta_global 1. Other data keep these
    values and bring their own size and clients. Exit status: 0 certified, 1 not certified, 2 bad input, 130 stopped
    by Ctrl-C (what --watch has found by then is printed).
    """
    with ExitStack() as stack:
        with bad_input():
            _check(options, after, watch, search, search_steps, every)
            size = SPHERE_SIZE if options.data in (None, "sphere") else BUILT_IN_SIZE
            problem = one_output(chosen_problem(options, "sphere", size))
            setup = options.setup(seed=options.seed, **DEFAULTS)
            (write,) = stack.enter_context(reserved(json_file, inputs=(options.data,)))
        content: dict[str, Any] = {}
        interrupted = False
        with bad_input(ValueError, FloatingPointError):  # steps beyond the stability limit
            if watch:
                limit = WATCHED_ROUNDS if options.rounds is None else options.rounds
                best, interrupted = _watched(problem, setup, limit, every)
            elif search or search_steps:
                setup, best, content = search_boundary(problem, setup, after, every, steps=search_steps)
            else:
                best = _after(problem, setup, after, every)
        if best is None:
            typer.echo("stopped before any round was judged", err=True)
            raise typer.Exit(INTERRUPTED)
        typer.echo(f"{best.found}\n  setting: {setting(problem, setup, *FIELDS)}")
        if best.round or watch:
            typer.echo(
                f"  by {best.theorem} from round {best.round} on: y(0), H and R are of the network at that round"
            )
        if not (best.found.certified or best.round or watch or search or search_steps):
            typer.echo("  after some training it may certify: --watch trains on until a round does")
        if write:
            from verification.verdict import strict_json

            record = _record(options, problem, setup, best, every) | content
            write(json.dumps(strict_json(record), indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not best.found.certified:
        raise typer.Exit(NOT_CERTIFIED)


def _check(options: "Options", after: int, watch: bool, search: bool, search_steps: bool, every: int) -> None:
    chosen = [
        name
        for name, given in (("--watch", watch), ("--search", search), ("--search-steps", search_steps))
        if given
    ]  # fmt: skip
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


def _watched(problem: "Problem", setup: "Setup", rounds: int, every: int) -> tuple["Certified | None", bool]:
    """The certificate at the first round that certifies, else at the last; and whether Ctrl-C ended it."""
    from verification.certification import best_certificate, checkpoints, watch

    reached = 0
    try:
        for reached, shortfall, judged in watch(problem, setup, rounds, every):
            if judged is not None and (judged.found.certified or reached == rounds):
                return judged, False
            hope = "no contraction" if shortfall == float("inf") else f"{shortfall:.2g} times the radius"
            typer.echo(f"round {reached}: expects {hope}; certifies below 1", err=True)
    except KeyboardInterrupt:
        typer.echo(f"stopped; judging round {reached}, the last one looked at (Ctrl-C again leaves)", err=True)
        for here, weights in checkpoints(problem, setup, reached, every):
            if here == reached:
                return best_certificate(problem, setup, weights, reached), True
    return None, True


def _record(options: "Options", problem: "Problem", setup: "Setup", best: "Certified", every: int) -> dict[str, Any]:
    """Everything that identifies the certified network, and the command that certifies it again."""
    from ntkfl.trajectory import provenance

    chosen = {name: getattr(options, name) for name in ("data", "n", "clients", "partition")}
    steps = {name: getattr(setup, name) for name in FIELDS}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in (chosen | steps).items() if value is not None]
    words += ["--unit"] if options.unit else []
    words += [f"--after {best.round} --every {every}"] if best.round else []
    return {
        "provenance": provenance(weights=setup.seed),
        "setting": setting(problem, setup, *FIELDS),
        "theorem": best.theorem,
        "round": best.round,
        "replay": " ".join(["ntkfl certify", *words]),
        "certificate": best.found.to_dict(),
    }
