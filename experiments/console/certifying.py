"""What the certificates of `ntkfl certify` share: data, network, defaults, and the command to repeat a certificate."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from experiments.console.blocks import if_stopped
from experiments.console.choices import BUILT_IN_SIZE, chosen_problem, setting

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
SPHERE_SIZE = 4  # default number of samples on the sphere, for which most networks of 64000 neurons can be certified
WATCHED_ROUNDS = 2000  # the largest number of rounds of --watch, unless --rounds is given
TESTED = 500  # number of test images of a built-in data set
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
    method: str | None  # the method that is certified; None: every order of training
    option: tuple[str, ...]
    export: Path | None  # a new folder, to which a certificate that holds is exported
    attack: int | None  # number of steps that an adversary tries; with --network, of windows (sequences of steps)
    loss: str | None  # the loss that is trained on and certified; None: squares

    @property
    def trained_on(self) -> ConvexLoss:
        """The loss of the training."""
        from ntkfl.limit.convex_loss import SQUARES, loss_of

        return SQUARES if self.loss is None else loss_of(self.loss)

    @property
    def command(self) -> str:
        """The beginning of a command line with the same options."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise a ValueError, before anything is read or trained, if options exclude each other.

        A FileExistsError is raised if the folder of the export exists and is not empty.
        """
        from ntkfl.any_order.export import require_new

        if self.attack is not None and self.attack < 1:
            raise ValueError(f"--attack is {self.attack}; it is how many steps, or windows, to look at, 1 or more")
        if self.export is not None:
            require_new(self.export)

    def say(
        self,
        certificate: Certificate,
        network: str,
        options: Options,
        problem: Problem,
        setup: Setup,
        round_: int,
        more: Sequence[str] = (),
    ) -> None:
        """Print a certificate with its setting.

        If the network is not certified, the command that trains it further until it can be certified is printed too.
        """
        place = "" if self.weights is None else f" of {self.weights}"
        place += f" after round {round_}" if round_ or self.weights is None else ""
        typer.echo(f"{certificate}\n  setting: {setting(problem, setup, *FIELDS)}\n  {network}{place}")
        if not certificate.certified and certificate.needed_residual is not None:
            longer: list[str] = [f"--rounds {2 * round_}"] if 2 * round_ > WATCHED_ROUNDS else []
            words = (*self._of_file, f"--watch --every {self.every}", *longer, *more)
            typer.echo(f"  to train on: {replay(self.command, options, setup, *words)}")

    def identity(
        self, options: Options, problem: Problem, setup: Setup, round_: int, more: Sequence[str]
    ) -> dict[str, str | dict[str, Any]]:
        """Entries of a result file that identify the network after a round, and the command that certifies it again."""
        from ntkfl.trajectory import provenance

        words = (*self._of_file, *after_rounds(round_, self.every), *more)
        return {
            "setting": setting(problem, setup, *FIELDS),
            "replay": replay(self.command, options, setup, *words),
            "provenance": provenance(weights=setup.seed),
        }

    @property
    def _of_file(self) -> list[str]:
        """The option that names the file of a network; empty if there is no file."""
        return [] if self.weights is None else [f"--weights {shlex.quote(str(self.weights))}"]


def to_certify(
    options: Options,
    test: bool = False,
    first: Callable[[Problem, Setup], None] | None = None,
    condition: Callable[[np.ndarray], None] | None = None,
) -> tuple[Problem, Setup]:
    """The data and the setup that the options name; with `test`, the data have test samples.

    As in `chosen_problem`, `first` is called before `condition` compares rows. Here `first` raises if the certificate
    does not fit the memory.

    Raises:
        ValueError, OSError: as `chosen_problem`; or `test` is true and the data have no test samples.
    """
    size = SPHERE_SIZE if options.data in (None, "sphere") else BUILT_IN_SIZE
    setup = options.setup(seed=options.seed, **DEFAULTS)
    fits = None if first is None else lambda problem: first(problem, setup)
    kept = TESTED if test else None
    problem = chosen_problem(options, "sphere", size, kept, first=fits, condition=condition)
    if test and problem.x_test is None:
        raise ValueError(f"{problem.name} has no test samples: give x_test and y_test in a .npz file")
    return problem, setup


def replay(command: str, options: Options, setup: Setup, *more: str) -> str:
    """The command line that makes the same certificate again, given its beginning `command`."""
    from bounds import Options
    from verification.judging.check import option_words

    data = Options(**{name: getattr(options, name) for name in ("data", "n", "clients", "partition")})
    steps = [f"--{name.replace('_', '-')} {getattr(setup, name)}" for name in FIELDS]
    unit = ["--unit"] if options.unit else []
    return " ".join([command, *option_words(data), *steps, *unit, *more])


def after_rounds(rounds: int, every: int) -> list[str]:
    """The options that name a round; empty for round 0."""
    return [f"--after {rounds} --every {every}"] if rounds else []


def last_judged(watched: Iterable[tuple[int, Certificate]]) -> tuple[int, Certificate]:
    """The last of the rounds in `watched`, with its certificate.

    For every round that is not certified, the reason is printed.
    """
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
    assert judged is not None  # there is at least round 0, at which a certificate is tried before any training
    return judged


def say_attack(attack: Attack | WindowAttack, certified: bool) -> dict[str, Any]:
    """Print the adversary's result, and return it as a dictionary."""
    typer.echo(f"  {attack}")
    if certified and attack.broken:
        typer.echo("  this contradicts the certificate: one of the two is wrong; please report it", err=True)
    return attack.to_dict()


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
