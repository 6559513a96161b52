"""Tests of the counterexamples to false forms about connectivity and averaging.

Each false form has a stored case that shows it to be false. The search finds such a case without the stored one.
"""

from dataclasses import replace

import pytest

from bounds import Form, Outcome, catalogue
from verification.search import attack, read, rejudge, written

FALSE = [
    (statement.id, form)
    for statement in catalogue().values()
    if statement.id.startswith(("fedgucci/", "averaging/"))
    for form, claim in statement.forms.items()
    if claim.recorded is Outcome.VIOLATED
]
# The cases that show this form to be false are among those that `verify` draws, so ten examples are enough. More
# examples take 15 seconds.
FEWER = {"fedgucci/F9-all-x": 10}


def test_these_are_the_false_ones():
    names = "F2-smooth F3-equality F9-all-x F10 F17".split()
    names = [f"fedgucci/{name}" for name in names] + [f"averaging/I{k}" for k in "1 5 6 7 8-nonzero 10 11".split()]
    assert sorted(FALSE) == sorted((name, Form.STATED) for name in names)
    assert all(catalogue()[name].forms[form].witness() is not None for name, form in FALSE)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("identifier", "form", "seed"),
    [
        pytest.param(identifier, form, seed, marks=pytest.mark.slow if identifier in FEWER or seed == 5 else ())
        for identifier, form in FALSE
        for seed in (1, 5)
    ],
)
def test_the_search_finds_one_unaided_and_its_file_replays_it(identifier, form, seed):
    recorded = catalogue()[identifier]
    claims = {form: replace(claim, witness=None) for form, claim in recorded.forms.items()}
    statement = replace(recorded.with_forms(claims), necessity={})
    budget = {"examples": FEWER.get(identifier, 400), "seconds": float("inf"), "shrinking": 0.1}
    counterexample = attack(statement, form, seed=seed, **budget).counterexample
    assert counterexample is not None
    again = rejudge(read(written(statement, form, counterexample)))
    assert again.stands and again.same_sides
