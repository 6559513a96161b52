"""Families that a statement brings of its own, beside those that the user may choose."""

from collections.abc import Callable

from bounds.family import AnyFamily, Family
from bounds.options import Options

Chosen = Callable[[Options], tuple[AnyFamily, ...]]  # the families that go with a user's options


def with_own(families: Chosen, *own: Family) -> Chosen:
    """These families, and where the user brings no data the statement's own too."""
    return lambda options: (*families(options), *(own if options.data is None else ()))
