"""The spectral form of a federated round at infinite width: one decomposition gives any number of rounds.

H is the Gram matrix and P = blockdiag_c f_K(H_cc), where f_K(q) = eta_l sum_{k<K} (1 - eta_l q)^k. One round multiplies
the residual by M = I - rho H P, where rho = eta_g / N. M is not symmetric, but H P has the eigenvalues nu of a
symmetric matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from ntkfl.gram.threads import in_context, worker_threads

Value = TypeVar("Value")

# P^(-1/2) counts as accurate if every value of f_K / eta_local is at least this. For even K, f_K tends to 0 as
# eta_local q tends to 2.
SAFELY_POSITIVE = 1e-2
# with at least this many samples, threads share the clients; with fewer, starting the threads takes longer
SHARED = 4096
# clients of up to this many samples are stacked, because for such small blocks a call takes longer than its products
STACKED_UP_TO = 16
EXACT_INTEGERS = 2**53  # beyond this, not every number of rounds is exact in float64


def decay(x: np.ndarray, terms: np.ndarray | int) -> np.ndarray:
    """(1 - x)^terms for integer terms >= 0, broadcast.

    The result is accurate for tiny x, near x = 2, and where the power underflows.
    """
    x, terms = np.asarray(x, float), np.asarray(terms)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        size = np.exp(terms * _log_modulus(x))
    return np.where(terms == 0, 1.0, np.where((x > 1) & (terms % 2 == 1), -size, size))


def geometric_sum(q: np.ndarray, step: float, terms: np.ndarray | int) -> np.ndarray:
    """step * sum_{s<terms} (1 - step q)^s = (1 - (1 - step q)^terms) / q, broadcast, also for q = 0 and q < 0."""
    q, terms = np.asarray(q, float), np.asarray(terms)
    x = step * q
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        power = np.expm1(terms * _log_modulus(x))  # |1 - x|^terms - 1, without cancellation near x = 0 and x = 2
        quotient = np.where((x > 1) & (terms % 2 == 1), 2 + power, -power) / q
    linear = np.abs(x) * terms <= 1e-17  # the next term of the series is below rounding; this includes x = 0
    return np.where(terms == 0, 0.0, np.where(linear, step * terms, quotient))


def _log_modulus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.where(x <= 1, -x, x - 2))  # log |1 - x|


def of_clients(
    work: Callable[..., Value], members: Sequence[np.ndarray], *others: Sequence[np.ndarray]
) -> Iterator[Value]:
    """Yields what `work` returns for each client, or stack of clients, in their order.

    `work` is called with a client's samples, and with the client's entry of each of the other sequences. If there are
    many samples, threads share the clients, and each thread uses one BLAS thread. The reason is that several BLAS
    threads within blocks of some hundred rows would wait for each other in every product. On busy cores they would wait
    for milliseconds.
    """
    if sum(owned.size for owned in members) < SHARED:
        yield from map(work, members, *others)
        return
    with worker_threads() as count, ThreadPoolExecutor(count) as workers:
        yield from workers.map(in_context(work), members, *others)


def _stacked(matrices: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(matrices) if len(matrices) > 1 else matrices[0][None]  # a large block is not copied


@dataclass(frozen=True, eq=False)
class ClientModes:
    """Every client's own block, decomposed as H_cc = V_c diag(q) V_c^T.

    In the basis V_c the client's local steps are diagonal.
    """

    members: tuple[np.ndarray, ...]  # the index set S_c of each client
    vectors: tuple[np.ndarray, ...]  # V_c of each client, (n_c, n_c)
    # The eigenvalues q, (n,); the eigenvalues of client c are at the positions S_c. If H is positive semi-definite,
    # negative values can only come from rounding; negative values are set to 0.
    values: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, gram: Float[np.ndarray, "n n"], members: tuple[np.ndarray, ...]) -> ClientModes:
        """Diagonalise the clients' blocks of a Gram matrix."""
        pairs = list(of_clients(lambda owned: np.linalg.eigh(gram[np.ix_(owned, owned)]), members))
        values = np.empty(len(gram))
        for owned, (own, _) in zip(members, pairs, strict=True):
            values[owned] = own
        return cls(members, tuple(basis for _, basis in pairs), np.maximum(values, 0.0))

    def apply(self, values: Float[np.ndarray, " n"], matrix: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n r"]:
        """Returns blockdiag_c V_c diag(values_c) V_c^T times a matrix; the values are u(q) of a function u."""
        if matrix.ndim == 1:
            return self.apply(values, matrix[:, None])[:, 0]
        result, (_, members, vectors) = np.empty_like(matrix), zip(*self.stacks, strict=True)

        def applied(owned: np.ndarray, basis: np.ndarray) -> np.ndarray:
            return (basis * values[owned][:, None]) @ (basis.swapaxes(1, 2) @ matrix[owned])

        for owned, own in zip(members, of_clients(applied, members, vectors), strict=True):
            result[owned] = own
        return result

    @cached_property
    def stacks(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The clients in stacks: all clients of one small size k together, and every other client alone.

        A stack has the indices of its clients, (m,), the indices of their samples, (m, k), and their V_c, (m, k, k).
        """
        together: dict[int, list[int]] = {}
        for client, owned in enumerate(self.members):
            together.setdefault(len(owned) if len(owned) <= STACKED_UP_TO else -client, []).append(client)
        return [
            (
                np.array(clients),
                np.array([self.members[c] for c in clients]),
                _stacked([self.vectors[c] for c in clients]),
            )
            for clients in together.values()
        ]

    def sum_of_largest(self, values: Float[np.ndarray, " n"]) -> float:
        """The sum over the clients of each client's largest value.

        If each client's values bound its block of a positive matrix, this sum bounds the matrix.
        """
        return sum(float(values[owned].max()) for owned in self.members)

    def turned(self, matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        """V^T matrix V with V = blockdiag_c V_c.

        This is the matrix in the basis in which functions of the blocks are diagonal.
        """
        result = np.array(matrix, float)
        for owned, basis in zip(self.members, self.vectors, strict=True):
            result[owned] = basis.T @ result[owned]
        for owned, basis in zip(self.members, self.vectors, strict=True):
            result[:, owned] = result[:, owned] @ basis
        return result

    def local_residuals(self, residual: Float[np.ndarray, "T n C"], eta_local: float, steps: int) -> np.ndarray:
        """(I - eta_l H_cc)^k r_c for k = 0..steps, on each client's own samples, (T, steps+1, n, C).

        Source: fl-ntk/X.1.
        """
        powers = decay(eta_local * self.values, np.arange(steps + 1)[:, None])
        result = np.empty((len(residual), steps + 1, *residual.shape[1:]))
        for owned, basis in zip(self.members, self.vectors, strict=True):
            modes = np.einsum("ij,tic->tjc", basis, residual[:, owned], optimize=True)
            result[:, :, owned] = np.einsum("ij,kj,tjc->tkic", basis, powers[:, owned], modes, optimize=True)
        result[:, 0] = residual
        return result


@dataclass(frozen=True, eq=False)
class RoundModes:
    """The modes of a round, from which residuals, coefficients and movements of any round t follow.

    Let d = 1 - rho nu, g_t = geometric_sum(nu, rho, t), w = drive @ r(0) and H c_t = y(t) - y(0). With the fields of
    this class,

        c_t = coefficients (g_t w),   r(t) = r(0) - outward (energy g_t w),   c_t^T H c_t = sum energy (g_t w)^2.

    If the modes span the residual, r(t) = outward (d^t z) also holds, with z = start @ r(0).

    Nothing is divided by nu, which may be rounding noise. The error of the sums g_t grows with t until t is 1 / (rho
    nu). The powers d^t keep their relative accuracy as r(t) -> 0.
    """

    nu: Float[np.ndarray, " r"]  # eigenvalues of H P that belong to the modes, (r,), ascending; the other n - r are 0
    outward: Float[np.ndarray, "n r"]  # modes of the residual, (n, r)
    coefficients: Float[np.ndarray, "n r"]  # modes of c_t, (n, r)
    drive: Float[np.ndarray, "r n"]  # (r, n)
    energy: Float[np.ndarray, " r"]  # c^T H c of each mode, (r,)
    start: Float[np.ndarray, "r n"] | None  # (r, n), or None if the modes do not span the residual
    gain: tuple[float, float]  # the smallest and the largest singular value that `outward` can have
    rho: float  # eta_global / N
    # r(t) is computed from the powers d^t once rho nu t of the slowest mode reaches this number. The number is 0 if
    # powers cost no accuracy, and 1 otherwise.
    powers_after: float = 0.0

    @classmethod
    def of(
        cls, gram: Float[np.ndarray, "n n"], clients: ClientModes, eta_local: float, steps: int, rho: float
    ) -> RoundModes:
        """Diagonalise a round of `steps` local steps.

        Some eigenvalues count as 0. If P is safely positive (`SAFELY_POSITIVE`), the negative eigenvalues and the
        eigenvalues below n eps times the largest count as 0. Otherwise the eigenvalues whose size is below K n eps
        eta_local |H| count as 0, since rounding in the clients' eigenvalues may move an eigenvalue by that much.

        Source: fl-ntk/X.2.
        """
        response = geometric_sum(clients.values, eta_local, steps)
        if response.min() >= SAFELY_POSITIVE * eta_local:
            return cls._of_positive_p(gram, clients, response, rho)
        return cls._of_any_p(gram, clients, response, eta_local * steps, rho)

    @classmethod
    def _of_positive_p(cls, gram, clients, response, rho) -> RoundModes:
        """The modes from the eigenvectors of P^{1/2} H P^{1/2}.

        H may be singular, since nothing is divided by the eigenvalues of H.
        """
        root = np.sqrt(response)
        nu, q = np.linalg.eigh(_symmetric(clients.apply(root, clients.apply(root, gram).T)))
        nu = np.where(nu > _rounding(nu), nu, 0.0)
        drive = clients.apply(root, q)
        # modes with nu = 0 lie in the null space of H; their coefficients would only grow with t
        basis = np.where(nu > 0, drive, 0.0)
        gain = float(1 / root.max()), float(1 / root.min())
        return cls(nu, clients.apply(1 / root, q), basis, drive.T, nu, drive.T, gain, rho)

    @classmethod
    def _of_any_p(cls, gram, clients, response, local_time, rho) -> RoundModes:
        """The modes from the eigenvectors of L^T P L, where H = L L^T and L has full column rank.

        P may be indefinite or nearly singular.
        """
        size, u = np.linalg.eigh(gram)
        kept = size > _rounding(size)
        root = np.sqrt(size[kept])
        factor = u[:, kept] * root
        nu, q = np.linalg.eigh(_symmetric(factor.T @ clients.apply(response, factor)))
        response_noise = local_time * _rounding(root)  # noise of P L: the noise of P times |L|
        nu = np.where(np.abs(nu) > max(_rounding(nu), response_noise * root.max(initial=0.0)), nu, 0.0)
        outward, coefficients = factor @ q, (u[:, kept] / root) @ q
        drive = clients.apply(response, outward).T
        with np.errstate(over="ignore"):  # a mode whose row overflows when squared is not at rest
            at_rest = (nu == 0) & (np.linalg.norm(drive, axis=1) <= response_noise)
        drive[at_rest] = 0.0  # the noise in these modes would drift with t
        start = coefficients.T if kept.all() and nu.all() else None
        gain = (float(root.min()), float(root.max())) if len(root) else (0.0, 0.0)
        return cls(nu, outward, coefficients, drive, np.ones_like(nu), start, gain, rho, powers_after=1.0)

    def residual(self, initial: Float[np.ndarray, "n C"], rounds: np.ndarray) -> Float[np.ndarray, "T n C"]:
        """r(t) at the given rounds (T,), for r(0) = initial."""
        result = np.empty((len(rounds), *initial.shape))
        late = np.full(len(rounds), self.start is not None)
        if self.start is not None:
            late = rounds * self.rho * np.abs(self.nu).min() >= self.powers_after
            powers = decay(self.rho * self.nu, rounds[late, None])
            result[late] = _spread(self.outward, powers, self.start @ initial)
        sums = self._sums(rounds[~late])
        result[~late] = initial - _spread(self.outward, self.energy * sums, self.drive @ initial)
        return result

    def coefficients_at(self, initial: Float[np.ndarray, "n C"], rounds: np.ndarray) -> Float[np.ndarray, "T n C"]:
        """The coefficients c_t of f(x, t) = f(x, 0) + h(x)^T c_t.

        They are determined up to the null space of H, where h(x)^T vanishes.
        """
        return _spread(self.coefficients, self._sums(rounds), self.drive @ initial)

    def squared_movement(self, initial: Float[np.ndarray, "n C"], rounds: np.ndarray) -> Float[np.ndarray, " T"]:
        """c_t^T H c_t, summed over the outputs, at the given rounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._sums(rounds) ** 2 @ (self.energy * ((self.drive @ initial) ** 2).sum(axis=1))

    def _sums(self, rounds: np.ndarray) -> Float[np.ndarray, "T r"]:
        return geometric_sum(self.nu, self.rho, rounds[:, None])


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2


def _rounding(eigenvalues: np.ndarray) -> float:
    return len(eigenvalues) * np.finfo(float).eps * np.abs(eigenvalues).max(initial=0.0)


def _spread(modes: np.ndarray, scale: np.ndarray, w: np.ndarray) -> np.ndarray:
    """modes @ (scale_t * w) for every t: modes (n, r), scale (T, r), w (r, C) -> (T, n, C)."""
    with np.errstate(over="ignore", invalid="ignore"):
        # a mode with w = 0 stays 0 even if its scale overflows
        scaled = np.where(w.T == 0, 0.0, scale[:, None, :] * w.T)
        return np.tensordot(scaled, modes, axes=(2, 1)).swapaxes(1, 2)
