"""Dual kernels of ReLU, erf and GELU: how a layer of an infinitely wide network maps the covariances of Gaussian
pre-activations.

The pre-activations u and v have the variances a and b and the covariance c. The angle between u and v is kept as (h, g)
= (sin^2, cos^2) of half the angle, since near 0 or pi the cosine of the angle would lose digits. Every number comes
with a bound of its error.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np

U = 2.0**-53
RELATIVE = 32 * U  # relative rounding error of h and g, in addition to the stored error


class Rows(NamedTuple):
    """Standard deviations of the pre-activations of each sample, (n,), and a bound of their relative error."""

    norm: np.ndarray
    error: float


class Pairs(NamedTuple):
    """Squared sine and cosine of half the angles between samples, (n, p), and a number for their error.

    For ReLU this number bounds the error of the angle. For smooth activations it bounds an error of h and g that comes
    on top of their relative error RELATIVE.
    """

    h: np.ndarray
    g: np.ndarray
    error: np.ndarray | float


class Dual(NamedTuple):
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)], each with a bound of its error, and the angles between phi(u) and
    phi(v).
    """

    covariance: np.ndarray
    covariance_error: np.ndarray
    slope: np.ndarray
    slope_error: np.ndarray
    pairs: Pairs


def halved(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared sine and squared cosine of half the angles that `signed_angles` gives, both without loss of digits."""
    near, far = np.sin(angle / 2) ** 2, np.cos(angle / 2) ** 2
    wide = angle < 0
    return np.where(wide, far, near), np.where(wide, near, far)


class Activation(Protocol):
    """An activation phi; a hidden layer's weights have variance `gain` / fan-in.

    `homogeneous` says whether phi(s u) = s phi(u) for all s > 0.
    """

    gain: float
    homogeneous: bool

    def start(self, angle: np.ndarray, error: float) -> Pairs:
        """The `Pairs` for these angles (`signed_angles`), each of which is off by at most `error`."""

    def turned(self, pairs: Pairs, share: np.ndarray, angle: float) -> np.ndarray | float:
        """The error of pairs after a step that multiplies their error by `share` and adds an error `angle` to their
        angles.
        """

    def rows(self, rows: Rows) -> Rows:
        """The roots of E[phi(u)^2]."""

    def dual(self, pairs: Pairs, left: Rows, right: Rows) -> Dual:
        """The moments, and the angles between phi(u) and phi(v)."""


def biased(rows: Rows, bias: float) -> Rows:
    """Standard deviations of u + bias * s, where s is one Gaussian number that all samples share."""
    return Rows(np.hypot(rows.norm, bias), rows.error + 4 * U)


def biased_pairs(pairs: Pairs, left: Rows, right: Rows, bias: float, activation: Activation) -> Pairs:
    """The angles of the pre-activations that `biased` describes, computed as sums of positive terms alone."""
    ends = np.hypot(left.norm, bias), np.hypot(right.norm, bias)
    (s, t), (c, d) = (left.norm / ends[0], right.norm / ends[1]), (bias / ends[0], bias / ends[1])
    both, level = s * t, c * d
    # The sine of the angle that two parallel rows get when the bias is added. The difference of the norms is divided by
    # the larger of the two norms with the bias, so that nothing overflows.
    apart = (left.norm - right.norm) / np.maximum(*ends) * (bias / np.minimum(*ends))
    h = apart * apart / (2 * (1 + level + both)) + both * pairs.h
    g = ((c * c + s * s * (d * d)) / (1 + both) + level) / 2 + both * pairs.g
    # The relative errors of the two rows change an angle by at most the sum of these errors. Every step below adds a
    # relative rounding error.
    moved = Pairs(h, g, pairs.error)
    return Pairs(h, g, activation.turned(moved, both, left.error + right.error + 40 * U))


class Relu:
    """max(u, 0): E[phi phi] = |u||v| (sin + (pi - t) cos) / (2 pi), E[phi' phi'] = (pi - t) / (2 pi)."""

    gain, homogeneous = 2.0, True

    def start(self, angle: np.ndarray, error: float) -> Pairs:
        """The stored error is the error of the angle."""
        return Pairs(*halved(angle), error + 20 * U)

    def turned(self, pairs: Pairs, share: np.ndarray, angle: float) -> np.ndarray | float:
        """The new error; a common bias does not widen an angle, so the old error is not multiplied by more than 1."""
        return pairs.error + angle

    def rows(self, rows: Rows) -> Rows:
        """The roots of E[phi(u)^2]; the mean E[phi(u)^2] is half the variance of u."""
        return Rows(rows.norm * np.sqrt(0.5), rows.error + 2 * U)

    def dual(self, pairs: Pairs, left: Rows, right: Rows) -> Dual:
        """The arc-cosine kernels of degree 0 and 1.

        Source: Cho and Saul 2009, Kernel methods for deep learning.
        """
        h, g, error = pairs
        angle, sine = 2 * np.arctan2(np.sqrt(h), np.sqrt(g)), 2 * np.sqrt(h * g)
        slope = 1 - angle / np.pi
        # The layer maps an angle t to t'. F = cos t' has F' <= 0 <= F + F'' = 2 sin / pi, so F^2 + F'^2 decreases from
        # 1. Hence the map t -> t' shrinks distances, and the error of the angle does not grow. All terms of 1 - F are
        # positive. Their rounding error, divided by sin t', is an error of the angle t' of at most 50 U, where U is the
        # unit roundoff, since sin t' is small only where these terms are small.
        new_h = np.maximum(h * slope + (angle - sine) / (2 * np.pi), 0)
        new = Pairs(new_h, 1 - new_h, error + 60 * U)
        size = left.norm * right.norm / 2
        covariance = size * (new.g - new.h)
        covariance_error = size * (new.error + 8 * U + left.error + right.error)
        return Dual(covariance, covariance_error, slope / 2, np.asarray(error / (2 * np.pi) + 16 * U), new)


class _Arcsine(NamedTuple):
    """rho = k l cos(angle between the pre-activations), w = (1 - rho^2)^(1/2) and arcsin rho, each with a bound of its
    error.

    Here i = 1 / (1 + f a) and k = (f a i)^(1/2), where f is the activation's `factor`. The numbers j and l are the same
    functions of b, and `both` is k l.
    """

    i: np.ndarray
    j: np.ndarray
    both: np.ndarray
    cosine: np.ndarray
    cosine_error: np.ndarray | float
    rho: np.ndarray
    rho_error: np.ndarray
    w: np.ndarray
    w_error: np.ndarray
    inverse: np.ndarray  # 1 / w
    inverse_error: np.ndarray
    value: np.ndarray
    error: np.ndarray
    delta: float  # relative error of the product of the norms of two rows


class _Moments(NamedTuple):
    """E[phi(u) phi(v)] divided by the units of both rows (`Smooth.units`), and E[phi'(u) phi'(v)], with bounds of their
    errors.
    """

    share: np.ndarray
    share_error: np.ndarray
    slope: np.ndarray
    slope_error: np.ndarray


class Smooth(ABC):
    """An activation whose moments are functions of a, b and the angle through `_Arcsine`."""

    gain, homogeneous = 1.0, False
    factor: float  # f of `_Arcsine`
    growth: float  # bound of the growth of the rows' relative error: |u phi'(u)| / |phi(u)| in mean square

    @abstractmethod
    def units(self, rows: Rows) -> np.ndarray:
        """The unit in which the root of E[phi(u)^2] is measured; the unit is chosen so that nothing underflows."""

    @abstractmethod
    def roots(self, rows: Rows) -> np.ndarray:
        """The root of E[phi(u)^2] in these units."""

    @abstractmethod
    def slopes(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The roots of E[phi'(u)^2] and of E[phi''(u)^2], or upper bounds of them."""

    @abstractmethod
    def moments(self, t: _Arcsine) -> _Moments:
        """The two moments in closed form."""

    def start(self, angle: np.ndarray, error: float) -> Pairs:
        """The stored errors are errors of h and g."""
        h, g = halved(angle)
        return Pairs(h, g, np.sqrt(h * g) * error + error**2)

    def turned(self, pairs: Pairs, share: np.ndarray, angle: float) -> np.ndarray | float:
        """The error of h and g. A rounding error of the angle changes h by half the sine of the angle times this error,
        and by a term of second order.
        """
        # The root is computed from h and g, which have errors. The error of the root times `angle` is at most 1/16 of
        # the error of h and g, plus 4 angle^2.
        return 17 / 16 * share * pairs.error + np.sqrt(pairs.h * pairs.g) * angle + 5 * angle**2

    def rows(self, rows: Rows) -> Rows:
        """The roots of E[phi(u)^2]."""
        return Rows(self.units(rows) * self.roots(rows), self.growth * rows.error + 20 * U)

    def dual(self, pairs: Pairs, left: Rows, right: Rows) -> Dual:
        """The two moments and the angles between phi(u) and phi(v); the angle between equal rows stays exactly 0."""
        formulas = self.moments(self._arcsine(pairs, left, right))
        rounding = self.moments(self._arcsine(pairs._replace(error=0.0), left, right))
        # There are two bounds for the effect of the cosine's error. One follows from the formulas, the other from
        # Price's theorem, d E[f f] / dc = E[f' f'], with the Cauchy-Schwarz inequality. The smaller bound is taken. The
        # effect of rounding follows from the formulas.
        moved = 2.02 * pairs.error * (left.norm * right.norm)
        (first, second), (third, fourth) = self.slopes(left), self.slopes(right)
        unit, roots = self.units(left) * self.units(right), self.roots(left) * self.roots(right)
        share_error = np.minimum(
            formulas.share_error, rounding.share_error + moved / np.where(unit > 0, unit, 1) * (first * third)
        )
        slope_error = np.minimum(formulas.slope_error, rounding.slope_error + moved * (second * fourth))
        seen = np.where(roots > 0, roots, 1)  # a patch of zeros has no angle; 90 degrees is used
        cosine = formulas.share / seen
        error = share_error / seen + np.abs(cosine) * (self.growth * (left.error + right.error) + 44 * U)
        equal = (pairs.h == 0) & (left.norm == right.norm)
        cosine = np.where(equal, 1.0, np.clip(cosine, -1, 1))
        new = Pairs((1 - cosine) / 2, (1 + cosine) / 2, np.where(equal, error, error / 2))
        share_error += np.abs(formulas.share) * (left.error + right.error + 4 * U)
        return Dual(unit * formulas.share, unit * share_error, formulas.slope, slope_error, new)

    def parts(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The i and k^2 of `_Arcsine` for each row."""
        size = self.factor * (rows.norm * rows.norm)
        inverse = 1 / (1 + size)
        return inverse, size * inverse

    def _arcsine(self, pairs: Pairs, left: Rows, right: Rows) -> _Arcsine:
        (i, k2), (j, l2) = self.parts(left), self.parts(right)
        h, g, error = pairs
        delta = left.error + right.error
        # below 2^-1022 the product k^2 l^2 may lose bits
        both, cosine, sine2 = np.sqrt(k2) * np.sqrt(l2), g - h, 4 * (h * g)
        both2 = k2 * l2
        floor = i * j + (k2 * j + i * l2)  # w^2 = 1 - rho^2 as a sum of positive terms
        w2 = floor + both2 * sine2
        w = np.sqrt(w2)
        rho = both * cosine
        # h and g have the absolute error e and the relative error 32 u. So 4 h g is off by at most the sum of 4 e (as h
        # + g = 1), 64 u of itself, and e^2.
        sine2_error = 4 * error + 70 * U * sine2 + 4 * (error + RELATIVE) ** 2
        cosine_error = 2 * error + RELATIVE
        w2_error = (2 * delta + 20 * U) * w2 + both2 * sine2_error
        w_error = np.minimum(w2_error / w, np.sqrt(w2_error))
        rho_error = both * (cosine_error + np.abs(cosine) * (delta + 12 * U))
        inverse, least = 1 / w, np.maximum(0.99 * np.sqrt(floor), w - w_error)
        inverse_error = np.minimum(w_error * inverse, 1) / least + 2 * U * inverse
        value = np.arctan2(rho, w)
        # T is the computed arcsine and T* the exact one. sin(T - T*) = rho w* - w rho* since (rho, w) and (rho*, w*)
        # are points of the unit circle. If these points are far apart, the bound is the whole range of the arcsine.
        near = w_error + rho_error < 0.02
        moved = np.where(near, 1.05 * (np.abs(rho) * w_error + w * rho_error), np.pi) + 12 * U * np.abs(value)
        known = rho, rho_error, w, w_error, inverse, inverse_error, value, moved
        return _Arcsine(i, j, both, cosine, cosine_error, *known, delta)


class Erf(Smooth):
    """erf: E[phi phi] = (2/pi) arcsin(2 c / (A B)^(1/2)), E[phi' phi'] = (4/pi) / (A B - 4 c^2)^(1/2), A = 1 + 2 a.

    Source: Williams 1997, Computing with infinite networks.
    """

    factor, growth = 2.0, 1.0  # u erf'(u) <= erf(u)

    def units(self, rows: Rows) -> np.ndarray:
        """(2/pi)^(1/2) for every row."""
        return np.full_like(rows.norm, np.sqrt(2 / np.pi))

    def roots(self, rows: Rows) -> np.ndarray:
        """The root of arcsin(2 a / (1 + 2 a))."""
        i, k2 = self.parts(rows)
        return np.sqrt(np.arctan2(k2, np.sqrt(i * (1 + k2))))

    def slopes(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """E[phi'^2] = (4/pi) / (1+4a)^(1/2) and E[phi''^2] = (16/pi) a / (1+4a)^(3/2) < (4/pi) / (1+4a)^(1/2)."""
        root = np.sqrt(4 / np.pi) * (1 + 4 * rows.norm * rows.norm) ** -0.25
        return root, root

    def moments(self, t: _Arcsine) -> _Moments:
        """E[phi phi] is arcsin(rho) in these units, E[phi' phi'] = (4/pi) (i j)^(1/2) / w."""
        level = 4 / np.pi * (np.sqrt(t.i) * np.sqrt(t.j))
        slope = level * t.inverse
        return _Moments(t.value, t.error.copy(), slope, level * t.inverse_error + slope * (t.delta + 16 * U))


class Gelu(Smooth):
    """u P(u), with P the Gaussian distribution function; the moments follow by Stein's identity.

    With A = 1 + a, B = 1 + b, D = A B - c^2 and T = arcsin(c / (A B)^(1/2)):
    E[phi phi] = c/4 + (c T + (c^2 + a b D) / (A B D^(1/2))) / (2 pi),
    E[phi' phi'] = 1/4 + (T + c (1/A + 1/B + 1/D) / D^(1/2)) / (2 pi).
    """

    # u phi' = phi + u^2 p(u), where p is the Gaussian density. E[u^4 p^2] = 3 a^2 / (2 pi (1+2a)^(5/2)), divided by a/4
    # <= E[phi^2], is largest at a = 1/3.
    factor, growth = 1.0, 1.43

    def units(self, rows: Rows) -> np.ndarray:
        """The standard deviations of the rows, a^(1/2)."""
        return rows.norm

    def roots(self, rows: Rows) -> np.ndarray:
        """The root of E[phi(u)^2] / a, which is from 1/4 to 1/2."""
        i, k2 = self.parts(rows)
        w = np.sqrt(i * (1 + k2))
        return np.sqrt(0.25 + (np.arctan2(k2, w) + k2 * (w + i * i / w)) / (2 * np.pi))

    def slopes(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """|phi'| < 1.13; E[phi''^2] = E[(2 - u^2)^2 exp(-u^2)] / (2 pi) <= (2/pi) / (1+2a)^(1/2)."""
        return np.full_like(rows.norm, 1.13), np.sqrt(2 / np.pi) * (1 + 2 * rows.norm * rows.norm) ** -0.25

    def moments(self, t: _Arcsine) -> _Moments:
        """The two moments in terms of rho = c / (A B)^(1/2) and w = (D / (A B))^(1/2)."""
        ij, square, size = t.i * t.j, t.cosine * t.cosine, np.abs(t.cosine)
        bent = ij * square * t.inverse
        curve = t.value * t.cosine + t.both * (t.w + bent)
        largest_inverse = t.inverse + t.inverse_error
        bent_error = ij * ((2 * size + t.cosine_error) * t.cosine_error * largest_inverse + square * t.inverse_error)
        curve_error = (np.abs(t.value) + t.error) * t.cosine_error + size * t.error + 4 * U * np.abs(t.value) * size
        curve_error += t.both * (t.w_error + bent_error + (3 * t.delta + 24 * U) * (t.w + bent))
        share = t.cosine / 4 + curve / (2 * np.pi)
        share_error = t.cosine_error / 4 + curve_error / (2 * np.pi) + 2 * U * (size + np.abs(curve))
        steep = ij * (t.inverse * t.inverse)
        steep_error = ij * (t.inverse_error * (t.inverse + largest_inverse))
        total, tilt = t.i + t.j + steep, t.rho * t.inverse
        tilt_error = t.rho_error * largest_inverse + np.abs(t.rho) * t.inverse_error
        slope = 0.25 + (t.value + tilt * total) / (2 * np.pi)
        off = tilt_error * (total + steep_error) + np.abs(tilt) * (steep_error + (2 * t.delta + 24 * U) * total)
        return _Moments(share, share_error, slope, (t.error + off) / (2 * np.pi) + 8 * U)
