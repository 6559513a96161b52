"""What the certificates of `ntkfl certify` share: network, defaults, the command that gives them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.console.choices import BUILT_IN_SIZE, chosen_problem

if TYPE_CHECKING:
    from bounds.options import Options
    from ntkfl.problem import Problem, Setup

NOT_CERTIFIED = 1
DEFAULTS = {"width": 64000, "eta_local": 0.02, "eta_global": 1.0, "local_steps": 2}
SPHERE_SIZE = 4  # samples on the sphere: with 64000 neurons most draws certify
WATCHED_ROUNDS = 2000  # unless --rounds says otherwise
FIELDS = ("width", "sigma", "local_steps", "eta_local", "eta_global", "seed")


def to_certify(options: Options, test: int | None = None) -> tuple[Problem, Setup]:
    """The data and the setup that are asked about; test: samples of a built-in data set to keep for tests.

    Raises:
        ValueError, OSError: as `chosen_problem`.
    """
    size = SPHERE_SIZE if options.data in (None, "sphere") else BUILT_IN_SIZE
    return chosen_problem(options, "sphere", size, test), options.setup(seed=options.seed, **DEFAULTS)


def replay(command: str, options: Options, setup: Setup, *more: str) -> str:
    """The command with what certifies the same again."""
    from bounds.options import Options
    from verification.judging.replaying import option_words

    data = Options(**{name: getattr(options, name) for name in ("data", "n", "clients", "partition")})
    steps = [f"--{name.replace('_', '-')} {getattr(setup, name)}" for name in FIELDS]
    unit = ["--unit"] if options.unit else []
    return " ".join([command, *option_words(data), *steps, *unit, *more])


def after_rounds(rounds: int, every: int) -> list[str]:
    """The words that name a round; none for round 0."""
    return [f"--after {rounds} --every {every}"] if rounds else []
