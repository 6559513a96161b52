"""How a command that is interrupted ends, however it takes the interrupt."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# SIGTERM comes while an interrupt must wait, as in an import or a callback of C code; the command goes on and ends so
PROGRAM = """
import signal
from ntkfl import interruption
import typer
from experiments.console.interruptible import Interruptible

interruption.install()
app = typer.Typer(cls=Interruptible)

@app.command()
def work():
    interruption._installed.held = True
    signal.raise_signal(signal.SIGTERM)
    {end}

@app.command()
def other(): ...

app()
"""
STOPPED = 128 + 15


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("raise typer.Exit(2)", STOPPED, "stopped by SIGTERM\n"),  # refused, by what it found while it was to stop
        ("raise ValueError", STOPPED, "stopped by SIGTERM\nnothing new is kept\n"),
        ("raise KeyboardInterrupt", STOPPED, "stopped by SIGTERM\nnothing new is kept\n"),
        ("raise typer.Exit(0)", 0, ""),  # done before it could be stopped
        ("interruption.taken(); raise typer.Exit(1)", 1, ""),  # it was caught, and the command went on
    ],
)
def test_the_exit_status_is_that_of_the_signal_unless_the_command_was_done(end, status, said):
    program = PROGRAM.format(end=end)
    ended = subprocess.run([sys.executable, "-c", program, "work"], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (status, said)
