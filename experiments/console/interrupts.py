"""What a command says and returns when it is interrupted: exit status 130, or 143 by SIGTERM."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from experiments.console.messages import BAD_INPUT
from ntkfl import interruption

NOTHING = "nothing new is kept"
NO_TORCH = (
    "this needs PyTorch, which is not installed: pip install 'ntkfl[train]'; without a GPU take the small build first, "
    "whose command is at https://pytorch.org/get-started/locally/. list, show, rate, limit, "
    "fastest, tune, privacy, gram, simulate, check and most of verify do without it, "
    "except with --network, --momentum or fedgucci"
)
REPORTED = "what was counted until then is reported"


class Interruptible(TyperGroup):
    """A group of commands: a KeyboardInterrupt gives exit status 130, or 143 by SIGTERM."""

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
            kept = []  # the command has already printed the reason
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch":
                raise
            typer.echo(f"error: {NO_TORCH}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except Exception:
            if not interruption.pending():
                raise
            kept = [NOTHING]  # the interrupted code raised another error
        interruption.ending()
        typer.echo("\n".join([f"stopped by {interruption.name()}", *kept]), err=True)
        raise typer.Exit(interruption.status())


@contextmanager
def if_stopped(kept: Callable[[], str]) -> Iterator[None]:
    """A block in which an interrupt prints this text: what is stored, and how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not getattr(error, "__notes__", None):  # the innermost block's text is printed
            error.add_note(kept())
        raise


def stopped(kept: str) -> KeyboardInterrupt:
    """The exception for an interrupted command that has stored its results and has said so."""
    error = KeyboardInterrupt()
    error.add_note(kept)
    return error
