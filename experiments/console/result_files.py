"""Result files: checked for writing before the work starts, and seen only when they are complete."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

from experiments.console.messages import BAD_INPUT, bad_input

PICTURES = (".png", ".svg")

Write = Callable[[str | bytes], None]


@contextmanager
def reserved(*paths: Path | None, inputs: tuple[str | None, ...] = ()) -> Iterator[tuple[Write | None, ...]]:
    """A function for each path that writes text or bytes there in one step; None for a path None.

    The content goes to a temporary file beside the path, made on entry, and replaces the path when it is written. An
    earlier file at the path stays until then; without a call nothing changes.

    A path that cannot be written, that occurs twice, or that is also an input, is bad input. If writing fails later, as
    on a full disk, a message is printed and the block continues, so that its results can be printed. Then the program
    ends as for bad input.
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
        yield lambda content: _done(path, failed, lambda: _write(target, content))  # no device may be replaced
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
    """Write, or print the reason of the failure and record it."""
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
    except RuntimeError:  # Python up to 3.12 raises this
        raise OSError(f"{path} is a link that leads back to itself; name a file") from None


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
