"""Differentially private rounds in the kernel regime: the exact cost of a privacy budget, before any training.

A round clips each participant's displacement at the norm S, takes their plain mean, and adds Gaussian noise to every
weight of the mean. While nothing is clipped, `random_rounds` has the exact moments. So S is the smallest norm for which
clipping has at most the allowed chance. Where all clients take part the displacements are Gaussian, and their moments
bound the chance of clipping. Where clients are drawn the displacements are not Gaussian; S is then a norm that no
displacement exceeds in many simulated runs, whose number bounds the chance of clipping.

All of this holds for a model that is linear in its weights. In a ReLU network noise on every weight turns neurons on
and off, however wide the network is: `Choice.turned` bounds the loss of learned output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import isfinite
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import log_ndtr
from scipy.stats import binom

from ntkfl import interruption
from ntkfl.exact_dynamics import random_of_method
from ntkfl.limit.algorithm1_limit import algorithm1_limit
from ntkfl.limit.drawn_memory import DrawnMemoryRegime
from ntkfl.limit.draws import Draws
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.random_regime import Noise, RandomRegime, require_moments
from ntkfl.limit.regime import Kernel
from ntkfl.limit.scheduled_rounds import ScheduledRegime
from ntkfl.memory import require
from ntkfl.problem import LARGE, Problem, Setup, require_labels, require_size
from ntkfl.ranges import is_number
from ntkfl.work import CALL, require_work

CLIPPED = 0.01  # largest chance that any displacement of the whole training is clipped
SERVER_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # server rates to try, as shares of the largest stable one
LOCAL_SHARE = 0.5  # share of the largest eta_local at which a client alone contracts
UNSEEN = 1e-6  # chance that a simulated clip is exceeded more often than the plan says
SEED = 0  # seed of the simulated runs


ORDERS = (*range(2, 33), 40, 48, 64, 96, 128)  # orders of Renyi's divergence; the best one is taken
MOST = 1e6  # largest epsilon, and the inverse of the smallest; beyond them dp-accounting's sigma is lost to rounding
LEAST_DELTA = 1e-300  # smallest delta, for the same reason
TWICE = 70  # steps that double a number
LEAST = 0.01  # smallest noise multiplier to try: a client that is hardly ever drawn needs no noise
FINER = 1.01  # ratio of successive noise multipliers in the search, where clients are drawn


@cache
def noise_multiplier(epsilon: float, delta: float, rounds: int, clients: int = 1, cohort: int | None = None) -> float:
    """Standard deviation of the noise on the sum of the displacements, over the clipping norm, that a budget requires.

    Two data sets are neighbours if one client's displacements are 0 in one of them. Where all clients take part the
    bound is exact: several rounds of Gaussian noise reveal as much as one round with less noise. Where a cohort is
    drawn without replacement, the result is the smaller of two multipliers that suffice, up to one percent. The first
    counts how often a client is drawn, and suffices even if the cohorts are known. The second is dp-accounting's for
    such draws; it needs hidden cohorts, and its neighbours differ in everything that a client sends.

    Args:
        epsilon: from 1e-6 to 1e6; beyond these the accountant's numbers are lost to rounding.
        delta: in (0, 1), 1e-300 or more.
        rounds: T, 1 or more.
        clients: N, the number of clients; default 1.
        cohort: number of clients that each round draws; default: all.

    Raises:
        ValueError: a value outside its range. ImportError: dp-accounting, which counts privacy, is missing.

    Source: https://arxiv.org/abs/1805.06530, https://arxiv.org/abs/1808.00087 (Theorem 27);
    docs/proofs/random_rounds.md#privacy-of-drawn-clients.
    """
    if not (is_number(epsilon) and 1 / MOST <= epsilon <= MOST):
        raise ValueError(f"epsilon is {epsilon!r}; it must be a positive number, from {1 / MOST:g} to {MOST:g}")
    if not (is_number(delta) and LEAST_DELTA <= delta < 1):
        raise ValueError(f"delta is {delta!r}; it must lie between 0 and 1, and be {LEAST_DELTA:g} or more")
    require_size("rounds", rounds)
    cohort = clients if cohort is None else cohort
    if not 1 <= cohort <= clients:
        raise ValueError(f"the cohort is {cohort} of {clients} clients; it must be from 1 to all of them")
    try:
        from dp_accounting import gaussian_mechanism
    except ImportError:
        raise ImportError("privacy budgets are counted by dp-accounting: pip install dp-accounting") from None
    everyone = float(gaussian_mechanism.get_sigma_gaussian(epsilon, delta)) * rounds**0.5
    if cohort == clients:
        return everyone

    step = int(np.ceil(np.log(everyone) / np.log(FINER)))
    step = _least(lambda step: _delta_by_count(FINER**step, epsilon, rounds, cohort / clients) <= delta, step)
    step = _least(lambda step: _delta_by_divergence(step, epsilon, rounds, clients, cohort) <= delta, step)
    return min(everyone, float(FINER**step))


def _least(enough: Callable[[int], bool], high: int) -> int:
    """The least step, from the step of `LEAST` to `high`, at which the noise suffices (as at all larger steps)."""
    width = 1
    while FINER**high > LEAST and enough(high - width):
        interruption.check()
        high, width = high - width, 2 * width
    low = high - width
    while high - low > 1:
        interruption.check()
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _delta_by_count(multiplier: float, epsilon: float, rounds: int, share: float) -> float:
    """Delta where the cohorts are known: the mean of delta over the number of rounds in which a client is drawn."""
    counts = np.arange(1, rounds + 1)
    s = multiplier / np.sqrt(counts)
    first, second = log_ndtr(0.5 / s - epsilon * s), epsilon + log_ndtr(-0.5 / s - epsilon * s)
    return float(binom.pmf(counts, rounds, share) @ (np.exp(first) * -np.expm1(np.minimum(second - first, 0))))


def _delta_by_divergence(step: int, epsilon: float, rounds: int, clients: int, cohort: int) -> float:
    """Delta by the accountant for cohorts without replacement."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    return float(compute_delta(ORDERS, rounds * _divergences(step, clients, cohort), epsilon)[0])


