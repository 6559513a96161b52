"""All statements: of the papers' folders, of installed packages with an entry point, and of loaded files.

On the command line a file can take the place of a statement's id: `my_theorem.py` for all its statements,
`my_theorem.py::mine/T1` for one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from bounds.brought import extension_of, extensions_of_statements, load
from bounds.papers import PAPERS, modules, own
from ntkfl.extensions import SUFFIX, is_file

if TYPE_CHECKING:
    from bounds.algebra import Step
    from bounds.cards import Card
    from bounds.statement import Statement

PART = "::"
Thing = TypeVar("Thing")
Told = TypeVar("Told", bound="Statement | Card")


def catalogue() -> dict[str, Statement]:
    """Every statement by id: this project's in the order of their files, then those of packages and loaded files.

    Raises:
        ValueError: an id given twice, or an id that does not begin with its paper.
    """
    return own() | {
        statement.id: statement for extension in extensions_of_statements() for statement in extension.module.STATEMENTS
    }


def papers() -> tuple[str, ...]:
    """The first part of every id, each once."""
    brought = (statement.id for extension in extensions_of_statements() for statement in extension.module.STATEMENTS)
    return tuple(dict.fromkeys([*PAPERS, *(identifier.partition("/")[0] for identifier in brought)]))


def steps() -> tuple[Step, ...]:
    """Every step of a proof that is pure algebra, from the modules that have `STEPS`."""
    with_steps: list[ModuleType] = [module for _, _, module in modules()]
    with_steps += [extension.module for extension in extensions_of_statements()]
    return tuple(step for module in with_steps for step in getattr(module, "STEPS", ()))


def get(identifier: str) -> Statement:
    """The statement with this id.

    Args:
        identifier: "paper/label".

    Raises:
        KeyError: unknown id; the message lists the nearest ones.

    Example:
        >>> from bounds import get
        >>> get("fl-ntk/C.6").title
        'Concentration of H(0) around H_inf'
    """
    return _get(identifier, catalogue())


def find(*words: str) -> tuple[Statement, ...]:
    """The statements that these words name: an id, all of a paper or file, or one statement of a file (`my.py::T1`).

    Args:
        words: ids, papers, files, or one statement of a file.

    Raises:
        KeyError: an unknown id, with the nearest. ExtensionError: as `load`.

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
    """The texts of a statement without its formulas, which take long to write."""
    notes = (note for form in statement.forms.values() for note in (form.note, form.consequence))
    texts = (statement.id, statement.title, statement.source, statement.note, statement.says_left, *notes)
    return "\n".join(map(str, texts)).casefold()


def named(word: str, known: Mapping[str, Thing]) -> tuple[Thing, ...]:
    """The entry of this id, or all entries of this paper, among entries by statements' ids.

    Raises:
        KeyError: an unknown id, with the nearest.
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
    """The word by which `find` finds this statement: its id, with its file where it has one."""
    extension = extension_of(statement)
    return statement.id if extension is None or extension.source is None else f"{extension.name}{PART}{statement.id}"


def _no_such(file: str, identifier: str) -> tuple[Statement, ...]:
    raise KeyError(
        f"{file} has no statement {identifier!r}; it has {', '.join(statement.id for statement in load(file))}"
    )
