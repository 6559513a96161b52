"""Bounds from both sides of quadratic forms x' f(A) x of a large symmetric matrix A.

They are computed by Lanczos's method and Gauss's quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, eigh_tridiagonal

from ntkfl import interruption
from ntkfl.gram.tiles import UNIT, HeldGram
from ntkfl.limit.round_modes import ClientModes
from ntkfl.memory import require

# the Krylov space is exhausted if the next vector, before it is scaled to norm 1, is below this times the largest entry
# of T
EXHAUSTED = 1e-12
ENTRIES = 2**26  # the largest number of entries in all vectors of those runs that share products
BLOCK = 512  # number of columns in one product, when a whole spectrum is computed


@dataclass(frozen=True)
class Lanczos:
    """The result of Lanczos's method: A V = V T + last v e' + R, started from a unit vector.

    T is tridiagonal, and the columns of V are orthonormal up to `skew`. v is the next unit vector after the columns of
    V, e is the last unit vector of coordinates, and R is the rest.
    """

    diagonal: Float[np.ndarray, " k"]
    beside: Float[np.ndarray, " k-1"]
    last: float
    residual: float  # |R|
    skew: float

    @classmethod
    def of(
        cls, product: Callable[[np.ndarray], np.ndarray], starts: Float[np.ndarray, "n C"], steps: int
    ) -> Iterator[tuple[Lanczos, Float[np.ndarray, "n k"]]]:
        """Yields the run from each start, with the run's V; a run ends early if its Krylov space is exhausted.

        Each product with A serves several runs, as long as their vectors have at most ENTRIES entries in all. Every
        vector is made orthogonal to all earlier vectors, twice.
        """
        n, count = starts.shape
        steps = min(steps, n)
        at_once = min(count, max(1, ENTRIES // (n * (steps + 1))))
        require("the Krylov space", lambda n, steps: 8 * n * at_once * (steps + 6), n=n, steps=steps)
        for first in range(0, count, at_once):
            yield from cls._together(product, starts[:, first : first + at_once], steps)

    @classmethod
    def _together(
        cls, product: Callable[[np.ndarray], np.ndarray], starts: Float[np.ndarray, "n C"], steps: int
    ) -> Iterator[tuple[Lanczos, Float[np.ndarray, "n k"]]]:
        n, count = starts.shape
        bases = np.zeros((count, steps + 1, n))  # the vectors of each run are rows
        bases[:, 0] = (starts / np.linalg.norm(starts, axis=0)).T
        diagonals, besides = np.zeros((count, steps)), np.zeros((count, steps + 1))  # T[k, k] and T[k, k - 1]
        ends, squares, largest = np.full(count, steps), np.zeros(count), np.zeros(count)
        for k in range(steps):
            interruption.check()
            now, rest = bases[:, k], np.ascontiguousarray(product(bases[:, k].T).T)
            diagonals[:, k] = (now * rest).sum(axis=1)
            off = rest - diagonals[:, k, None] * now  # after further subtractions `off` is column k of R
            if k:
                off -= besides[:, k, None] * bases[:, k - 1]
            for _ in range(2):
                along = bases[:, : k + 1] @ rest[:, :, None]
                rest -= (along.swapaxes(1, 2) @ bases[:, : k + 1])[:, 0]
            length = np.linalg.norm(rest, axis=1)
            largest = np.maximum(largest, np.maximum(np.abs(diagonals[:, k]), besides[:, k]))
            running = ends == steps
            ended = running & ((length <= EXHAUSTED * largest) | (k + 1 == n))
            on = running & ~ended
            ends[ended] = k + 1
            besides[on, k + 1] = length[on]
            bases[on, k + 1] = rest[on] / length[on, None]
            off[on] -= length[on, None] * bases[on, k + 1]
            squares[running] += (off[running] ** 2).sum(axis=1)
            if not on.any():
                break
        for number, end in enumerate(ends.tolist()):
            last = float(besides[number, end])
            skew = _skew(bases[number, : end + (last > 0)])
            run = cls(diagonals[number, :end], besides[number, 1:end], last, float(np.sqrt(squares[number])), skew)
            yield run, bases[number, :end].T

    @property
    def pairs(self) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k k"]]:
        """The eigenvalues of T, ascending, and the eigenvectors of T as columns."""
        return eigh_tridiagonal(self.diagonal, self.beside)

    def rules(self, low: float, high: float) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Nodes and weights of Gauss's rule, and of Lobatto's rule, which has `low` and `high` as nodes.

        All eigenvalues of T lie between `low` and `high`. If the even derivatives of the function are not negative, the
        integral is at least the value by Gauss's rule and at most the value by Lobatto's rule.

        Source: docs/proofs/linear_methods.md#what-is-left-by-quadrature.
        """
        gauss = _rule(self.diagonal, self.beside)
        if self.last == 0:
            return gauss, gauss
        at_low, at_high = (_last_of_inverse(self.diagonal - end, self.beside) for end in (low, high))
        squared = (high - low) / (at_low - at_high)
        corner = low + squared * at_low
        return gauss, _rule(np.append(self.diagonal, corner), np.append(self.beside, np.sqrt(squared)))