@cache
def _divergences(step: int, clients: int, cohort: int) -> Float[np.ndarray, " orders"]:
    """Renyi's divergences of a round; a client's message changes by 2 S, twice the clipping norm, at most."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    accountant = RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(clients, cohort, GaussianDpEvent(FINER**step / 2)))
    return np.array(accountant.rdp)


class Clipping(Protocol):
    """The known properties of the clients' displacements, without noise and with it."""

    def moved(self, rounds: int, ratio: float, chance: float) -> float:
        """The most that noise adds to a displacement, over S; where it is below 1 a clip exists.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, over S.
            chance: the largest chance that any displacement is clipped.
        """
        ...

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        """The smallest norm S that is exceeded with at most a given chance; infinite where the noise is too large.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, over S.
            chance: the largest chance that any displacement is clipped.
        """
        ...


@dataclass(frozen=True, eq=False)
class Displacements:
    """The clients' displacements, which are Gaussian.

    |X| exceeds |mean| + sqrt(trace) + sqrt(2 top log(1/p)) with chance p at most, where trace and top are the trace and
    the largest eigenvalue of its covariance. Source: docs/proofs/random_rounds.md#clipping.

    Args:
        mean: norm of the mean displacement of client c in round t + 1, (T, N).
        trace: trace of the covariance, at noise of variance 1, shape (T, N).
        top: largest eigenvalue of the covariance, at noise of variance 1, shape (T, N).
    """

    mean: Float[np.ndarray, "T N"]
    trace: Float[np.ndarray, "T N"]
    top: Float[np.ndarray, "T N"]

    def _slopes(self, rounds: int, ratio: float, chance: float) -> Float[np.ndarray, "T N"]:
        log = np.log(rounds * self.mean.shape[1] / chance)
        return ratio * (np.sqrt(self.trace[:rounds]) + np.sqrt(2 * log * self.top[:rounds]))

    def moved(self, rounds: int, ratio: float, chance: float) -> float:
        return float(self._slopes(rounds, ratio, chance).max())

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        slopes = self._slopes(rounds, ratio, chance)
        return float("inf") if slopes.max() >= 1 else float((self.mean[:rounds] / (1 - slopes)).max())


