"""This project's statements, from the files in the papers' folders: a new file is a new statement.

A new folder with a PAPER is a new paper.
"""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import bounds

if TYPE_CHECKING:
    from bounds.statement import Statement
    from bounds.vocabulary import Convention


def _papers() -> dict[str, str]:
    """The folders of `bounds` with a PAPER, by the paper's id; folders with a PLACE first, in their order."""
    papers = []
    for info in pkgutil.iter_modules(bounds.__path__):
        folder = importlib.import_module(f"bounds.{info.name}") if info.ispkg else bounds
        if hasattr(folder, "PAPER"):
            papers.append((getattr(folder, "PLACE", math.inf), folder.PAPER, folder.__name__))
    return {paper: package for _, paper, package in sorted(papers)}


PAPERS = _papers()


@cache
def own() -> "dict[str, Statement]":
    """This project's statements by id, in the order of their files.

    Raises:
        ValueError: an id given twice, or an id that is not its file's: `b_12.py` holds `fl-ntk/B.12` and its parts.
    """
    by_id: dict[str, Statement] = {}
    for paper, name, module in modules():
        for statement in getattr(module, "STATEMENTS", ()):
            expected = slug(statement.id.removeprefix(paper + "/"))
            if not f"{expected}_".startswith(name + "_"):
                raise ValueError(f"{PAPERS[paper]}.{name} holds {statement.id}; its file would be {expected}.py")
            if statement.id in by_id:
                raise ValueError(f"two statements have the id {statement.id}")
            by_id[statement.id] = statement
    return by_id


def modules() -> Iterator[tuple[str, str, ModuleType]]:
    """Paper, package and module of every file in the papers' folders, in their order."""
    for paper, package in PAPERS.items():
        folder = importlib.import_module(package)
        for info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda info: _order(info.name)):
            yield paper, info.name, importlib.import_module(f"{package}.{info.name}")


def conventions(paper: str) -> "tuple[Convention, ...]":
    """The readings of a paper's statements where the paper leaves a choice; empty if its folder has no `conventions`.

    Args:
        paper: its id, such as "fl-ntk".
    """
    try:
        return importlib.import_module(f"{PAPERS[paper]}.conventions").CONVENTIONS
    except ModuleNotFoundError:
        return ()


def slug(label: str) -> str:
    """A label as a file name: B.12 -> b_12."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def _order(name: str) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
