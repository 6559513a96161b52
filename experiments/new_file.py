"""The templates of a new statement, method, architecture or study; each runs unchanged."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bounds import catalogue
from bounds.listing import ID
from bounds.papers import PAPERS, slug
from experiments.text_templates import rendered

About = Literal["training", "initialisation", "kernel"]
Kind = Literal["method", "architecture", "study"]
OWN = "mine"  # the paper of a name without one
HOMES = {  # the project's folder for files of each kind
    "method": Path("ntkfl/training/methods"),
    "architecture": Path("ntkfl/training/models"),
    "study": Path("experiments/studies/questions"),
}


@dataclass(frozen=True)
class NewFile:
    """A new file: the word that commands take for it, its name in the project's folder, and its text."""

    id: str
    file: str
    text: str
    ours: bool  # whether it is a statement of the project, found in the folder of its paper


def new_statement(name: str, about: About = "training", title: str = "", source: str = "") -> NewFile:
    """The file of a new statement, which is verified and attacked by its path.

    Args:
        name: PAPER/LABEL, or LABEL for mine/LABEL; in a checkout, PAPER may be one of this project's.
        about: the kind of its cases: runs of FedAvg, networks before training, or kernels at infinite width; default
            training.
        title: one line; default: the label.
        source: one line; default "my notes".

    Raises:
        ValueError: a name that no statement can have, or that is taken; a title or source of several lines.
    """
    identifier = name if "/" in name else f"{OWN}/{name}"
    label = identifier.partition("/")[2]
    if not ID.fullmatch(identifier) or not re.match("[a-zA-Z]", slug(label)) or '"' in identifier or "\\" in identifier:
        raise ValueError(f"the name is {name!r}; it must be LABEL or PAPER/LABEL with a letter first, such as mine/T1")
    if identifier in catalogue():
        raise ValueError(f"there is a statement {identifier} already; choose another name")
    paper = identifier.partition("/")[0]
    ours = paper in PAPERS
    folder = Path(*PAPERS[paper].split(".")) if ours else Path()
    if not folder.is_dir():
        raise ValueError(
            f"{identifier} would be one of {paper}: a file {folder}/{slug(label)}.py of a checkout; run this in one, "
            "or choose a paper's name of your own"
        )
    fields: dict[str, Any] = {"title": title or label.replace("-", " ").capitalize(), "source": source or "my notes"}
    for what, text in fields.items():
        if re.search(r'[\n"\\]', text):
            raise ValueError(f"the {what} is {text!r}; it must be one line without quotes and backslashes")
    text = rendered("statement.py", id=identifier, label=label, about=about, ours=ours, **fields)
    return NewFile(identifier, str(folder / f"{slug(label)}.py"), text, ours)


def new_file(kind: Kind, name: str) -> NewFile:
    """The file of a new method, architecture or study, used by its path, or in the project's folder by its name.

    Args:
        kind: the kind of thing.
        name: a-z and 0-9, with single dashes between, a letter first.

    Raises:
        ValueError: a name of another form, or a name that is taken.
    """
    if not re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(
            f"the name is {name!r}; it must be of a-z and 0-9 with single dashes between, a letter first, such as my-"
            f"{kind}"
        )
    if name in _taken(kind):
        raise ValueError(f"there is a{'n' * (kind == 'architecture')} {kind} {name} already; choose another name")
    function = name.replace("-", "_")
    return NewFile(name, f"{function}.py", rendered(f"{kind}.py", name=name, function=function), False)


def _taken(kind: Kind) -> Any:
    """The names of the project's own and of announced modules."""
    if kind == "study":
        from experiments.studies import names

        return names()
    from ntkfl.training import methods

    if kind == "method":
        return methods.catalogue()
    from ntkfl.training import models  # PyTorch, which is slow to load

    return models.catalogue()
