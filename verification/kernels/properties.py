"""The properties of kernels. Each property has the data on which the property is tried, and a number on which the
judgement rests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.strategies import antipodal_families, nearly_parallel, unit_data
from ntkfl.double_precision import jax_in_float64

Kernel = Callable[..., Any]
Predicate = Callable[[np.ndarray], bool | None]


class Unusable(Exception):
    """Raised if the kernel returned no finite array of the right shape."""


class Judgement(NamedTuple):
    """A number measured on data x (and z), its allowed range, and the entries of the kernel from which it comes."""

    value: float
    allowed: tuple[float, float]
    explanation: str
    x: np.ndarray
    z: np.ndarray | None = None
    entry: tuple[int, ...] = ()
    note: str = ""  # text for the report, whatever the outcome is
    unresolved: str = ""  # why the property cannot be decided; if set, it neither holds nor is broken

    @property
    def margin(self) -> float:
        """The distance to the nearest end of the allowed range, negative outside the range."""
        return min(self.value - self.allowed[0], self.allowed[1] - self.value)


@dataclass(frozen=True)
class Property:
    """A property: its requirement, the Hypothesis strategy for its data, and a function that judges one draw.

    The function returns None if the property does not apply to the draw.
    """

    name: str
    requirement: str
    data: SearchStrategy[Any]
    judge: Callable[[Any], Judgement | None]


def output(kernel: Kernel, x: np.ndarray, z: np.ndarray | None = None, name: str = "k") -> np.ndarray:
    """The kernel's array (n, n').

    Raises:
        Unusable: the kernel raised an exception, or the array has another shape, is not real, or is not finite.
    """
    call = f"{name}(x)" if z is None else f"{name}(x, z)"
    shape = (len(x), len(x if z is None else z))
    try:
        with np.errstate(all="ignore"), jax_in_float64():
            value = np.asarray(kernel(x.copy()) if z is None else kernel(x.copy(), z.copy()))
    except Exception as error:  # any exception of a user's function is a finding about that function
        raise Unusable(f"{call} raised {type(error).__name__}: {error}") from error
    if value.shape != shape:
        raise Unusable(f"{call} has shape {value.shape}; it must be {shape}")
    if value.dtype.kind not in "fiu":
        raise Unusable(f"{call} has dtype {value.dtype}; it must be real")
    if not np.isfinite(value).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        raise Unusable(f"{call}{list(where)} is {value[where]}; it must be finite")
    return value


def finite_output(kernel: Kernel, smallest_angle: float) -> Property:
    """The property that k(x), k(x, z) and k(z, x) are finite real arrays of the right shapes."""

    def judge(case: tuple[np.ndarray, np.ndarray]) -> Judgement:
        x, z = case
        for arguments in ((x,), (x, z), (z, x)):
            try:
                output(kernel, *arguments)
            except Unusable as error:
                other = arguments[1] if len(arguments) > 1 else None
                return Judgement(1.0, (-np.inf, 0.0), str(error), arguments[0], other)
        return Judgement(0.0, (-np.inf, 0.0), "", x, z)

    return Property(
        "finite output", "calls without a finite real array of the right shape", _pairs(smallest_angle), judge
    )


def symmetric(kernel: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that k(x) = k(x)^T."""

    def judge(x: np.ndarray) -> Judgement:
        k = output(kernel, x)
        return _difference(k, k.T, ("k(x)", "k(x)^T"), rounding, k, x)

    return Property("symmetric", f"k(x) = k(x)^T {_SCALE}", _data(smallest_angle), judge)


