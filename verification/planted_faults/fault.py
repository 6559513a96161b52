"""A planted fault: a wrong function in place of one of the library's, and shared ways to make wrong functions."""

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
        fault: makes the wrong function out of the right one.
        noticed_by: id of a statement that uses the function.
        trials: number of cases of each family; default 5.
        width: of the networks of cases; narrow ones are confirmed sooner; default the statement's own.
    """

    name: str
    function: str
    fault: Fault
    noticed_by: str
    trials: int = 5
    width: int | None = None


def on_every_way(name: str, function: str, fault: Fault) -> PlantedFault:
    """A fault in one implementation of a run; the statement that notices it runs its cases by all implementations.

    Args:
        name: what is wrong.
        function: its address, "module:name".
        fault: makes the wrong function out of the right one.
    """
    return PlantedFault(name, function, fault, "fl-ntk/Alg1-update", trials=1)


def around(wrong: Callable[..., Any]) -> Fault:
    """The fault that calls `wrong(right, *args)` where the right function is called with these arguments.

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
    """A change of a function's result.

    Args:
        change: (a function's result) -> another.
    """
    return around(lambda right, *args, **named: change(right(*args, **named)))


def times(factor: float) -> Fault:
    """A function's result, numbers or an Estimate, times a factor.

    Args:
        factor: any number.
    """
    return changed(lambda result: _scaled(result, factor))


def argument_times(place: int, factor: float) -> Fault:
    """The argument at this place times a factor.

    Args:
        place: index of the argument, from 0.
        factor: any number.
    """
    return around(lambda right, *args, **named: right(*args[:place], factor * args[place], *args[place + 1 :], **named))


def setup_times(name: str, factor: float) -> Fault:
    """A step size of the Setup among the arguments times a factor.

    Args:
        name: name of the field, such as "eta_local".
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
    return factor * np.asarray(result)[()]  # a number stays a number
