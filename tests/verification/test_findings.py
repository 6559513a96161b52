"""The findings page: every form that differs is on it with its evidence and replay, and nothing else is."""

from dataclasses import replace

import pytest

from bounds.listing import catalogue, get
from bounds.options import Options
from bounds.statement import Form, Nature, Outcome
from verification.engine import verify_all
from verification.findings.page import MEANING, as_page

CHECKED = ("fl-ntk/A.1", "fl-ntk/Eq11", "fl-ntk/X.7")


@pytest.fixture(scope="module")
def verdicts():
    return verify_all([get(name) for name in CHECKED], Options(trials=20))


def test_a_violated_misprint_is_shown_with_what_holds_and_the_command(verdicts):
    page = as_page(verdicts)
    entry = page[page.index("#### fl-ntk/A.1, stated") :]
    assert "VIOLATED" in entry
    assert "**holds**" in entry
    assert "`ntkfl verify fl-ntk/A.1 --form stated --seed 0 --trials 20`" in entry
    assert page.index("### Misprint") < page.index("#### fl-ntk/A.1, stated") < page.index("### Holds as printed")


def test_what_holds_as_printed_and_what_goes_beyond_is_listed_apart(verdicts):
    page = as_page(verdicts)
    after = page[page.index("### Holds as printed") :]
    assert "fl-ntk/Eq11" in after
    assert "fl-ntk/X.7" in after[after.index("### Results beyond the paper") :]
    assert "#### fl-ntk/Eq11" not in page
    assert "Of 2 printed forms 1 hold" in page


def test_a_form_that_no_longer_holds_is_not_offered_as_what_holds(verdicts):
    broken = [
        replace(v, outcome=Outcome.VIOLATED) if (v.id, v.form) == ("fl-ntk/A.1", Form.REPAIRED) else v for v in verdicts
    ]
    page = as_page(broken)
    assert "**holds**" not in page[page.index("#### fl-ntk/A.1, stated") : page.index("### Holds as printed")]


def test_every_nature_has_a_section():
    assert set(MEANING) == set(Nature)


def test_every_form_that_differs_says_what_changes_for_a_reader():
    for identifier, statement in catalogue().items():
        for form, claim in statement.forms.items():
            assert bool(claim.consequence) == bool(claim.nature), f"{identifier}, {form.value}"
