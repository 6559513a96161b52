"""Tests of progress where stderr is no terminal: at most one line every few seconds.

The first and the last line are always shown.
"""

import io
import sys

import pytest

from experiments.console import progress_bar
from experiments.console.progress_bar import ProgressBar, RunProgress, described
from ntkfl.training.metrics import Row


@pytest.fixture
def clock(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: seconds[0])
    return seconds


def test_lines_are_few_and_the_last_is_there(clock, capsys):
    with ProgressBar("cases") as bar:
        for done in range(1, 11):
            bar.show(done, 10, "B.12")
            clock[0] += 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{done} of 10 cases: B.12" for done in (1, 4, 7, 10)]


def test_on_a_terminal_it_is_a_bar_that_goes_away(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with RunProgress() as progress:
        progress(Row(3, test_loss=0.5, test_accuracy=0.25), 7)
        progress._bar.refresh()
    shown = terminal.getvalue()
    assert "3/7" in shown and "rounds" in shown and "test accuracy 25.00%" in shown
    assert shown.endswith("\x1b[2K")  # These characters erase the line in a terminal.


def test_only_what_was_measured_is_described():
    assert described(Row(1, train_loss=2.0)) == "train loss 2"
    assert described(Row(1)) == "no test set, so nothing is measured"
