"""Files of tests in the order in which the workers of `make test` take them."""

from pathlib import Path
from types import SimpleNamespace

TESTS = Path(__file__).parent


def test_the_longest_files_come_first_and_then_those_of_most_tests(request):
    conftest = request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))
    assert all(path.is_file() for path in conftest.LONGEST)
    first, second, *_ = conftest.LONGEST
    taken = [
        (TESTS / "a.py", 1),
        (TESTS / "b.py", 3),
        (TESTS / "c.py", 1),
        (second, 1),
        (TESTS / "d.py", 2),
        (first, 1),
    ]
    items = [SimpleNamespace(path=path, place=place) for path, count in taken for place in range(count)]
    conftest.pytest_collection_modifyitems(items)
    assert list(dict.fromkeys(item.path.name for item in items)) == [
        first.name,
        second.name,
        "b.py",
        "d.py",
        "a.py",
        "c.py",
    ]
    assert [item.place for item in items] == [0, 0, 0, 1, 2, 0, 1, 0, 0]  # within a file as they stand there
