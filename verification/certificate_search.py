"""The smallest width, or the largest local step, at which a network certifies."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ntkfl.problem import Problem, Setup
from verification.certification import Certified, certify_after
from verification.judging.boundary import boundary

SMALLEST_WIDTH, LARGEST_WIDTH = 16, 2**20
SMALLEST_STEP, LARGEST_STEP = 1e-6, 64.0  # in units of 1 / (largest squared norm of a row), the scale of stable steps
FIRST_WIDTH = 4096
RATIO = 1.1  # the search ends when a certified value and a failing value differ by this factor

Progress = Callable[[float, Certified | None], None]  # a value that was tried; None: training overflowed


@dataclass(frozen=True)
class Searched:
    """Where a search ended.

    Args:
        setup: with the smallest width (largest step) at which the network certifies; if there is none, with the largest
            width (smallest step) that was tried without overflow.
        certified: the certificate with this setup.
        fails: the next smaller width (larger step) that was tried, which does not certify; None: the end of the range
            was reached.
    """

    setup: Setup
    certified: Certified
    fails: float | None


def searched(
    problem: Problem,
    setup: Setup,
    after: int = 0,
    every: int = 50,
    *,
    steps: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """The smallest width at which the network certifies after so many rounds, or the largest eta_local.

    Args:
        problem: data with scalar labels.
        setup: the setting where the search begins; its other numbers do not change.
        after: rounds trained before the certificate, default 0.
        every: rounds between checkpoints; the last bits of the weights depend on it. Default 50.
        steps: look for the largest eta_local instead.
        progress: a function that is called with each value tried and its certificate; default None.

    Raises:
        FloatingPointError: training overflowed at every value.
    """
    seen: list[tuple[Setup, Certified]] = []

    def certifies(value: float) -> bool:
        chosen = replace(setup, eta_local=value) if steps else replace(setup, width=round(value))
        certified: Certified | None = None
        try:
            certified = certify_after(problem, chosen, after, every)
            seen.append((chosen, certified))
        except FloatingPointError:
            pass
        if progress:
            progress(chosen.eta_local if steps else chosen.width, certified)
        return certified is not None and certified.certificate.certified

    unit = 1 / float((problem.x**2).sum(axis=1).max())
    edge = boundary(
        certifies,
        setup.eta_local if steps else min(setup.width, FIRST_WIDTH),
        harder=2.0 if steps else 0.5,
        easiest=SMALLEST_STEP * unit if steps else LARGEST_WIDTH,
        hardest=LARGEST_STEP * unit if steps else SMALLEST_WIDTH,
        ratio=RATIO,
    )
    if not seen:
        raise FloatingPointError("training overflowed at every value tried; take smaller steps")
    certified = [pair for pair in seen if pair[1].certificate.certified]
    best = min(certified or seen[-1:], key=lambda pair: -pair[0].eta_local if steps else pair[0].width)
    return Searched(*best, edge.failed if steps or edge.failed is None else round(edge.failed))
