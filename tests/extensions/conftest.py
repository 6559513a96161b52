"""Fixtures: a folder with a user's theorem, method, model and study.

Files that were loaded are forgotten after the test.
"""

import shutil
import sys
from pathlib import Path

import pytest
from typed import command

import bounds.listing
from ntkfl import extensions

HERE = Path(__file__).parent


def forget():
    """Forgets all loaded files, as in a new process."""
    bounds.listing._files.clear()
    extensions._files.clear()
    for name in [name for name in sys.modules if name.startswith(extensions.PREFIX)]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for kind in ("theorem", "method", "model", "study"):
        shutil.copy(HERE / f"own_{kind}.py", tmp_path / f"my_{kind}.py")
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()


@pytest.fixture
def ntkfl(folder):
    """Returns a function that runs a command line in the folder, checks the exit status, and returns the output.

    Every command line runs as in a new process, which has loaded no file yet.
    """

    def run(line, status=0):
        forget()
        done = command(*line.split())
        assert done.exit_code == status, done.output
        return done.output

    return run
