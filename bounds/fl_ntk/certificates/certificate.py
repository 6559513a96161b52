"""An a-priori certificate (fl-ntk/B.3-certificate) that a given network, trained by Algorithm 1, converges at a rate.

The certificate holds with certainty and at finite width. The theorem below is applied to the counts and norms of one
given network at its start, in ball arithmetic (intervals of python-flint), which encloses all rounding. The weights
need not be Gaussian, and the rows of x need not have unit norm. Ties w.x = 0 are allowed (the pattern is 1{z >= 0}).
Clients may have different sizes, and N = 1 and K = 1 are included.

Theorem. Let G = x x^T, H = H(0) with eigenvalues in [lam, mu], H_cc its block of client c, rho = eta_g eta_l K / N. For
R > 0 let s_ri = w_r.x_i / |x_i| at the start and, for all i and j, D_ij = #{r: s_ri, s_rj >= 0, min(s_ri, s_rj) < R},
U_ij = #{r: s_ri, s_rj >= -R, not both >= 0}, E = | |G| o max(D, U) / m |_2,  h = max_c |H_cc| + E,  lam_c = min_c
lambda_min(H_cc), beta lam = 2 (lam - E - mu eta_l h (K-1)/2) - rho (mu + E)^2,  q = 1 - beta rho lam, need = |X| r0 /
sqrt(m) (rho / (1 - sqrt q) + K eta_l),  r0 = |y - y(0)|. If eta_l h^2 <= 2 (lam_c - E), beta > 0 and need <= R, then
for all t: |y - y(t)|^2 <= q^t r0^2, every u_r(t) and w_{k,c,r}(t) with k <= K stays within R of its start, and no
client's residual grows during its local steps.

Proof: docs/proofs/certificates.md#the-a-priori-certificate.

Rounding: lam and lam_c enter by their lower ends, and everything else by upper ends. The reason is that beta lam falls
in E, mu, h and rises in lam, and need falls in beta lam. need is computed without cancellation, as |X| r0 / sqrt m ((1
+ sqrt q) / (beta lam) + K eta_l).

Source: repaired form of FL-NTK, Theorem B.3 (fl-ntk/B.3-certificate).
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from flint import arb, arb_mat
from jaxtyping import Float

from bounds.fl_ntk.certificates.certificate_record import Certificate, Condition, Trial
from ntkfl import Estimate, Problem, Setup, Weights
from ntkfl.balls import ball, ball_matrix, enclosure, nonnegative_norm, precision
from ntkfl.gram.counts import InitialCounts, changes_within, initial_counts
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.memory import require

LOUD = 0.05  # outputs are summed in ball arithmetic if the residual's rounding error / residual exceeds this
IN_BALLS_UP_TO = 10**8  # largest number of products of a sum in balls, which then takes some ten seconds
# the largest weight must have at least this size, so that its rounding is far above counts.UNDERFLOW
SMALLEST_WEIGHTS = 1e-130
# bytes for each pair of samples in all matrices of balls that are held at the same time, as measured
BYTES_OF_A_PAIR = 3000
_BLOCK = 4096  # number of neurons in a block of a sum


@dataclass(frozen=True, eq=False)
class Start:
    """The quantities of a network at the start that a certificate needs."""

    gram: arb_mat  # x x^T, (n, n)
    residual: list[arb]  # y - y(0), (n,)
    x_norm: arb  # the upper end of |X|
    counts: InitialCounts  # the numbers of neurons that are active on two samples, with bounds
    width: arb  # m, which is exact

    @cached_property
    def gram_abs(self) -> list[list[arb]]:
        """The upper ends of |G|, entry by entry."""
        return [[abs(g).upper() for g in row] for row in self.gram.tolist()]

    @cached_property
    def residual_norm(self) -> arb:
        """The upper end of |y - y(0)|."""
        return length(self.residual)


def start(problem: Problem, setup: Setup, weights: Weights) -> Start:
    """The start of a network whose weights `checked` has accepted. It must be called within `precision()`."""
    counts = initial_counts(problem.x, weights)
    x, width = ball_matrix(problem.x), arb(setup.width)
    gram = x * x.transpose()
    residual = _residual(problem.y, counts.output_sums, width)
    small = problem.n * problem.d * setup.width <= IN_BALLS_UP_TO
    if small and sum((r.rad() for r in residual), arb(0)) > LOUD * sum((abs(r) for r in residual), arb(0)).lower():
        residual = _residual(problem.y, _sums_in_balls(x, weights), width)
    return Start(gram, residual, high(largest_eigenvalue(enclosure(gram))).sqrt().upper(), counts, width)


def require_memory(problem: Problem) -> None:
    """Refuse data whose matrices of balls do not fit into memory (`TooLittleMemory`), before anything is computed."""
    require("the certificate", lambda samples: BYTES_OF_A_PAIR * samples**2, samples=problem.n)


def checked(problem: Problem, setup: Setup, weights: Weights) -> Weights:
    """The weights as float64, after checks.

    Raises:
        TooLittleMemory: too many samples. ValueError: several outputs, another shape, weights not finite or all below
            1e-130, signs other than +-1.
    """
    require_memory(problem)
    hidden, signs = np.asarray(weights[0], float), np.asarray(weights[1], float)
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the certificate is for one output, y of shape ({problem.n},)")
    shape = (setup.width, problem.d)
    if hidden.shape != shape:
        raise ValueError(f"the hidden weights have shape {hidden.shape}; setup and data need (width, d) = {shape}")
    if signs.shape != (setup.width,):
        raise ValueError(f"the signs have shape {signs.shape}; they must be ({setup.width},), one per neuron")
    if not np.isfinite(hidden).all():
        raise ValueError(f"the hidden weights of neuron {np.argwhere(~np.isfinite(hidden))[0][0]} are not finite")
    largest = float(np.abs(hidden).max())
    if 0 < largest < SMALLEST_WEIGHTS:
        raise ValueError(
            f"the largest hidden weight is {largest:.3g}, below {SMALLEST_WEIGHTS:g}: underflow would decide patterns; "
            "multiply the weights and the labels by one power of two"
        )
    wrong = np.flatnonzero(np.abs(signs) != 1)
    if len(wrong):
        raise ValueError(f"the sign of neuron {wrong[0]} is {signs[wrong[0]]}; every sign must be +1 or -1")
    return Weights(hidden, signs)


def weighted(gram: arb_mat | list[list[arb]], counts: arb_mat | np.ndarray, width: arb) -> arb_mat:
    """G_ij counts_ij / m."""
    pairs = zip(gram if isinstance(gram, list) else gram.tolist(), counts.tolist(), strict=True)
    return arb_mat([[g * c / width for g, c in zip(*row, strict=True)] for row in pairs])


def length(vector: list[arb]) -> arb:
    """An upper bound of the Euclidean norm, from the squares of upper ends.

    The square of a ball that contains 0 would have a lower end below 0.
    """
    return sum((abs(v).upper() ** 2 for v in vector), arb(0)).sqrt().upper()


def low(estimate: Estimate) -> arb:
    """The lower end of a ball, as a ball."""
    return ball(float(estimate.lo))


def high(estimate: Estimate) -> arb:
    """The upper end of a ball, as a ball."""
    return ball(float(estimate.hi))


def down(x: arb) -> float:
    """A float that is not above x."""
    return float(enclosure(x).lo)


def up(x: arb) -> float:
    """A float that is not below x."""
    return float(enclosure(x).hi)


def _residual(y: np.ndarray, sums: Estimate | list[arb], width: arb) -> list[arb]:
    if isinstance(sums, Estimate):
        sums = [ball(v, e) for v, e in zip(sums.value.tolist(), sums.error.tolist(), strict=True)]
    root = width.sqrt()
    return [ball(label) - total / root for label, total in zip(y.tolist(), sums, strict=True)]


def _sums_in_balls(x: arb_mat, weights: Weights) -> list[arb]:
    """sum_r a_r relu(w_r.x_i), (n,), in ball arithmetic."""
    totals = arb_mat(x.nrows(), 1)
    for first in range(0, len(weights.hidden), _BLOCK):
        block = slice(first, first + _BLOCK)
        z = x * ball_matrix(weights.hidden[block].T)
        positive = arb_mat([[b.max(arb(0)) for b in row] for row in z.tolist()])
        totals += positive * ball_matrix(weights.signs[block])
    return [row[0] for row in totals.tolist()]


TRIAL_RADII = 60


def a_priori_certificate(
    problem: Problem, setup: Setup, weights: Weights, radii: Float[np.ndarray, " k"] | None = None
) -> Certificate:
    """Whether the theorem of this module holds for this network, at the best of the radii tried.

    Rows may have any norm. `weights` need not come from `setup.seed`. The default is 60 radii, log-spaced over the
    range in which E(R) is comparable to lambda.

    Raises:
        ValueError: several outputs, weights of another shape or not finite, signs other than +-1, norms beyond
            [1e-100, 1e100], or a radius that is not positive.
    Source: repaired FL-NTK, Theorem B.3 (fl-ntk/B.3-certificate).
    """
    weights = checked(problem, setup, weights)
    with precision():
        given = start(problem, setup, weights)
        terms, counts = _Terms(problem, setup, given), given.counts
        chosen = _trial_radii(terms, counts) if radii is None else np.unique(np.asarray(radii, float))
        losses, gains = changes_within(problem.x, weights.hidden, chosen)
        perturbations = (terms.perturbation(np.maximum(d, u)) for d, u in zip(losses, gains, strict=True))
        trials = tuple(terms.trial(r, e) for r, e in zip(chosen.tolist(), perturbations, strict=True))
        best = _best(trials)
        return Certificate(
            **vars(best),
            lam=down(terms.lam),
            mu=up(terms.mu),
            lam_c=down(terms.lam_c),
            x_norm=up(given.x_norm),
            r0=up(given.residual_norm),
            rho=down(terms.rho),
            width=setup.width,
            doubtful=counts.doubtful,
            width_needed=None if best.certified else _width_needed(terms, best.shortfall),
            trials=trials,
        )


class _Terms:
    """The theorem's terms before training, in balls. lam and lam_c are lower ends, mu and mu_c are upper ends."""

    def __init__(self, problem: Problem, setup: Setup, given: Start) -> None:
        counts = given.counts
        middle, radius = (counts.at_least + counts.at_most) / 2, (counts.at_most - counts.at_least) / 2
        h0 = enclosure(weighted(given.gram, ball_matrix(middle, radius), given.width))
        blocks = [h0[np.ix_(own, own)] for own in problem.members]
        self.given = given
        self.lam = low(smallest_eigenvalue(h0))
        self.mu = high(largest_eigenvalue(h0))
        self.lam_c = reduce(arb.min, (low(smallest_eigenvalue(b)) for b in blocks))
        self.mu_c = reduce(arb.max, (high(largest_eigenvalue(b)) for b in blocks))
        self.eta = ball(setup.eta_local)
        self.rho = ball(setup.eta_global) * self.eta * setup.local_steps / problem.n_clients
        self.local_steps = setup.local_steps

    def perturbation(self, counts: np.ndarray) -> arb:
        """The upper end of E for these counts max(D, U)."""
        return nonnegative_norm(weighted(self.given.gram_abs, counts, self.given.width)).upper()

    def gram_norm(self) -> arb:
        """The upper end of | |G| |_2."""
        return nonnegative_norm(arb_mat(self.given.gram_abs))

    def gain(self, e: arb) -> arb:
        """The lower end of beta lam."""
        drift = self.mu * self.eta * (self.mu_c + e) * (self.local_steps - 1) / 2
        return (2 * (self.lam - e - drift) - self.rho * (self.mu + e) ** 2).lower()

    def stability(self, e: arb) -> arb:
        """The lower end of the margin of the local stability condition."""
        return (2 * (self.lam_c - e) - self.eta * (self.mu_c + e) ** 2).lower()

    def need(self, gain: arb) -> arb:
        """The upper end of `need`, the bound on the movement under a contraction with beta lam = gain > 0."""
        reach = (1 + (1 - self.rho * gain).sqrt()) / gain + self.local_steps * self.eta
        return (self.given.x_norm * self.given.residual_norm / self.given.width.sqrt() * reach).upper()

    def trial(self, radius: float, e: arb) -> Trial:
        """All numbers and conditions at one radius."""
        gain, stability = self.gain(e), self.stability(e)
        need = up(self.need(gain)) if gain > 0 else None
        beta = (gain / self.lam).lower() if self.lam > 0 else None
        conditions = (
            Condition("local stability", "eta_l h^2 <= 2 (lam_c - E)", down(stability), stability >= 0),
            Condition("contraction", "beta lam > 0", down(gain), gain > 0),
            Condition(
                "movement",
                "need <= R",
                None if need is None else float(np.nextafter(radius - need, -np.inf)),
                need is not None and need <= radius,
            ),
        )
        return Trial(
            radius=radius,
            perturbation=up(e),
            h=up(self.mu_c + e),
            beta=None if beta is None else down(beta),
            rate=None if need is None else up(1 - self.rho * gain),
            need=need,
            conditions=conditions,
        )


