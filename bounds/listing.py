"""The list of all statements: of the papers' folders, of installed packages, and of loaded files.

A package adds its statements through the entry point `ntkfl.statements`. On the command line a file can take the place
of a statement's id: `my_theorem.py` for all its statements, `my_theorem.py::mine/T1` for one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from bounds.papers import PAPERS, modules, own
from ntkfl import extensions
from ntkfl.extensions import SUFFIX, Extension, ExtensionError, is_file
from ntkfl.imports import NO_TORCH

if TYPE_CHECKING:
    from bounds.algebra import Step
    from bounds.cards import Card
    from bounds.statement import Statement


GROUP = "ntkfl.statements"
HERE = Path(__file__).parent
ID = re.compile(r"[^\s/:]+/[^\s/:]+")

_files: dict[Path, Extension] = {}  # loaded files; a file stays in this list for as long as the process runs


def load(file: str | os.PathLike[str]) -> tuple[Statement, ...]:
    """Make the statements of a file of yours known to `get`, `catalogue` and every report.

    A file that has changed since is executed again, and its statements take the place of the earlier ones.

    Args:
        file: path of a Python file with STATEMENTS.

    Raises:
        ExtensionError: a ValueError. The file does not exist; it fails (the message has the line); it has
            no STATEMENTS, or these are not a tuple of objects of the class `Statement`; an id is not of the form
            paper/label; or another statement has the same id.
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
    """Every module with statements that are not this project's: announced by packages first, then the loaded files."""
    return (*announced(), *_files.values())


def brings_any() -> bool:
    """Whether there are statements, valid or not, of a loaded file or an installed package.

    Nothing is imported for this.
    """
    return bool(_files or entry_points(group=GROUP))


def extension_of(statement: Statement) -> Extension | None:
    """The file or the announced module whose STATEMENTS contain a statement; None for a statement of this project."""
    return next(
        (e for e in extensions_of_statements() if any(listed is statement for listed in e.module.STATEMENTS)), None
    )


def failure(error: BaseException, statement: Statement) -> str:
    """The error in a statement's code as a text.

    The text names the line in the statement's file or in its paper's folder at which the error arose.
    """
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return NO_TORCH
    extension = extension_of(statement)
    # only a line in a subfolder, such as a paper's, is named: all statements share the modules of `bounds` itself
    if extension is None:
        frame = extensions.last_frame(error, lambda file: HERE in file.parents[1:])
        name = frame and Path(frame.filename).relative_to(HERE.parent).as_posix()
    else:
        frame = extensions.last_frame(error, lambda file: str(file) == extension.module.__file__)
        name = extension.name
    place = f" ({name}, line {frame.lineno}, `{frame.line}`)" if frame is not None else ""
    return f"failed with {type(error).__name__}: {error}{place}"


def brought_by(statement: Statement) -> Mapping[str, str] | None:
    """The file with its SHA-256, or the package, from which a statement comes; None for a statement of this project."""
    extension = extension_of(statement)
    return None if extension is None else extension.provenance


@cache
def announced() -> tuple[Extension, ...]:
    """The modules that installed packages announce, if their statements are valid.

    Other announced modules give a warning.
    """
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


PART = "::"
Thing = TypeVar("Thing")
Told = TypeVar("Told", bound="Statement | Card")


def catalogue() -> dict[str, Statement]:
    """Every statement by id: the project's own statements, then the statements of packages and of loaded files.

    Raises:
        ValueError: an id given twice, or an id that does not begin with its paper.
    """
    return own() | {
        statement.id: statement for extension in extensions_of_statements() for statement in extension.module.STATEMENTS
    }


def papers() -> tuple[str, ...]:
    """The papers of all statements, each once. A paper is the first part of an id."""
    brought = (statement.id for extension in extensions_of_statements() for statement in extension.module.STATEMENTS)
    return tuple(dict.fromkeys([*PAPERS, *(identifier.partition("/")[0] for identifier in brought)]))


def steps() -> tuple[Step, ...]:
    """Every step of a proof that is pure algebra. The steps come from the modules that have `STEPS`."""
    with_steps: list[ModuleType] = [module for _, _, module in modules()]
    with_steps += [extension.module for extension in extensions_of_statements()]
    return tuple(step for module in with_steps for step in getattr(module, "STEPS", ()))


