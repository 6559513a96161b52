"""The command that gives a verdict again."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace

from bounds.listing import word_for
from bounds.options import Options
from bounds.statement import Form, Statement


def brings_own_data(statement: Statement, form: Form, options: Options) -> bool:
    """Whether the user's data change nothing: the form is about cases of its own."""
    if options.data is None:
        return False
    try:
        return statement.families(form, options) == statement.families(form, _without_data(options))
    except Exception:  # said where the families are needed
        return False


def _without_data(options: Options) -> Options:
    return replace(options, data=None, unit=False, n=None, clients=None, partition=None)


def replay_command(statement: Statement, form: Form, options: Options) -> str:
    """The command that gives this verdict again."""
    words = [f"ntkfl verify {shlex.quote(word_for(statement))} --form {form.value} --seed {options.seed}"]
    options = _without_data(options) if brings_own_data(statement, form, options) else options
    for name, value in asdict(options).items():
        if name not in ("seed", "unit") and value is not None:
            words.append(f"--{name.replace('_', '-')} {shlex.quote(str(value))}")
    return " ".join(words + (["--unit"] if options.unit else []))