def _trial_radii(terms: _Terms, counts: InitialCounts) -> np.ndarray:
    """Radii from `need` at E = 0 up to where E(R), which is about g #{|s| < R} / (2mn), exceeds lam."""
    g, lam = float(terms.gram_norm()), max(float(terms.lam), 1e-3 * float(terms.mu))
    distances = counts.distances[counts.distances > 0]
    top = 1.5 * float(np.quantile(distances, min(1.0, 2 * lam / g))) if distances.size else 1.0
    low, gain = top / TRIAL_RADII, terms.gain(arb(0))
    if gain > 0:
        low = min(low, max(1.001 * float(terms.need(gain)), 1e-9 * top))
    return np.geomspace(low, top, TRIAL_RADII)


def _best(trials: tuple[Trial, ...]) -> Trial:
    """The certified trial with the largest beta. If no trial certifies: the trial with the least shortfall."""
    certified = [trial for trial in trials if trial.certified]
    if certified:
        return max(certified, key=lambda trial: trial.beta or 0.0)
    return min(trials, key=lambda trial: trial.shortfall)


def _width_needed(terms: _Terms, shortfall: float) -> int | None:
    """An estimate of the width that certifies, m (need / R)^2.

    The estimate uses that E(R) hardly depends on the width and that need falls as 1/sqrt(m).
    """
    nothing = arb(0)
    if not (terms.stability(nothing) >= 0 and terms.gain(nothing) > 0):
        return None
    if np.isfinite(shortfall):
        return int(np.ceil(float(terms.given.width) * shortfall**2))
    closed_form = 310 * (terms.gram_norm() * terms.given.x_norm * terms.given.residual_norm) ** 2 / terms.lam**4
    return int(np.ceil(float(closed_form)))
