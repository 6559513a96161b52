"""The file that a statement of one's own begins with: it runs as it is, and says what to put in its places."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from bounds import catalogue
from bounds.brought import ID
from bounds.papers import PAPERS, slug

About = Literal["training", "initialisation"]
OWN = "mine"  # the paper of a name without one


@dataclass(frozen=True)
class NewStatement:
    """A statement's id, the name of its file, and what the file says."""

    id: str
    file: str
    text: str
    ours: bool  # one of the project, found in the folder of its paper


def new_statement(name: str, about: About = "training", title: str = "", source: str = "") -> NewStatement:
    """The file of a new statement, to be verified and attacked by its path.

    Args:
        name: PAPER/LABEL, or LABEL for mine/LABEL; of a paper of this project where this is run in a checkout.
        about: what its cases are: runs of FedAvg, or networks before training.
        title: one line; default: the label.
        source: one line; default "my notes".

    Raises:
        ValueError: a name that no statement can have, or that one has; a title or source of several lines.
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
    fields = {"title": title or label.replace("-", " ").capitalize(), "source": source or "my notes"}
    for what, text in fields.items():
        if re.search(r'[\n"\\]', text):
            raise ValueError(f"the {what} is {text!r}; it must be one line without quotes and backslashes")
    environment = Environment(
        loader=PackageLoader("experiments"), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    template = environment.get_template("statement.py.jinja")
    text = template.render(id=identifier, label=label, about=about, ours=ours, **fields)
    return NewStatement(identifier, str(folder / f"{slug(label)}.py"), text, ours)