@dataclass(frozen=True)
class WholeSpectrum:
    """The whole spectrum: A V = V diag(diagonal) + R, where V has all eigenvectors, orthonormal up to `skew`.

    For many starts a whole spectrum takes less work than a Lanczos run from each start.
    """

    diagonal: Float[np.ndarray, " n"]  # the eigenvalues
    weights: Float[np.ndarray, " n"]  # the weights of one quadrature rule for all starts together
    residual: float  # |R|
    skew: float

    @classmethod
    def of(cls, product: Callable[[np.ndarray], np.ndarray], starts: Float[np.ndarray, "n C"]) -> WholeSpectrum:
        """The spectrum, by twice as many products as A has rows, computed `BLOCK` products at a time."""
        n = len(starts)
        require("the eigenvectors of a round", lambda n: 8 * (2 * n * n + 6 * n * min(n, BLOCK)), n=n)
        # LAPACK needs no copy of a matrix in this order, and it reads the lower triangle only
        whole = np.empty((n, n), order="F")
        for some in _pieces(n):
            whole[:, some] = product(np.eye(n, len(range(n)[some]), -some.start))
        values, vectors = eigh(whole, overwrite_a=True, driver="evr")
        del whole
        squared = 0.0  # R is computed from products with V; the products with the identity only served to find V
        for some in _pieces(n):
            squared += float(np.linalg.norm(product(vectors[:, some]) - vectors[:, some] * values[some])) ** 2
        residual = 1.01 * (np.sqrt(squared) + 4 * UNIT * float(np.linalg.norm(values)))
        weights = ((vectors.T @ starts) ** 2).sum(axis=1) / np.vdot(starts, starts)
        return cls(values, weights, residual, _skew(vectors.T))

    def rules(self, low: float, high: float) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """The nodes and weights of the spectrum, in place of both Gauss's rule and Lobatto's rule.

        The two rules are equal here, since a sum over all eigenvalues is exact. All eigenvalues lie between `low` and
        `high`.
        """
        rule = np.clip(self.diagonal, low, high), self.weights
        return rule, rule


def _skew(rows: Float[np.ndarray, "k n"]) -> float:
    """A bound of |Q Q' - I|_F, where Q is the matrix of these rows; the bound includes the rounding of the products."""
    rounded = 1.01 * (rows.shape[1] + 2) * UNIT * len(rows)
    off = [np.linalg.norm(rows @ rows[s].T - np.eye(len(rows), len(rows[s]), -s.start)) for s in _pieces(len(rows))]
    return float(np.linalg.norm(off)) + rounded


def _pieces(count: int) -> list[slice]:
    """Slices of the rows or columns, `BLOCK` in each."""
    return [slice(first, first + BLOCK) for first in range(0, count, BLOCK)]