@dataclass(frozen=True, eq=False)
class DrawnDisplacements:
    """The displacements of clients that are drawn, in simulated runs of the rounds.

    With noise of standard deviation s a displacement is x + s y: x is the displacement without noise, y the effect of
    noise of variance 1. S is the least norm that no displacement of any run exceeds at s = ratio S. If the chance that
    a run exceeds S were above `chance`, so many runs would have shown it, except with the chance `UNSEEN`.
    Source: docs/proofs/random_rounds.md#clipping-with-drawn-clients.

    Args:
        longest: |x|^2, x.y and |y|^2 in round t + 1, for the displacements that no other displacement exceeds in all
            three; one (k, 3) array for each round.
        chance: the least chance that this number of runs can bound.
    """

    longest: tuple[Float[np.ndarray, "k 3"], ...]
    chance: float

    def moved(self, rounds: int, ratio: float, chance: float) -> float:
        self._require(chance)
        return ratio * float(np.concatenate(self.longest[:rounds])[:, 2].max()) ** 0.5

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        if not self.moved(rounds, ratio, chance) < 1:
            return float("inf")
        quiet, both, noisy = np.concatenate(self.longest[:rounds]).T
        left = 1 - ratio**2 * noisy
        return float(((ratio * both + np.sqrt((ratio * both) ** 2 + left * quiet)) / left).max())

    def _require(self, chance: float) -> None:
        if chance < self.chance:
            raise ValueError(
                f"clipped is {chance:g}; the runs of drawn clients speak of chances of {self.chance:g} or more: give "
                "private_rounds or private_settings the smaller chance too"
            )


def _require_chance(clipped: float) -> None:
    if not (is_number(clipped) and 0 < clipped < 1):
        raise ValueError(f"clipped is {clipped!r}; it is a chance and must lie between 0 and 1")


@dataclass(frozen=True)
class Plan:
    """A private training that ends after some rounds.

    Args:
        rounds: T.
        noise_multiplier: noise on the sum over the clipping norm.
        clip: the norm S.
        noise: standard deviation of the noise on every weight of the mean.
        mean_square: E |y - f(T)|^2 / n over the training samples; infinite where no clip is known to be inactive.
        moved: the most that the noise may add to a displacement, over the clip; where it is 1 or more there is no clip.
    """

    rounds: int
    noise_multiplier: float
    clip: float
    noise: float
    mean_square: float
    moved: float


@dataclass(frozen=True, eq=False)
class PrivateRounds:
    """A method's rounds up to some round, without noise and with noise of variance 1; made by `private_rounds`.

    Args:
        regime: the rounds without noise.
        square: E |r(t)|^2 / n without noise, (T + 1,).
        gain: the increase of `square` by noise of variance 1.
        displacements: the clients' displacements.
        eta_global: the server's rates by round, where they change; the last one stays.
    """

    regime: RandomRegime
    square: Float[np.ndarray, " T"]
    gain: Float[np.ndarray, " T"]
    displacements: Clipping
    eta_global: tuple[float, ...] = ()

    def plan(
        self, epsilon: float, delta: float, rounds: int, clipped: float = CLIPPED, clip: float | None = None
    ) -> Plan:
        """The training for `rounds` rounds within a privacy budget.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            rounds: T.
            clipped: the largest chance that any clip is active; default 0.01.
            clip: the norm S; default: the least S at which any clip is known to be active with at most the chance
                `clipped`.

        Raises:
            ValueError: rounds beyond those that were computed, or below 1; a chance outside (0, 1); a clip that may be
                active, since no exact moments are known then; as `noise_multiplier`.
        """
        plan = self._plan(epsilon, delta, rounds, clipped, _checked_clip(clip))
        if plan is None:
            assert clip is not None
            raise _active(clip, clipped, self._plan(epsilon, delta, rounds, clipped))
        return plan

    def _plan(
        self, epsilon: float, delta: float, rounds: int, clipped: float, clip: float | None = None
    ) -> Plan | None:
        """As `plan`; None where `clip` may be active."""
        require_size("rounds", rounds)
        if not rounds < len(self.square):
            raise ValueError(f"rounds is {rounds}; it must be from 1 to {len(self.square) - 1}, which were computed")
        _require_chance(clipped)
        clients, cohort = self.regime.problem.n_clients, self.regime.noise.cohort
        multiplier = noise_multiplier(epsilon, delta, rounds, clients, cohort)
        ratio = multiplier / cohort
        least = self.displacements.clip(rounds, ratio, clipped)
        if clip is None:
            clip = least
        elif clip < least:
            return None
        noise = ratio * clip
        square = self.square[rounds] + noise**2 * self.gain[rounds] if isfinite(clip) else float("inf")
        moved = self.displacements.moved(rounds, ratio, clipped)
        return Plan(rounds, multiplier, clip, noise, float(square), moved)

    def plans(
        self, epsilon: float, delta: float, clipped: float = CLIPPED, clip: float | None = None
    ) -> tuple[Plan, ...]:
        """Plans for about sixty numbers of rounds, evenly spaced on a logarithmic scale.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            clipped: largest chance that any displacement of the whole training is clipped; default `CLIPPED`.
            clip: the norm S; rounds in which it may be active are left out. Default: the least one, as in `plan`.

        Raises:
            ValueError: as `plan`, except for a clip that may be active.
        """
        counts = sorted({int(t) for t in np.geomspace(1, len(self.square) - 1, num=60).round()})
        plans = (self._plan(epsilon, delta, t, clipped, _checked_clip(clip)) for t in counts)
        return tuple(plan for plan in plans if plan is not None)


