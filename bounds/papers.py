"""This project's statements, which are in the files of the papers' folders.

A file has one statement, or the statements of one topic. A new folder that defines PAPER, the paper's id, is a new
paper.
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
    """The folders of `bounds` that define PAPER, by the paper's id.

    Folders that define PLACE come first, in the order of PLACE.
    """
    papers = []
    for info in pkgutil.iter_modules(bounds.__path__):
        folder = importlib.import_module(f"bounds.{info.name}") if info.ispkg else bounds
        if hasattr(folder, "PAPER"):
            papers.append((getattr(folder, "PLACE", math.inf), folder.PAPER, folder.__name__))
    return {paper: package for _, paper, package in sorted(papers)}


PAPERS = _papers()


@cache
def own() -> "dict[str, Statement]":
    """This project's statements by id: paper by paper, and in the order of the labels.

    A label comes before the labels that add a word to it, such as X4 before X4-drift. Such longer labels are in the
    order of their files.

    Raises:
        ValueError: an id that does not begin with the name of the statement's paper, or an id given twice.
    """
    by_id: dict[str, Statement] = {}
    for paper, name, module in modules():
        for statement in getattr(module, "STATEMENTS", ()):
            if not statement.id.startswith(paper + "/"):
                raise ValueError(f"{PAPERS[paper]}.{name} holds {statement.id}; its id would begin with {paper}/")
            if statement.id in by_id:
                raise ValueError(f"two statements have the id {statement.id}")
            by_id[statement.id] = statement
    papers = list(PAPERS)
    return {name: by_id[name] for name in sorted(by_id, key=lambda name: _place(name, papers))}


def modules() -> Iterator[tuple[str, str, ModuleType]]:
    """The paper, name and module of every file in the papers' folders."""
    for paper, package in PAPERS.items():
        for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
            yield paper, info.name, importlib.import_module(f"{package}.{info.name}")


def conventions(paper: str) -> "tuple[Convention, ...]":
    """The readings that are used where the paper leaves a choice; empty if its folder has no `conventions`.

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


def _place(identifier: str, papers: list[str]) -> tuple[int, list, bool]:
    """The sort key of an id: its paper, then its label up to the first hyphen, then whether the label has a hyphen.

    Numbers in a label are compared as numbers. So B.9 comes before B.10.
    """
    paper, _, label = identifier.partition("/")
    head, _, part = label.partition("-")
    numbered = [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", slug(head))]
    return papers.index(paper), numbered, bool(part)
