"""The permanent address of a finding on the site, and the files that check a finding without this project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bounds import Form, Nature
from bounds.papers import slug

if TYPE_CHECKING:
    from bounds import Statement
    from bounds.cards import Card

    Told = Statement | Card

PAGE = "findings.html"
CHECKS = "docs/checks"  # the folder of the checks in a checkout
CHECKED = (Nature.SUBSTANCE, Nature.REPORTED)  # the natures of the findings that have checks


def anchor(statement: Told, form: Form) -> str:
    """The end of a link to a finding, which does not depend on the title.

    For fl-ntk/C.10, stated, it is fl-ntk-C.10-stated.

    Args:
        statement: the claim.
        form: one of the statement's forms.
    """
    return f"{statement.id.replace('/', '-')}-{form.value}"


def address(statement: Told, form: Form) -> str:
    """The address of the finding on the site.

    Args:
        statement: the claim.
        form: one of the statement's forms.
    """
    return f"{PAGE}#{anchor(statement, form)}"


def check_script(statement: Told, form: Form) -> str | None:
    """The script that confirms the finding without this project.

    It is None unless the nature of the finding is "substance" or "reported".

    Args:
        statement: the claim.
        form: one of the statement's forms.
    """
    return _beside(statement, form, "py")


def replay_path(statement: Told, form: Form) -> str | None:
    """The replay file of the finding's stored case.

    It is None unless the nature of the finding is "substance" or "reported".

    Args:
        statement: the claim.
        form: one of the statement's forms.
    """
    return _beside(statement, form, "json")


def findings_of(statement: Told) -> list[Form]:
    """The statement's forms that do not hold as printed.

    Args:
        statement: the claim.
    """
    return [form for form, claim in statement.forms.items() if claim.nature is not None]


def _beside(statement: Told, form: Form, ending: str) -> str | None:
    checked = statement.forms[form].nature in CHECKED
    return f"{CHECKS}/{slug(statement.id)}.{ending}" if checked else None
