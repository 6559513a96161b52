"""Tests of the table of methods and tests: to which methods a test belongs.

A failing test does not count as passed.
"""

import re
from pathlib import Path

import pytest
from method_matrix import KINDS, OTHERS, Seen, page

from ntkfl.training.methods import catalogue

TESTS = """
import pytest

pytestmark = pytest.mark.method("moon")
CASES = {"prox-strong": ("fedprox", {})}


@pytest.mark.kind("float32")
@pytest.mark.parametrize("method", ["fedavg", "fedlc"])
def test_of_each(method):
    assert method == "fedavg"


@pytest.mark.kind("float32")
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
    assert {method: dict(kinds) for method, kinds in seen.kinds.items()} == {
        "fedavg": {"float32": ["passed"]},
        "fedlc": {"float32": ["failed"]},
        "fedprox": {"float32": ["passed"]},
        "feddyn": {OTHERS: ["passed"]},
        "moon": {OTHERS: ["passed"]},
        "ima": {OTHERS: ["skipped"]},
    }


def test_the_page_has_every_method_and_says_what_did_not_pass(seen):
    lines = page(seen).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    table = {method: dict(zip(rows[0][1:], counts, strict=True)) for method, *counts in rows[1:]}
    assert list(table) == [*catalogue(), "ima"] and rows[0][1:] == list(KINDS)
    assert table["fedavg"]["float32"] == "1" and table["fedlc"]["float32"] == "0 (1 not passed)"
    assert table["moon"] == dict.fromkeys(KINDS, "-") | {OTHERS: "1"}
    assert table["ima"][OTHERS] == "0 (1 not passed)"


def test_every_kind_that_a_test_is_marked_with_is_a_column():
    files = (Path(__file__).parent / "training").glob("test_*.py")
    marks = {kind for file in files for kind in re.findall(r'mark\.kind\("([^"]*)"\)', file.read_text())}
    assert marks == set(KINDS) - {OTHERS}
