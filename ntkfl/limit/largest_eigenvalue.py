"""An upper bound of the largest eigenvalue of W^(1/2) H W^(1/2), W = w(H_D), by Ritz vectors and a Frobenius norm."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.gram.tiles import HeldGram
from ntkfl.limit.lanczos import Lanczos
from ntkfl.limit.round_modes import ClientModes

WHOLE = 500  # most samples for which the matrix is decomposed
PRODUCTS, VECTORS = 60, 20  # products with H; most Ritz vectors to remove before a norm is taken
KRYLOV = 2 * PRODUCTS + 4 * VECTORS  # vectors of n numbers that a search holds at most
TOGETHER = 512  # samples of small clients whose blocks are multiplied at a time
SLACK = 1e-9  # covers rounding, relative to |.|_F^2


def largest_at_most(gram: HeldGram, clients: ClientModes, values: Float[np.ndarray, " n"]) -> float:
    """An upper bound of the eigenvalues of V D V' H V D V', for the stored H, D^2 = diag(values), V the clients' bases.

    Source: docs/proofs/linear_methods.md#rounds-without-a-matrix.
    """
    root = np.sqrt(values)

    def product(v: np.ndarray) -> np.ndarray:
        return clients.apply(root, gram @ clients.apply(root, v))

    if len(gram) <= WHOLE:
        whole = product(np.eye(len(gram)))
        return float(np.linalg.eigvalsh((whole + whole.T) / 2)[-1]) * (1 + SLACK)
    start = np.random.default_rng(0).standard_normal((len(gram), 1))
    (run,) = Lanczos.of(product, start, PRODUCTS)
    basis, _ = np.linalg.qr(run.basis @ run.pairs[1][:, : -VECTORS - 1 : -1])
    image, squared = product(basis), _squared(gram, clients, root)
    among, bounds = basis.T @ image, []
    for k in range(1, basis.shape[1] + 1):
        inside = (among[:k, :k] + among[:k, :k].T) / 2
        crossing = float(np.linalg.norm(image[:, :k] - basis[:, :k] @ inside))
        outside = float(np.sqrt(max(squared - np.vdot(inside, inside), 0) + SLACK * squared))
        top = float(np.linalg.eigvalsh(inside)[-1])
        bounds.append((top + outside) / 2 + np.hypot((top - outside) / 2, crossing))
    return float(min(bounds)) * (1 + SLACK)


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
    """D V' times rows of these clients."""
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
