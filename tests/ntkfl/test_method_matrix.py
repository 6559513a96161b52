"""The matrix of methods and tests: the methods of a test, and that a failing test does not count as passed."""

import pytest
from method_matrix import Seen, page, sentence

from ntkfl.training.methods import catalogue

TESTS = """
import pytest

pytestmark = pytest.mark.method("moon")
CASES = {"prox-strong": ("fedprox", {})}


@pytest.mark.kind("halves")
@pytest.mark.parametrize("method", ["fedavg", "fedlc"])
def test_of_each(method):
    assert method == "fedavg"


@pytest.mark.kind("halves")
@pytest.mark.parametrize("case", CASES)
def test_of_cases(case):
    pass


@pytest.mark.method("feddyn")
def test_feddyns_dual_is_fedavg():
    pass


def test_that_says_nothing():
    pass


@pytest.mark.method("ima")
def test_of_something_else():
    pytest.skip("not here")
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tests")
    (folder / "test_toy.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  kind(name): a kind\n  method(name): a method\n")
    seen = Seen()
    quiet = "-W", "ignore::pytest.PytestAssertRewriteWarning"
    assert pytest.main(["-q", "-p", "no:cacheprovider", *quiet, "--rootdir", folder, str(folder)], [seen]) == 1
    return seen


def test_methods_are_read_off_marks_parameters_and_cases(seen):
    assert {m: dict(kinds) for m, kinds in seen.kinds.items()} == {
        "fedavg": {"halves": ["passed"]},
        "fedlc": {"halves": ["failed"]},
        "fedprox": {"halves": ["passed"]},
    }
    assert {m: dict(words) for m, words in seen.words.items()} == {
        "feddyn": {"feddyns dual is fedavg": ["passed"]},
        "moon": {"that says nothing": ["passed"]},
        "ima": {"of something else": ["skipped"]},
    }


def test_the_page_has_every_method_and_says_what_did_not_pass(seen):
    lines = page(seen).splitlines()
    rows = [line for line in lines if line.startswith("| ") and "method" not in line]
    assert [row.split()[1] for row in rows] == [*catalogue(), "ima"]
    assert "| fedavg | 1 | - |" in rows and "| fedlc | 0 (1 not passed) | - |" in rows and "| moon | - | 1 |" in rows
    assert "- of something else: 0 (1 not passed)" in lines and "- that says nothing" in lines
    assert sentence("test_fed_rod_s_heads_stay") == "fed rod's heads stay"
