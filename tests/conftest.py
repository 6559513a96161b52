"""What no test may leave behind: flint keeps one precision for the whole process, and the next test reads it."""

from collections.abc import Iterator

import flint
import pytest


@pytest.fixture(autouse=True)
def unchanged_precision() -> Iterator[None]:
    """The precision of balls is after every test what it was before."""
    before = flint.ctx.prec
    yield
    after, flint.ctx.prec = flint.ctx.prec, before
    assert after == before
