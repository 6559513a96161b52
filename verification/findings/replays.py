"""Replay files of the stored cases of all findings of substance, and of what is reported."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from bounds.papers import own
from ntkfl import interruption
from verification.findings.address import replay_path
from verification.search import stored_counterexample, written


def stored_replays() -> Iterator[tuple[str, str]]:
    """The name and the text of each; the ladder of deep networks takes a minute or two, all else an instant."""
    for statement in own().values():
        for form in statement.forms:
            if (path := replay_path(statement, form)) is not None:
                interruption.check()
                yield PurePosixPath(path).name, written(statement, form, stored_counterexample(statement, form))
