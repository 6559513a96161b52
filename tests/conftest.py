"""Settings of all tests: no test depends on the clock or on chance.

The precision of ball arithmetic, which is one setting for the whole process, is restored after every test.
"""

import gc
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

# One thread for each worker, set before numpy is imported: more threads than cores would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
# readline, which pytest imports, sets COLUMNS in the worker processes. Lines in a pipe would then be wrapped.
os.environ.pop("COLUMNS", None)

import flint
import jax
import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine
from jax._src.interpreters import mlir

# The tests' own computations need double precision; `test_double_precision.py` runs without this line.
jax.config.update("jax_enable_x64", True)

typer.testing._get_command = cache(typer.testing._get_command)  # typer makes all options of all commands at every call
# JAX makes a context, which takes six milliseconds, for each function that it compiles. One context is enough.
mlir.make_ir_context = cache(mlir.make_ir_context)

TESTS = Path(__file__).parent
# These are the files whose tests take many seconds. The first ones wait for processes; the others follow by falling
# time.
LONGEST = [
    TESTS / "experiments" / "studies" / "test_study_killed.py",
    TESTS / "experiments" / "test_interrupts.py",
    TESTS / "experiments" / "test_verify_processes.py",
    TESTS / "meta" / "test_statements.py",
    TESTS / "docs" / "test_pages.py",
    TESTS / "docs" / "test_site.py",
    TESTS / "verification" / "test_search.py",
    TESTS / "verification" / "test_library_faults.py",
    TESTS / "verification" / "test_measured_sides.py",
    TESTS / "ntkfl" / "test_random_rounds.py",
    TESTS / "verification" / "test_kernels.py",
    TESTS / "ntkfl" / "test_machine_code.py",
    TESTS / "ntkfl" / "conformance" / "test_live_adapters.py",
    TESTS / "ntkfl" / "test_fewest_rounds.py",
    TESTS / "ntkfl" / "test_networks.py",
]

# The same examples are drawn every time, however slow the machine is. Hypothesis's check of speed is off, because it
# fails if the clock jumps.
settings.register_profile("everywhere", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everywhere")
engine.MAX_SHRINKING_SECONDS = float("inf")  # Shrinking has no time limit, since tests inspect shrunk examples.


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from tracking the half million objects that are made while tests are collected.

    These objects stay to the end of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 10, 50)  # With its default settings the collector took a twentieth of a worker's time.


def representatives(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Returns few cases of a test that together have every row of each of its `parametrize` marks."""
    tables = [mark.args[0] for mark in cases[0].iter_markers("parametrize")]
    tables = [names.replace(" ", "").split(",") if isinstance(names, str) else names for names in tables]

    def rows(case: pytest.Function) -> set[tuple[tuple[str, int], ...]]:
        return {tuple((name, id(case.callspec.params[name])) for name in names) for names in tables}

    kept, missing = [], set().union(*map(rows, cases))
    while missing:
        kept.append(max(cases, key=lambda case: len(rows(case) & missing)))
        missing -= rows(kept[-1])
    return kept


class Quick:
    """A plugin for quick runs, which leaves most cases and examples to `make test-all`.

    The quick runs omit most cases of large tables, most cases of products of tables (several `parametrize` marks), and
    most drawn examples.
    """

    @staticmethod
    @pytest.hookimpl(tryfirst=True)  # tryfirst: before pytest selects tests by their marks
    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        """Marks as slow most cases of tests that have several `parametrize` marks or the mark `quick_rows`.

        Of a test with several `parametrize` marks, its `representatives` stay quick. Of a test with `quick_rows(n)`, n
        cases stay quick, evenly spread from its first to its last. If slow tests are not run, each property is tried on
        a quarter of its examples, but at least on five.
        """
        products, tables = defaultdict(list), defaultdict(list)
        for item in items:
            if not item.get_closest_marker("slow"):
                if item.get_closest_marker("quick_rows"):
                    tables[item.nodeid.partition("[")[0]].append(item)
                elif len(list(item.iter_markers("parametrize"))) > 1:
                    products[item.nodeid.partition("[")[0]].append(item)
        kept = {id(case) for cases in products.values() for case in representatives(cases)}
        for cases in tables.values():
            few = cases[0].get_closest_marker("quick_rows").args[0]
            kept |= {id(cases[row * (len(cases) - 1) // (few - 1)]) for row in range(few)}
        for cases in (*products.values(), *tables.values()):
            for case in cases:
                if id(case) not in kept:
                    case.add_marker("slow")
                    case.add_marker("combination")
        if config.getoption("markexpr") == "not slow":
            for test in {getattr(item.obj, "__func__", item.obj) for item in items if hasattr(item, "obj")}:
                if drawn := getattr(test, "_hypothesis_internal_use_settings", None):
                    fewer = min(drawn.max_examples, max(5, drawn.max_examples // 4))
                    test._hypothesis_internal_use_settings = settings(drawn, max_examples=fewer)


LARGEST_COMPILED = 200_000_000  # bytes; XLA never deletes what older code left behind


def drop_unreadable(folder: Path) -> None:
    """Deletes files of XLA's cache that a killed process has written only in part; XLA itself never writes them again.

    If all files together are too large, all are deleted. XLA refuses a file that another process is still writing.
    """
    if sum(file.stat().st_size for file in folder.glob("*-cache")) > LARGEST_COMPILED:
        for file in folder.glob("*-cache"):
            file.unlink(missing_ok=True)
    for file in folder.glob("*-cache"):
        try:
            zlib.decompress(file.read_bytes())  # The file ends with the checksum of its contents.
        except zlib.error:
            file.unlink(missing_ok=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Quick, "quick")
    if (compiled := os.environ.get("JAX_COMPILATION_CACHE_DIR")) and not hasattr(config, "workerinput"):
        drop_unreadable(Path(compiled))


@pytest.hookimpl(trylast=True)  # trylast: after deselected tests are gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the files in the order in which they go to workers.

    The longest come first, then files by their number of slow tests, then by their number of tests. All workers then
    end at about the same time: in a run of all tests the last files take seconds.
    """
    tests, places = Counter(item.path for item in items), {path: place for place, path in enumerate(LONGEST)}
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (places.get(item.path, len(places)), -slow[item.path], -tests[item.path]))


@pytest.fixture(autouse=True)
def unchanged_precision() -> Iterator[None]:
    """The precision of ball arithmetic must be the same after every test as before.

    The precision is one setting for the whole process.
    """
    before = flint.ctx.prec
    yield
    after, flint.ctx.prec = flint.ctx.prec, before
    assert after == before
