"""A statement of one's own whose functions fail: what failed and on which line is said, without a traceback."""

import pytest

SUM = "value = float(sum(case.values))"


@pytest.fixture
def line(folder):
    """Where the left side asks for what a case does not have."""
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
