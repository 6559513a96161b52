"""The study of the tests, which is a user's; processes that end with their test; an environment that is restored."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.studies.one_thread import COUNTS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """The variables that a run in this process sets are as they were when the test ends."""
    for name in (*COUNTS, "XLA_FLAGS"):
        if name in os.environ:
            monkeypatch.setenv(name, os.environ[name])
        else:
            monkeypatch.setenv(name, "1")  # recorded as not set
            monkeypatch.delenv(name)


@pytest.fixture
def pendulum():
    """The path of the study, as a user gives it."""
    return str(HERE / "pendulum.py")


@pytest.fixture
def started():
    """Start `python` with these arguments; what still runs when the test ends is killed."""
    processes = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | environment,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()


def until(seen, seconds=300.0):
    """Wait until `seen()` is true; an assertion if it does not become so."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, f"not seen within {seconds} s"
        time.sleep(0.02)
