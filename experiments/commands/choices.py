"""The options that verify, certify and rate share, declared once, and the data that they name."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.bad_input import bad_input, shown_warnings

if TYPE_CHECKING:
    from bounds.options import Options
    from ntkfl.estimate import Estimate
    from ntkfl.problem import Problem, Setup

BUILT_IN_SIZE = 20  # samples drawn from a named data set, unless --n says otherwise


def _option(annotation: Any, default: Any, *names: str, help: str) -> tuple[Any, Any]:
    return Annotated[annotation, typer.Option(*names, help=help, show_default=False)], default


SHARED: dict[str, tuple[Any, Any]] = {
    "data": _option(str | None, None, help="digits, fashion-mnist, sphere, or a .npz or .csv file"),
    "unit": _option(bool, False, "--unit", help="divide every row of the data by its norm"),
    "clients": _option(int | None, None, help="number of clients"),
    "partition": _option(str | None, None, help="iid, dirichlet:ALPHA, shards:S, or given (the file's owner)"),
    "n": _option(int | None, None, help="samples drawn from a named data set"),
    "width": _option(int | None, None, help="number of hidden neurons"),
    "eta_local": _option(float | None, None, help="clients' step size, on the sum of squares"),
    "eta_global": _option(float | None, None, help="server's step size, on the clients' mean"),
    "local_steps": _option(int | None, None, help="local steps a round"),
    "rounds": _option(int | None, None, help="communication rounds"),
    "sigma": _option(float | None, None, help="standard deviation of the initial weights"),
    "seed": _option(int, 0, help="first seed (0 unless given)"),
}


def takes_options(command: Callable) -> Callable:
    """A command with a parameter `options: Options`, as one that typer offers the shared options for instead."""
    parameters = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in SHARED.items()
    ]

    def with_options(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in SHARED}
        with shown_warnings():
            with bad_input():
                options = _checked(chosen)
            command(options=options, **given)

    with_options.__doc__ = command.__doc__
    with_options.__name__ = command.__name__
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_options


def _checked(chosen: dict[str, Any]) -> "Options":
    from bounds.options import Options

    for name in ("n", "clients"):
        if chosen[name] is not None and chosen[name] < 1:
            raise ValueError(f"{name} is {chosen[name]}; it must be a positive integer")
    options = Options(**chosen)
    options.setup(seed=options.seed)  # Setup validates its fields
    return options


def chosen_problem(options: "Options", default: str, n: int = BUILT_IN_SIZE) -> "Problem":
    """The problem that the options name; without --data the default one, and n samples unless --n is given.

    Raises:
        ValueError, OSError: as `ntkfl.data.named`; rows that make lambda_min(H_inf) zero.
    """
    from ntkfl import data, gram

    spec = options.data or default
    size = n if options.n is None and spec in data.BUILT_IN else options.n
    problem = data.named(spec, size, options.seed, None, None, options.clients, options.partition, options.unit)
    gram.require_positive(problem.x)
    return problem


def one_output(problem: "Problem") -> "Problem":
    """The same problem.

    Raises:
        ValueError: labels with several outputs.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    return problem


def amount(found: "Estimate") -> str:
    """A number with its error."""
    return f"{float(found.value):.9g} ± {float(found.error):.1e}"


def setting(problem: "Problem", setup: "Setup", *fields: str) -> str:
    """One line: the data and the fields of the setup that matter."""
    sizes = [f"n = {problem.n}", f"d = {problem.d}", f"N = {problem.n_clients}"]
    return ", ".join([problem.name, *sizes, *(f"{name} = {getattr(setup, name):g}" for name in fields)])
