"""Hypothesis strategies for data, partitions, labels, problems and setups, and for the parts of cases.

Every range is a pair (lowest, highest), and includes both ends. Every argument is keyword-only, except the number of
samples of a partition or of labels. Directions are small integer vectors, which are then normalised. For this reason
examples shrink to vectors such as (1, 0), and equal, opposite and dependent rows are recognised exactly.

The parts of cases are sizes, points, networks, targets and steps. Sizes are small. Ranges are wide, since every
counterexample search draws from these strategies. A search skips the cases that do not meet the statement's hypotheses.
Step sizes are drawn relative to the eigenvalues that limit them, so that cases lie on both sides of each limit. The
strategies of whole cases are in the modules of the cases: `federated_runs`, `kernel_cases`, `initial_networks`,
`width_ladders`.
"""

from functools import lru_cache
from math import gcd, isqrt, log10
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ntkfl.initialisation import draw as gaussian
from ntkfl.messages import require_number, require_size
from ntkfl.problem import Problem, Setup, Weights

Range = tuple[int, int]
Interval = tuple[float, float]
Direction = tuple[int, ...]


class AntipodalFamily(NamedTuple):
    """Unit rows x (n, d) with pairs x, -x among them, and whether lambda_min(H_inf) > 0."""

    x: np.ndarray
    positive: bool


def unit_data(*, n: Range = (1, 6), d: Range = (1, 5), distinct: bool = False) -> SearchStrategy[np.ndarray]:
    """Data sets (n, d) of rows with norm 1 up to rounding: on a coarse or a fine grid, nearly orthogonal or clustered.

    Args:
        n: range of the number of rows, default (1, 6).
        d: range of the number of features, default (1, 5).
        distinct: whether no two rows may share a direction (in one dimension there are only two directions).

    Raises:
        ValueError: a range that is empty or starts below 1, or more distinct rows than the dimension allows.
    """
    _check_range("n", n)
    _check_range("d", d)
    if distinct and d[0] == 1 and n[0] > 2:
        raise ValueError(f"n is {n} and d is {d}: in one dimension at most 2 rows are distinct; let d start at 2")
    return _unit_data(n, d, distinct)


def nearly_parallel(
    *, angle: Interval = (1e-11, 1e-1), n: Range = (2, 6), d: Range = (2, 5), antipodal: bool = False
) -> SearchStrategy[np.ndarray]:
    """Unit data (n, d) whose rows 0 and 1 enclose an angle in this range (log-uniform), up to a rounding of 1e-15.

    Rows 2 and 3, rows 4 and 5, and so on, are further such pairs, or single rows. Rows of different pairs are well
    apart (about .02 rad or more by default), and each row is well apart from the opposite of any other. So the smallest
    eigenvalue of the two-layer ReLU kernel is of the order of the smallest angle.

    Args:
        angle: range of the angle, radians, within (0, 0.1]; default (1e-11, 0.1).
        n: range of the number of rows; its lower end is at least 2; default (2, 6).
        d: range of the number of features; its lower end is at least 2; default (2, 5).
        antipodal: whether the second row of each pair is multiplied by -1, so that the pair's angle is pi minus an
            angle in the range.

    Raises:
        ValueError: a range that is empty or exceeds the ranges above.
    """
    _check_range("n", n, lowest=2)
    _check_range("d", d, lowest=2)
    if not 0 < angle[0] <= angle[1] <= 0.1:
        raise ValueError(f"angle is {angle}; it must be (lowest, highest) with 0 < lowest <= highest <= 0.1 rad")
    return _nearly_parallel(tuple(angle), n, d, antipodal)


def antipodal_families(*, d: Range = (2, 5)) -> SearchStrategy[AntipodalFamily]:
    """Unit data with antipodal pairs, and whether lambda_min(H_inf) of these data is positive.

    lambda_min(H_inf) is positive exactly when one row of each pair can be chosen so that the chosen rows are linearly
    independent. The reason is that the features f_x(w) = x 1{w.x >= 0} satisfy f_x - f_{-x} = x. So a linear relation
    of the chosen rows is a linear relation of the features. Up to three further rows belong to no pair; no two rows are
    equal.

    Args:
        d: range of the number of features; its lower end is at least 2, since a single pair is always independent;
            default (2, 5).

    Raises:
        ValueError: a range that is empty or starts below 2.
    """
    _check_range("d", d, lowest=2)
    return _antipodal_families(d)


