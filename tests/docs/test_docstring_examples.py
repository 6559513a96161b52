"""The examples in the docstrings of the reference print what they show."""

import ast
import doctest

import pytest
from reference_names import PACKAGES
from test_docstrings import documented

PROMPT = ">>> "
EXAMPLES = {
    place.split(": ")[1]: ast.get_docstring(node)
    for package in PACKAGES
    for place, is_named, node in documented(package, PROMPT)
    if is_named and PROMPT in ast.get_docstring(node)
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name):
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    said = []
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_a_newcomer_finds_thirty_examples():
    assert len(EXAMPLES) >= 30
