"""A number, or an array of numbers, with an error bound. The two sides of a theorem are compared in this form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from math import isnan, nextafter
from numbers import Rational
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ntkfl import rounding
from ntkfl.problem import real_array


class NotFinite(ArithmeticError, ValueError):
    """A computation that has no value: an overflow, a division by something that may be 0, a root of a negative number.

    This exception is a ValueError too, since the caller may have given the value because of which there is no result.
    """


class Rigour(IntEnum):
    """How far an error bound may be trusted; a result of several numbers gets the largest Rigour of these numbers."""

    EXACT = 0  # no error: an input, a count
    # proved by a theorem: by ball arithmetic (numbers with error bounds), or by the rounding bound of a short
    # computation
    ENCLOSED = 1
    # float64 with an estimated error, such as the difference of two orders of summation, or an error bound that the
    # author of a statement gives without proof
    MEASURED = 2
    SAMPLED = 3  # a confidence interval

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value with an error bound: elementwise, the exact value differs from `value` by at most `error`.

    The method and the rigour of the bound are kept with the value. The errors of sums, differences, products, matrix
    products, `abs`, `squared`, `sqrt` and `norm` of Estimates include the operands' errors and the rounding of the
    operation. Numbers and arrays may be combined with Estimates, and count as exact.

    Args:
        value: a number or an array.
        error: half-width of the enclosure, not negative; a number or an array of value's shape.
        method: how the error was obtained: "exact", "ball", "rounding bound", "two summation orders", "Clopper-Pearson
            95%", ... This text is for people to read, and no decision depends on it.
        rigour: how far the error may be trusted; default measured. `Estimate.exact` sets it to exact.

    Raises:
        NotFinite: a NaN value or error. ValueError: a negative error, or shapes that do not agree.
    """

    value: np.ndarray
    error: np.ndarray
    method: str = "exact"
    rigour: Rigour = Rigour.MEASURED

    if TYPE_CHECKING:  # numbers and lists are accepted as arguments, but the fields are arrays

        def __init__(self, value: ArrayLike, error: ArrayLike, method: str = ..., rigour: Rigour = ...) -> None: ...

    def __post_init__(self) -> None:
        value, error = _plain("value", self.value), _plain("error", self.error)
        if error.shape != value.shape and error.ndim:
            raise ValueError(f"an Estimate's error has shape {error.shape}, its value {value.shape}: they must agree")
        # only NaN differs from itself; for single numbers this test is faster than np.isnan
        if np.isnan(value).any() if value.ndim else value != value:
            raise NotFinite(f"an Estimate's value is NaN ({self.method}): a computation failed")
        if not ((error >= 0).all() if error.ndim else error >= 0):
            kind = NotFinite if np.isnan(error).any() else ValueError
            raise kind(f"an Estimate's error is {error.min()} ({self.method}): it must be 0 or more")
        if error.shape != value.shape:
            error = np.full(value.shape, error)
        for name, array in (("value", value), ("error", error)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @cached_property
    def lo(self) -> np.ndarray:
        """Lower end of the enclosure, rounded down, in the shape of the value."""
        return _end(self.value, -self.error, -np.inf)

    @cached_property
    def hi(self) -> np.ndarray:
        """Upper end of the enclosure, rounded up, in the shape of the value."""
        return _end(self.value, self.error, np.inf)

    @classmethod
    def exact(cls, value) -> Estimate:
        """A value without error, in the shape of `value`, such as an input or an integer count.

        Args:
            value: a number or an array.

        Raises:
            ValueError: an integer, a fraction, a decimal or a ball that no float64 is equal to.

        Example:
            >>> from ntkfl import Estimate
            >>> float(Estimate.exact(2.0).error)
            0.0
        """
        given = np.asarray(value)
        if given.dtype.kind in "iuO" or (given.dtype.kind == "f" and given.dtype.itemsize > 8):
            for number in given.ravel().tolist():  # integers beyond int64 and fractions are objects
                if not (isinstance(number, int) and abs(number) <= 2**53) and not _is_float(number):
                    raise ValueError(f"{number} is no float64: give it rounded, or as an Estimate with its error")
        return cls(value, np.zeros(()), "exact", Rigour.EXACT)

    @classmethod
    def between(cls, lo, hi, method: str, rigour: Rigour = Rigour.MEASURED) -> Estimate:
        """The enclosure with these ends, in the shape of the ends, widened by rounding.

        An infinite end makes the error infinite.

        Args:
            lo: lower ends, a number or an array.
            hi: upper ends, which broadcast with `lo`.
            method: how the ends were obtained, for reports.
            rigour: exact, enclosed, measured or sampled; default measured.

        Raises:
            NotFinite: a NaN end. ValueError: a lower end above the upper end.

        Example:
            >>> from ntkfl import Estimate
            >>> float(Estimate.between(1.0, 3.0, "measured").value)
            2.0
        """
        lo, hi = np.broadcast_arrays(np.asarray(lo, float), np.asarray(hi, float))
        bad = ~(lo <= hi)
        if bad.any():
            kind = NotFinite if np.isnan(lo).any() or np.isnan(hi).any() else ValueError
            raise kind(f"an enclosure from {lo[bad][0]} to {hi[bad][0]} ({method}): its ends must be in order")
        with np.errstate(over="ignore", invalid="ignore"):
            middle = lo / 2 + hi / 2
            middle = np.where(lo == hi, lo, np.where(np.isfinite(middle), middle, 0.0))
            radius = np.nextafter(np.maximum(hi - middle, middle - lo), np.inf)
        return cls(middle, np.where(lo == hi, 0.0, radius), method, rigour)

    @classmethod
    def stacked(cls, parts: Iterable[Operand], axis: int = 0) -> Estimate:
        """Estimates of one shape, or exact numbers, stacked along a new axis.

        The result gets the largest rigour of the parts.

        Args:
            parts: Estimates of one shape, or exact numbers.
            axis: position of the new axis, default 0.

        Raises:
            ValueError: no part, or parts of different shapes.
        """
        estimates = [_estimate(part) for part in parts]
        value, error = (
            np.stack([getattr(estimate, name) for estimate in estimates], axis) for name in ("value", "error")
        )
        known = dict.fromkeys(estimate.method for estimate in estimates if estimate.rigour is not Rigour.EXACT)
        return cls(value, error, "; ".join(known) or "exact", max(estimate.rigour for estimate in estimates))

    __array_ufunc__ = None  # tells numpy to leave the operation in `array + estimate` to the Estimate

    def __add__(self, other: Operand) -> Estimate:
        other = _estimate(other)
        return self._with(other, *rounding.added(self.value, self.error, other.value, other.error))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.error, self.method, self.rigour)

    def __sub__(self, other: Operand) -> Estimate:
        return self + -_estimate(other)

    def __rsub__(self, other: Operand) -> Estimate:
        return _estimate(other) + -self

    def __mul__(self, other: Operand) -> Estimate:
        other = _estimate(other)
        return self._with(other, *rounding.multiplied(self.value, self.error, other.value, other.error))

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other: Operand) -> Estimate:
        other = _estimate(other)
        return self._with(other, *rounding.product(self.value, self.error, other.value, other.error))

    def __rmatmul__(self, other: Operand) -> Estimate:
        return _estimate(other) @ self

    def __abs__(self) -> Estimate:
        return Estimate(np.abs(self.value), self.error, self.method, self.rigour)

    def squared(self) -> Estimate:
        """The square, elementwise, in the shape of the value."""
        return self * self

    def sqrt(self) -> Estimate:
        """The square root, elementwise, in the shape of the value; an enclosure that reaches below 0 is cut off at 0.

        Raises:
            ValueError: an enclosure lies below 0.
        """
        return self._with(self, *rounding.root(self.value, self.lo, self.hi))

    def log(self) -> Estimate:
        """The logarithm, elementwise, in the shape of the value.

        If an enclosure reaches 0, its logarithm has no lower end.
        """
        return Estimate.between(*rounding.logarithms(self.lo, self.hi), self.method, max(self.rigour, Rigour.ENCLOSED))

    def norm(self, axis: int | None = None) -> Estimate:
        """The Euclidean norm of all entries, or along an axis; the shape of the result lacks this axis.

        Args:
            axis: the axis; None: all entries.
        """
        return self._with(self, *rounding.norm(self.value, self.error, axis))

    def max(self, axis: int | None = None) -> Estimate:
        """The largest of all entries, or the largest along an axis; the shape of the result lacks this axis.

        The enclosure of the result reaches from the largest lower end to the largest upper end, whatever the centres of
        the entries are.

        Args:
            axis: the axis; None: all entries.

        Raises:
            ValueError: there is no entry.

        Example:
            >>> from ntkfl import Estimate
            >>> print(Estimate([1.0, 2.0], [3.0, 0.5]).max())  # from 1.5 to 4, though 2 is the largest value
            2.75 ± 1.3e+00
        """
        return Estimate.between(self.lo.max(axis), self.hi.max(axis), self.method, self.rigour)

    def min(self, axis: int | None = None) -> Estimate:
        """The smallest of all entries, or the smallest along an axis; the shape of the result lacks this axis.

        The enclosure of the result reaches from the smallest lower end to the smallest upper end.

        Args:
            axis: the axis; None: all entries.

        Raises:
            ValueError: there is no entry.
        """
        return -(-self).max(axis)

    def _with(self, other: Estimate, value: np.ndarray, error: np.ndarray) -> Estimate:
        """A result computed from two Estimates; the result gets the larger rigour of the two."""
        known = dict.fromkeys(estimate.method for estimate in (self, other) if estimate.rigour is not Rigour.EXACT)
        method = "; ".join(known) or "rounding bound"
        return Estimate(value, error, method, max(self.rigour, other.rigour, Rigour.ENCLOSED))

    def __getitem__(self, index) -> Estimate:
        return Estimate(self.value[index], self.error[index], self.method, self.rigour)

    def __str__(self) -> str:
        if self.value.ndim:
            return f"array of shape {self.value.shape} ± {self.error.max(initial=0.0):.1e}"
        return f"{self.value:.6g}" + (f" ± {self.error:.1e}" if self.error else "")


