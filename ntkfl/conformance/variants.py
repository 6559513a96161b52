"""Variants: known ways in which implementations differ from a method.

The plain loop of a method is its reference implementation. A variant changes a line of it, as `variants.toml` says.

A variant is not always a fault: another paper, or another reading of the same paper, may define the method so.
"""

import ast
import inspect
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType

import numpy as np

from ntkfl.conformance.conformance_case import ConformanceCase
from ntkfl.conformance.kit_cases import loops_of

TABLE = Path(__file__).with_name("variants.toml")


@dataclass(frozen=True)
class Variant:
    """A known way to differ from a method.

    Args:
        name: the variant's name in reports.
        says: the change, in words.
        changes: pairs (line of the plain loop, line that replaces it), without indentation; nearly always one pair.
        methods: the methods that have the variant; default (): all methods whose loops have these lines.
    """

    name: str
    says: str
    changes: tuple[tuple[str, str], ...]
    methods: tuple[str, ...] = ()

    def concerns(self, method: str) -> bool:
        """Whether the variant changes the loop of this method.

        Args:
            method: the name of the method.
        """
        passed = _passed(method).values()
        return (not self.methods or method in self.methods) and all(old in passed for old, _ in self.changes)


@cache
def catalogue() -> tuple[Variant, ...]:
    """All variants."""
    variants = []
    for line in tomllib.loads(TABLE.read_text(encoding="utf-8"))["line"]:
        for name, entry in line["variants"].items():
            changes = ((line["old"], entry["new"]), *((tuple(entry["also"]),) if "also" in entry else ()))
            variants.append(Variant(name, entry["says"], changes, tuple(line.get("methods", ()))))
    return tuple(variants)


def of(method: str) -> tuple[Variant, ...]:
    """The variants of a method.

    Args:
        method: the name of the method.
    """
    return tuple(variant for variant in catalogue() if variant.concerns(method))


def followed(case: ConformanceCase, *variants: Variant) -> Iterator[dict[str, np.ndarray]]:
    """The values, by name, that the plain loop has after every round if it is changed as `variants` say.

    If the loop fails, there are fewer rounds.

    Raises:
        ValueError: two changes of the same line.
    """
    changes = tuple(change for variant in variants for change in variant.changes)
    module = ModuleType("changed")
    exec(_compiled(case.method, changes), module.__dict__)  # both the source and the changes are this project's own
    with suppress(ArithmeticError, ValueError, LookupError, RuntimeError), np.errstate(all="ignore"):
        yield from module.run(case)


@cache
def _compiled(method: str, changes: tuple[tuple[str, str], ...]) -> CodeType:
    """The code of the module of the method's plain loop, with these lines of the loop changed.

    Raises:
        ValueError: a line that is to be changed is missing in the loop or occurs more than once, or a line is changed
            twice.
    """
    own, new = _passed(method), dict(changes)
    if len(new) < len(changes):
        raise ValueError(f"a line is changed twice: {', '.join(old for old, _ in changes)}")
    for old in new:
        if (times := list(own.values()).count(old)) != 1:
            raise ValueError(f"the loop of {method} has the line {old!r} {times} times; it must have it once")
    text = inspect.getsource(loops_of(method)).split("\n")
    for place, bare in own.items():
        text[place] = text[place].replace(bare, new.get(bare, bare))
    return compile("\n".join(text), f"the loop of {method}, changed", "exec")


@cache
def _passed(method: str) -> dict[int, str]:
    """The lines of `run`, of the method's loop, and of all functions that these call, by line number from 0."""
    module = loops_of(method)
    text = inspect.getsource(module)
    functions = {function.name: function for function in ast.parse(text).body if isinstance(function, ast.FunctionDef)}
    loop = module.LOOPS[method]
    reached, waiting = set(), {"run", getattr(loop, "func", loop).__name__}
    while waiting:
        reached |= waiting
        named = {node.id for name in waiting for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
        waiting = (named & functions.keys()) - reached
    lines = text.split("\n")
    own = (range(functions[name].lineno - 1, functions[name].end_lineno or 0) for name in reached)
    return {place: lines[place].strip() for places in own for place in places}
