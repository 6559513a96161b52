"""Fixtures: a user's study, processes that end with their test, an environment that is restored."""

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
    """The environment variables that a run sets in this process are restored when the test ends."""
    for name in (*COUNTS, "XLA_FLAGS"):
        if name in os.environ:
            monkeypatch.setenv(name, os.environ[name])
        else:
            monkeypatch.setenv(name, "1")  # so that the end of the test unsets the variable
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
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore SIGINT
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()
