"""Parts of messages: a count with its noun, and the nearest of the known names to one that is unknown."""

from collections.abc import Iterable
from difflib import get_close_matches


def number_of(count: int, noun: str) -> str:
    """ "1 case", "2 cases": the noun in the singular is given, and its plural takes an s."""
    return f"{count} {noun}{'s' * (count != 1)}"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """ " Did you mean ...?", or nothing where none of the known names is as similar as `cutoff` (difflib's ratio)."""
    near = get_close_matches(word.lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""
