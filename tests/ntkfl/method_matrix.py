"""Write a table of the kinds of test that every federated method has passed, by running the tests.

Run `python tests/ntkfl/method_matrix.py --output METHODS.md` in a checkout. A test is about the methods that its mark
`method` or its parameters name; its mark `kind` is a column, and tests without a kind are listed in words.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ntkfl.training.methods import catalogue

TESTS = "tests/ntkfl/training"
AROUND = "ima"  # wraps any method


@dataclass
class Seen:
    """The outcomes of the tests: for each method, by kind, or by name for tests without a kind."""

    kinds: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    words: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    tests: dict[str, pytest.Item] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """pytest's hook: the tests that are going to be run."""
        self.tests = {item.nodeid: item for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """pytest's hook: a test is over, or could not be set up."""
        if report.when != "call" and report.passed:
            return
        item = self.tests[report.nodeid]
        mark = item.get_closest_marker("kind")
        name = getattr(item, "originalname", item.name)
        for method in methods_of(item):
            if mark:
                self.kinds[method][mark.args[0]].append(report.outcome)
            else:
                self.words[method][sentence(name)].append(report.outcome)


def methods_of(item: pytest.Item) -> Sequence[str]:
    """The methods that a test is about: by its own mark, its parameters, or its module's mark."""
    known = (*catalogue(), AROUND)
    for mark in item.own_markers:
        if mark.name == "method":
            return mark.args
    values = list(getattr(item, "callspec", _Nothing).params.values())
    cases = getattr(getattr(item, "module", None), "CASES", {})
    values += [cases[value][0] for value in values if isinstance(value, str) and value in cases]
    if named := [value for value in values if isinstance(value, str) and value in known]:
        return named[-1:]
    mark = item.get_closest_marker("method")
    return mark.args if mark else ()


class _Nothing:
    params: Mapping[str, object] = {}


def sentence(name: str) -> str:
    """The name of a test in words."""
    return name.removeprefix("test_").replace("_s_", "'s ").replace("_", " ")


def page(seen: Seen) -> str:
    """The matrix, and below it each method's tests without a kind."""
    kinds = sorted({kind for columns in seen.kinds.values() for kind in columns})
    methods = [*catalogue(), AROUND]
    return "\n".join(
        [
            "# What is tested of every federated method",
            "",
            f"Written by `python tests/ntkfl/method_matrix.py --output METHODS.md`, which runs `{TESTS}` and",
            "sorts the tests by method and kind. A number is how many tests passed; `-` means that there is none.",
            "`ima` is the averaging of models over rounds, which can be added to any method. In these tests clients",
            "have unequal numbers of samples, numbers are float64 (except in *single precision*), and agreement is to",
            "1e-10 (a plain loop) or 1e-12. *Further* counts the tests that are listed under the table.",
            "",
            "| method | " + " | ".join(kinds) + " | further |",
            "|---|" + "--:|" * (len(kinds) + 1),
            *(_row(method, kinds, seen) for method in methods),
            "",
            *(line for method in methods for line in _further(method, seen.words[method])),
        ]
    )


def _row(method: str, kinds: Sequence[str], seen: Seen) -> str:
    cells = [_count(seen.kinds[method][kind]) for kind in kinds]
    further = [outcome for outcomes in seen.words[method].values() for outcome in outcomes]
    return f"| {method} | " + " | ".join([*cells, _count(further)]) + " |"


def _count(outcomes: Sequence[str]) -> str:
    """The number of passed tests, and of the others."""
    passed = outcomes.count("passed")
    failed = len(outcomes) - passed
    return f"{passed} ({failed} not passed)" if failed else str(passed or "-")


def _further(method: str, words: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if not words:
        return
    yield f"**{method}**"
    yield ""
    for text, outcomes in sorted(words.items()):
        yield f"- {text}" + ("" if set(outcomes) == {"passed"} else f": {_count(outcomes)}")
    yield ""


def main() -> None:
    """Run the tests and write the page; exit status 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="write the page to this file; else it is printed")
    given = parser.parse_args()
    seen, output = Seen(), given.output and given.output.resolve()
    os.chdir(Path(__file__).parents[2])
    quiet = "-W", "ignore::pytest.PytestAssertRewriteWarning"  # a warning about packages that are already imported
    status = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow or combination", *quiet, TESTS], plugins=[seen]
    )
    text = page(seen)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text)
    raise SystemExit(int(status))


if __name__ == "__main__":
    main()
