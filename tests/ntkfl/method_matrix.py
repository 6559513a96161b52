"""Writes a table of the kinds of test that every federated method has passed, by running the tests.

Run `python tests/ntkfl/method_matrix.py --output METHODS.md` in a checkout. A test belongs to the methods that its mark
`method` or its parameters name. Its mark `kind` says to which column it belongs, and the last column counts the tests
without this mark.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ntkfl.training.methods import catalogue

TESTS = "tests/ntkfl/training"
AROUND = "ima"  # IMA can wrap any method.
OTHERS = "others"
KINDS = {
    "equals a plain loop": "its models equal those of a loop over clients, written from its paper, to 1e-10",
    "clients grouped": "training several clients at once gives the models of one after another, to 1e-12",
    "clients renumbered": "clients in another order end with the same models, to 1e-12",
    "no samples": "a client without samples leaves every value finite",
    "float32": "in single precision all values stay float32, and models are near those in float64",
    "same bits": "a second run gives the same bits",
    "resumed": "a run that is stopped and resumed gives the bits of one that is not",
    "options": "it is built by its name, and its defaults have the types that it states",
    OTHERS: "tests of this method alone: limits in which it is another method, closed forms, refusals",
}


@dataclass
class Seen:
    """The outcomes of the tests of each method, by kind."""

    kinds: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    tests: dict[str, pytest.Item] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Is called by pytest with the tests that are going to be run."""
        self.tests = {item.nodeid: item for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Is called by pytest when a test is over, or could not be set up."""
        if report.when != "call" and report.passed:
            return
        item = self.tests[report.nodeid]
        mark = item.get_closest_marker("kind")
        for method in methods_of(item):
            self.kinds[method][mark.args[0] if mark else OTHERS].append(report.outcome)


def methods_of(item: pytest.Item) -> Sequence[str]:
    """Returns the methods to which a test belongs, by its own mark, its parameters, or the mark of its module."""
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


def page(seen: Seen) -> str:
    """Returns the page: the table, and below it what the tests of each column show."""
    methods = [*catalogue(), AROUND]
    return "\n".join(
        [
            "# What is tested of every federated method",
            "",
            f"`python tests/ntkfl/method_matrix.py --output METHODS.md` runs `{TESTS}` and writes this page. A",
            "number is how many tests passed, and `-` says that there is none. `ima` is the averaging of models over",
            "rounds, which can be added to any method. Clients have unequal numbers of samples.",
            "",
            "| method | " + " | ".join(KINDS) + " |",
            "|---|" + "--:|" * len(KINDS),
            *(_row(method, seen) for method in methods),
            "",
            "What the tests of a column show of a method:",
            "",
            *(f"- *{kind}*: {meaning}." for kind, meaning in KINDS.items()),
            "",
        ]
    )


def _row(method: str, seen: Seen) -> str:
    return f"| {method} | " + " | ".join(_count(seen.kinds[method][kind]) for kind in KINDS) + " |"


def _count(outcomes: Sequence[str]) -> str:
    """Returns as text how many tests passed, and how many did not if there are any."""
    passed = outcomes.count("passed")
    failed = len(outcomes) - passed
    return f"{passed} ({failed} not passed)" if failed else str(passed or "-")


def main() -> None:
    """Runs the tests and writes the page; the exit status is 1 if a test fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="write the page to this file; else it is printed")
    given = parser.parse_args()
    seen, output = Seen(), given.output and given.output.resolve()
    os.chdir(Path(__file__).parents[2])
    # Without this option pytest would warn about packages that are already imported.
    quiet = "-W", "ignore::pytest.PytestAssertRewriteWarning"
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
