"""The common parts of `ntkfl certify`'s certificates: the network, defaults, the command that repeats a certificate."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from experiments.console.choices import BUILT_IN_SIZE, chosen_problem, setting
from experiments.console.interrupts import if_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np

    from bounds import Options
    from ntkfl import AnyOrderCertificate, MethodCertificate, NetworkCertificate, Problem, RoundsCertificate, Setup
    from ntkfl.any_order.adversary import Attack
    from ntkfl.limit.convex_loss import ConvexLoss
    from ntkfl.smooth_networks.adversary import WindowAttack

Certificate = TypeVar(
    "Certificate", "AnyOrderCertificate | MethodCertificate", "NetworkCertificate | RoundsCertificate"
)

NOT_CERTIFIED = 1
DEFAULTS = {"width": 64000, "eta_local": 0.02, "eta_global": 1.0, "local_steps": 2}
SPHERE_SIZE = 4  # samples on the sphere: with 64000 neurons most draws certify
WATCHED_ROUNDS = 2000  # unless --rounds says otherwise
TESTED = 500  # images of a built-in data set
FIELDS = ("width", "sigma", "local_steps", "eta_local", "eta_global", "seed")


@dataclass(frozen=True)
class Asked:
    """The options that `ntkfl certify --any-order`, `--method` and `--network` share."""

    after: int
    watch: bool
    every: int
    test: bool
    json_file: Path | None
    weights: Path | None  # a file of the user's network
    method: str | None  # the method that is certified; None: any order
    option: tuple[str, ...]
    export: Path | None  # a new folder for a certificate that holds
    attack: int | None  # steps, or windows of steps, that an adversary tries
    loss: str | None  # the loss trained on and certified; None: squares

    @property
    def trained_on(self) -> ConvexLoss:
        """The loss of the training."""
        from ntkfl.limit.convex_loss import SQUARES, loss_of

        return SQUARES if self.loss is None else loss_of(self.loss)

    @property
    def command(self) -> str:
        """The first words of a command with the same options."""
        raise NotImplementedError

    def replayed(self, options: Options, setup: Setup, round_: int, more: Sequence[str] = ()) -> str:
        """The command that certifies the network of a round again."""
        words = (*of_file(self.weights), *after_rounds(round_, self.every), *more)
        return replay(self.command, options, setup, *words)

    def trained_further(self, options: Options, setup: Setup, round_: int, more: Sequence[str] = ()) -> str:
        """The command that trains on from a round that is not certified until a round certifies."""
        rounds = [f"--rounds {2 * round_}"] if 2 * round_ > WATCHED_ROUNDS else []
        words = (*of_file(self.weights), f"--watch --every {self.every}", *rounds, *more)
        return replay(self.command, options, setup, *words)


def identity(problem: Problem, setup: Setup, replayed: str) -> dict[str, str | dict[str, Any]]:
    """The entries of a record that identify a certified network, and repeat its certificate."""
    from ntkfl.trajectory import provenance

    return {
        "setting": setting(problem, setup, *FIELDS),
        "replay": replayed,
        "provenance": provenance(weights=setup.seed),
    }


def to_certify(
    options: Options,
    test: int | None = None,
    first: Callable[[Problem, Setup], None] | None = None,
    condition: Callable[[np.ndarray], None] | None = None,
) -> tuple[Problem, Setup]:
    """The data and the setup of the options; `test` samples of a built-in data set are kept for tests.

    `first` raises if the certificate does not fit the memory, before `condition` compares rows, as in `chosen_problem`.

    Raises:
        ValueError, OSError: as `chosen_problem`.
    """
    size = SPHERE_SIZE if options.data in (None, "sphere") else BUILT_IN_SIZE
    setup = options.setup(seed=options.seed, **DEFAULTS)
    fits = None if first is None else lambda problem: first(problem, setup)
    return chosen_problem(options, "sphere", size, test, first=fits, condition=condition), setup


def replay(command: str, options: Options, setup: Setup, *more: str) -> str:
    """The command line that makes the same certificate again."""
    from bounds import Options
    from verification.judging.replaying import option_words

    data = Options(**{name: getattr(options, name) for name in ("data", "n", "clients", "partition")})
    steps = [f"--{name.replace('_', '-')} {getattr(setup, name)}" for name in FIELDS]
    unit = ["--unit"] if options.unit else []
    return " ".join([command, *option_words(data), *steps, *unit, *more])


def after_rounds(rounds: int, every: int) -> list[str]:
    """The words that name a round; none for round 0."""
    return [f"--after {rounds} --every {every}"] if rounds else []


def of_file(weights: Path | None) -> list[str]:
    """The words that name the file of a network; none without one."""
    return [] if weights is None else [f"--weights {shlex.quote(str(weights))}"]


def named_place(weights: Path | None, round_: int) -> str:
    """The words that name the source of the network: a file, a round, or a round after a file."""
    if weights is None:
        return f"after round {round_}"
    return f"of {weights}" + (f" after round {round_}" if round_ else "")


def last_judged(watched: Iterable[tuple[int, Certificate]]) -> tuple[int, Certificate]:
    """The last round watched, with its certificate; prints for every other round why it is not certified."""
    judged: tuple[int, Certificate] | None = None

    def kept() -> str:
        return (
            "no round was judged" if judged is None else f"round {judged[0]} was the last one judged: {judged[1].why}"
        )

    with if_stopped(kept):
        for judged in watched:
            reached, certificate = judged
            if not certificate.certified:
                left = f"{certificate.residual_name} = {float(certificate.residual.hi):.3g}"
                typer.echo(f"round {reached}: {left}; {certificate.why}", err=True)
    assert judged is not None  # round 0 is judged before any training
    return judged


def require_attack(steps: int | None) -> None:
    """Raise a ValueError if the number of steps of an adversary is below 1."""
    if steps is not None and steps < 1:
        raise ValueError(f"--attack is {steps}; it is how many steps, or windows, to look at, 1 or more")


def say_attack(attack: Attack | WindowAttack, certified: bool) -> dict[str, Any]:
    """Print the adversary's result, and return it as a record."""
    typer.echo(f"  {attack}")
    if certified and attack.broken:
        typer.echo("  this contradicts the certificate: one of the two is wrong; please report it", err=True)
    return attack.to_dict()


def require_tests(problem: Problem) -> None:
    """Raise a ValueError if the data have no test samples."""
    if problem.x_test is None:
        raise ValueError(f"{problem.name} has no test samples: give x_test and y_test in a .npz file")


def on_tests(
    certificate: AnyOrderCertificate | MethodCertificate | NetworkCertificate | RoundsCertificate, problem: Problem
) -> dict[str, Any]:
    """Print and return the number of test samples with a final class, and the share of right classes among them."""
    import numpy as np

    assert problem.x_test is not None and problem.y_test is not None
    final = certificate.final(problem.x_test)
    settled = final != "open"
    labels = problem.y_test.reshape(len(final), -1)
    true = np.sign(labels[:, 0]) if labels.shape[1] == 1 else labels.argmax(axis=1)
    right = int((final[settled] == true[settled]).sum())
    count = int(settled.sum())
    accuracy = right / count if count else None
    typer.echo(
        f"  test samples whose class is final: {count} of {len(final)}"
        + (f", accuracy there {accuracy:.4g}" if count else "")
    )
    return {
        "samples": len(final),
        "final": count,
        "share": count / len(final),
        "right": right,
        "accuracy": accuracy,
    }
