"""Tests of interrupts at any moment: a command ends with the right exit status and leaves no process behind.

The command prints no traceback.
"""

import os

import pytest
from interrupted import COMMANDS, TRIES_FACTOR, interrupted, prepared

TRIES = int(
    os.environ.get("INTERRUPTS", "1")
)  # the number of tries of each command; python tests/experiments/interrupted.py gives the whole table


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    with prepared(tmp_path_factory.mktemp("files")) as given:
        yield given


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"), [(name, seed) for name in COMMANDS for seed in range(TRIES * TRIES_FACTOR.get(name, 1))]
)
def test_an_interrupt_at_any_moment(name, seed, given):
    outcome = interrupted(name, seed, given)
    assert list(outcome.wrong) == [], (
        f"{outcome.sent.name} after {outcome.after:.2f} s\n{outcome.output}\n{outcome.left}"
    )
