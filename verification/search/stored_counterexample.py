"""The stored case of a violated form, as a counterexample for a replay file."""

from typing import Any

from bounds import Form, Statement
from verification.judging.confirm import Shown, judged_as_stored, run_witness
from verification.search.case_codec import encode
from verification.search.hunt import Counterexample
from verification.verdict_page import witness_text


def stored_counterexample(statement: Statement, form: Form) -> Counterexample:
    """The counterexample that `written` keeps of a form's stored case.

    Args:
        statement: the claim.
        form: one of the statement's forms.

    Raises:
        ValueError: the form has no stored case, or its stored case does not violate it.
    """
    if statement.forms[form].witness is None:
        raise ValueError(f"{statement.id} {form.value} has no stored case; it needs a witness")
    shown = run_witness(statement, form)
    if shown.confirmation is None or not shown.witness.shows:
        raise ValueError(f"{statement.id} {form.value}: {witness_text(shown.witness)}; a replay file needs a violation")
    return Counterexample(shown.case, shown.seen, shown.confirmation, "the stored case", 0, 0.0, shown.case)


def shown_if_stored(statement: Statement, form: Form, case: Any) -> Shown | None:
    """The case judged as `verify` judges the stored case, if the two are equal; else None."""
    witness = statement.forms[form].witness
    try:
        if witness is None or encode(witness()) != encode(case):
            return None
    except TypeError:  # the stored case is not of plain data
        return None
    return judged_as_stored(statement, form, case)
