"""Tests of statements with a function that fails, in a user's file and in the project.

The message says what failed and on which line, without a traceback.
"""

import re

import pytest

import bounds
from bounds.listing import failure
from verification.engine import verify

SUM = "value = float(sum(case.values))"


@pytest.fixture
def line(folder):
    """Changes the left side so that it uses an attribute that a case lacks, and returns the number of its line."""
    file = folder / "my_theorem.py"
    file.write_text(file.read_text().replace(SUM, "value = float(sum(case.numbers))"))
    return 1 + next(i for i, text in enumerate(file.read_text().splitlines()) if "case.numbers" in text)


def test_verify_ends_that_check_and_names_the_line(ntkfl, line):
    said = " ".join(ntkfl("verify my_theorem.py::mine/T1", status=1).split())
    assert "UNRESOLVED: failed with AttributeError: 'Numbers' object has no attribute 'numbers'" in said
    assert f"(my_theorem.py, line {line}, `value = float(sum(case.numbers))`)" in said


def test_attack_is_refused_with_the_line(ntkfl, line):
    said = ntkfl("attack my_theorem.py::mine/T1 --examples 5", status=2)
    assert said.rstrip().endswith(f"(my_theorem.py, line {line}, `value = float(sum(case.numbers))`)")
    assert "error: mine/T1 failed with AttributeError" in said


def test_a_statement_of_ours_names_its_line_in_verify_and_attack(ntkfl, monkeypatch):
    """A failing statement of our own names its line, in `verify` and in `attack`.

    `Estimate`, which the constants of C.6 need, is removed from the file of C.6.
    """
    monkeypatch.setattr("bounds.fl_ntk.initial_kernel.Estimate", None)
    failed = (
        "failed with AttributeError: 'NoneType' object has no attribute 'exact' "
        r"\(bounds/fl_ntk/initial_kernel.py, line \d+, `inner = Estimate.exact\(case.problem.x\) @ case.problem.x.T`\)"
    )
    (verdict, *_) = verify(bounds.get("fl-ntk/C.6"), bounds.Options(trials=5))
    assert re.match(failed, verdict.error), verdict.error
    said = ntkfl("attack fl-ntk/C.6 --examples 5", status=2)
    assert re.search(f"^error: fl-ntk/C.6 {failed}$", said, flags=re.MULTILINE), said


def test_without_a_line_of_the_statement_none_is_named(folder):
    try:
        raise ValueError("no number")
    except ValueError as error:
        for statement in (bounds.get("fl-ntk/C.6"), bounds.load("my_theorem.py")[0]):
            assert failure(error, statement) == "failed with ValueError: no number"