def _rule(diagonal: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes, vectors = eigh_tridiagonal(diagonal, beside)
    return nodes, vectors[0] ** 2


def _last_of_inverse(diagonal: np.ndarray, beside: np.ndarray) -> float:
    """The last entry of the last column of the inverse of a definite tridiagonal matrix."""
    pivot = diagonal[0]
    for entry, off in zip(diagonal[1:], beside, strict=True):
        pivot = entry - off**2 / pivot
    return float(1 / pivot)


WHOLE = 500  # the largest number of samples for which the matrix is decomposed
SEARCHES = 16  # the largest number of functions of the clients' blocks whose largest eigenvalues are remembered
# number of products with H in a search; the largest number of Ritz vectors that are split off from A before the norm of
# what remains is taken
PRODUCTS, VECTORS = 60, 20
KRYLOV = 2 * PRODUCTS + 4 * VECTORS  # the largest number of vectors of length n that a search holds
TOGETHER = 512  # clients are grouped until a group has this many samples; the blocks of a group are multiplied together
SLACK = 1e-9  # allowance for rounding, relative to the squared Frobenius norm


@dataclass(eq=False)
class _Search:
    """The results of a search for the largest eigenvalue of A, where A depends on the values w of a function."""

    values: Float[np.ndarray, " n"]  # w
    # a Ritz value, the norm of its residual, and an upper bound of the eigenvalues, which is NaN until it is computed
    numbers: Float[np.ndarray, " c"]
    inside: Float[np.ndarray, "k k"]  # Q' A Q for the Ritz vectors Q
    crossing: Float[np.ndarray, " k"]  # |(I - Q Q') A Q| if Q is the first 1, 2, ... of the Ritz vectors

    def bound(self, squared: float) -> float:
        """An upper bound of the eigenvalues of A, if the squares of these eigenvalues sum to `squared`."""
        bounds = []
        for k, crossing in enumerate(self.crossing.tolist(), 1):
            inside = self.inside[:k, :k]
            outside = float(np.sqrt(max(squared - np.vdot(inside, inside), 0) + SLACK * squared))
            top = float(np.linalg.eigvalsh(inside)[-1])
            bounds.append((top + outside) / 2 + np.hypot((top - outside) / 2, crossing))
        return float(min(bounds)) * (1 + SLACK)


@dataclass(frozen=True, eq=False)
class LargestEigenvalues:
    """The largest eigenvalues of matrices A = V D V' H V D V' with the stored H.

    V are the bases of the clients' blocks, and D^2 = diag(w) for the values w of a function of the blocks. If the
    entries of w are multiplied by factors c_i, the largest eigenvalue is multiplied by a factor between the least and
    the largest c_i. So one search is enough for all multiples of w, and thus for all server rates.

    Source: docs/proofs/linear_methods.md#rounds-without-a-matrix.
    """

    gram: HeldGram
    clients: ClientModes
    _searches: list[_Search] = field(default_factory=list)

    def near(self, values: Float[np.ndarray, " n"]) -> tuple[float, float]:
        """A lower bound of the largest eigenvalue, and a distance.

        The residual of the search shows that an eigenvalue lies within this distance of the bound.
        """
        search, least, most = self._of(values)
        value, off = search.numbers[:2].tolist()
        return least * value, most * (value + off) - least * value

    def at_most(self, values: Float[np.ndarray, " n"]) -> float:
        """An upper bound of the eigenvalues."""
        search, _, most = self._of(values)
        if np.isnan(search.numbers[2]):
            search.numbers[2] = search.bound(_squared(self.gram, self.clients, np.sqrt(search.values)))
        return most * float(search.numbers[2])

    @property
    def together(self) -> float:
        """The Frobenius norm of those orthonormal vectors that are multiplied by A to compute an upper bound.

        The norm is needed because each product has a rounding error of its own.
        """
        return float(np.sqrt(n if (n := len(self.gram)) <= WHOLE else VECTORS))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All results so far, by name, to be saved in a file."""
        return {f"{name}_{i}": part for i, search in enumerate(self._searches) for name, part in vars(search).items()}

    def recall(self, kept: Mapping[str, np.ndarray]) -> None:
        """Take from the arrays of a file the results that are missing here."""
        for i in range(sum(name.startswith("crossing_") for name in kept)):
            search = _Search(*(kept[f"{of.name}_{i}"] for of in fields(_Search)))
            known = next((known for known in self._searches if np.array_equal(known.values, search.values)), None)
            if known is None:
                self._searches.append(search)
            elif np.isnan(known.numbers[2]):
                known.numbers = search.numbers

    def _of(self, values: Float[np.ndarray, " n"]) -> tuple[_Search, float, float]:
        """The search for these values or for a multiple of them, and two factors.

        Each of these values is divided by the search's value at the same place. The factors are the least and the
        largest of these quotients.
        """
        for search in self._searches:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                factors = np.where(values == search.values, 1.0, values / search.values)
            least, most = float(factors.min()), float(factors.max())
            if 0 < most < np.inf and most - least <= SLACK * most:
                return search, least, most
        self._searches.append(self._search(values))
        del self._searches[:-SEARCHES]
        return self._searches[-1], 1.0, 1.0

    def _search(self, values: Float[np.ndarray, " n"]) -> _Search:
        root = np.sqrt(values)

        def product(v: np.ndarray) -> np.ndarray:
            return self.clients.apply(root, self.gram @ self.clients.apply(root, v))

        n, bound = len(self.gram), np.nan
        if n <= WHOLE:
            whole = product(np.eye(n))
            known, vectors = np.linalg.eigh((whole + whole.T) / 2)
            basis, bound = vectors[:, -1:], float(known[-1]) * (1 + SLACK)
        else:
            ((run, krylov),) = Lanczos.of(product, np.random.default_rng(0).standard_normal((n, 1)), PRODUCTS)
            basis, _ = np.linalg.qr(krylov @ run.pairs[1][:, : -VECTORS - 1 : -1])
        image = product(basis)
        among = basis.T @ image
        inside = (among + among.T) / 2
        crossing = [np.linalg.norm(image[:, :k] - basis[:, :k] @ inside[:k, :k]) for k in range(1, len(inside) + 1)]
        return _Search(values, np.array([inside[0, 0], crossing[0], bound]), inside, np.array(crossing))


def _squared(gram: HeldGram, clients: ClientModes, root: np.ndarray) -> float:
    """|D V' H V D|_F^2, by pairs of groups of clients."""
    total, groups = 0.0, list(_groups(clients))
    for number, left in enumerate(groups):
        rows = np.concatenate([clients.members[c] for c in left])
        for right in groups[number:]:
            columns = np.concatenate([clients.members[c] for c in right])
            block = _turned(clients, root, left, gram[np.ix_(rows, columns)])
            block = _turned(clients, root, right, block.T)
            total += (1 + (left is not right)) * float(np.vdot(block, block))
    return total


def _turned(clients: ClientModes, root: np.ndarray, group: range, block: np.ndarray) -> np.ndarray:
    """D V' times the rows in `block`, which belong to the samples of these clients."""
    turned, end = np.empty_like(block), 0
    for c in group:
        interruption.check()
        basis, owned = clients.vectors[c], clients.members[c]
        start, end = end, end + len(owned)
        turned[start:end] = (basis * root[owned]).T @ block[start:end]
    return turned


def _groups(clients: ClientModes) -> Iterator[range]:
    """Groups of consecutive clients; each but the last has at least TOGETHER samples."""
    first, size = 0, 0
    for c, owned in enumerate(clients.members):
        size += len(owned)
        if size >= TOGETHER or c + 1 == len(clients.members):
            yield range(first, c + 1)
            first, size = c + 1, 0


@dataclass(frozen=True, eq=False)
class RitzRounds:
    """Rounds of any server that takes linear combinations of mean displacements, in the Krylov space of the labels.

    The clients' mean displacement is P r, where P is a function of the clients' own blocks of H. In the coordinates x =
    P^(1/2) r, the rounds of such a server are polynomials in A = P^(1/2) H P^(1/2). So k products with A, in Lanczos's
    method started from P^(1/2) y, determine the residuals of every such server in all rounds before round k. The
    accuracy of later rounds depends on how well the space resolves the eigenvalues of A whose eigenvectors the labels
    contain.

    Source: docs/proofs/linear_methods.md#steps-from-a-krylov-space.
    """

    values: Float[np.ndarray, "C k"]  # Ritz values of A; a row for each column of labels that is not 0
    # coordinates of P^(1/2) y in the Ritz vectors V of A, where y is a column of labels
    starts: Float[np.ndarray, "C k"]
    roots: Float[np.ndarray, "C k k"]  # R such that |R s| = |P^(-1/2) V s| for combinations V s of the Ritz vectors
    # the largest Ritz value plus the norm of its residual: an estimate, and no bound, of the largest eigenvalue of A
    largest: float

    @classmethod
    def of(
        cls,
        product: Callable[[np.ndarray], np.ndarray],
        root: Callable[[np.ndarray, bool], np.ndarray],
        labels: Float[np.ndarray, "n C"],
        steps: int,
    ) -> RitzRounds:
        """The space of `steps` products with H; columns of labels that are 0 are left out.

        `root` multiplies by P^(1/2), or by P^(-1/2) if its second argument is True.
        """
        if not labels.any():
            raise ValueError(
                "all labels are 0, as the outputs are before the first round, so that there is nothing to tune"
            )
        starts = root(labels[:, labels.any(axis=0)], False)
        count, size, largest = starts.shape[1], min(steps, len(starts)), 0.0
        values, weights, roots = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size, size))
        for i, (run, basis) in enumerate(Lanczos.of(lambda v: root(product(root(v, False)), False), starts, steps)):
            some = slice(len(run.diagonal))  # if the space is exhausted early, the remaining entries stay 0
            nodes, vectors = run.pairs
            values[i, some], weights[i, some] = nodes, vectors[0] * np.linalg.norm(starts[:, i])
            roots[i, some, some] = np.linalg.qr(root(basis @ vectors, True), mode="r")
            largest = max(largest, float(nodes[-1] + abs(run.last * vectors[-1, -1]) + run.residual))
        return cls(values, weights, roots, largest)

    def start(self, size: int) -> Float[np.ndarray, "m b 1"]:
        """The states of the modes of all columns, each of `size` numbers, with an empty memory."""
        state = np.zeros((self.starts.size, size, 1))
        state[:, 0, 0] = self.starts.ravel()
        return state

    def residual_coordinates(self, states: Float[np.ndarray, "m b t"]) -> Float[np.ndarray, "m t"]:
        """For each state, along the last axis, a vector that has the norm of the state's residual."""
        return (self.roots @ states[:, 0].reshape(*self.values.shape, -1)).reshape(len(states), -1)