def _checked_clip(clip: float | None) -> float | None:
    if clip is not None and not (is_number(clip) and 0 < clip <= LARGE):
        raise ValueError(f"clip is {clip!r}; it is a norm and must be a positive number, up to {LARGE:g}")
    return clip


def _active(clip: float, clipped: float, least: Plan | None) -> ValueError:
    """The refusal of a clip that may be active, with the plan whose clip would do."""
    assert least is not None
    rounds = f"{least.rounds} round" + "s" * (least.rounds > 1)
    would = (
        f"in {rounds} it must be {least.clip:.3g} or more"
        if isfinite(least.clip)
        else f"in {rounds} no clip is known to be inactive, since the noise may move an update by {least.moved:.3g} "
        "times the clip: take fewer rounds or a larger epsilon"
    )
    return ValueError(
        f"clip is {clip:g}; with a chance above {clipped:g} it may clip an update, and the exact moments are those of "
        f"rounds that clip nothing: {would}"
    )


def private_rounds(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    rounds: int = 100,
    eta_global: Sequence[float] | None = None,
    participation: float = 1.0,
    clipped: float = CLIPPED,
) -> PrivateRounds:
    """The moments that decide the result of private training with these steps.

    Args:
        problem: data, as `random_rounds` takes them.
        setup: steps.
        gram: H, shape (n, n), or its kernel; default: H_inf of FL-NTK's network.
        method: the method's name; default "fl-ntk".
        options: of the method; default the method's own.
        rounds: rounds whose moments are computed, default 100.
        eta_global: a schedule of the server's rate, by round; the last rate serves all later rounds; default: constant.
            The budget does not depend on it, since every round's mean has the same noise.
        participation: share of the clients that each round draws without replacement, in (0, 1].
        clipped: the least chance of an active clip that plans will ask for, where clients are drawn; default 0.01, for
            which 1375 runs are simulated.

    Raises:
        ValueError: as `random_rounds`; rounds below 1, or so many that they take too long; clients that remember;
            clients whose weights in the mean differ, since one client's share of the mean would not be known; a chance
            outside (0, 1).
        OverflowError: steps beyond the limit whose moments pass the largest float64.

    Source: docs/proofs/random_rounds.md#gaussian-noise.
    """
    base = algorithm1_limit(problem, setup, gram)
    _require_rounds(base, method, options or {}, rounds, participation, clipped)
    return _private_rounds(base, method, options or {}, rounds, eta_global, participation, clipped)


def _require_rounds(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    rounds: int,
    participation: float,
    clipped: float,
    settings: int = 1,
) -> None:
    """Refuse rounds whose moments, in this number of settings, take too long or do not fit the memory."""
    require_size("rounds", rounds)
    _require_chance(clipped)
    regime = random_of_method(base, method, options, participation=participation)
    (n, outputs), clients = regime._initial_residual(None).shape, base.problem.n_clients
    one, sizes = regime._work_of_labels, np.bincount(base.problem.owner)
    if regime.noise.nothing_drawn:
        one += 10 * outputs * (CALL * clients + float((sizes.astype(float) ** 3).sum()))
    else:
        runs = _runs(clipped)
        need = 8 * 20 * outputs * runs * (1 + regime.mean.round.memory)  # bytes a sample
        larger = f"clipped is {clipped:g}, for which {runs:.6g} runs are asked for: a larger chance takes fewer"
        require("runs of drawn clients", lambda n: need * n, hint=larger, n=n)
        one += one + 8.0 * n**2 * outputs * runs
    require_work("the moments of private rounds", lambda rounds: settings * rounds * one, rounds=rounds)
    numbers = 200.0 * settings * (clients + 1)  # bytes of the kept numbers of a round, as Python holds them
    require("the moments of private rounds", lambda rounds: numbers * rounds, rounds=rounds)