def transposes(kernel: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that k(x, z) = k(z, x)^T."""

    def judge(case: tuple[np.ndarray, np.ndarray]) -> Judgement:
        x, z = case
        k = output(kernel, x, z)
        return _difference(k, output(kernel, z, x).T, ("k(x, z)", "k(z, x)^T"), rounding, output(kernel, x), x, z)

    return Property("transposes", f"k(x, z) = k(z, x)^T {_SCALE}", _pairs(smallest_angle), judge)


def consistent(kernel: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that k(x) = k(x, x)."""

    def judge(x: np.ndarray) -> Judgement:
        k = output(kernel, x)
        return _difference(k, output(kernel, x, x), ("k(x)", "k(x, x)"), rounding, k, x)

    return Property("consistent", f"k(x) = k(x, x) {_SCALE}", _data(smallest_angle), judge)


def agrees(kernel: Kernel, other: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that k(x) = other(x) and k(x, z) = other(x, z)."""

    def judge(case: tuple[np.ndarray, np.ndarray]) -> Judgement:
        judgements = []
        x = case[0]
        for z in (None, case[1]):
            k = output(kernel, x, z)
            try:
                beside = output(other, x, z, name="against")
            except Unusable as error:
                return Judgement(np.nan, (-np.inf, rounding), str(error), x, z)
            names = ("k(x)", "against(x)") if z is None else ("k(x, z)", "against(x, z)")
            judgements.append(_difference(k, beside, names, rounding, output(kernel, x), x, z))
        return min(judgements, key=lambda judgement: judgement.margin)

    return Property("agrees", f"k = against, entry by entry {_SCALE}", _pairs(smallest_angle), judge)


def rotation_invariant(kernel: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that k(x Q) = k(x) for rotations Q."""

    def judge(case: tuple[np.ndarray, np.ndarray]) -> Judgement:
        x, rotation = case
        turned = x @ rotation.T
        k = output(kernel, x)
        return _difference(k, output(kernel, turned), ("k(x)", "k(z), z = x rotated,"), rounding, k, x, turned)

    return Property("rotation invariant", f"k(x) = k(x Q) {_SCALE}", _rotated(smallest_angle), judge)


def homogeneous(kernel: Kernel, degree: float, rounding: float, smallest_angle: float) -> Property:
    """The property that k(c_i x_i, c_j x_j) = (c_i c_j)^degree k(x_i, x_j) for c > 0."""

    def judge(case: tuple[np.ndarray, np.ndarray]) -> Judgement:
        x, factors = case
        k, powers = output(kernel, x), factors**degree
        back = output(kernel, x * factors[:, None]) / np.outer(powers, powers)
        names = ("k(x)", f"k(z) / (c_i c_j)^{degree:g}, z_i = c_i x_i,")
        return _difference(k, back, names, rounding, k, x, x * factors[:, None])

    return Property("homogeneous", f"degree {degree:g} in each argument {_SCALE}", _scaled(smallest_angle), judge)


def positive_semidefinite(kernel: Kernel, rounding: float, smallest_angle: float) -> Property:
    """The property that no eigenvalue of k(x), brought to unit diagonal, is below -n * rounding, for n rows."""

    def judge(x: np.ndarray) -> Judgement:
        smallest, allowance = _spectrum(kernel, x, rounding)[0], len(x) * rounding
        return Judgement(smallest, (-allowance, np.inf), _eigenvalue(smallest, f"at least {-allowance:.2g}"), x)

    return Property("positive semi-definite", f"smallest eigenvalue {_DIAGONAL}", _data(smallest_angle), judge)


def strictly_positive(kernel: Kernel, claimed: Predicate, rounding: float, smallest_angle: float) -> Property:
    """The property that smallest eigenvalues are positive where this is claimed.

    Such an eigenvalue must be above the rounding error of an eigenvalue 0. `claimed` maps data to True where the kernel
    is claimed to be positive definite, to False where it is claimed to be singular, and to None where nothing is
    claimed.
    """

    def judge(x: np.ndarray) -> Judgement | None:
        if not claimed(x):
            return None
        smallest, resolved = _spectrum(kernel, x, rounding)
        return Judgement(smallest, (resolved, np.inf), _eigenvalue(smallest, f"above rounding, {resolved:.2g}"), x)

    data = _some_rows(st.one_of(_families(), nearly_parallel(angle=(smallest_angle, 0.1))))
    return Property("strictly positive where claimed", f"smallest eigenvalue {_DIAGONAL}", data, judge)


def singular_elsewhere(kernel: Kernel, claimed: Predicate, rounding: float) -> Property:
    """The property that smallest eigenvalues are zero where they are claimed not to be positive.

    Such an eigenvalue must be zero to within n * rounding, for n rows. `claimed` is as in `strictly_positive`.
    """

    def judge(x: np.ndarray) -> Judgement | None:
        claim = claimed(x)
        if claim is None or claim:
            return None
        smallest, allowance = _spectrum(kernel, x, rounding)[0], len(x) * rounding
        return Judgement(smallest, (-allowance, allowance), _eigenvalue(smallest, f"0 to within {allowance:.2g}"), x)

    data = _some_rows(st.one_of(unit_data(), _families()))
    return Property("singular elsewhere", f"smallest eigenvalue {_DIAGONAL}, not claimed positive", data, judge)


_SCALE = "(largest difference over the largest entry of k(x))"
_DIAGONAL = "of k(x) brought to unit diagonal"


def _difference(first, other, names, rounding: float, k, x, z=None) -> Judgement:
    """A judgement on the largest difference of two arrays, in units of the largest entry of k.

    A difference of at most `rounding` is allowed.
    """
    gap = np.abs(first - other)
    worst, scale = float(gap.max()), float(np.abs(k).max())
    i, j = (int(index) for index in np.unravel_index(gap.argmax(), gap.shape))
    difference = 0.0 if worst == 0 else worst / scale if scale else np.inf
    explanation = (
        f"{names[0]}[{i}, {j}] = {first[i, j]:.12g} and {names[1]} has {other[i, j]:.12g} there: "
        f"they differ by {difference:.2g} of the largest entry of k(x), required at most {rounding:.2g}"
    )
    return Judgement(difference, (-np.inf, rounding), explanation, x, z)


def _eigenvalue(smallest: float, required: str) -> str:
    return f"the smallest eigenvalue of k(x), brought to unit diagonal, is {smallest:.6g}; required: {required}"


def _spectrum(kernel: Kernel, x: np.ndarray, rounding: float) -> tuple[float, float]:
    """The smallest eigenvalue of k(x) at unit diagonal, and the rounding error of an eigenvalue 0.

    Scaling to unit diagonal is a congruence, so it keeps the signs of eigenvalues. An eigenvalue of an n x n matrix is
    computed to within a small multiple of n epsilon times the largest eigenvalue, and an entry to within a multiple of
    d epsilon. The bound 8 (n + d) epsilon times the largest eigenvalue covers both errors.

    Raises:
        Unusable: k(x) is not symmetric; the row on symmetry reports it.
    """
    k = output(kernel, x)
    epsilon = np.finfo(k.dtype if k.dtype.kind == "f" else float).eps
    k = k.astype(float)
    if np.abs(k - k.T).max() > rounding * np.abs(k).max():
        raise Unusable("k(x) is not symmetric, so no eigenvalue is judged")
    diagonal = np.diag(k)
    if (diagonal > 0).all():
        k = k / np.sqrt(diagonal[:, None]) / np.sqrt(diagonal)
    elif k.any():
        k = k / np.abs(k).max()
    values = np.linalg.eigvalsh((k + k.T) / 2)
    return float(values[0]), 8 * sum(x.shape) * epsilon * max(float(np.abs(values).max()), 1.0)


@cache  # cached, since a strategy that is made anew at each draw is also validated anew
def _families() -> SearchStrategy[np.ndarray]:
    return antipodal_families().map(lambda family: family.x)


@cache
def _data(smallest_angle: float, d: tuple[int, int] = (1, 5)) -> SearchStrategy[np.ndarray]:
    close = [nearly_parallel(angle=(smallest_angle, 0.1), antipodal=antipodal) for antipodal in (False, True)]
    return _some_rows(st.one_of(unit_data(d=d), *close, _families()))


@cache
def _mostly_true(count: int) -> SearchStrategy[list[bool]]:
    return st.lists(st.sampled_from([False] + 15 * [True]), min_size=count, max_size=count)


@st.composite
def _some_rows(draw: DrawFn, data: SearchStrategy[np.ndarray]) -> np.ndarray:
    """Most rows of the data, and at least one.

    Rows are left out so that a counterexample shrinks to the rows that matter.
    """
    x = draw(data)
    kept = draw(_mostly_true(len(x)))
    return x[kept] if any(kept) else x[:1]


@st.composite
def _pairs(draw: DrawFn, smallest_angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Two data sets with the same number of features. The data sets are independent, or have rows in common up to
    sign.
    """
    x = draw(_data(smallest_angle))
    d = x.shape[1]
    return x, draw(st.one_of(unit_data(d=(d, d)), st.sampled_from([x[:1], x[::-1], -x])))


@st.composite
def _rotated(draw: DrawFn, smallest_angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Data in two dimensions or more, and a rotation (d, d) that is made of up to three turns in coordinate planes."""
    x = draw(_data(smallest_angle, d=(2, 5)))
    d = x.shape[1]
    rotation = np.eye(d)
    for _ in range(draw(st.integers(1, 3))):
        i, shift, turn = draw(st.integers(0, d - 2)), draw(st.integers(1, d - 1)), draw(st.integers(1, 23)) * np.pi / 12
        plane = [i, min(i + shift, d - 1)]
        block = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        rotation[plane] = block @ rotation[plane]
    return x, rotation


@st.composite
def _scaled(draw: DrawFn, smallest_angle: float) -> tuple[np.ndarray, np.ndarray]:
    x = draw(_data(smallest_angle))
    factor = st.sampled_from([1.0, 2.0, 0.5, 3.0, 1e3, 1e-3])
    return x, np.array(draw(st.lists(factor, min_size=len(x), max_size=len(x))))
