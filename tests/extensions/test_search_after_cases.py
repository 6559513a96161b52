"""Tests of `verify` on a user's form that holds on its own cases: it searches for further cases that break the form.

The verdict names such a case, and no file is written.
"""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

import bounds
from bounds import Form, Outcome
from verification.engine import verify
from verification.facts import Data, Standing, Where
from verification.search import after_cases, attack_held
from verification.verdict import Verdict

CASES = 40  # The tests limit a search by its number of cases, not by time.
THEOREM = """
from dataclasses import dataclass

from hypothesis import strategies as st

from bounds import Claim, Family, Form, Kind, Outcome, Source, Statement
from bounds.symbols import N
from ntkfl.estimate import Estimate


@dataclass(frozen=True)
class Clients:
    number: int

    def describe(self):
        return {"N": self.number}


FOUR_OR_MORE = Family("many clients", lambda seed: Clients(4 + seed % 5), st.integers(1, 9).map(Clients), trials=20)


def statement(label, formula, recorded=Outcome.HOLDS):
    return Statement(
        id=f"mine/{label}",
        title="N^2 is at most a power of 2",
        kind=Kind.UPPER,
        source=Source("a test of this project", label),
        stated=Claim(formula, recorded=recorded),
        constants=lambda case: {N: case.number},
        measure=lambda case: Estimate.exact(case.number**2),
        families=lambda options: (FOUR_OR_MORE,),
        says_left="N^2",
    )


STATEMENTS = (statement("not-for-3", 2**N), statement("true", 2 ** (N + 1)))
"""


@pytest.fixture
def theorem(folder):
    file = folder / "powers.py"
    file.write_text(THEOREM)
    return file


def searched(verdicts, **given):
    return attack_held(verdicts, examples=CASES, seconds=float("inf"), **given)


def test_what_held_in_its_cases_is_broken_by_search_and_what_is_true_holds(theorem):
    verdicts = [verdict for statement in bounds.load(theorem) for verdict in verify(statement)]
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.HOLDS, Outcome.TOUCHES}
    said = []
    broken, true = searched(verdicts, progress=said.append)
    assert (broken.outcome, broken.counts.violated, broken.broken_by_search) == (Outcome.VIOLATED, 0, True)
    assert broken.worst.case == {"cases": "found by a search", "N": 3}  # N = 3 is the only N with N^2 > 2^N.
    assert (broken.lhs.value, broken.rhs.value, broken.confirmation.standing) == (9, 8, Standing.CONFIRMED)
    assert broken.tightness["search"] == pytest.approx(9 / 8)
    assert broken.contradicts_record and not broken.tested_and_holds
    page = " ".join(str(broken).split())
    assert "VIOLATED: broken by search, left 9 > right 8; 0 of 20 trials violate it" in page
    assert Verdict.from_json(json.loads(json.dumps(broken.to_json()))) == broken
    assert true.outcome is Outcome.HOLDS and not true.broken_by_search and "no counterexample" in str(true.search)
    assert [line.partition(" held")[0] for line in said] == ["mine/not-for-3 (stated)", "mine/true (stated)"]


def test_on_data_of_the_user_the_outcome_is_that_of_the_data(theorem):
    (verdict,) = verify(bounds.load(theorem)[0])
    (after,) = searched([replace(verdict, data=Data.OWN)])
    assert after.outcome is verdict.outcome and after.elsewhere.where is Where.SEARCH
    assert 1.05 < after.elsewhere.ratio < 1.2


def test_statements_of_the_project_and_what_did_not_hold_are_not_attacked(theorem, monkeypatch):
    (own,) = verify(bounds.load(theorem)[0])
    others = [replace(own, id="fl-ntk/C.6"), replace(own, outcome=Outcome.UNRESOLVED), replace(own, complete=False)]
    monkeypatch.setattr(after_cases, "attack", None)
    assert attack_held(others) == others


def test_what_nothing_can_redo_is_said_and_decides_nothing(folder):
    (verdict,) = verify(bounds.load("my_theorem.py")[1])
    # With other cases the verdict could be `held`.
    held = replace(verdict, outcome=Outcome.HOLDS, recorded=Outcome.HOLDS)
    (after,) = searched([held])
    assert (after.outcome, after.confirmation.standing) == (Outcome.HOLDS, Standing.SEEN)
    assert "a violation that was not confirmed" in str(after.search) and not after.broken_by_search


def test_a_search_that_fails_or_is_interrupted_loses_no_verdict(theorem, monkeypatch):
    verdicts = [verdict for statement in bounds.load(theorem) for verdict in verify(statement)]

    monkeypatch.setattr(after_cases, "attack", Mock(side_effect=KeyboardInterrupt))
    stopped = searched(verdicts)
    assert [v.outcome for v in stopped] == [v.outcome for v in verdicts]
    assert not any(v.complete for v in stopped)

    monkeypatch.setattr(after_cases, "attack", Mock(side_effect=TypeError("no number")))
    failed = searched(verdicts)
    assert [v.outcome for v in failed] == [v.outcome for v in verdicts]
    assert all("failed with TypeError: no number" in str(v.search) for v in failed)


def test_the_command_searches_says_so_and_names_the_command_that_writes_the_file(ntkfl, folder, theorem):
    before = set(folder.rglob("*"))
    said = " ".join(ntkfl("verify powers.py::mine/not-for-3", status=1).split())
    assert (
        "mine/not-for-3 (stated) held in its cases; a search for a counterexample begins, of about 10 s at most" in said
    )
    assert "broken by search" in said and "DIFFERS" in said
    assert set(folder.rglob("*")) == before
    command = "attack powers.py::mine/not-for-3 --form stated"
    assert f"`ntkfl {command}` writes a file that replays it" in said
    assert "N = 3" in ntkfl(command, status=1)
    assert len(set(folder.rglob("*")) - before) == 1
    quiet = ntkfl("verify powers.py::mine/not-for-3 --no-attack")
    assert "search" not in quiet


def test_an_open_form_that_a_search_breaks_has_its_own_status(ntkfl, theorem):
    theorem.write_text(THEOREM.replace('"not-for-3", 2**N', '"not-for-3", 2**N, Outcome.OPEN'))
    said = ntkfl("verify powers.py --form stated", status=3)
    assert "broken by search, left/right 1.1" in " ".join(said.split()) and "mine/true" in said
    assert Form.STATED.value in said