def _runs(chance: float) -> float:
    """The number of runs to simulate, so that they bound this chance."""
    return float(np.ceil(np.log(UNSEEN) / np.log1p(-chance)))


def _private_rounds(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    rounds: int,
    eta_global: Sequence[float] | None = None,
    participation: float = 1.0,
    clipped: float = CLIPPED,
) -> PrivateRounds:
    drawn: dict[str, Any] = {"eta_global": eta_global, "participation": participation}
    regime, problem = random_of_method(base, method, options, **drawn), base.problem
    last = regime.of_round(regime.settled) if isinstance(regime, ScheduledRegime) else regime
    if isinstance(last, DrawnMemoryRegime):
        raise ValueError(
            f"{method}'s clients remember: what clipping and noise do to their memories is not computed here; use a "
            "method without memory, such as fl-ntk"
        )
    sizes = np.bincount(problem.owner)
    if regime.noise.weighting != "uniform" and len(set(sizes)) > 1:
        raise ValueError(
            f"{method} weighs clients by their samples, which differ here; private training takes the plain mean over "
            "the clients: use the method fl-ntk, or clients of equal size"
        )
    everyone = regime.noise.nothing_drawn
    unit = random_of_method(base, method, options, noise=1.0, **drawn)
    initial, clients = regime._initial_residual(None), list(_clients(regime.noise))
    square, gain, rows = [], [], []
    without_noise = regime._rounds(initial)
    for t, (mean, noisy) in zip(range(rounds + 1), unit._rounds(initial), strict=False):
        interruption.check()
        quiet = np.zeros_like(noisy) if everyone else next(without_noise)[1]
        square.append((mean**2).sum() + np.trace(quiet, 0, 1, 2).sum())
        gain.append(np.trace(noisy - quiet, 0, 1, 2).sum())
        if everyone and t < rounds:
            rows.append([_moments(*client, mean, noisy) for client in clients])
    regime._finite(np.concatenate([square, gain]))
    own: Clipping
    if everyone:
        own = Displacements(*np.moveaxis(np.array(rows), 2, 0))
    else:
        own = _drawn_displacements(regime, rounds, clipped)
    rates = () if eta_global is None else tuple(map(float, eta_global))
    return PrivateRounds(regime, np.array(square) / problem.n, np.array(gain) / problem.n, own, rates)


def _drawn_displacements(regime: RandomRegime, rounds: int, chance: float) -> DrawnDisplacements:
    """The longest displacements of independent runs, in a number that bounds this chance."""
    runs, rng = int(_runs(chance)), np.random.default_rng(SEED)
    initial, noise = regime._initial_residual(None), regime.noise
    n, outputs = initial.shape
    kinds = 2 * outputs  # displacements without noise, and by noise alone
    start = np.concatenate(
        [np.concatenate([part, 0 * part], axis=1) for part in (initial, *regime.mean._empty(initial))]
    )
    states = np.tile(start, runs)
    clients = noise.blocks.clients
    scale = np.sqrt(np.maximum(clients.values, 0)) * noise.blocks.response(noise.pull)
    order, starts = np.concatenate(clients.members), np.cumsum([0, *map(len, clients.members[:-1])])
    longest = []
    for _, round_ in zip(range(rounds), regime._in_rounds(), strict=False):
        interruption.check()
        draws = Draws.at_random(noise, runs, kinds, rng)
        x, y = np.moveaxis(noise.blocks.apply(scale, states[:n])[order].reshape(n, runs, 2, outputs), 2, 0)
        sent = draws.taking[:, ::kinds]
        products = [np.einsum("nrc,nrc->nr", *pair) for pair in ((x, x), (x, y), (y, y))]
        longest.append(_outermost(np.array([np.add.reduceat(part, starts)[sent] for part in products])))
        states = round_._after(states, draws)
        pushed = np.zeros((n, runs, 2, outputs))
        pushed[:, :, 1] = (regime._root @ rng.standard_normal((n, runs * outputs))).reshape(n, runs, outputs)
        states = states + np.kron(round_._jump[:, None], pushed.reshape(n, -1))
    return DrawnDisplacements(tuple(longest), chance)