def get(identifier: str) -> Statement:
    """The statement with this id.

    Args:
        identifier: "paper/label".

    Raises:
        KeyError: unknown id; the message lists the nearest ids.

    Example:
        >>> from bounds import get
        >>> get("fl-ntk/C.6").title
        'Concentration of H(0) around H_inf'
    """
    return _get(identifier, catalogue())


def find(*words: str) -> tuple[Statement, ...]:
    """The statements that the given words name.

    Args:
        words: ids; papers and files, for all their statements; or one statement of a file, as `my.py::mine/T1`.

    Raises:
        KeyError: an unknown id; the message lists the nearest ids. ExtensionError: as `load`.

    Example:
        >>> from bounds import find
        >>> [statement.id for statement in find("fl-ntk/C.6")]
        ['fl-ntk/C.6']
    """
    by_id: dict[str, Statement] = {}
    for word in words:
        file, _, identifier = word.partition(PART)
        chosen = load(file) if is_file(file) else named(word, catalogue())
        if identifier and is_file(file):
            chosen = tuple(statement for statement in chosen if statement.id == identifier) or _no_such(
                file, identifier
            )
        by_id |= {statement.id: statement for statement in chosen}
    return tuple(by_id.values())


def narrowed(statements: Iterable[Told], paper: str | None = None, text: str = "") -> tuple[Told, ...]:
    """The statements of one paper that have all words of a text in their ids, titles, sources, left sides or notes.

    Args:
        statements: statements, or their cards.
        paper: one of `papers()`; None: all papers.
        text: words, in any case; default none.

    Raises:
        ValueError: an unknown paper, or no statement is left.
    """
    if paper is not None and paper not in papers():
        raise ValueError(f"there is no paper {paper!r}; it is one of {', '.join(papers())}")
    own = tuple(statement for statement in statements if paper is None or statement.id.startswith(f"{paper}/"))
    if not own:
        raise ValueError(f"none of these is a statement of {paper}")
    left = tuple(statement for statement in own if all(word in _texts(statement) for word in text.casefold().split()))
    if not left:
        raise ValueError(f"none of {len(own)} statements has {text!r} in its texts; try fewer words, or a part of one")
    return left


def _texts(statement: Statement | Card) -> str:
    """The texts of a statement except its formulas, which take long to write as text."""
    notes = (note for form in statement.forms.values() for note in (form.note, form.consequence))
    texts = (statement.id, statement.title, statement.source, statement.note, statement.says_left, *notes)
    return "\n".join(map(str, texts)).casefold()


def named(word: str, known: Mapping[str, Thing]) -> tuple[Thing, ...]:
    """The entry whose id is `word`, or all entries of the paper `word`; `known` maps ids of statements to entries.

    Raises:
        KeyError: an unknown id; the message lists the nearest ids.
    """
    paper = word.lower().rstrip("/")
    return tuple(thing for name, thing in known.items() if name.split("/")[0] == paper) or (_get(word, known),)


def _get(identifier: str, known: Mapping[str, Thing]) -> Thing:
    if identifier not in known:
        by_lower = {name.lower(): name for name in known} | {name.lower().split("/")[1]: name for name in known}
        close = difflib.get_close_matches(identifier.lower(), by_lower, n=6, cutoff=0.4)
        nearest = list(dict.fromkeys(by_lower[name] for name in close))[:3] or list(known)[:3]
        raise KeyError(
            f"no statement {identifier!r}; nearest: {', '.join(nearest)} (ntkfl list shows all; a file of yours "
            f"goes by its path, ending in {SUFFIX})"
        )
    return known[identifier]


def word_for(statement: Statement) -> str:
    """The word by which `find` finds this statement: its id, preceded by its file if it comes from a file."""
    extension = extension_of(statement)
    return statement.id if extension is None or extension.source is None else f"{extension.name}{PART}{statement.id}"


def _no_such(file: str, identifier: str) -> tuple[Statement, ...]:
    raise KeyError(
        f"{file} has no statement {identifier!r}; it has {', '.join(statement.id for statement in load(file))}"
    )
