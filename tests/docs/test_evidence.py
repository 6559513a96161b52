"""Tests that the evidence that a form states is exactly the evidence in the repository."""

import re
import runpy
from pathlib import Path

import pytest

from bounds import Form, Outcome
from bounds.evidence import FILE, Evidence, evidence, evidence_text, strongest
from bounds.papers import own

ROOT = Path(__file__).parents[2]
EVIDENCE = runpy.run_path(str(ROOT / "docs" / "evidence.py"))
claimed = EVIDENCE["claimed"]
KEPT = [
    (statement, form, kind, place)
    for statement in own().values()
    for form in statement.forms
    for kind, places in evidence(statement, form).items()
    for place in places
]


def test_the_kept_evidence_is_what_the_repository_has():
    assert FILE.read_text() == EVIDENCE["text"](), "run python docs/evidence.py"


def test_every_place_names_the_statement_or_its_form():
    assert {kind for _, _, kind, _ in KEPT} == set(Evidence) - {Evidence.SAMPLED}
    for statement, form, kind, place in KEPT:
        path, _, where = place.partition("#" if "#" in place else ":")
        text = (ROOT / path).read_text()
        if kind is Evidence.PAPER:
            section = re.split(rf"^## {where.replace('-', ' ')}$", text, flags=re.MULTILINE | re.IGNORECASE)[1]
            assert f"`{statement.id}`" in section.partition("\n## ")[0], place
        elif kind is Evidence.MACHINE:
            assert text.splitlines()[int(where) - 1].strip().startswith("Theorem "), place
        elif kind is Evidence.ENCLOSED:
            assert f'<a id="{where}"></a>' in text, place
            assert statement.forms[form].recorded is Outcome.VIOLATED and statement.forms[form].witness is not None
        else:
            assert statement.id in text, place


def test_a_sketch_or_a_form_that_only_rests_on_a_proof_is_not_proved():
    for identifier in ("fedgucci/X3", "fl-ntk/Eq18", "deep/centralised"):
        for form in own()[identifier].forms:
            assert not {Evidence.PAPER, Evidence.MACHINE} & set(evidence(own()[identifier], form))


def test_what_nobody_settled_has_no_evidence():
    opens = [(s, form) for s in own().values() for form in s.forms if s.forms[form].recorded is Outcome.OPEN]
    assert opens
    for statement, form in opens:
        assert (strongest(statement, form), evidence_text(statement, form)) == ("", "none")


def test_a_line_names_each_form_and_says_which_fail():
    text = "Proves: `fl-ntk/X.1`, `fl-ntk/centralised` (stated fails, repaired). Rests on it: `fl-ntk/X.2`."
    assert list(claimed(text)) == [
        ("fl-ntk/X.1", Form.NEW),
        ("fl-ntk/centralised", Form.STATED),
        ("fl-ntk/centralised", Form.REPAIRED),
    ]
    assert list(claimed("Rests on it: `fl-ntk/X.1`. *Sketch.* `fl-ntk/X.2`")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Proves: `fl-ntk/gone`.", "there is no such statement"),
        ("Proves: `fl-ntk/centralised`.", "has several forms"),
        ("Proves: `fl-ntk/X.1` (stated).", r"X.1 \(stated\) is said to be proved; it has new"),
        ("Proves: `fl-ntk/centralised` (stated).", r"centralised \(stated\) .*recorded: violated"),
        ("proves `fl-ntk/X.1` (new fails)", r"X.1 \(new fails\) .*recorded: holds"),
    ],
)
def test_a_line_that_says_more_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        list(claimed(text))
