"""Context managers in which commands work: for bad input, warnings, interrupts and result files."""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from ntkfl import interruption

BAD_INPUT = 2  # exit status
NOTES = "ntkfl.data.user_files"  # the logger of messages, such as the message that names the column with the labels
# this warning is hidden from users
TORCH_SLOW = "There is a performance drop because we have not yet implemented the batching rule"


@contextmanager
def bad_input(*kinds: type[Exception]) -> Iterator[None]:
    """A block in which an exception due to bad input ends the program with a message "error: ...".

    Computations belong outside the block.

    `kinds` are the exceptions that a user's input may raise in the block; default ValueError, KeyError, OSError.
    """
    caught = kinds or (ValueError, KeyError, OSError)
    try:
        yield
    # a closed pipe is not bad input, and a missing PyTorch is reported elsewhere
    except (BrokenPipeError, ModuleNotFoundError):
        raise
    except caught as error:
        typer.echo(f"error: {_said(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _said(error: Exception) -> str:
    """The message of an error; for an OSError, the file and then the reason, without the error's number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


@contextmanager
def shown_warnings() -> Iterator[None]:
    """A block in which the first warning from each place of the code is printed as "warning: ...".

    The number of further warnings from that place is printed at the end.

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
    """A logging handler that prints every message once."""

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


NOTHING = "nothing new is kept"
NO_TORCH = (
    "this needs PyTorch, which is not installed: pip install 'ntkfl[train]'; without a GPU take the small build first, "
    "whose command is at https://pytorch.org/get-started/locally/. list, show, rate, limit, "
    "fastest, tune, privacy, gram, simulate, check and most of verify do without it, "
    "except with --network, --momentum or fedgucci"
)
REPORTED = "what was counted until then is reported"


class Interruptible(TyperGroup):
    """A group of commands that, when interrupted, end with exit status 130, or with 143 after SIGTERM."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            with interruption.released():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            kept = getattr(error, "__notes__", [NOTHING])
        except typer.Exit as error:
            if not error.exit_code or not interruption.pending():
                raise
            kept = []  # the command has already said why it ended
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch":
                raise
            typer.echo(f"error: {NO_TORCH}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except Exception:
            if not interruption.pending():
                raise
            kept = [NOTHING]  # the interrupt made the code raise another error
        interruption.ending()
        typer.echo("\n".join([f"stopped by {interruption.name()}", *kept]), err=True)
        raise typer.Exit(interruption.status())


@contextmanager
def if_stopped(kept: Callable[[], str]) -> Iterator[None]:
    """A block in which an interrupt prints the text of `kept`, which says what is stored and how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not getattr(error, "__notes__", None):  # of nested blocks, the innermost one's text is printed
            error.add_note(kept())
        raise


def stopped(kept: str) -> KeyboardInterrupt:
    """The exception to raise for an interrupted command that has stored its results; its message is the text `kept`."""
    error = KeyboardInterrupt()
    error.add_note(kept)
    return error


PICTURES = (".png", ".svg")

Write = Callable[[str | bytes], None]


@contextmanager
def reserved(*paths: Path | None, inputs: tuple[str | None, ...] = ()) -> Iterator[tuple[Write | None, ...]]:
    """Functions that write text or bytes to these paths in one step; None for a path that is None.

    On entry a temporary file is made beside the path. The function writes its content to that file, which then replaces
    the file at the path. Until then an earlier file stays; if the function is not called, nothing changes.

    It is bad input if a path cannot be written, occurs twice, or is also read. If writing fails later, as on a full
    disk, a message is printed and the block continues, so that its results can be printed. Then the program ends as for
    bad input.
    """
    failed: list[Path] = []
    with ExitStack() as stack:
        with bad_input():
            given = [_resolved(path) for path in paths if path is not None]
            if len(set(given)) < len(given):
                raise ValueError(f"{given[0]} is named for two outputs; each needs its own file")
            for read in inputs:
                if read is not None and given and _resolved(Path(read)) in given:
                    raise ValueError(f"{read} is what is read; the output needs a file of its own")
            writers = tuple(None if path is None else stack.enter_context(_reserved(path, failed)) for path in paths)
        yield writers
    if failed:
        raise typer.Exit(BAD_INPUT)


def picture_kind(path: Path) -> str:
    """The format of a picture, by its file's name.

    Raises:
        ValueError: no picture has this suffix.
    """
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; pictures are {' or '.join(PICTURES)}")
    return path.suffix[1:].lower()


def as_json(content: Any) -> str:
    """The content as strict JSON; see `verification.json_values.strict_json` for numbers that are not finite."""
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


@contextmanager
def _reserved(path: Path, failed: list[Path]) -> Iterator[Write]:
    target = _resolved(path)
    if target.is_dir():
        raise OSError(f"cannot write {path}: it is a folder; name a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError(f"cannot write {path}: no permission")
    if target.exists() and not target.is_file():
        # a device such as /dev/null must not be replaced
        yield lambda content: _done(path, failed, lambda: _write(target, content))
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.touch(exist_ok=False)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}; name a file in a folder that can be written") from error

    def replace(content: str | bytes) -> None:
        _write(part, content)
        os.replace(part, target)

    try:
        yield lambda content: _done(path, failed, lambda: replace(content))
    finally:
        part.unlink(missing_ok=True)


def _done(path: Path, failed: list[Path], write: Callable[[], None]) -> None:
    """Write the file; if that fails, print the reason and add the path to `failed`."""
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError as error:
        typer.echo(f"error: cannot write {path}: {error.strerror or error}; name a file where there is room", err=True)
        failed.append(path)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # for a loop of links, Python up to 3.12 raises this error
        raise OSError(f"{path} is a link that leads back to itself; name a file") from None


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
