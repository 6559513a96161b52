"""Tests of the register of meanings: it has today's meaning of each form and loses no earlier meaning.

If the meaning of a form changes, or the form is removed, the changelog mentions it.
"""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import sympy as sp

from bounds import Form, Kind, get
from bounds.papers import own
from bounds.registry import FILE, meaning, registered, version, with_changes

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
X1 = get("fl-ntk/X.1")


def lost(earlier, later):
    """Returns the forms whose list of meanings in the later register does not begin with the list in the earlier
    register.
    """
    return [
        f"{name} ({form})"
        for name, forms in earlier.items()
        for form, hashes in forms.items()
        if later.get(name, {}).get(form, [])[: len(hashes)] != hashes
    ]


def missing_entries(register, statements, changelog):
    """Returns the changelog entries that a register needs and that are missing.

    An entry is needed for a form that has two or more meanings, and for a form that is gone.
    """
    said = " ".join(changelog.split())
    for name, forms in register.items():
        for form, hashes in forms.items():
            gone = name not in statements or form not in {known.value for known in statements[name].forms}
            if gone and f"`{name}` ({form}) is withdrawn" not in said:
                yield f"`{name}` ({form}) is withdrawn"
            if len(hashes) > 1 and f"`{name}` ({form}), version {len(hashes)}" not in said:
                yield f"`{name}` ({form}), version {len(hashes)}"


def test_every_form_means_what_the_register_has():
    changed = with_changes(registered(), own())
    assert changed == registered(), "a form means something else: python -m bounds.registry, and a line in CHANGELOG.md"


def test_a_new_meaning_or_the_end_of_one_is_in_the_changelog():
    assert list(missing_entries(registered(), own(), CHANGELOG)) == []


def test_no_earlier_register_is_rewritten():
    path = FILE.relative_to(ROOT).as_posix()
    log = subprocess.run(["git", "log", "--format=%H", "--", path], cwd=ROOT, capture_output=True, text=True)
    if log.returncode:
        pytest.skip("not a checkout with its history")
    for commit in log.stdout.split():
        kept = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=ROOT, capture_output=True, text=True)
        assert kept.returncode or lost(json.loads(kept.stdout), registered()) == [], commit


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, kind=Kind.UPPER),
        lambda s: replace(s, hypotheses=s.hypotheses[:-1]),
        lambda s: replace(s, hypotheses=(replace(s.hypotheses[0], says="anything"), *s.hypotheses[1:])),
        lambda s: replace(s, new=s.new.mutated(lambda part: 2 * part)),
        lambda s: replace(s, new=replace(s.new, failure=sp.Rational(1, 2))),
        lambda s: replace(s, new=replace(s.new, premise={sp.Symbol("m"): sp.Integer(2)})),
    ],
)
def test_another_meaning_is_a_new_version_that_the_changelog_must_have(change):
    other = change(X1)
    before = {X1.id: {"new": [meaning(X1, Form.NEW)]}}
    after = with_changes(before, {X1.id: other})
    assert after[X1.id]["new"] == [meaning(X1, Form.NEW), meaning(other, Form.NEW)]
    assert len(set(after[X1.id]["new"])) == 2 and lost(before, after) == []
    assert list(missing_entries(after, {X1.id: other}, "")) == ["`fl-ntk/X.1` (new), version 2"]
    assert list(missing_entries(after, {X1.id: other}, "now `fl-ntk/X.1`\n(new), version 2: ...")) == []


def test_words_about_a_statement_are_not_its_meaning():
    assert meaning(replace(X1, title="another", says_left="otherwise"), Form.NEW) == meaning(X1, Form.NEW)


def test_what_is_rewritten_or_removed_is_found():
    register = {"a/1": {"stated": ["x", "y"]}, "a/2": {"new": ["z"]}}
    assert lost(register, {"a/1": {"stated": ["y"]}}) == ["a/1 (stated)", "a/2 (new)"]
    assert with_changes(register, {}) == register
    assert list(missing_entries({"a/2": {"new": ["z"]}}, {}, "")) == ["`a/2` (new) is withdrawn"]


def test_versions_count_meanings():
    assert version(X1, Form.NEW) == len(registered()["fl-ntk/X.1"]["new"]) >= 1
    assert version(replace(X1, id="mine/1"), Form.NEW) is None
    assert all(re.fullmatch("[0-9a-f]{16}", h) for forms in registered().values() for hs in forms.values() for h in hs)
