"""Tests of how an interrupted command ends, however it handles the interrupt."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# SIGTERM arrives where an interrupt must wait, as in an import or in a callback of C code. Then the command runs {end}.
PROGRAM = """
import signal
from ntkfl import interruption
import typer
from experiments.console.blocks import Interruptible

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
        ("raise typer.Exit(2)", STOPPED, "stopped by SIGTERM\n"),  # The command reads bad input after the signal.
        ("raise ValueError", STOPPED, "stopped by SIGTERM\nnothing new is kept\n"),
        ("raise KeyboardInterrupt", STOPPED, "stopped by SIGTERM\nnothing new is kept\n"),
        ("raise typer.Exit(0)", 0, ""),  # The command was done before it could be stopped.
        ("interruption.taken(); raise typer.Exit(1)", 1, ""),  # The command caught the interrupt and went on.
    ],
)
def test_the_exit_status_is_that_of_the_signal_unless_the_command_was_done(end, status, said):
    program = PROGRAM.format(end=end)
    ended = subprocess.run([sys.executable, "-c", program, "work"], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (status, said)


WITHOUT_TORCH = """
import sys
class Without:  # torch = None in sys.modules would be taken for a module by scipy.stats
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Without())
from typer.testing import CliRunner
from experiments.command_line import app
for words in {commands}:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == {status}, (words, done.output, done.exception)
    assert {said!r} in done.output, (words, done.output)
"""
WITHOUT = [["list"], ["show", "fl-ntk/X.1"], ["rate", "--n", "8"], ["gram", "--n", "8"]]
WITHOUT += [["verify", "fl-ntk/X.1", "--trials", "5", "--width", "16"]]
WITHOUT += [["rate", "--method", "scaffold", "--n", "8"], ["limit", "--n", "8", "--test", "4", "--rounds", "3"]]
WITHOUT += [["fastest", "--n", "8", "--steps", "1"], ["tune", "--n", "8", "--rounds", "2", "--steps", "1"]]
WITHOUT += [["privacy", "--n", "8", "--rounds", "2", "--steps", "1", "--participation", "1"]]
TRAINS = [["train", "--epochs", "1"], ["rate", "--momentum", "0.5"], ["rate", "--method", "fedgucci"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commands", "status", "said"), [(WITHOUT, 0, ""), (TRAINS, 2, "error: this needs PyTorch, which is not installed")]
)
def test_what_trains_says_that_it_needs_torch_and_the_rest_does_without(commands, status, said):
    program = WITHOUT_TORCH.format(commands=commands, status=status, said=said)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
