"""A certificate from any weights at any stable step, in a norm |H^(-p/2) r|, 0 <= p <= 1 (X.12).

As in certificate.py the claim holds with certainty and at finite width, the float64 weights are taken as exact, and
ties and clients of unequal sizes are allowed. In contrast to that certificate, the round map of the frozen kernel is
kept exactly, and only the change of the kernel is bounded. The norm is |S^-1 r|. In this norm the map contracts at any
stable step if p = 1 (X.2, X.3).

Theorem. Let n_ij count the neurons active on x_i and x_j at the start, D_ij and U_ij be as in certificate.py for a
radius R > 0, and put
  H_ij = G_ij (n_ij + (U_ij - D_ij) / 2) / m,  B_ij = |G_ij| (D_ij + U_ij) / (2m),  E = |B|_2,  E_c = max_c |B_cc|_2,
  A = I - eta_l blockdiag H_cc,  a >= |A|_2,  M = I - (eta_g/N) H eta_l sum_{k<K} A^k.
Let S be any invertible matrix, and
  delta_0 = 0,  rho_k = |A^k S| + delta_k,  delta_{k+1} = a delta_k + eta_l E_c rho_k,
  q = |S^-1 M S| + (eta_g eta_l/N) sum_{k<K} (E |S^-1| rho_k + |S^-1 H| delta_k),  z0 = |S^-1 (y - y(0))|,
  need = (eta_l / sqrt m) z0 sum_{k<K} rho_k (|X| eta_g / (N (1 - q)) + max_c |X_c|).
If q < 1 and need <= R, then for all t: |S^-1 (y - y(t))| <= q^t z0, and every u_r(t) and w_{k,c,r}(t) with k <= K
stays within R of its start.

Proof: docs/proofs/certificates.md#any-stable-step.

H is the middle of the two bounds on the kernel. So B has (D + U) / 2 where the bound of certificate.py has max(D, U).
This maximum is at most twice as large as (D + U) / 2, and it is twice as large where D or U is 0. The choice of p is a
trade-off: |S| |S^-1| = (mu/lam)^(p/2) multiplies E, but for p < 1 the frozen map contracts more slowly, and for p = 0
it may not contract at all (X.5).

Rounding: S is exactly the float64 matrix V diag(nu^(p/2)) of H's eigenpairs; S^-1 and all products are balls,
that is, intervals with midpoint and radius (python-flint).

Source: beyond FL-NTK (fl-ntk/X.12).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from flint import arb, arb_mat
from jaxtyping import Float

from bounds.fl_ntk.certificates.certificate import Start, checked, down, high, length, low, start, up, weighted
from bounds.fl_ntk.certificates.certificate_record import Condition, StableStepCertificate
from ntkfl.balls import ball, ball_matrix, enclosure, nonnegative_norm, precision
from ntkfl.gram.counts import changes_within
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.rounding import row_norms

TRIAL_RADII = 60
LEAST_CHANGE = 1e-6  # the least value of E at the largest radius, relative to the largest |G_ij|
# lower bounds on the largest and on the smallest radius, relative to the neurons' largest distance
LEAST_TOP, LEAST_RADIUS = 1e-12, 1e-14
# relative margin with which a promising choice must certify, since H differs a little from radius to radius
SLACK = 1e-6


@dataclass(frozen=True)
class Candidate:
    """A radius and a norm, with the q and need that are expected from a computation in float64."""

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
    """One or two candidates.

    The first is the promising candidate with the least q, if there is one. Then comes the candidate with the least
    need / R, if it is another.
    """
    frozen = [_Frozen(problem, setup, given, power) for power in powers]
    changes = _gram_abs(given) * (losses + gains) / (2 * setup.width)
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
    """Radii from `need` at E = 0 up to a radius at which E leaves no contraction (q < 1).

    At radius R the number E is about |G| #{|s| < R} / (2mn). Here |G| is the norm of the matrix of the
    |x_i.x_j|, and #{|s| < R} is the number of pairs of a neuron and a sample whose kink is at a distance below R.
    """
    frozen = [_Frozen(problem, setup, given, power) for power in powers]
    distances, gram = given.counts.distances[given.counts.distances > 0], _gram_abs(given)
    needs = [c.need for c in (f.candidate(0.0, 0.0, 0.0) for f in frozen) if c.rate < 1]
    # if no neuron has a distance above 0, the size is 1000 times the least `need`, or 1 if there is none
    size = float(distances.max()) if distances.size else 1000 * min(needs, default=0.0) or 1.0
    allowed = max(max(f.tolerance for f in frozen), LEAST_CHANGE * gram.max())
    share = min(1.0, 4 * allowed / _top(gram))
    top = max(float(np.quantile(distances, share)) if distances.size else size, LEAST_TOP * size)
    bottom = 1.001 * min(needs, default=top / TRIAL_RADII)
    return np.geomspace(min(max(bottom, LEAST_RADIUS * size), top / 1000), top, count)


class _Frozen:
    """The numbers of one norm, with the activation patterns frozen at the start."""

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
        """The largest E for which q < 1, approximately."""
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
    """The eigenvalues of H, ascending, raised so that all are positive and S is invertible.

    An eigenvalue below 1e-12 times the largest is replaced by 1e-12 times the largest. If no eigenvalue is positive,
    all become 1.
    """
    return np.maximum(eigenvalues, 1e-12 * eigenvalues[-1] if eigenvalues[-1] > 0 else 1.0)


def _gram_abs(given: Start) -> np.ndarray:
    return np.abs(_floats(given.gram.tolist()))


def _floats(rows: list) -> np.ndarray:
    return np.array([[float(b) for b in row] for row in rows])


def _norm(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))


def _top(symmetric: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(symmetric)[-1])


POWERS = (1.0, 0.5, 0.25)
COARSE = 24  # number of radii for a quick estimate
POWERS_OF_A = 16  # for larger powers k, |A^k S| is bounded by a |A^(k-1) S|


def stable_step_certificate(
    problem: Problem,
    setup: Setup,
    weights: Weights,
    radii: Float[np.ndarray, " k"] | None = None,
    powers: tuple[float, ...] = POWERS,
) -> StableStepCertificate:
    """Whether the theorem of this module holds for this network, at the best of the radii and norms tried.

    Radii and norms are chosen in float64. The choice is then checked in ball arithmetic. If it fails, the next best
    choice is checked.

    Rows may have any norm. The default is 60 radii, log-spaced from the movement needed if E were 0. `powers` has the p
    of the norms |H^(-p/2) r| to try, each in [0, 1]; 1 is the H^-1 norm.

    Raises:
        ValueError: as `a_priori_certificate`, or a power outside [0, 1].
    Source: beyond FL-NTK (fl-ntk/X.12).
    """
    wrong = [p for p in powers if not 0 <= p <= 1]
    if wrong or not powers:
        raise ValueError(f"the powers are {powers}; give at least one, each in [0, 1]")
    weights = checked(problem, setup, weights)
    with precision():
        given = start(problem, setup, weights)
        chosen = np.asarray(radii, float) if radii is not None else trial_radii(problem, setup, given, powers)
        chosen = np.unique(chosen)
        losses, gains = changes_within(problem.x, weights.hidden, chosen)
        certified = None
        for candidate in scan(problem, setup, given, chosen, losses, gains, powers):
            here = np.flatnonzero(chosen == candidate.radius)[0]
            judged = _judged(problem, setup, given, candidate, losses[here], gains[here], chosen)
            certified = certified or judged
            if judged.certified:
                return judged
        assert certified is not None  # `scan` returns at least one candidate
        return certified


def expected(problem: Problem, setup: Setup, weights: Weights, powers: tuple[float, ...] = POWERS) -> Candidate:
    """The expected result of `stable_step_certificate`, from float64 and a coarse grid of radii.

    It is not a certificate.
    """
    weights = checked(problem, setup, weights)
    with precision():
        given = start(problem, setup, weights)
    radii = trial_radii(problem, setup, given, powers, COARSE)
    return next(scan(problem, setup, given, radii, *changes_within(problem.x, weights.hidden, radii), powers))


class _Kernel:
    """H and B at one radius, in ball arithmetic, with their client blocks."""

    def __init__(self, problem: Problem, given: Start, losses: np.ndarray, gains: np.ndarray) -> None:
        # Activations that rounding leaves undecided widen both ends. All four counts are integers, so that halves are
        # exact.
        lower, upper = given.counts.at_least - losses, given.counts.at_most + gains
        self.h = weighted(given.gram, (lower + upper) / 2, given.width)
        self.blocks = arb_mat(problem.n, problem.n)  # blockdiag H_cc
        for i, j in np.argwhere(problem.owner[:, None] == problem.owner).tolist():
            self.blocks[i, j] = self.h[i, j]
        change = weighted(given.gram_abs, (upper - lower) / 2, given.width)
        changes = (_block(change, own) for own in problem.members)
        self.perturbation = nonnegative_norm(change).upper()
        self.local_perturbation = reduce(arb.max, (nonnegative_norm(c).upper() for c in changes))


def _judged(
    problem: Problem,
    setup: Setup,
    given: Start,
    candidate: Candidate,
    losses: np.ndarray,
    gains: np.ndarray,
    radii: np.ndarray,
) -> StableStepCertificate:
    """All numbers and conditions at one radius and in one norm, in ball arithmetic."""
    kernel = _Kernel(problem, given, losses, gains)
    spectrum = enclosure(kernel.h)
    root = norm_root(spectrum.value, candidate.power)
    s = ball_matrix(root)
    inverse = s.inv()
    eta, share = ball(setup.eta_local), ball(setup.eta_global) * ball(setup.eta_local) / problem.n_clients
    identity = arb_mat([[arb(int(i == j)) for j in range(problem.n)] for i in range(problem.n)])
    a_matrix = identity - eta * kernel.blocks
    a = norm(a_matrix)

    reached, drifts, sizes, total, image, size = [], [arb(0)], [], arb_mat(problem.n, problem.n), s, arb(0)
    for k in range(setup.local_steps):
        size = norm(image) if k < POWERS_OF_A else a * size
        sizes.append(size)
        reached.append(size + drifts[k])
        drifts.append(a * drifts[k] + eta * kernel.local_perturbation * reached[k])
        total += image
        image = a_matrix * image
    frozen = norm(inverse * (s - share * (kernel.h * total)))
    of_patterns = kernel.perturbation * norm(inverse) * sum(reached, arb(0))
    of_drift = norm(inverse * kernel.h) * sum(drifts[:-1], arb(0))
    rate = (frozen + share * (of_patterns + of_drift)).upper()

    residual = arb_mat([[r] for r in given.residual])
    z0 = length([row[0] for row in (inverse * residual).tolist()])
    need = None
    if rate < 1:
        largest = (high(largest_eigenvalue(enclosure(_block(given.gram, own)))) for own in problem.members)
        own_norm = reduce(arb.max, (square.sqrt().upper() for square in largest))  # max_c |X_c|
        reach = given.x_norm * ball(setup.eta_global) / (problem.n_clients * (1 - rate)) + own_norm
        need = (eta / given.width.sqrt() * z0 * sum(reached, arb(0)) * reach).upper()
    return StableStepCertificate(
        radius=candidate.radius,
        power=candidate.power,
        perturbation=up(kernel.perturbation),
        local_perturbation=up(kernel.local_perturbation),
        frozen_rate=up(frozen),
        rate=up(rate),
        need=None if need is None else up(need),
        norm=up(z0),
        norm_bound=up(norm(s)),
        r0=up(given.residual_norm),
        lam=down(low(smallest_eigenvalue(spectrum))),
        mu=up(high(largest_eigenvalue(spectrum))),
        x_norm=up(given.x_norm),
        width=setup.width,
        doubtful=given.counts.doubtful,
        conditions=_conditions(candidate.radius, frozen, rate, need),
        radii=len(radii),
        smallest_radius=float(radii[0]),
        largest_radius=float(radii[-1]),
        root=root,
    )


def _conditions(radius: float, frozen: arb, rate: arb, need: arb | None) -> tuple[Condition, ...]:
    return (
        Condition("stability", "|S^-1 M S| < 1", down(1 - frozen), bool(frozen < 1)),
        Condition("contraction", "q < 1", down(1 - rate), bool(rate < 1)),
        Condition(
            "movement",
            "need <= R",
            None if need is None else down(ball(radius) - need),
            need is not None and bool(need <= ball(radius)),
        ),
    )


def norm_root(h: Float[np.ndarray, "n n"], power: float) -> Float[np.ndarray, "n n"]:
    """The matrix S = V diag(nu^(p/2)) in float64, from the eigenpairs of a symmetric matrix, with nu kept above 0."""
    values, vectors = np.linalg.eigh((h + h.T) / 2)
    return vectors * positive(values) ** (power / 2)


def norm(matrix: arb_mat) -> arb:
    """An upper bound of the spectral norm of a matrix of balls.

    The matrix is scaled, since squares may exceed float64.
    """
    largest = max(float(abs(b).upper()) for row in matrix.tolist() for b in row)
    scale = arb(2) ** int(np.frexp(largest)[1]) if np.isfinite(largest) else arb(1)
    scaled = matrix * (1 / scale)
    return (high(largest_eigenvalue(enclosure(scaled.transpose() * scaled))).max(arb(0)).sqrt() * scale).upper()


def _block(matrix: arb_mat, own: np.ndarray) -> arb_mat:
    """The rows and columns of one client's samples."""
    return arb_mat([[matrix[i, j] for j in own.tolist()] for i in own.tolist()])
