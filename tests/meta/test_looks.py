"""Looks at few cases come to the outcomes of all cases: those of the table of all verdicts in FINDINGS.md."""

import re
from functools import cache
from pathlib import Path

import pytest

from bounds import Form, Options, Outcome, catalogue, find
from verification.engine import verify_all
from verification.verdict import NOT_REFUTED

PAPERS = "alignment", "averaging", "deep", "fedgucci", "fl-ntk"
FINDINGS = Path(__file__).parents[2] / "FINDINGS.md"
OTHERWISE = {  # outcomes that fewer cases change, and why that is right
    ("fedgucci/X4-drift", Form.NEW): (Outcome.HOLDS, "its bound is attained on few cases, none of them among the first")
}


@cache
def of_all_cases():
    """The outcome of every form in words, as FINDINGS.md has it."""
    rows = re.findall(r"^\| ([a-z ]+) \| (\S+/\S+) \| (\w+) \|", FINDINGS.read_text(encoding="utf-8"), re.MULTILINE)
    return {(identifier, Form(form)): word for word, identifier, form in rows if form in set(Form)}


def agrees(verdict):
    """Whether few cases say what all say; of a probability they may exclude less, and say so."""
    of_all = of_all_cases().get((verdict.id, verdict.form))
    if of_all is None:  # the table is older than the statement
        return verdict.as_recorded
    if (verdict.id, verdict.form) in OTHERWISE:
        of_all = OTHERWISE[verdict.id, verdict.form][0].value
    return verdict.word == of_all or (verdict.word, of_all) == (NOT_REFUTED, Outcome.HOLDS.value)


def test_the_table_has_all_but_new_forms_and_differs_where_it_is_said_to():
    assert {name.split("/")[0] for name in catalogue()} == set(PAPERS)
    forms = {(name, form) for name, statement in catalogue().items() for form in statement.forms}
    assert len(of_all_cases().keys() & forms) > 0.9 * len(forms)
    for key, (few, _) in OTHERWISE.items():
        assert of_all_cases()[key] != few.value


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_few_cases_come_to_the_outcome_of_all(paper):
    verdicts = verify_all(find(paper), Options(until_decided=True))
    assert {(v.id, v.form.value, v.word, v.notes) for v in verdicts if not agrees(v)} == set()
    assert {
        (v.id, name) for v in verdicts for name, outcome in v.mutants.items() if outcome != Outcome.VIOLATED
    } == set()
