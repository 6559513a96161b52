"""BibTeX entries for the papers behind a statement, a method, a run or a study, and for this version of this tool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ntkfl.version import VERSION

if TYPE_CHECKING:
    from bounds.cards import Card

YEAR = 2026  # year of this version
TOOL = f"""@software{{ntkfl,
  author    = {{{{The ntkfl project}}}},
  title     = {{ntkfl: the theorems of federated learning on wide networks, run}},
  version   = {{{VERSION}}},
  year      = {{{YEAR}}},
}}"""


@dataclass(frozen=True)
class Citation:
    """What is cited, in words, and the BibTeX entries; the last entry is this tool's."""

    what: str
    entries: tuple[str, ...]

    def __str__(self) -> str:
        """The text of a .bib file: a comment that says what is cited, and the entries."""
        return "\n\n".join([f"% {self.what}", *self.entries])


def citation(word: str | None = None) -> Citation:
    """The entries for a statement, a paper, a method, or the folder of a run or of a study, or for all papers.

    A form of a statement is one version of its claim. If a form does not hold as printed, an entry of its own cites
    this finding. That entry has the address of the finding's page, and names the script that checks the finding
    independently, if there is one.

    Args:
        word: an id, a paper, a method or a folder; None: all papers.

    Raises:
        ValueError, OSError: a folder that is neither a run's nor a study's, or is damaged. KeyError: no statement or
            method has this name.

    Example:
        >>> from experiments.citing import citation
        >>> citation("fl-ntk/C.6").entries[0][:14]
        '@inproceedings'
    """
    if word is None:
        from bounds.papers import PAPERS

        return _of(f"the papers whose statements ntkfl {VERSION} runs", PAPERS)
    if Path(word).is_dir():
        return _of_folder(Path(word))
    from bounds.listing import papers

    if word in papers():
        return _of(f"the statements of {word} as ntkfl {VERSION} has them", [word])
    if "/" not in word and _is_method(word):
        return _of(f"the method {word} as ntkfl {VERSION} trains it", [word])
    return _of_statements(word)


@cache
def references() -> tuple[tuple[frozenset[str], str], ...]:
    """The entries of references.bib, each with the papers and methods that it is cited for.

    The field that names these papers and methods is left out of the text of an entry.
    """
    text = files("experiments").joinpath("references.bib").read_text(encoding="utf-8")
    entries = []
    for entry in re.findall(r"^@.*?^}$", text, flags=re.MULTILINE | re.DOTALL):
        names = re.search(r"^ *keywords *= *{(.*)},?\n", entry, flags=re.MULTILINE)
        assert names is not None, entry
        entries.append((frozenset(name.strip() for name in names[1].split(",")), entry.replace(names[0], "")))
    return tuple(entries)


def _of(what: str, names: Iterable[str]) -> Citation:
    """The entries that are cited for any of these names, in the order of references.bib, and then the tool's entry."""
    wanted = set(names)
    return Citation(what, (*(entry for behind, entry in references() if behind & wanted), TOOL))


def _is_method(word: str) -> bool:
    """Whether a method has this name.

    torch is imported only if references.bib does not have the name.
    """
    if any(word in behind for behind, _ in references()):
        return True
    from ntkfl.training.methods import catalogue

    return word in catalogue()


def _of_statements(word: str) -> Citation:
    from verification.cards import cards

    statements = cards(word)
    sources = ", ".join(f"{statement.id}: {statement.source}" for statement in statements)
    own = [statement for statement in statements if statement.own]
    cited = _of(
        f"{sources}; checked by ntkfl {VERSION}",
        {i.partition("/")[0] for statement in own for i in (statement.id, *statement.uses)},
    )
    return Citation(
        cited.what, (*cited.entries[:-1], *(entry for statement in own for entry in _findings(statement)), TOOL)
    )


def _findings(statement: Card) -> list[str]:
    """An entry for every form of the statement that does not hold as printed.

    An entry has the address of the finding's page, and the script of an independent check if there is one.
    """
    from verification.findings.address import address, anchor, check_script, findings_of

    entries = []
    for form in findings_of(statement):
        claim, script = statement.forms[form], check_script(statement, form)
        assert claim.nature is not None
        note = f"{claim.nature.value}; recorded: {claim.recorded.value}"
        note += f"; checked with numpy and mpmath alone by {script}" if script else ""
        entries.append(
            f"""@misc{{ntkfl-{anchor(statement, form)},
  author       = {{{{The ntkfl project}}}},
  title        = {{{{{_tex(f"{statement.id}, {form.value}: {statement.title}")}}}}},
  howpublished = {{Findings of ntkfl {VERSION}, {_tex(address(statement, form))}}},
  note         = {{{_tex(note)}}},
  year         = {{{YEAR}}},
}}"""
        )
    return entries


def _tex(text: str) -> str:
    """The text with LaTeX's special characters escaped."""
    return re.sub(r"[&%$#_{}]", lambda match: "\\" + match[0], text).replace("^", r"\^{}")


def _of_folder(folder: Path) -> Citation:
    from experiments.studies.study_folder import StudyFolder
    from ntkfl.training.run_folder import RunFolder

    if RunFolder(folder).checkpoint.is_file():
        config = RunFolder(folder).load().run["config"]
        names = [config["method"], *(["ima"] if config.get("ima") else [])]
        return _of(f"a run of {' with '.join(names)}, trained by ntkfl", names)
    about = StudyFolder(folder)
    return _of(f"the study {about.name}, run with ntkfl", {source.partition("/")[0] for source in about.sources()})
