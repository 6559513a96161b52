"""Work is counted before it is begun: work of more than about a day of one core is refused."""

from collections.abc import Callable

from ntkfl.memory import would_fit

MOST = 1e15  # operations on numbers, of which a core does some 1e10 a second
A_ROUND = MOST / 1e4  # the largest number of operations of a round: a rate or a limit takes thousands of rounds
SECOND = 1e10  # operations of a second
CALL = 1e5  # operations in the time of a few calls of numpy; every step counts as at least so many operations


def require_work(what: str, counts: Callable[..., float], most: float = MOST, hint: str = "", **sizes: int) -> None:
    """Refuse work that takes too long.

    `counts` gives the operations for these sizes and grows with each of them.

    Raises:
        ValueError: more than `most` operations. The message gives both numbers, and says for each size how large it may
            be if the other sizes stay.
    """
    needed = counts(**sizes)
    if needed <= most:
        return
    message = f"{what} would take some {needed:.1g} operations; {most:.0g} are the most, and a core does 1e10 a second"
    raise ValueError("; ".join([message, *would_fit(counts, most, sizes), *([hint] if hint else [])]))