def _outermost(points: Float[np.ndarray, "3 m"]) -> Float[np.ndarray, "k 3"]:
    """The points that no other point exceeds in all coordinates."""
    kept = []
    while points.shape[1]:
        interruption.check()
        top = points[:, points.sum(axis=0).argmax()]
        kept.append(top)
        points = points[:, (points > top[:, None]).any(axis=0)]
    return np.array(kept)


def _moments(
    owned: np.ndarray,
    scaled: Float[np.ndarray, "k k"],
    mean: Float[np.ndarray, "n C"],
    covariance: Float[np.ndarray, "C n n"],
) -> tuple[float, float, float]:
    """The norm of the mean of a client's displacement, and trace and top eigenvalue of its covariance."""
    parts = [scaled @ of_output[np.ix_(owned, owned)] @ scaled.T for of_output in covariance]
    top = max(float(np.linalg.eigvalsh(part)[-1]) for part in parts)
    return float(np.linalg.norm(scaled @ mean[owned])), float(sum(map(np.trace, parts))), max(top, 0.0)


def _clients(noise: Noise) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "k k"]]]:
    """The samples of each client, and a matrix: |matrix r_c| is the norm of its displacement."""
    response, clients = noise.blocks.response(noise.pull), noise.blocks.clients
    for owned, basis in zip(clients.members, clients.vectors, strict=True):
        scale = np.sqrt(np.maximum(clients.values[owned], 0)) * response[owned]
        yield owned, scale[:, None] * basis.T


