"""The public kernel regime with a measured error of each number: the samples are taken in two orders."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bounds.federated_run import ORDER_SAFETY
from ntkfl import Estimate, Problem, Setup
from ntkfl.limit.infinite_width import KernelRegime

EPS = np.finfo(float).eps
ROUNDINGS = 16  # least error in units of n eps: on few samples two orders may agree in every bit although both round


@dataclass(frozen=True, eq=False)
class MeasuredRegime:
    """The answers of `ntkfl.kernel_regime` for a Gram matrix, as Estimates.

    The error is ten times the difference to the same regime with its samples in the opposite order, plus some roundings
    of the summed numbers. This error is measured, not proved.
    """

    problem: Problem  # labels (n,) or (n, C)
    setup: Setup  # steps, without warnings
    gram: np.ndarray  # H, (n, n), symmetric

    @cached_property
    def regime(self) -> KernelRegime:
        """The regime itself."""
        return KernelRegime(self.problem, self.setup, self.gram, kernel=None)

    @cached_property
    def _reversed(self) -> KernelRegime:
        p = self.problem
        other = Problem(p.x[::-1], p.y[::-1], p.owner[::-1], name=p.name)
        return KernelRegime(other, self.setup, np.ascontiguousarray(self.gram[::-1, ::-1]), kernel=None)

    def of(
        self,
        quantity: Callable[[KernelRegime, slice], Any] | Callable[[KernelRegime, slice, np.ndarray], Any],
        samples: tuple[int, ...] = (),
        size: float = 0.0,
        start: np.ndarray | None = None,
    ) -> Estimate:
        """Compute a quantity of the regime in two orders of the samples.

        `quantity` is called with the regime, the order, and, if there is one, `start` in that order. `samples` are the
        axes of the quantity that run over the samples. `size` is the size of the numbers that the quantity adds or
        subtracts. `start` are outputs (n, ...) rounded to float64; for the second order each of them is moved by one
        rounding.

        Raises:
            OverflowError: the quantity is too large for float64.
        """
        given = () if start is None else (start,)
        other_given = () if start is None else (np.nextafter(start, np.inf)[::-1],)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused below
            value = np.asarray(quantity(self.regime, slice(None), *given), float)
            other = np.flip(
                np.asarray(quantity(self._reversed, slice(None, None, -1), *other_given), float), axis=samples
            )
        if not (np.isfinite(value).all() and np.isfinite(other).all()):
            raise OverflowError("the kernel regime passes the largest float64")
        difference, largest = (float(np.abs(part).max(initial=0.0)) for part in (value - other, value))
        error = ORDER_SAFETY * difference + ROUNDINGS * self.problem.n * EPS * max(size, largest)
        return Estimate(value, np.full(value.shape, error), "two orders of the samples")
