"""Options that `ntkfl verify`, `certify`, `rate` and other commands share, and the data that these options name."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_type_hints

import typer

from experiments.console.blocks import bad_input, shown_warnings
from ntkfl.messages import did_you_mean, require_size

if TYPE_CHECKING:
    import numpy as np

    from bounds import Options
    from ntkfl import Estimate, Problem, Setup
    from ntkfl.gram import ParallelRows

Thing = TypeVar("Thing")
Number = TypeVar("Number", int, float)

OnlyForm = Annotated[Literal["stated", "proved", "repaired", "new"] | None, typer.Option(help="only this form")]
OnlyPaper = Annotated[str | None, typer.Option(help="only the statements of this paper, such as fl-ntk")]
Eps = Annotated[float, typer.Option(help="residual to reach, as a fraction of the initial one")]
KeptRuns = Annotated[Path | None, typer.Option(help="folder that keeps every run; the same command then goes on")]
Everything = Annotated[Path | None, typer.Option("--json", help="write everything as JSON")]

REFUSE: Final = "refuse"
KEEP: Final = "keep"
Duplicates = Annotated[
    Literal["refuse", "drop", "merge", "keep"],
    typer.Option(
        help="equal rows of the data, which make the kernel singular. refuse: an error. drop: the first row stays, if "
        "labels agree. merge: the first row stays, with the mean of the labels. keep: all rows stay"
    ),
]
LocalSchedule = Annotated[
    str | None,
    typer.Option(metavar="X,X,...", help="eta_local in round 0, 1, ...; the last value is for all later rounds"),
]
ServerSchedule = Annotated[
    str | None, typer.Option(metavar="X,X,...", help="eta_global in round 0, 1, ..., and later rounds")
]
StepsSchedule = Annotated[
    str | None, typer.Option(metavar="K,K,...", help="local steps in round 0, 1, ..., and later rounds")
]
AUTO = "auto"  # stands for the largest step that the hypotheses allow
LOOK_WIDTH, LOOK_ROUNDS = 1024, 20  # default width and rounds of the networks in a first look at the user's data
LOOK_WEIGHTS, LEAST_WIDTH = 2**20, 64  # largest number of hidden weights, and least width, of a network in a first look
BUILT_IN_SIZE = 20  # number of samples drawn from a built-in data set, unless --n says otherwise


def _option(annotation: Any, default: Any, *names: str, help: str) -> tuple[Any, Any]:
    return Annotated[annotation, typer.Option(*names, help=help, show_default=False)], default


SHARED: dict[str, tuple[Any, Any]] = {
    "data": _option(
        str | None, None, help="digits, wine, breast_cancer, fashion-mnist, sphere, or a .npz or .csv file"
    ),
    "unit": _option(bool, False, "--unit", help="divide every row of the data by its norm"),
    "clients": _option(int | None, None, help="number of clients"),
    "partition": _option(str | None, None, help="iid, dirichlet:ALPHA, shards:S, or given (the file's owner)"),
    "n": _option(int | None, None, help="samples drawn from a named data set"),
    "width": _option(int | None, None, help="number of hidden neurons"),
    "eta_local": _option(str | None, None, help="clients' step size, for a loss that sums squares over samples"),
    "eta_global": _option(
        float | None, None, help="server's step size, which multiplies the mean of the clients' updates"
    ),
    "local_steps": _option(int | None, None, help="local steps a round"),
    "rounds": _option(int | None, None, help="communication rounds"),
    "sigma": _option(float | None, None, help="standard deviation of the initial weights"),
    "seed": _option(int, 0, help="seed of data and networks; of many cases, the seed of the first (0 unless given)"),
}


def takes_options(command: Callable) -> Callable:
    """The command with the shared options, as typer's options, in place of its parameter `options: Options`.

    If the command has a parameter `auto_step: bool`, it is true for `--eta-local auto`, which asks the command to find
    the step. A command may also declare one of the shared options itself, by a parameter with the option's name.
    """
    own = inspect.signature(command).parameters
    parameters = [p for p in own.values() if p.name not in ("options", "auto_step")]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in SHARED.items()
        if name not in own
    ]

    @wraps(command)
    def with_options(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in SHARED}
        from ntkfl.memory import TooLittleMemory

        with shown_warnings():
            with bad_input():
                auto = chosen["eta_local"] == AUTO
                if auto and "auto_step" not in own:
                    raise ValueError("eta_local is 'auto', which is for ntkfl verify; give a number here")
                chosen["eta_local"] = None if auto else _step(chosen["eta_local"])
                options = _checked(chosen)
                given |= {"auto_step": auto} if "auto_step" in own else {}
                given |= {name: chosen[name] for name in SHARED if name in own}
            with bad_input(TooLittleMemory):
                command(options=options, **given)

    return with_parameters(with_options, parameters)


def with_help(command: Callable) -> Callable:
    """The command with an option of typer for each parameter whose annotation is only a type and a help text."""
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters.values()
    return with_parameters(command, [p.replace(annotation=_as_option(p.name, hints[p.name])) for p in own])


def _as_option(name: str, annotation: Any) -> Any:
    """The annotation for typer; a bool becomes a switch that has no counterpart to switch it off."""
    text, *_ = getattr(annotation, "__metadata__", (None,))
    if not isinstance(text, str):
        return annotation
    kind = annotation.__origin__
    return Annotated[kind, typer.Option(*[f"--{name.replace('_', '-')}"] * (kind is bool), help=text)]


def with_parameters(command: Callable, parameters: Sequence[inspect.Parameter]) -> Callable:
    """The command with these parameters, as typer sees them."""
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def numbers_of(name: str, typed: str, kind: Callable[[str], Number]) -> list[Number]:
    """The numbers of an option that is typed with commas, such as 1,5,20.

    Raises:
        ValueError: a part is not a number, or `kind` is int and a part is not a whole number.
    """
    try:
        return [kind(part) for part in typed.split(",")]
    except ValueError:
        right = "whole numbers, such as 1,5,20" if kind is int else "numbers, such as 1,0.5"
        raise ValueError(f"--{name} is {typed!r}; it must be {right}") from None


def given_numbers(name: str, typed: str | None, kind: Callable[[str], Number]) -> list[Number] | None:
    """As `numbers_of`; None if the option is not given."""
    return None if typed is None else numbers_of(name, typed, kind)


def _step(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise ValueError(f"eta_local is {text!r}; it must be a number (ntkfl verify takes {AUTO!r} too)") from None


def _checked(chosen: dict[str, Any]) -> "Options":
    from bounds import Options

    for name in ("n", "clients"):
        require_size(name, chosen[name], optional=True)
    options = Options(**chosen)
    options.setup(seed=options.seed)  # this call raises if a field of the setup is not valid
    return options


def chosen_problem(
    options: "Options",
    default: str,
    n: int = BUILT_IN_SIZE,
    test: int | None = None,
    *,
    first: "Callable[[Problem], None] | None" = None,
    condition: "Callable[[np.ndarray], None] | None" = None,
    duplicates: str | None = None,
) -> "Problem":
    """The data that the options name, by default those named `default`, with n samples unless --n is given.

    `test` is the number of test samples of a built-in data set; a file has test samples of its own.

    `first` is called before rows are compared, and raises if the data are too large. `condition` is a
    function that compares rows, and raises if they make a kernel singular; the default function is for the kernel of
    FL-NTK's network. `duplicates` says what to do with equal rows, and is None for a command without the option
    --duplicates.

    Raises:
        ValueError, OSError: as `ntkfl.data.named`; or rows make lambda_min zero, unless duplicates are kept.
    """
    from ntkfl import data, gram

    spec = options.data or default
    size = n if options.n is None and spec in data.BUILT_IN else options.n
    try:
        problem = data.named(
            spec,
            n=size,
            seed=options.seed,
            test=test if spec in data.BUILT_IN else None,
            clients=options.clients,
            partition=options.partition,
            unit=options.unit,
            duplicates=None if duplicates in (None, REFUSE, KEEP) else duplicates,  # type: ignore[arg-type]  # typer's choice
        )
        if first is not None:
            first(problem)
        if duplicates != KEEP:
            (condition or gram.require_positive)(problem.x)
    except gram.ParallelRows as error:
        equal = duplicates == REFUSE and gram.equal_rows(problem.x)
        option = "; --duplicates drop, or merge, keeps one of equal rows" if equal else ""
        raise ValueError(f"{_lines_of(spec, error)}{error}{option}") from None
    return problem


def _lines_of(spec: str, error: "ParallelRows") -> str:
    """The line numbers, in a .csv file, of the rows that an error names."""
    from ntkfl.data.user_files import csv_lines, is_csv
    from ntkfl.gram.degeneracy import said_groups

    if not is_csv(spec):
        return ""
    lines = csv_lines(Path(spec))
    return f"{spec}, lines {said_groups(tuple(tuple(lines[row] for row in rows) for rows in error.groups))}: "


def one_output(problem: "Problem") -> "Problem":
    """The same data, if their labels have one output, with a warning if the labels look like several classes.

    Raises:
        ValueError: the labels have several outputs.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    import numpy as np

    values = np.unique(problem.y)
    if len(values) > 2 and np.array_equal(values, np.arange(len(values))):
        warnings.warn(
            f"the labels of {problem.name} look like {len(values)} classes, 0 to {len(values) - 1}; the network "
            "has one output, which is fitted to these numbers as they stand. Labels of +-1 make two classes of them; "
            "ntkfl train takes all of them (target classes, or one-hot for squares)",
            stacklevel=2,
        )
    return problem


