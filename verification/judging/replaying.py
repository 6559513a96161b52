"""The command that gives a verdict again."""

import shlex
from dataclasses import asdict

from bounds import Form, Options, Statement
from bounds.listing import word_for


def replay_command(statement: Statement, form: Form, options: Options) -> str:
    """The command that gives this verdict again."""
    words = [f"ntkfl verify {shlex.quote(word_for(statement))} --form {form.value} --seed {options.seed}"]
    return " ".join([*words, *option_words(options)])


def option_words(options: Options) -> list[str]:
    """The command line's words for these options, the seed left out."""
    given = {name.replace("_", "-"): value for name, value in asdict(options).items() if name != "seed"}
    switches = [f"--{name}" for name, value in given.items() if value is True]
    chosen = {name: value for name, value in given.items() if value is not None and not isinstance(value, bool)}
    return [f"--{name} {shlex.quote(str(value))}" for name, value in chosen.items()] + switches
