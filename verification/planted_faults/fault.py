"""A planted fault, which is a wrong function in place of a function of the library.

The module also has shared ways to make wrong functions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from ntkfl import Estimate, Setup
from verification.planted_faults.planting import Fault


@dataclass(frozen=True)
class PlantedFault:
    """One fault in one function.

    Args:
        name: what is wrong.
        function: its address, "module:name" or "module:Class.name".
        fault: a function that takes the right function and returns the wrong one.
        noticed_by: id of a statement that uses the function.
        trials: number of cases of each family; default 5.
        width: width of the networks of the cases; default the statement's own width. Narrow networks are confirmed
            sooner.
    """

    name: str
    function: str
    fault: Fault
    noticed_by: str
    trials: int = 5
    width: int | None = None


def on_every_way(name: str, function: str, fault: Fault) -> PlantedFault:
    """A fault in one of several implementations of a run.

    The statement that notices the fault runs its cases by all implementations.

    Args:
        name: what is wrong.
        function: its address, "module:name".
        fault: a function that takes the right function and returns the wrong one.
    """
    return PlantedFault(name, function, fault, "fl-ntk/Alg1-update", trials=1)


def around(wrong: Callable[..., Any]) -> Fault:
    """A fault that calls `wrong(right, *args)` whenever the right function is called with the arguments `args`.

    Args:
        wrong: called with the right function and its arguments.
    """

    def fault(right: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(right)
        def called(*args: Any, **named: Any) -> Any:
            return wrong(right, *args, **named)

        return called

    return fault


def changed(change: Callable[[Any], Any]) -> Fault:
    """A fault that changes a function's result.

    Args:
        change: a function that takes the right result and returns a wrong one.
    """
    return around(lambda right, *args, **named: change(right(*args, **named)))


def times(factor: float) -> Fault:
    """A fault that multiplies a function's result, which is numbers or an Estimate, by a factor.

    Args:
        factor: any number.
    """
    return changed(lambda result: _scaled(result, factor))


def argument_times(place: int, factor: float) -> Fault:
    """A fault that multiplies one of the function's arguments by a factor.

    Args:
        place: index of the argument, from 0.
        factor: any number.
    """
    return around(lambda right, *args, **named: right(*args[:place], factor * args[place], *args[place + 1 :], **named))


def setup_times(name: str, factor: float) -> Fault:
    """A fault that multiplies a step size by a factor, in the Setup that is among the function's arguments.

    Args:
        name: name of the field of the Setup, such as "eta_local".
        factor: any number.
    """

    def other(value: Any) -> Any:
        return replace(value, **{name: factor * getattr(value, name)}) if isinstance(value, Setup) else value

    return around(
        lambda right, *args, **named: right(*map(other, args), **{key: other(value) for key, value in named.items()})
    )


def _scaled(result: Any, factor: float) -> Any:
    if isinstance(result, Estimate):
        return Estimate(factor * result.value, abs(factor) * result.error, result.method, result.rigour)
    if isinstance(result, tuple):
        parts = [_scaled(part, factor) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return factor * np.asarray(result)[()]  # keeps the type of a number
