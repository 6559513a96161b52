"""Two runs compared: what changed is said, what got worse decides."""

from dataclasses import replace

import pytest
from report_examples import a_verdict

from bounds import Form, Outcome
from experiments.report.comparison import compared
from experiments.report.verdict_file import VerdictFile
from verification.facts import Data

HELD = a_verdict("fl-ntk/B.12", Form.REPAIRED)
BROKEN = a_verdict("fl-ntk/B.12", Form.STATED)
KINDS = {"outcome", "tightness", "mutants", "new", "gone"}


def changes(old, new, **options):
    return compared(VerdictFile(tuple(old), {}), VerdictFile(tuple(new), {}), **options)


def test_a_run_is_like_itself():
    same = changes([HELD, BROKEN], [HELD, BROKEN])
    assert same.changes == () and not same.worse
    assert same.as_text() == "2 verdicts in both: nothing changed; 0 worse"


@pytest.mark.parametrize("before", [o for o in Outcome if o is not Outcome.OPEN])
@pytest.mark.parametrize("now", [o for o in Outcome if o is not Outcome.OPEN])
def test_of_a_form_that_should_hold_only_what_fails_to_is_worse(before, now):
    fine = {Outcome.HOLDS, Outcome.TOUCHES}
    comparison = changes([replace(HELD, outcome=before)], [replace(HELD, outcome=now)])
    assert [change.what for change in comparison.changes] == (["outcome"] if before is not now else [])
    if now in fine or before is now:
        assert not comparison.worse
    elif before in fine or now is Outcome.VIOLATED:
        assert comparison.worse


@pytest.mark.parametrize("now", [Outcome.UNTESTED, Outcome.UNRESOLVED, Outcome.VIOLATED, Outcome.TOUCHES])
def test_on_own_data_what_no_longer_holds_is_worse(now):
    """A run on own data contradicts the record only by a violation; a change to untested or unresolved is worse too."""
    before, after = (replace(HELD, outcome=outcome, data=Data.OWN) for outcome in (Outcome.HOLDS, now))
    assert changes([before], [after]).worse is (now is not Outcome.TOUCHES)
    assert not changes([after], [before]).worse


def test_losing_a_recorded_violation_is_worse_and_finding_it_is_not():
    lost = replace(BROKEN, outcome=Outcome.HOLDS)
    assert changes([BROKEN], [lost]).worse
    assert not changes([lost], [BROKEN]).worse
    assert "violated -> holds, against the record  WORSE" in changes([BROKEN], [lost]).as_text()


def test_a_violation_that_became_the_record_is_worse():
    now = replace(HELD, outcome=Outcome.VIOLATED, recorded=Outcome.VIOLATED)
    assert changes([HELD], [now]).worse


@pytest.mark.parametrize(("before", "now", "said"), [
    (0.5, 0.9, False), (0.5, 1.1, True), (1.1, 0.5, True), (0.5, float("inf"), True), (0.0, 1e-9, True),
    (0.0, 0.0, False), (float("inf"), float("inf"), False), (float("nan"), float("nan"), False), (-1.0, 1.0, True),
])  # fmt: skip
def test_tightness_is_said_to_change_beyond_the_factor(before, now, said):
    old, new = (replace(HELD, tightness={"sharpest": x, "median": 0.1}) for x in (before, now))
    comparison = changes([old], [new])
    assert [change.what for change in comparison.changes] == ["tightness"] * said
    assert not comparison.worse


def test_the_factor_is_the_users_and_at_least_one():
    old, new = (replace(HELD, tightness={"sharpest": x}) for x in (0.5, 0.6))
    assert changes([old], [new], factor=1.1).changes and not changes([old], [new]).changes
    with pytest.raises(ValueError, match=r"the factor is 0\.5; it must be at least 1"):
        changes([old], [new], factor=0.5)


def test_what_is_new_what_is_gone_and_other_mutants_are_said():
    old = [HELD, replace(BROKEN, mutants={"halved": "violated", "doubled": "violated"})]
    new = [BROKEN, a_verdict("fl-ntk/A.1", Form.STATED)]
    comparison = changes(old, new)
    assert [(c.id, c.what) for c in comparison.changes] == [
        ("fl-ntk/B.12", "mutants"), ("fl-ntk/A.1", "new"), ("fl-ntk/B.12", "gone"),
    ]  # fmt: skip
    assert "1 verdicts in both: 1 told other mutants, 1 new, 1 gone; 0 worse" in comparison.as_text()
    assert {c.what for c in comparison.changes} <= KINDS


def test_what_got_worse_comes_first():
    tighter = replace(BROKEN, tightness={"sharpest": 99.0})
    comparison = changes([BROKEN, HELD], [tighter, replace(HELD, outcome=Outcome.VIOLATED)])
    assert [change.worse for change in comparison.changes] == [True, False]