def for_a_look(problem: "Problem", options: "Options", kernel: "np.ndarray | None" = None) -> "Options":
    """The options, with choices for a quick look where the user made none: width 1024, 20 rounds, a stable step.

    For more than 1024 columns the width is smaller, since the cost of a case grows with the product of columns and
    width. The kernel is computed if it is needed and not given.
    """
    width = min(LOOK_WIDTH, max(LEAST_WIDTH, LOOK_WEIGHTS // problem.d))
    options = replace(options, width=options.width or width, rounds=options.rounds or LOOK_ROUNDS)
    return with_stable_step(problem, options, kernel)


def with_stable_step(problem: "Problem", options: "Options", kernel: "np.ndarray | None" = None) -> "Options":
    """The options, with half the largest stable local step if the user gives no step and the default is not stable."""
    from ntkfl import Setup
    from ntkfl.limit.infinite_width import algorithm1_limit

    if options.eta_local is not None:
        return options
    limit = algorithm1_limit(problem, options.setup(seed=options.seed), kernel).step_limits.eta_local
    return options if limit > Setup.eta_local else replace(options, eta_local=float(f"{limit / 2:.2g}"))


def named(names: Iterable[str], known: Mapping[str, Thing], what: str, more: str = "") -> list[Thing]:
    """The entries of `known` with these names.

    Raises:
        ValueError: a name is unknown; the message has the nearest known name.
    """
    chosen = []
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"there is no {what} {name!r}.{hint} They are {', '.join(known)}{more}")
        chosen.append(known[name])
    return chosen


def amount(estimate: "Estimate") -> str:
    """A number with its error, as text."""
    return f"{float(estimate.value):.9g} ± {float(estimate.error):.1e}"


def setting(problem: "Problem", setup: "Setup", *fields: str) -> str:
    """One line of text with the data and these fields of the setup."""
    sizes = [f"n = {problem.n}", f"d = {problem.d}", f"N = {problem.n_clients}"]
    return ", ".join([problem.name, *sizes, *(f"{name} = {getattr(setup, name):g}" for name in fields)])


def refuse_steps(options: "Options", unused: tuple[str, ...]) -> None:
    """Raise a ValueError if one of these options is given, since the command chooses their values itself."""
    given = next((name for name in unused if getattr(options, name) is not None), None)
    if given is not None:
        raise ValueError(f"--{given.replace('_', '-')} is not for this command, which tunes the steps itself")


def step_counts(typed: str) -> tuple[int, ...]:
    """The numbers of local steps that --steps lists, ascending and without repetitions."""
    return tuple(sorted(set(numbers_of("steps", typed, int))))
