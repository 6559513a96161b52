"""The choice of radii and norms for a stable-step certificate, in float64, without proved bounds.

A bad choice costs time, never soundness: stable_step_certificate.py judges the chosen radius and norm in balls. The
numbers have the names of the theorem there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bounds.fl_ntk.certificates.certificate_start import Start
from ntkfl.gram.error_free import row_norms
from ntkfl.problem import Problem, Setup

TRIAL_RADII = 60
LEAST_CHANGE = 1e-6  # least E at the largest radius, relative to the largest |G_ij|
# lower bounds on the largest and on the smallest radius, relative to the neurons' largest distance
LEAST_TOP, LEAST_RADIUS = 1e-12, 1e-14
SLACK = 1e-6  # margin by which a promising choice must certify, since H differs a little from radius to radius


@dataclass(frozen=True)
class Candidate:
    """A radius and a norm, with the q and need that float64 expects of them."""

    radius: float
    power: float
    rate: float
    need: float

    @property
    def promising(self) -> bool:
        """Whether float64 expects this radius and norm to certify."""
        return self.rate < 1 - SLACK and self.need <= (1 - SLACK) * self.radius


def scan(
    problem: Problem,
    setup: Setup,
    given: Start,
    radii: np.ndarray,
    losses: np.ndarray,
    gains: np.ndarray,
    powers: tuple[float, ...],
) -> Iterator[Candidate]:
    """At most two candidates: the promising candidate with the least q, then the candidate with the least need / R."""
    frozen = [_Frozen(problem, setup, given, power) for power in powers]
    gram = _gram_abs(given)
    changes = gram * (losses + gains) / (2 * setup.width)
    norms = [(_top(change), max(_top(change[np.ix_(own, own)]) for own in problem.members)) for change in changes]
    candidates = [
        f.candidate(float(radius), *norms_here)
        for radius, norms_here in zip(radii, norms, strict=True)
        for f in frozen
    ]  # fmt: skip
    promising = [c for c in candidates if c.promising]
    ranked = [min(promising, key=lambda c: c.rate)] if promising else []
    ranked.append(min(candidates, key=lambda c: (c.need / c.radius if c.rate < 1 else np.inf, c.rate)))
    yield from dict.fromkeys(ranked)


def trial_radii(
    problem: Problem, setup: Setup, given: Start, powers: tuple[float, ...], count: int = TRIAL_RADII
) -> np.ndarray:
    """Radii from `need` at E = 0 to where E, about |G| #{|s| < R} / (2mn), leaves no contraction."""
    frozen = [_Frozen(problem, setup, given, power) for power in powers]
    distances, gram = given.counts.distances[given.counts.distances > 0], _gram_abs(given)
    needs = [c.need for c in (f.candidate(0.0, 0.0, 0.0) for f in frozen) if c.rate < 1]
    # no distances: the scale of the weights
    size = float(distances.max()) if distances.size else 1000 * min(needs, default=0.0) or 1.0
    allowed = max(max(f.tolerance for f in frozen), LEAST_CHANGE * gram.max())
    share = min(1.0, 4 * allowed / _top(gram))
    top = max(float(np.quantile(distances, share)) if distances.size else size, LEAST_TOP * size)
    bottom = 1.001 * min(needs, default=top / TRIAL_RADII)
    return np.geomspace(min(max(bottom, LEAST_RADIUS * size), top / 1000), top, count)


class _Frozen:
    """The numbers of one norm, with the patterns frozen at the start."""

    def __init__(self, problem: Problem, setup: Setup, given: Start, power: float) -> None:
        gram = _floats(given.gram.tolist())
        h = gram * (given.counts.at_least + given.counts.at_most) / (2 * setup.width)
        same = problem.owner[:, None] == problem.owner
        values, vectors = np.linalg.eigh(h)
        values = positive(values)
        s, inverse = vectors * values ** (power / 2), (vectors * values ** (-power / 2)).T
        a = np.eye(problem.n) - setup.eta_local * h * same
        image, total, sizes = s, np.zeros_like(s), []
        for _ in range(setup.local_steps):
            sizes.append(_norm(image))
            total += image
            image = a @ image
        residual = np.array([float(r) for r in given.residual])
        self.power = power
        self.eta = setup.eta_local
        self.share = setup.eta_global * setup.eta_local / problem.n_clients
        self.rate = _norm(inverse @ (s - self.share * (h @ total)))
        self.sizes = tuple(sizes)  # |A^k S|
        self.contraction = _norm(a)  # |A|
        self.inverse_norm = float(values[0] ** (-power / 2))
        self.inverse_kernel = float((values ** (1 - power / 2)).max())  # |S^-1 H|
        self.norm = float(row_norms((inverse @ residual)[None])[0])  # z0
        self.server_reach = float(given.x_norm) * setup.eta_global / problem.n_clients
        self.client_reach = max(_top(gram[np.ix_(own, own)]) ** 0.5 for own in problem.members)
        self.root_width = setup.width**0.5

    @property
    def tolerance(self) -> float:
        """About the largest E for which q < 1."""
        return max(0.0, 1 - self.rate) / (self.share * self.inverse_norm * sum(self.sizes))

    def candidate(self, radius: float, e: float, e_local: float) -> Candidate:
        drift, reached, drifts = 0.0, 0.0, 0.0
        for size in self.sizes:
            here = size + drift
            reached, drifts = reached + here, drifts + drift
            drift = self.contraction * drift + self.eta * e_local * here
        q = self.rate + self.share * (e * self.inverse_norm * reached + self.inverse_kernel * drifts)
        reach = self.server_reach / (1 - q) + self.client_reach if q < 1 else np.inf
        return Candidate(radius, self.power, q, self.eta / self.root_width * self.norm * reached * reach)


def positive(eigenvalues: np.ndarray) -> np.ndarray:
    """The eigenvalues of H, ascending, raised to be positive, so that S is invertible."""
    return np.maximum(eigenvalues, 1e-12 * eigenvalues[-1] if eigenvalues[-1] > 0 else 1.0)


def _gram_abs(given: Start) -> np.ndarray:
    return np.abs(_floats(given.gram.tolist()))


def _floats(rows: list) -> np.ndarray:
    return np.array([[float(b) for b in row] for row in rows])


def _norm(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))


def _top(symmetric: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(symmetric)[-1])
