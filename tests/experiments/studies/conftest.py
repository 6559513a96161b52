"""Fixtures for tests of studies: a user's study, processes that end with their test, a restored environment."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.studies.running.one_thread import COUNTS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """Restores at the end of a test the environment variables that a run sets in this process."""
    for name in (*COUNTS, "XLA_FLAGS"):
        if name in os.environ:
            monkeypatch.setenv(name, os.environ[name])
        else:
            monkeypatch.setenv(name, "1")  # The variable is set here, so that the end of the test unsets it.
            monkeypatch.delenv(name)


@pytest.fixture
def pendulum():
    """Returns the path of the study in `pendulum.py`, as a user gives it."""
    return str(HERE / "pendulum.py")


@pytest.fixture
def started():
    """Returns a function that starts `python` with given arguments; processes that still run at the end are killed."""
    processes = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | environment,
            # A shell's background jobs ignore SIGINT, so the default is restored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()