@dataclass(frozen=True)
class Choice:
    """The best number of rounds, and server rate, for a number of local steps.

    Args:
        local_steps: K.
        eta_local: step of the clients.
        server_rate: step of the server, in the first round where it falls.
        plan: the best plan over the tried rounds.
        last_rate: step of the server in the plan's last round.
    """

    local_steps: int
    eta_local: float
    server_rate: float
    plan: Plan
    last_rate: float

    @property
    def turned(self) -> float:
        """The largest share of a sample's learned output that noise takes from a ReLU network, at any width.

        It holds for initial weights of size 1, as FL-NTK draws them; the expected error does not count it.
        Source: docs/proofs/random_rounds.md#noise-turns-neurons.
        """
        return float(np.arctan(self.server_rate * self.plan.noise * self.plan.rounds**0.5) / np.pi)

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers; infinity as None."""
        entries = asdict(self)
        entries["plan"] = {name: value if isfinite(value) else None for name, value in entries["plan"].items()}
        return entries


def private_settings(
    problem: Problem,
    gram: ArrayLike | Kernel | None = None,
    *,
    local_steps: Sequence[int] = (1, 5, 20),
    rounds: int = 100,
    falls: Sequence[float] = (1.0,),
    participation: float = 1.0,
    clipped: float = CLIPPED,
    progress: Callable[[str], None] = lambda label: None,
) -> list[PrivateRounds]:
    """The rounds of FedAvg with the plain mean over clients, in the settings that `best_choices` compares.

    eta_local is half of the largest at which a client alone contracts; the server rate is tried at five shares of the
    largest stable one, which trade speed against noise.

    Args:
        problem: data; y (n,) or (n, C).
        gram: as `ntkfl.kernel_regime`.
        local_steps: numbers of local steps to try; default (1, 5, 20).
        rounds: most rounds; default 100.
        falls: final shares of the server rate to try, in (0, 1]: the rate falls by the same factor in every round and
            reaches this share in the last round; 1: a constant rate; default (1.0,).
        participation: share of the clients that each round draws without replacement, in (0, 1].
        clipped: as `private_rounds`; default 0.01.
        progress: a function that is called with the name of each setting before it is run; default None.

    Raises:
        ValueError: as `private_rounds`; labels that are all 0; a Gram matrix with no stable server rate; a share
            outside (0, 1].
    """
    if not len(local_steps):
        raise ValueError("local_steps is empty; name at least one number of local steps")
    for fall in falls:
        if not 0 < fall <= 1:
            raise ValueError(f"falls has {fall}; the server rate falls to a share in (0, 1] of it")
    require_labels(problem)
    require_moments(problem.n, problem.y[0].size)
    choices = []
    base = algorithm1_limit(problem, Setup(), gram)
    eta_local = LOCAL_SHARE * base.step_limits.eta_local
    settings = len(local_steps) * len(SERVER_SHARES) * len(falls)
    _require_rounds(base.at(Setup(eta_local=eta_local)), "fl-ntk", {}, rounds, participation, clipped, settings)
    for steps in local_steps:
        at_steps = base.at(Setup(eta_local=eta_local, local_steps=steps))
        limit = at_steps.step_limits.eta_global
        if not (limit > 0 and isfinite(limit)):
            raise ValueError("no server rate is stable: the Gram matrix is 0, or not positive definite")
        for share in SERVER_SHARES:
            rate = float(share * limit)
            for fall in falls:
                progress(f"K = {steps}, server rate {rate:.3g}" + (f" to {fall * rate:.3g}" if fall < 1 else ""))
                options = {"server_rate": rate} if fall == 1 else {}
                schedule = None if fall == 1 else np.geomspace(rate, fall * rate, rounds).tolist()
                choices.append(_private_rounds(at_steps, "fl-ntk", options, rounds, schedule, participation, clipped))
    return choices


def best_choices(
    settings: Sequence[PrivateRounds],
    epsilon: float,
    delta: float,
    clipped: float = CLIPPED,
    clip: float | None = None,
) -> list[Choice]:
    """For every number of local steps the least mean square within a budget, best first.

    The choice looks at the data, and this loss of privacy is not counted.

    Args:
        settings: settings from `private_settings`.
        epsilon: the budget's epsilon, for a client's data; positive.
        delta: the budget's delta, in (0, 1).
        clipped: chance that any clip is active, at most; default 0.01.
        clip: the norm S, the same in all settings; settings in which it may be active are left out. Default: the least
            S of each setting that is known to be inactive.

    Raises:
        ValueError: no settings; a clip that may be active in all of them; as `noise_multiplier`.
    """
    if not settings:
        raise ValueError("settings is empty; it must be those of private_settings")
    best: dict[int, Choice] = {}
    for setting in settings:
        plans = setting.plans(epsilon, delta, clipped, clip)
        if not plans:
            continue
        setup, mean = setting.regime.setup, setting.regime.mean.round
        plan = min(plans, key=lambda plan: plan.mean_square)
        rates = setting.eta_global or (mean.server_rate or 1.0,)
        last = rates[min(plan.rounds, len(rates)) - 1]
        choice = Choice(setup.local_steps, setup.eta_local, rates[0], plan, last)
        if choice.local_steps not in best or plan.mean_square < best[choice.local_steps].plan.mean_square:
            best[choice.local_steps] = choice
    if not best:
        assert clip is not None
        least = (plan for setting in settings for plan in setting.plans(epsilon, delta, clipped))
        raise _active(clip, clipped, min(least, key=lambda plan: plan.clip))
    return sorted(best.values(), key=lambda choice: choice.plan.mean_square)


def least_epsilon(
    settings: Sequence[PrivateRounds], delta: float, clipped: float = CLIPPED, clip: float | None = None
) -> float:
    """The least epsilon, up to one percent, at which a training in these settings lowers the expected error.

    The search halves an interval, since more noise never helps. Infinite where even epsilon = 6e4 does not lower it.

    Args:
        settings: settings from `private_settings`.
        delta: the budget's delta, in (0, 1).
        clipped: chance that any clip is active, at most; default 0.01.
        clip: as in `best_choices`; default: each setting's least clip.

    Raises:
        ValueError: as `best_choices`, except that a clip that may be active is not refused.
    """
    before = float(min(setting.square[0] for setting in settings))

    def helps(step: int) -> bool:
        plans = (plan for setting in settings for plan in setting.plans(FINER**step, delta, clipped, clip))
        return any(plan.mean_square < before for plan in plans)

    low = high = 0  # epsilon = 1: extreme ones cost the accountant most
    while not helps(high):
        interruption.check()
        low, high = high, high + max(high, TWICE)
        if FINER**high > MOST:
            return float("inf")
    lowest = -int(np.log(MOST) / np.log(FINER))
    while low > lowest and helps(low):
        interruption.check()
        low, high = max(low + min(low, -TWICE), lowest), low
    while high - low > 1:
        interruption.check()
        middle = (low + high) // 2
        low, high = (low, middle) if helps(middle) else (middle, high)
    return float(FINER**high)
