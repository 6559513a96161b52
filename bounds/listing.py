"""All statements, found by listing the papers' folders: a new file is a new statement and touches nothing else."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from functools import cache

from bounds.algebra import Step
from bounds.statement import Convention, Statement

PAPERS = {"fl-ntk": "bounds.fl_ntk", "fedgucci": "bounds.fedgucci", "averaging": "bounds.averaging"}


@cache
def catalogue() -> dict[str, Statement]:
    """Every statement by id, in the order of their files.

    Raises:
        ValueError: an id given twice, or one that is not its file's: `b_12.py` holds `fl-ntk/B.12` and its parts.
    """
    found: dict[str, Statement] = {}
    for paper, package in PAPERS.items():
        folder = importlib.import_module(package)
        for info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda info: _order(info.name)):
            module = importlib.import_module(f"{package}.{info.name}")
            for statement in getattr(module, "STATEMENTS", ()):
                expected = slug(statement.id.removeprefix(paper + "/"))
                if not f"{expected}_".startswith(info.name + "_"):
                    raise ValueError(f"{package}.{info.name} holds {statement.id}; its file would be {expected}.py")
                if statement.id in found:
                    raise ValueError(f"two statements have the id {statement.id}")
                found[statement.id] = statement
    return found


@cache
def steps() -> tuple[Step, ...]:
    """Every step of a proof that is pure algebra, from the modules of the papers' folders that have `STEPS`."""
    found: list[Step] = []
    for package in PAPERS.values():
        folder = importlib.import_module(package)
        for info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda info: _order(info.name)):
            found += getattr(importlib.import_module(f"{package}.{info.name}"), "STEPS", ())
    return tuple(found)


def conventions(paper: str) -> tuple[Convention, ...]:
    """What a paper's statements mean where it leaves that open; none where its folder has no `conventions`."""
    try:
        return importlib.import_module(f"{PAPERS[paper]}.conventions").CONVENTIONS
    except ModuleNotFoundError:
        return ()


def get(identifier: str) -> Statement:
    """The statement with this id.

    Raises:
        KeyError: unknown id; the message lists the nearest ones.
    """
    statements = catalogue()
    if identifier not in statements:
        by_lower = {name.lower(): name for name in statements} | {
            name.lower().split("/")[1]: name for name in statements
        }
        close = difflib.get_close_matches(identifier.lower(), by_lower, n=6, cutoff=0.4)
        nearest = list(dict.fromkeys(by_lower[name] for name in close))[:3] or list(statements)[:3]
        raise KeyError(f"no statement {identifier!r}; nearest: {', '.join(nearest)} (ntkfl list shows all)")
    return statements[identifier]


def slug(label: str) -> str:
    """A label as a file name: B.12 -> b_12."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _order(name: str) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
