"""Runs a command as a user types it, in this process."""

from typing import Any

from typer.testing import CliRunner, Result

from experiments.command_line import app


def command(*words: Any) -> Result:
    """Runs `ntkfl` with these words, which are converted to text."""
    return CliRunner().invoke(app, [str(word) for word in words])
