"""What no test may leave behind, and what none may depend on: the precision of balls, the clock, chance."""

from collections.abc import Iterator

import flint
import pytest
from hypothesis import settings

# the same examples every time, however slow the machine
settings.register_profile("everywhere", deadline=None, derandomize=True)
settings.load_profile("everywhere")


@pytest.fixture(autouse=True)
def unchanged_precision() -> Iterator[None]:
    """The precision of balls, one for the whole process, is after every test what it was before."""
    before = flint.ctx.prec
    yield
    after, flint.ctx.prec = flint.ctx.prec, before
    assert after == before
