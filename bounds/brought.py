"""Statements from outside this project: in a user's files, and in packages with the entry point `ntkfl.statements`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from bounds.papers import own
from ntkfl import extensions
from ntkfl.extensions import Extension, ExtensionError
from ntkfl.imports import NO_TORCH

if TYPE_CHECKING:
    from bounds.statement import Statement

GROUP = "ntkfl.statements"
HERE = Path(__file__).parent
ID = re.compile(r"[^\s/:]+/[^\s/:]+")

_files: dict[Path, Extension] = {}  # loaded files, which stay known as modules do in sys.modules


def load(file: str | os.PathLike[str]) -> tuple[Statement, ...]:
    """Make the statements of a file of yours known to `get`, `catalogue` and every report.

    A file that has changed since is executed again, and its statements take the place of the earlier ones.

    Args:
        file: path of a Python file with STATEMENTS.

    Raises:
        ExtensionError: a ValueError. The file does not exist; it fails (the message has the line); its STATEMENTS are
            no statements; or an id is not paper/label, or is the id of another statement.
    """
    return restore(extensions.from_file(file))


def restore(extension: Extension) -> tuple[Statement, ...]:
    """Like `load`, for an extension that was executed already, for example in another process."""
    path = Path(extension.name).resolve()
    others = (*announced(), *(other for place, other in _files.items() if place != path))
    statements = _statements(extension, others)
    _files[path] = extension
    return statements


def loaded_files() -> tuple[Extension, ...]:
    """The files whose statements are known, so that other processes can load them too."""
    return tuple(_files.values())


def extensions_of_statements() -> tuple[Extension, ...]:
    """Every module that brings statements: modules that packages announce, then loaded files."""
    return (*announced(), *_files.values())


def brings_any() -> bool:
    """Whether a loaded file or an installed package brings statements, valid or not; imports nothing."""
    return bool(_files or entry_points(group=GROUP))


def extension_of(statement: Statement) -> Extension | None:
    """The module that brought a statement; None for a statement of this project."""
    return next(
        (e for e in extensions_of_statements() if any(listed is statement for listed in e.module.STATEMENTS)), None
    )


def failure(error: BaseException, statement: Statement) -> str:
    """The error in a statement's code as a text, with its line in the statement's file or its paper's folder."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return NO_TORCH
    extension = extension_of(statement)
    if extension is None:  # in a subfolder, not in the modules of `bounds` that all statements share
        frame = extensions.last_frame(error, lambda file: HERE in file.parents[1:])
        name = frame and Path(frame.filename).relative_to(HERE.parent).as_posix()
    else:
        frame = extensions.last_frame(error, lambda file: str(file) == extension.module.__file__)
        name = extension.name
    place = f" ({name}, line {frame.lineno}, `{frame.line}`)" if frame is not None else ""
    return f"failed with {type(error).__name__}: {error}{place}"


def brought_by(statement: Statement) -> Mapping[str, str] | None:
    """The file with its SHA-256, or the package, that brought a statement; None for a statement of this project."""
    extension = extension_of(statement)
    return None if extension is None else extension.provenance


@cache
def announced() -> tuple[Extension, ...]:
    """The announced modules whose statements are valid; other announced modules give a warning."""
    return extensions.announced(GROUP, _statements)


def _statements(extension: Extension, others: Iterable[Extension]) -> tuple[Statement, ...]:
    """The STATEMENTS of a module from outside this project.

    Raises:
        ExtensionError: there are no statements, or their ids are not allowed.
    """
    from bounds.statement import Statement

    where, statements = extension.name, getattr(extension.module, "STATEMENTS", None)
    if not isinstance(statements, tuple) or not statements or not all(isinstance(s, Statement) for s in statements):
        has = "it has none" if statements is None else f"it is {_described(statements)}"
        raise ExtensionError(f"{where} must have STATEMENTS, a tuple of bounds.Statement; {has}")
    owner = dict.fromkeys(own(), "this project")
    owner |= {statement.id: other.name for other in others for statement in other.module.STATEMENTS}
    for stated in statements:
        if not ID.fullmatch(stated.id):
            raise ExtensionError(f"{where} has a statement with the id {stated.id!r}; it must be paper/label: mine/T1")
        if stated.id in owner:
            raise ExtensionError(
                f"{where} has a statement with the id {stated.id}, as {owner[stated.id]} has; choose another"
            )
        owner[stated.id] = "itself"
    return statements


def _described(given: object) -> str:
    from bounds.statement import Statement

    if isinstance(given, tuple):
        odd = next((statement for statement in given if not isinstance(statement, Statement)), None)
        return "an empty one" if not given else f"a tuple with a {type(odd).__name__}"
    return f"a {type(given).__name__}"