Operand = Estimate | ArrayLike


def _estimate(operand: Operand) -> Estimate:
    return operand if isinstance(operand, Estimate) else Estimate.exact(operand)


def _is_float(number) -> bool:
    """Whether a number is equal to a float64; a value that is no number is refused elsewhere."""
    try:
        if isinstance(number, Rational):  # sympy's numbers compare unequal to every float
            return Fraction(int(number.numerator), int(number.denominator)) == float(number)
        return bool(float(number) == number)
    except OverflowError:
        return False
    except (TypeError, ValueError):
        return True


def _plain(name: str, given) -> np.ndarray:
    """A copy in float64, since the caller may change the original later.

    Numbers of unusual types are checked closely.
    """
    usual = isinstance(given, float) or (type(given) is np.ndarray and given.dtype.kind == "f")
    usual = usual or (isinstance(given, int) and abs(given) <= 2**53)
    return np.array(given if usual else real_array(name, given), float)


def _end(value: np.ndarray, error: np.ndarray, outward: float) -> np.ndarray:
    if not value.ndim:  # most values are single numbers, for which Python's floats are several times faster than arrays
        sum_ = float(value) + float(error)
        end = np.array(value if error == 0 else outward if isnan(sum_) else nextafter(sum_, outward))
        end.flags.writeable = False
        return end
    with np.errstate(over="ignore", invalid="ignore"):
        end = np.nextafter(value + error, outward)
    end = np.where(np.isnan(end), outward, end)  # nothing is known about infinity minus infinity
    end = np.where(error == 0, value, end)
    end.flags.writeable = False
    return end
