"""Files of tests in the order in which the workers of `make test` take them."""

from pathlib import Path
from types import SimpleNamespace

TESTS = Path(__file__).parent


def test_the_longest_files_come_first_then_those_of_most_slow_tests_and_then_those_of_most_tests(request):
    conftest = request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))
    assert all(path.is_file() for path in conftest.LONGEST)
    first, second, *_ = conftest.LONGEST
    taken = [  # a file, its tests, and how many of them are slow
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
    assert [item.place for item in items] == [0, 0, 0, 1, 0, 0, 1, 2, 0, 1, 0, 0]  # within a file as they stand there
