"""Tests of the choice of the tests that `make test` runs, of the order in which workers take their files, and of the
threads of a worker.
"""

import zlib
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.gram.threads import blas_threads

TESTS = Path(__file__).parent


@pytest.fixture
def conftest(request):
    return request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))


class Case:
    """A collected test with the attributes that the plugin reads.

    `tables` has the row that this case takes of each table; its keys are the joined argument names.
    """

    def __init__(self, obj, tables=None, slow=False):
        self.obj, self.tables, self.slow, self.nodeid = obj, tables or {}, slow, f"{obj.__name__}[{id(self)}]"
        rows = {names: row if "," in names else (row,) for names, row in self.tables.items()}
        params = {name: v for names, row in rows.items() for name, v in zip(names.split(", "), row, strict=True)}
        self.callspec = SimpleNamespace(params=params)

    def iter_markers(self, name):
        return [SimpleNamespace(args=(names,)) for names in self.tables]

    def get_closest_marker(self, name):
        return self.slow

    def add_marker(self, name):
        self.slow |= name == "slow"


def quick(conftest, items, chosen=""):
    conftest.Quick.pytest_collection_modifyitems(SimpleNamespace(getoption=lambda name: chosen), items)
    return [item for item in items if not item.slow]


def test_every_row_of_every_table_is_in_a_quick_case_and_the_rest_of_a_product_is_slow(conftest):
    methods, rates = [("fedavg", {}), ("fedprox", {}), ("scaffold", {})], [0.5, 1.0]
    cases = [Case(representative, {"method, options": m, "rate": r}) for m, r in product(methods, rates)]
    kept = quick(conftest, cases)
    assert len(kept) == 3
    assert {case.tables["method, options"][0] for case in kept} == {"fedavg", "fedprox", "scaffold"}
    assert {case.tables["rate"] for case in kept} == set(rates)
    one_table = [Case(representative, {"rate": rate}) for rate in range(9)]
    assert quick(conftest, one_table) == one_table
    slow_already = [Case(representative, {"a": a, "b": b}, slow=a == 1) for a, b in product((0, 1), (2, 3))]
    assert [case.tables for case in quick(conftest, slow_already)] == [{"a": 0, "b": 2}, {"a": 0, "b": 3}]


def representative():
    """Does nothing, in place of a test."""


@pytest.mark.parametrize(
    ("examples", "chosen", "tried"), [(100, "not slow", 25), (12, "not slow", 5), (3, "not slow", 3), (100, "", 100)]
)
def test_a_quarter_of_the_examples_is_drawn_where_slow_tests_are_left_out(conftest, examples, chosen, tried):
    seen = []

    @settings(max_examples=examples)
    @given(st.floats())
    def property_of_numbers(x):
        seen.append(x)

    quick(conftest, [Case(property_of_numbers)] * 2, chosen)
    property_of_numbers()
    assert len(seen) == tried


def test_the_longest_files_come_first_then_those_of_most_slow_tests_and_then_those_of_most_tests(conftest):
    assert all(path.is_file() for path in conftest.LONGEST)
    first, second, *_ = conftest.LONGEST
    taken = [  # The entries are: the file, its number of tests and its number of slow tests.
        (TESTS / "a.py", 1, 0),
        (TESTS / "b.py", 3, 0),
        (TESTS / "c.py", 1, 0),
        (second, 1, 0),
        (TESTS / "d.py", 2, 0),
        (TESTS / "e.py", 1, 1),
        (TESTS / "f.py", 2, 2),
        (first, 1, 0),
    ]

    def item(path, place, is_slow):
        return SimpleNamespace(path=path, place=place, get_closest_marker=lambda name: is_slow and name == "slow")

    items = [item(path, place, place < slow) for path, count, slow in taken for place in range(count)]
    conftest.pytest_collection_modifyitems(items)
    names = list(dict.fromkeys(item.path.name for item in items))
    assert names == [first.name, second.name, "f.py", "e.py", "b.py", "d.py", "a.py", "c.py"]
    # The tests of a file keep their order.
    assert [item.place for item in items] == [0, 0, 0, 1, 0, 0, 1, 2, 0, 1, 0, 0]


def test_a_worker_has_one_thread_also_under_a_plain_pytest():
    assert blas_threads() == 1


def test_what_xla_compiled_is_kept_unless_it_is_cut_off_changed_or_too_much(conftest, tmp_path, monkeypatch):
    whole = zlib.compress(bytes(range(256)) * 9)
    damaged = {"empty": b"", "cut": whole[:-1], "changed": whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]}
    for name, content in (damaged | {"whole": whole}).items():
        (tmp_path / f"{name}-cache").write_bytes(content)
    (tmp_path / "another file").touch()
    conftest.drop_unreadable(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"whole-cache", "another file"}
    monkeypatch.setattr(conftest, "LARGEST_COMPILED", len(whole) - 1)
    conftest.drop_unreadable(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"another file"}