def partitions(n: int, *, clients: Range = (1, 4)) -> SearchStrategy[np.ndarray]:
    """Owner arrays (n,), which give the client of each sample. Every client 0..N-1 owns at least one of the n samples.

    Args:
        n: number of samples.
        clients: smallest and largest number of clients, default (1, 4).

    Raises:
        ValueError: no sample, an empty range, or more clients than samples.
    """
    _check_range("clients", clients)
    if n < clients[0]:
        raise ValueError(
            f"n is {n} and clients {clients}: every client needs a sample, so n must be {clients[0]} or more"
        )
    return _partitions(n, clients)


def labels(n: int, *, bound: float = 1.0) -> SearchStrategy[np.ndarray]:
    """Labels (n,). Either all have absolute value `bound`, or they lie anywhere in [-bound, bound].

    Args:
        n: number of samples.
        bound: largest size of a label, default 1.

    Raises:
        ValueError: no sample, or a bound that is not positive and finite.
    """
    require_size("n", n)
    require_number("bound", bound, "be a positive finite number")
    return _labels(n, bound)


def problems(
    *, x: SearchStrategy[np.ndarray] | None = None, clients: Range = (1, 4), bound: float = 1.0
) -> SearchStrategy[Problem]:
    """Problems: data, a partition of it, and labels.

    Args:
        x: a strategy that draws data (n, d); default unit_data().
        clients: smallest and largest number of clients, both included; default (1, 4).
        bound: largest size of a label; default 1.

    Raises:
        ValueError: as `partitions` and `labels`; or, at a draw, fewer rows than the smallest number of clients.
    """
    _check_range("clients", clients)
    labels(1, bound=bound)
    return _problems(unit_data() if x is None else x, clients, bound)


def setups(
    *,
    width: Range = (1, 64),
    sigma: Interval = (0.5, 2.0),
    eta_local: Interval = (0.01, 0.3),
    eta_global: Interval = (0.5, 1.5),
    local_steps: Range = (1, 3),
    rounds: Range = (1, 5),
    seed: Range = (0, 2**16),
) -> SearchStrategy[Setup]:
    """Setups of Algorithm 1 with each field in its range; the defaults are quick to run.

    Args:
        width: smallest and largest m; default (1, 64).
        sigma: smallest and largest standard deviation, positive; default (0.5, 2.0).
        eta_local: smallest and largest step of the clients, positive; default (0.01, 0.3).
        eta_global: smallest and largest step of the server, positive; default (0.5, 1.5).
        local_steps: smallest and largest K; default (1, 3).
        rounds: smallest and largest T; default (1, 5).
        seed: smallest and largest seed; default (0, 65536).

    Raises:
        ValueError: a range that is empty, or has values that Setup refuses.
    """
    integers = {"width": width, "local_steps": local_steps, "rounds": rounds}
    floats = {"sigma": sigma, "eta_local": eta_local, "eta_global": eta_global}
    for name, bounds in integers.items():
        _check_range(name, bounds)
    _check_range("seed", seed, lowest=0)
    for name, (low, high) in floats.items():
        if not 0 < low <= high < np.inf:
            raise ValueError(f"{name} is {(low, high)}; it must be (lowest, highest), positive, finite and not empty")
    drawn = {name: st.integers(*bounds) for name, bounds in (integers | {"seed": seed}).items()}
    return st.builds(Setup, **drawn, **{name: st.floats(*bounds) for name, bounds in floats.items()})


@lru_cache(typed=True)  # `typed` keeps bound 1, with integer labels, apart from bound 1.0, with floats
def _labels(n: int, bound: float) -> SearchStrategy[np.ndarray]:
    entries = st.sampled_from([bound, -bound]), st.floats(-bound, bound, allow_subnormal=False)
    return st.one_of([st.lists(entry, min_size=n, max_size=n).map(np.array) for entry in entries])


