"""Messages of a command: bad input is one line and exit status 2, and each warning is printed once."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

BAD_INPUT = 2  # exit status
NOTES = "ntkfl.data.user_files"  # logger of messages such as the name of the column with the labels
TORCH_SLOW = "There is a performance drop because we have not yet implemented the batching rule"  # hidden from users


@contextmanager
def bad_input(*kinds: type[Exception]) -> Iterator[None]:
    """A block in which an exception of our checks ends the program with "error: ..."; computations belong outside.

    `kinds` are the exceptions that a user's input may raise in the block; default ValueError, KeyError, OSError.
    """
    caught = kinds or (ValueError, KeyError, OSError)
    try:
        yield
    except (BrokenPipeError, ModuleNotFoundError):  # a closed pipe is no fault; PyTorch's absence is reported elsewhere
        raise
    except caught as error:
        typer.echo(f"error: {_said(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _said(error: Exception) -> str:
    """The message of an error; for an OSError the file, then the reason, without the number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


@contextmanager
def shown_warnings() -> Iterator[None]:
    """A block in which the first warning from each place is printed as "warning: ...", with the number of further ones.

    Messages that say which column of a user's file has which role are also printed once.
    """
    seen: dict[tuple[str, int], int] = {}

    def show(message, category, filename, lineno, file=None, line=None) -> None:
        if str(message).startswith(TORCH_SLOW):
            return
        place = (str(message), 0) if getattr(category, "every", False) else (filename, lineno)
        seen[place] = seen.get(place, 0) + 1
        if seen[place] == 1:
            typer.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings(), _shown_notes():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        finally:
            more = sum(seen.values()) - len(seen)
            if more:
                typer.echo(f"warning: {more} more like it", err=True)


class _Notes(logging.Handler):
    """Prints every message once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self.seen:
            self.seen.add(text)
            typer.echo(text, err=True)


@contextmanager
def _shown_notes() -> Iterator[None]:
    notes = logging.getLogger(NOTES)
    handler, level = _Notes(), notes.level
    notes.addHandler(handler)
    notes.setLevel(logging.INFO)
    try:
        yield
    finally:
        notes.removeHandler(handler)
        notes.setLevel(level)
