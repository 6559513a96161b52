"""Lines for a terminal, with a label in the margin and text beside the label, wrapped between words."""

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bounds import Outcome

if TYPE_CHECKING:
    from bounds import Claim
    from bounds.cards import ClaimCard

LABEL = 12  # width of the label in columns, its indent included


def entry(label: str, content: Iterable[str], width: int) -> list[str]:
    """The lines of an entry: a label in the margin, and the content beside the label, wrapped.

    If the content is empty, there are no lines.
    """
    lines = []
    for text in content:
        lead = f"  {label}".ljust(LABEL) + " "
        lines += textwrap.wrap(
            " ".join(text.split()),
            width,
            initial_indent=lead,
            subsequent_indent=" " * len(lead),
            break_long_words=False,
            break_on_hyphens=False,
        )
        label = ""
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, the later ones indented."""
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def nature_text(claim: "Claim | ClaimCard") -> str:
    """The sentence on a claim's nature; "" if the claim has none."""
    if claim.nature is None:
        return ""
    return f"{'remark' if claim.recorded is Outcome.HOLDS else 'differs from what holds by'}: {claim.nature.value}"