def _check_range(name: str, bounds: Range, lowest: int = 1) -> None:
    if not (isinstance(bounds, tuple) and len(bounds) == 2 and all(isinstance(b, int | np.integer) for b in bounds)):
        raise ValueError(f"{name} is {bounds!r}; it must be a pair of integers (lowest, highest)")
    if not lowest <= bounds[0] <= bounds[1]:
        raise ValueError(f"{name} is {bounds}; it must be (lowest, highest) with {lowest} <= lowest <= highest")


def _normalised(rows) -> np.ndarray:
    x = np.asarray(rows, float)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _primitive(row: Direction) -> Direction:
    """The shortest integer vector of this direction, the same for all parallel rows."""
    return tuple(entry // gcd(*row) for entry in row)


def _axis(row: Direction) -> Direction:
    """The shortest integer vector of this axis, the same for all parallel and antipodal rows."""
    return max(_primitive(row), _primitive(tuple(-entry for entry in row)))


@lru_cache
def _grid(d: int, size: int, longest: int) -> SearchStrategy[Direction]:
    """Integer vectors (d,) with entries from -`size` to `size`; the zero vector is replaced by (1, 0, ..., 0).

    For every d, `longest` entries are drawn and the last d of them are kept. So an example can shrink to fewer
    features, since for Hypothesis (0, 0, 1) is simpler than (1, 0, 0).
    """
    entries = st.tuples(*[st.integers(-size, size)] * longest)
    return entries.map(lambda row: row[-d:] if any(row[-d:]) else (1,) + (0,) * (d - 1))


def _grid_size(n: int) -> int:
    """The largest entry of the integer vectors.

    With entries up to this size there are n directions in the plane that are well apart.
    """
    return max(3, isqrt(2 * n))


@lru_cache
def _around(centre: Direction, size: int, longest: int) -> SearchStrategy[Direction]:
    """Integer vectors whose entries differ by at most `size` from the entries of a centre longer than `size`."""
    offset = st.tuples(*[st.integers(-size, size)] * longest)
    return offset.map(lambda step: tuple(a + b for a, b in zip(centre, step[-len(centre) :], strict=True)))


def _scaled(row: Direction, factor: int) -> Direction:
    return tuple(factor * entry for entry in row)


def _drawn_from(draw: DrawFn, kind: str, d: int, size: int, longest: int) -> SearchStrategy[Direction]:
    """A strategy from which all rows of a data set are drawn. For a cluster, this function draws the common centre."""
    match kind:
        case "grid":
            return _grid(d, size, longest)
        case "spread":
            return _grid(d, 10**6, longest)
        case "nearly orthogonal":
            axes = [_scaled(tuple(int(j == k) for j in range(d)), sign * 1000) for k in range(d) for sign in (1, -1)]
            return st.sampled_from(axes).flatmap(lambda axis: _around(axis, 10, longest))
        case _:
            return _around(_scaled(draw(_grid(d, 2, longest)), 10 ** draw(st.integers(2, 6))), size, longest)


@lru_cache  # without the cache each draw builds and validates the strategy again, which takes most of its time
@st.composite
def _unit_data(draw: DrawFn, n: Range, d: Range, distinct: bool) -> np.ndarray:
    features = draw(st.integers(*d))
    if distinct and features == 1:
        return np.array(draw(st.sampled_from([[[1.0]], [[1.0], [-1.0]]][n[0] - 1 : n[1]])))
    kind = draw(st.sampled_from(["grid", "spread", "nearly orthogonal", "clustered"]))
    row = _drawn_from(draw, kind, features, _grid_size(n[1]), d[1])
    return _normalised(draw(st.lists(row, min_size=n[0], max_size=n[1], unique_by=_primitive if distinct else None)))


@lru_cache
def _powers(angle: Interval) -> SearchStrategy[float]:
    """Angles that are log-uniform in the range."""
    return st.floats(log10(angle[0]), log10(angle[1])).map(lambda power: min(max(10**power, angle[0]), angle[1]))


@lru_cache
@st.composite
def _nearly_parallel(draw: DrawFn, angle: Interval, n: Range, d: Range, antipodal: bool) -> np.ndarray:
    features, size = draw(st.integers(*d)), draw(st.integers(*n))
    pairs = draw(st.integers(1, size // 2))
    grid = _grid(features, _grid_size(size), d[1])
    base = draw(st.lists(grid, min_size=size - pairs, max_size=size - pairs, unique_by=_axis))
    rows: list[np.ndarray] = []
    for direction in base[:pairs]:
        x, across = _normalised([direction, draw(_orthogonal_to(direction))])
        small = draw(_powers(angle))
        partner = np.cos(small) * x + np.sin(small) * across
        rows += [x, -partner if antipodal else partner]
    return np.array(rows + [_normalised([row])[0] for row in base[pairs:]])


@lru_cache
def _orthogonal_to(row: Direction) -> SearchStrategy[Direction]:
    """Integer vectors exactly orthogonal to this vector, in the plane of its largest entry and another entry."""
    largest = max(range(len(row)), key=lambda j: abs(row[j]))

    def turned(other: int, sign: int) -> Direction:
        entries = [0] * len(row)
        entries[other], entries[largest] = sign * row[largest], -sign * row[other]
        return tuple(entries)

    return st.builds(turned, st.sampled_from([j for j in range(len(row)) if j != largest]), st.sampled_from([1, -1]))


@lru_cache
@st.composite
def _antipodal_families(draw: DrawFn, d: Range) -> AntipodalFamily:
    features, positive = draw(st.integers(*d)), draw(st.booleans())
    count = draw(st.integers(1 if positive else 2, features))
    # the rows of a unit triangular matrix with permuted columns are independent for any other entries
    below = [draw(st.lists(st.integers(-2, 2), min_size=i, max_size=i)) for i in range(count)]
    columns = [j for j in draw(st.permutations(range(d[1]))) if j < features]
    triangular = [[*row, 1, *[0] * (features - len(row) - 1)] for row in below]
    chosen = [tuple(row[j] for j in columns) for row in triangular]
    if not positive:
        # a combination of two or more independent rows is not parallel to any of them
        terms = draw(st.integers(2, count))
        factors = draw(st.lists(st.sampled_from([1, -1, 2, -2]), min_size=terms, max_size=terms))
        parts = [_scaled(row, factor) for row, factor in zip(chosen, factors, strict=False)]
        chosen.append(tuple(sum(column) for column in zip(*parts, strict=True)))
    taken = {_axis(row) for row in chosen}
    others = draw(st.lists(_grid(features, 3, d[1]), max_size=3, unique_by=_axis))
    paired = [row for row_of in chosen for row in (row_of, _scaled(row_of, -1))]
    return AntipodalFamily(_normalised(paired + [row for row in others if _axis(row) not in taken]), positive)


@lru_cache
@st.composite
def _partitions(draw: DrawFn, n: int, clients: Range) -> np.ndarray:
    count = draw(st.integers(clients[0], min(clients[1], n)))
    owner = np.array(draw(st.lists(st.integers(0, count - 1), min_size=n, max_size=n)))
    # the number of draws does not depend on `count`, so that Hypothesis takes count 1 as the simplest
    owner[draw(st.permutations(range(n)))[:count]] = range(count)
    return owner


@st.composite
def _problems(draw: DrawFn, x: SearchStrategy[np.ndarray], clients: Range, bound: float) -> Problem:
    rows = draw(x)
    owner = draw(partitions(len(rows), clients=clients))
    return Problem(x=rows, y=draw(labels(len(rows), bound=bound)), owner=owner, name="drawn")


def log_uniform(low: float, high: float) -> SearchStrategy[float]:
    """Positive numbers of two significant digits, log-uniform; the number nearest to 1 is the simplest.

    Raises:
        ValueError: a range that is empty, or not positive and finite.
    """
    if not 0 < low <= high < np.inf:
        raise ValueError(f"the range is {(low, high)}; it must be (lowest, highest), positive, finite and not empty")
    exponents = st.floats(np.log10(low), np.log10(high))
    return exponents.map(lambda power: min(max(float(f"{10**power:.2g}"), low), high))


def sizes(low: int, high: int) -> SearchStrategy[int]:
    """Integers that are log-uniform."""
    return log_uniform(low, high).map(lambda size: min(max(round(size), low), high))


def points(n: Range = (1, 3), d: Range = (1, 3)) -> SearchStrategy[np.ndarray]:
    """Unit rows (n, d), no two equal; in two or more dimensions also nearly parallel rows."""
    spread = [unit_data(n=n, d=(max(2, d[0]), max(2, d[1])), distinct=True)]
    if d[0] == 1:
        spread.append(unit_data(n=(1, min(2, n[1])), d=(1, 1), distinct=True))
    if n[1] >= 2 and d[1] >= 2:
        spread.append(nearly_parallel(angle=(1e-4, 1e-1), n=(max(2, n[0]), n[1]), d=(max(2, d[0]), d[1])))
    return st.one_of(spread)


@st.composite
def networks(draw: DrawFn, d: int, width: Range = (1, 64)) -> Weights:
    """Networks on d features: Gaussian, or a few groups of equal neurons whose weights are small integers.

    The sizes of the groups are log-uniform up to four times the largest width. So groups of a few neurons are as
    frequent as groups of many.
    """
    if draw(st.booleans()):
        return gaussian(draw(sizes(*width)), d, draw(st.integers(0, 2**16)))
    rows = st.lists(st.integers(-3, 3), min_size=d, max_size=d).filter(any)
    groups = draw(
        st.lists(st.tuples(sizes(1, 4 * width[1]), rows, st.sampled_from([1.0, -1.0])), min_size=1, max_size=4)
    )
    counts = [count for count, _, _ in groups]
    return Weights(
        np.repeat(np.array([row for _, row, _ in groups], float), counts, axis=0),
        np.repeat([sign for _, _, sign in groups], counts),
    )


@st.composite
def targets(draw: DrawFn, outputs: np.ndarray) -> np.ndarray:
    """Labels (n,) of one of three sorts.

    All labels have absolute value 1, or they lie anywhere in [-1, 1], or they are the outputs plus a residual of any
    size and direction.
    """
    n = len(outputs)
    if draw(st.booleans()):
        return draw(labels(n))
    direction = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    return outputs + draw(log_uniform(1e-8, 10)) * np.array(direction, float)


@st.composite
def steps(
    draw: DrawFn, largest_block: float, largest: float, clients: int, local_steps: Range, rounds: Range
) -> dict[str, Any]:
    """The steps and rounds of a Setup. eta_l is drawn relative to the largest eigenvalue of a client's block.

    eta_g is drawn directly, or through rho = eta_g eta_l K / N, which is drawn relative to |H|.
    """
    k = draw(st.integers(*local_steps))
    eta_local = draw(log_uniform(1e-4, 8)) / (largest_block or 1.0)
    eta_global = draw(
        st.one_of(log_uniform(0.05, 4), log_uniform(1e-2, 4).map(lambda u: u * clients / (eta_local * k * largest)))
        if largest
        else log_uniform(0.05, 4)
    )
    return {
        "eta_local": float(eta_local),
        "eta_global": float(eta_global),
        "local_steps": k,
        "rounds": draw(sizes(*rounds)),
    }


def largest_block(h: np.ndarray, owner: np.ndarray) -> float:
    """The largest eigenvalue of any client's block of a Gram matrix, 0 if all blocks vanish."""
    return largest_eigenvalue(h * (owner[:, None] == owner))


def largest_eigenvalue(h: np.ndarray) -> float:
    """The largest eigenvalue of a Gram matrix, 0 if the matrix vanishes."""
    return max(float(np.linalg.eigvalsh(h)[-1]), 0.0)
