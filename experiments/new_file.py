"""New files for a user's statement, method, architecture or study.

They are made from templates, and run unchanged.
"""

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
OWN = "mine"  # the paper in the id of a statement whose name gives no paper
HOMES = {  # by kind of file, the project's folder
    "method": Path("ntkfl/training/methods"),
    "architecture": Path("ntkfl/training/models"),
    "study": Path("experiments/studies/questions"),
}


@dataclass(frozen=True)
class NewFile:
    """The text of a new file, the word by which commands take it, and its name in the project's folder."""

    id: str
    file: str
    text: str
    ours: bool  # whether the file is a statement of the project, which is found in the folder of its paper


def new_statement(name: str, about: About = "training", title: str = "", source: str = "") -> NewFile:
    """The file of a new statement, which `ntkfl verify` and `ntkfl attack` take by its path.

    Args:
        name: PAPER/LABEL, or LABEL alone, which becomes mine/LABEL. In a checkout, PAPER may be one of this project's
            papers.
        about: the kind of its cases, which are runs of FedAvg ("training", the default), networks before training, or
            kernels at infinite width.
        title: the title, in one line; default: the label.
        source: the source, in one line; default "my notes".

    Raises:
        ValueError: no statement can have this name, or the name is taken; or title or source have several lines.
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
    """The file of a new method, architecture or study.

    Commands take it by its path, or by its name if it is in the project's folder.

    Args:
        kind: what the file defines.
        name: a letter, followed by letters a-z and digits, with single dashes between them.

    Raises:
        ValueError: the name has another form, or is taken.
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
    """The names that are taken, by modules of the project or by modules that installed packages announce."""
    if kind == "study":
        from experiments.studies import names

        return names()
    from ntkfl.training import methods

    if kind == "method":
        return methods.catalogue()
    from ntkfl.training import models  # imported here, since this imports PyTorch, which takes seconds

    return models.catalogue()
