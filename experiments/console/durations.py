"""Durations on the command line, such as 60, 60s, 5m or 1h."""

import re

import typer

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str | float) -> float:
    """The number of seconds of a text such as 60, 60s, 5m or 1h; a number without a unit is in seconds.

    Raises:
        typer.BadParameter: the text is not a duration.
    """
    read = re.fullmatch(r"(-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([smh]?)", str(text).strip())
    if read is None:
        raise typer.BadParameter(
            f"it is {text!r}; it must be a number of seconds, or one with s, m or h: 60, 60s, 5m, 1h"
        )
    return float(read[1]) * SECONDS[read[2]]
