"""Work is counted before it is begun, and work of more than about a day of one core is refused."""

from collections.abc import Callable

from ntkfl.memory import would_fit

MOST = 1e15  # operations on numbers; a core does some 1e10 of them in a second
# the largest number of operations in a round, since thousands of rounds are computed for a rate or a limit
A_ROUND = MOST / 1e4
SECOND = 1e10  # number of operations that a core does in a second
# number of operations that take as long as a few calls of numpy; every step counts as at least this many operations
CALL = 1e5


def require_work(what: str, counts: Callable[..., float], most: float = MOST, hint: str = "", **sizes: int) -> None:
    """Refuse work that takes too long.

    `counts` gives the number of operations for these sizes; it must grow with each size.

    Raises:
        ValueError: more than `most` operations. The message gives both numbers, and says for each size how large it may
            be if the other sizes stay the same.
    """
    needed = counts(**sizes)
    if needed <= most:
        return
    message = f"{what} would take some {needed:.1g} operations; {most:.0g} are the most, and a core does 1e10 a second"
    raise ValueError("; ".join([message, *would_fit(counts, most, sizes), *([hint] if hint else [])]))
