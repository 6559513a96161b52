"""Differentially private rounds in the kernel regime: the exact cost of a privacy budget, before any training.

A round clips each participant's displacement at the norm S, takes the plain mean of the displacements, and adds
Gaussian noise to every weight of the mean. While nothing is clipped, `random_rounds` has the exact moments. So S is the
smallest norm for which the probability that anything is clipped is at most the allowed chance. If all clients take
part, the displacements are Gaussian, and their moments bound this probability. If clients are drawn, the displacements
are not Gaussian. S is then the smallest norm that no displacement exceeds in many simulated runs. More simulated runs
can bound a smaller chance of clipping.

All of this holds for a model that is linear in its weights. In a ReLU network, noise on every weight turns neurons on
and off, however wide the network is. `Choice.turned` bounds the share of the learned output that is lost because
neurons are turned on and off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import isfinite
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike
from scipy.special import log_ndtr
from scipy.stats import binom

from ntkfl import interruption
from ntkfl.exact_dynamics import random_of_method
from ntkfl.limit.draws import Draws
from ntkfl.limit.infinite_width import Kernel, KernelRegime, algorithm1_limit
from ntkfl.limit.random_regime import Noise, RandomRegime, require_moments
from ntkfl.limit.scheduled_rounds import DrawnMemoryRegime, ScheduledRegime
from ntkfl.memory import require
from ntkfl.messages import is_number, require_size
from ntkfl.problem import LARGE, Problem, Setup, require_labels
from ntkfl.training.engine.local_plan import cohort_size
from ntkfl.work import CALL, require_work

CLIPPED = 0.01  # largest allowed chance that any displacement of the whole training is clipped
SERVER_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # server rates to try, as shares of the largest stable rate
LOCAL_SHARE = 0.5  # eta_local, as a share of the largest eta_local at which a client alone contracts
UNSEEN = 1e-6  # chance that a clipping norm from simulated runs is exceeded more often than the plan says
SEED = 0  # seed of the simulated runs
GROUPS = 64  # number of groups of the simulated runs; of each group the longest displacements are kept
COHORTS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)  # participations to try in `ntkfl privacy`: shares of the clients


# orders of Renyi's divergence; the order that gives the smallest delta is taken
ORDERS = (*range(2, 33), 40, 48, 64, 96, 128)
# epsilon must lie between 1 / MOST and MOST; outside, the noise multiplier of dp-accounting is lost to rounding
MOST = 1e6
LEAST_DELTA = 1e-300  # the smallest delta; below it, the noise multiplier of dp-accounting is lost to rounding
TWICE = 70  # a number that is multiplied by FINER this many times becomes about twice as large
# The search for a smaller noise multiplier ends once a multiplier of at most this size is enough. Without this limit
# the search would not end for clients that are drawn so rarely that they need no noise.
LEAST = 0.01
FINER = 1.01  # ratio of successive noise multipliers in the search that is made if clients are drawn


@cache
def noise_multiplier(epsilon: float, delta: float, rounds: int, clients: int = 1, cohort: int | None = None) -> float:
    """The noise that a privacy budget requires.

    The noise multiplier is the standard deviation of the noise on the sum of the displacements, divided by the clipping
    norm. Two data sets are neighbours if one client's displacements are 0 in one of them.

    If all clients take part, the result is exact, because several rounds of Gaussian noise reveal as much as one round
    with less noise. If a cohort is drawn without replacement, the result is, up to one percent, the smaller of two
    sufficient multipliers. The first multiplier is computed from the probabilities that a client is drawn in a given
    number of rounds. This multiplier suffices even if the cohorts are known. The second multiplier is dp-accounting's
    for draws without replacement. The second multiplier is proved only for hidden cohorts, and for a wider definition
    of neighbours, in which two data sets may differ in everything that one client sends.

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
    """The smallest step, at most `high`, for which the noise multiplier FINER**step is enough.

    The search ends early if this multiplier is at most `LEAST`.
    """
    width = 1
    while FINER**high > LEAST and enough(high - width):
        interruption.check()
        high, width = high - width, 2 * width
    return interruption.first(enough, high - width, high)


def _delta_by_count(multiplier: float, epsilon: float, rounds: int, share: float) -> float:
    """Delta if the cohorts are known: the mean of delta over the number of rounds in which a client is drawn."""
    counts = np.arange(1, rounds + 1)
    s = multiplier / np.sqrt(counts)
    first, second = log_ndtr(0.5 / s - epsilon * s), epsilon + log_ndtr(-0.5 / s - epsilon * s)
    return float(binom.pmf(counts, rounds, share) @ (np.exp(first) * -np.expm1(np.minimum(second - first, 0))))


def _delta_by_divergence(step: int, epsilon: float, rounds: int, clients: int, cohort: int) -> float:
    """Delta by the accountant of dp-accounting, for cohorts drawn without replacement."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    return float(compute_delta(ORDERS, rounds * _divergences(step, clients, cohort), epsilon)[0])


@cache
def _divergences(step: int, clients: int, cohort: int) -> Float[np.ndarray, " orders"]:
    """Renyi's divergences of a round.

    A client's message changes by at most 2 S, which is twice the clipping norm.
    """
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    accountant = RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(clients, cohort, GaussianDpEvent(FINER**step / 2)))
    return np.array(accountant.rdp)


class Clipping(Protocol):
    """What is known of the clients' displacements, without noise and with noise."""

    def moved(self, rounds: int, ratio: float, chance: float) -> float:
        """The largest effect of noise on a displacement, as a multiple of the clipping norm S.

        The multiple does not depend on S, because the standard deviation of the noise is `ratio` times S. If the
        multiple is below 1, there is a suitable S.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, divided by S.
            chance: the largest allowed chance that any displacement is clipped.
        """
        ...

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        """The smallest norm S that is exceeded with at most a given chance; infinite if the noise is too large.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, divided by S.
            chance: the largest allowed chance that any displacement is clipped.
        """
        ...


@dataclass(frozen=True, eq=False)
class Displacements:
    """The clients' displacements if all clients take part. The displacements are then Gaussian.

    A Gaussian X exceeds |mean| + sqrt(trace) + sqrt(2 top log(1/p)) in norm with probability at most p, where trace and
    top are the trace and the largest eigenvalue of its covariance.

    Source: docs/proofs/random_rounds.md#clipping.

    Args:
        mean: norm of the mean displacement of client c in round t + 1, (T, N).
        trace: trace of the covariance with noise of variance 1, shape (T, N).
        top: largest eigenvalue of the covariance with noise of variance 1, shape (T, N).
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

    With noise of standard deviation s a displacement is x + s y, where x is the displacement without noise, and y the
    effect of noise of variance 1. S is the smallest norm that no displacement of any run exceeds at s = ratio S.

    S is too small if a further run exceeds S with a probability above `chance`. Then each simulated run would also have
    exceeded S with a probability above `chance`, but none has exceeded it. The number of simulated runs is so large
    that the probability of such an S is at most `UNSEEN`.

    Source: docs/proofs/random_rounds.md#clipping-with-drawn-clients.

    Args:
        longest: |x|^2, x.y and |y|^2 in round t + 1, one (k, 3) array for each round. A displacement is left out if
            another displacement of the same group of runs is at least as large in all three numbers.
        groups: the group of runs of each of these displacements, (k,) for each round.
        chance: the smallest chance that this number of runs can bound.
    """

    longest: tuple[Float[np.ndarray, "k 3"], ...]
    groups: tuple[Integer[np.ndarray, " k"], ...]
    chance: float

    def moved(self, rounds: int, ratio: float, chance: float) -> float:
        self._require(chance)
        return ratio * float(np.concatenate(self.longest[:rounds])[:, 2].max()) ** 0.5

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        self._require(chance)
        return float(self._clips(rounds, ratio).max())

    def least(self, rounds: int, ratio: float, chance: float) -> float:
        """A lower bound of the right clipping norm, which fails with a probability of at most `UNSEEN`.

        The right norm is the smallest norm that a run exceeds with at most the probability `chance`. For each group of
        runs, consider the smallest norm that no run of the group exceeds. The bound is the k-th largest of these norms,
        or 0 if there are fewer than k groups. If the bound were above the right norm, k groups, and so at least k
        runs, would exceed the right norm. k is the smallest number such that, by the binomial law, the probability
        that at least k runs exceed the right norm is at most `UNSEEN`.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, divided by S.
            chance: the largest allowed chance that any displacement is clipped.
        """
        self._require(chance)
        most = np.zeros(1 + max(int(groups.max()) for groups in self.groups))
        np.maximum.at(most, np.concatenate(self.groups[:rounds]), self._clips(rounds, ratio))
        exceed = 1 + int(binom.isf(UNSEEN, int(_runs(self.chance)), chance))
        return float(np.sort(most)[-exceed]) if exceed <= len(most) else 0.0

    def _clips(self, rounds: int, ratio: float) -> Float[np.ndarray, " k"]:
        """For each displacement, the smallest clipping norm that it does not exceed; infinite if there is none."""
        quiet, both, noisy = np.concatenate(self.longest[:rounds]).T
        left = 1 - ratio**2 * noisy
        with np.errstate(divide="ignore", invalid="ignore"):
            clips = (ratio * both + np.sqrt((ratio * both) ** 2 + left * quiet)) / left
        return np.where(left > 0, clips, np.inf)

    def _require(self, chance: float) -> None:
        if chance < self.chance:
            raise ValueError(
                f"clipped is {chance:g}; the runs of drawn clients bound only chances of {self.chance:g} or more. "
                "For a smaller chance, call private_rounds or private_settings with it too"
            )


def _require_chance(clipped: float) -> None:
    if not (is_number(clipped) and 0 < clipped < 1):
        raise ValueError(f"clipped is {clipped!r}; it is a chance and must lie between 0 and 1")


@dataclass(frozen=True)
class Plan:
    """A private training that ends after some rounds.

    Args:
        rounds: T.
        noise_multiplier: standard deviation of the noise on the sum of the displacements, divided by the clipping norm.
        clip: the clipping norm S.
        noise: standard deviation of the noise on every weight of the mean.
        mean_square: E |y - f(T)|^2 / n over the training samples; infinite if every S may clip.
        moved: the largest effect of the noise on a displacement, divided by the clipping norm; if it is 1 or more, no
            norm is suitable.
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
        unit: the rounds with noise of variance 1.
        rounds: the largest number of rounds.
        eta_global: the server's rates by round, if they change; the last rate holds for all later rounds.
        chance: if clients are drawn, the smallest chance of clipping that a plan may ask for.
        everyone: the same rounds if all clients take part in each. None unless clients are drawn here and the
            comparison has a training in which all clients take part.
    """

    regime: RandomRegime
    unit: RandomRegime
    rounds: int
    eta_global: tuple[float, ...] = ()
    chance: float = CLIPPED
    everyone: PrivateRounds | None = None

    @property
    def cohort(self) -> int:
        """The number of clients in a round."""
        return self.regime.noise.cohort

    @property
    def _rates(self) -> tuple[float, ...]:
        """The server's rates by round; the last rate holds for all later rounds."""
        return self.eta_global or (self.regime.mean.round.server_rate or 1.0,)

    @property
    def _label(self) -> str:
        """The steps and the cohort, for lines that show the progress."""
        rates = " to ".join(f"{rate:.3g}" for rate in dict.fromkeys((self._rates[0], self._rates[-1])))
        clients = self.regime.problem.n_clients
        return f"K = {self.regime.setup.local_steps}, server rate {rates}, {self.cohort} of {clients} clients"

    @property
    def square(self) -> Float[np.ndarray, " T"]:
        """E |r(t)|^2 / n without noise, shape (T + 1,); infinite from the first round in which it passes 1e200."""
        return np.array([self._moment(t)[0] for t in range(self.rounds + 1)])

    @property
    def gain(self) -> Float[np.ndarray, " T"]:
        """The increase of `square` by noise of variance 1."""
        return np.array([self._moment(t)[1] for t in range(self.rounds + 1)])

    @property
    def displacements(self) -> Clipping:
        """The clients' displacements; the displacements of drawn clients are simulated."""
        return self._displacements(self.rounds)

    @property
    def has_run(self) -> bool:
        """Whether the runs of drawn clients have been simulated, or no runs are needed."""
        return self.regime.noise.nothing_drawn or "_simulated" in self.__dict__

    @cached_property
    def _rounds_so_far(self) -> tuple[list[tuple[float, float]], list[np.ndarray], Iterator[bool]]:
        """Two lists with an entry for each round so far, and an iterator that adds the entry of the next round.

        The first list has the pairs (`square`, `gain`). The second has the moments of the displacements if all clients
        take part, and stays empty otherwise.
        """
        known: list[tuple[float, float]] = []
        rows: list[np.ndarray] = []

        def rounds() -> Iterator[bool]:
            regime, everyone = self.regime, self.regime.noise.nothing_drawn
            initial, clients = regime._initial_residual(None), _clients(regime.noise)
            without_noise = regime._rounds(initial)
            for mean, noisy in self.unit._rounds(initial):
                interruption.check()
                quiet = np.zeros_like(noisy) if everyone else next(without_noise)[1]
                square = (mean**2).sum() + np.trace(quiet, 0, 1, 2).sum()
                known.append((square / len(initial), np.trace(noisy - quiet, 0, 1, 2).sum() / len(initial)))
                if everyone:
                    rows.append(_moments(clients, mean, noisy))
                if not max(known[-1]) < LARGE**2:
                    known[-1] = (np.inf, np.inf)
                    return
                yield True

        return known, rows, rounds()

    def _moment(self, rounds: int) -> tuple[float, float]:
        """`square` and `gain` after this number of rounds."""
        known, _, next_round = self._rounds_so_far
        while len(known) <= rounds:
            interruption.check()
            if not next(next_round, False):
                known.append((np.inf, np.inf))
        return known[rounds]

    @cached_property
    def _simulated(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], Iterator[tuple[np.ndarray, np.ndarray]]]:
        """The longest displacements in the simulated rounds so far, and an iterator over those in the next rounds."""
        return [], _drawn_displacements(self.regime, self.chance)

    def _displacements(self, rounds: int) -> Clipping:
        """The displacements of the first `rounds` rounds, without rounds whose moments are infinite."""
        while not isfinite(self._moment(rounds)[0]) and rounds > 1:
            interruption.check()
            rounds -= 1
        if self.regime.noise.nothing_drawn:
            return Displacements(*np.moveaxis(np.array(self._rounds_so_far[1][:rounds]), 2, 0))
        known, more = self._simulated
        while len(known) < rounds:
            interruption.check()
            known.append(next(more))
        longest, groups = zip(*known[:rounds], strict=True)
        return DrawnDisplacements(longest, groups, self.chance)

    @cached_property
    def _first(self) -> float:
        """The longest displacement of any client in the first round; no clipping norm is smaller."""
        initial = self.regime._initial_residual(None)
        stacks = _clients(self.regime.noise)
        return max(float(np.linalg.norm(scaled @ initial[owned], axis=(1, 2)).max()) for _, owned, scaled in stacks)

    def _multiplier(self, epsilon: float, delta: float, rounds: int) -> float:
        return noise_multiplier(epsilon, delta, rounds, self.regime.problem.n_clients, self.cohort)

    def plan(
        self, epsilon: float, delta: float, rounds: int, clipped: float = CLIPPED, clip: float | None = None
    ) -> Plan:
        """The training for `rounds` rounds within a privacy budget.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            rounds: T.
            clipped: the largest allowed chance that anything is clipped; default 0.01.
            clip: the clipping norm S; default: the smallest S for which the chance that anything is clipped is known to
                be at most `clipped`.

        Raises:
            ValueError: more rounds than were computed, or fewer than 1; a chance outside (0, 1); a norm that may clip,
                since exact moments are known only if nothing is clipped. Also as `noise_multiplier`.
        """
        plan = self._plan(epsilon, delta, rounds, clipped, _checked_clip(clip))
        if plan is None:
            assert clip is not None
            raise _active(clip, clipped, self._plan(epsilon, delta, rounds, clipped))
        return plan

    def _plan(
        self, epsilon: float, delta: float, rounds: int, clipped: float, clip: float | None = None
    ) -> Plan | None:
        """The result of `plan`; None if the norm `clip` may clip anything."""
        require_size("rounds", rounds)
        if rounds > self.rounds:
            raise ValueError(f"rounds is {rounds}; it must be from 1 to {self.rounds}, which were computed")
        _require_chance(clipped)
        multiplier = self._multiplier(epsilon, delta, rounds)
        ratio = multiplier / self.cohort
        displacements, (square, gain) = self._displacements(rounds), self._moment(rounds)
        least = displacements.clip(rounds, ratio, clipped)
        if clip is None:
            clip = least
        elif clip < least:
            return None
        noise = ratio * clip
        mean_square = square + noise**2 * gain if isfinite(clip) else float("inf")
        return Plan(rounds, multiplier, clip, noise, float(mean_square), displacements.moved(rounds, ratio, clipped))

    def plans(
        self, epsilon: float, delta: float, clipped: float = CLIPPED, clip: float | None = None
    ) -> tuple[Plan, ...]:
        """Plans for about sixty numbers of rounds, evenly spaced on a logarithmic scale.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            clipped: the largest allowed chance that any displacement of the whole training is clipped; default
                `CLIPPED`.
            clip: the clipping norm S; numbers of rounds in which it may clip are left out. Default: the smallest one,
                as in `plan`.

        Raises:
            ValueError: as `plan`, except for a norm that may clip.
        """
        plans = (self._plan(epsilon, delta, t, clipped, _checked_clip(clip)) for t in self.counts)
        return tuple(plan for plan in plans if plan is not None)

    @property
    def counts(self) -> list[int]:
        """The numbers of rounds that are compared."""
        return sorted({int(t) for t in np.geomspace(1, self.rounds, num=60).round()})

    def _plans_below(
        self, below: float, epsilon: float, delta: float, clipped: float, clip: float | None
    ) -> Iterator[tuple[Plan, float]]:
        """Yields the plans whose mean square may be below a number, each with a lower bound of its mean square.

        The other plans are excluded without simulated runs. The exclusion is valid because drawing clients never lowers
        the mean square or the effect of noise (docs/proofs/random_rounds.md#which-cohort), and because no clipping norm
        is below the longest displacement of the first round.
        """
        clip, drawn = _checked_clip(clip), not self.regime.noise.nothing_drawn
        finer, ratio, norm = FINER if drawn else 1.0, 0.0, self._first
        for t in self.counts:
            interruption.check()
            # with more rounds the noise and the clipping norm are no smaller
            if self._floor(t, ratio * norm, below) >= below:
                continue
            # a multiplier of at most `LEAST` means that the search ended early
            multiplier = self._multiplier(epsilon, delta, t)
            ratio = 0.0 if drawn and multiplier <= LEAST else multiplier / finer / self.cohort
            if self._floor(t, ratio * norm, below) >= below:
                continue
            plan = self._plan(epsilon, delta, t, clipped, clip)
            if plan is None:
                continue
            displacements = self._displacements(t)
            if clip is not None:
                norm = clip
            elif isinstance(displacements, DrawnDisplacements):
                norm = displacements.least(t, ratio, clipped)
            least = self._with_noise(t, ratio * norm)
            if least < below:
                yield plan, least

    def _with_noise(self, rounds: int, noise: float) -> float:
        """The mean square after this number of rounds, with noise of this standard deviation."""
        square, gain = self._moment(rounds)
        return float(square + noise**2 * gain) if isfinite(noise) else float("inf")

    def _floor(self, rounds: int, noise: float, below: float) -> float:
        """A lower bound of the mean square after this number of rounds with this noise.

        The more expensive of two bounds is computed only if the cheaper bound is less than `below`.
        """
        least = 0.0
        for known in (self.everyone, self):
            if known is not None and least < below:
                least = known._with_noise(rounds, noise)
        return least


def _checked_clip(clip: float | None) -> float | None:
    if clip is not None and not (is_number(clip) and 0 < clip <= LARGE):
        raise ValueError(f"clip is {clip!r}; it is a norm and must be a positive number, up to {LARGE:g}")
    return clip


def _active(clip: float, clipped: float, least: Plan | None) -> ValueError:
    """The error for a norm that may clip; the message names the smallest norm that would do."""
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
        options: options of the method; default the method's own.
        rounds: number of rounds whose moments are computed, default 100.
        eta_global: a schedule of the server's rate, by round; the last rate holds for all later rounds; default:
            constant. The budget does not depend on the schedule, since the mean of every round has the same noise.
        participation: share of the clients that each round draws without replacement, in (0, 1]; default 1.
        clipped: if clients are drawn, the smallest chance of clipping that plans will ask for; default 0.01, for which
            1375 runs are simulated.

    Raises:
        ValueError: as `random_rounds`; rounds below 1, or so many that they take too long; a method whose clients have
            a memory, as in SCAFFOLD; clients whose weights in the mean differ, since one client's share of the mean
            would not be known; a chance outside (0, 1).
        OverflowError: steps beyond the limit whose moments pass 1e200.

    Source: docs/proofs/random_rounds.md#gaussian-noise.
    """
    base = algorithm1_limit(problem, setup, gram)
    _require_rounds(base, method, options or {}, rounds, participation, clipped)
    done = _private_rounds(base, method, options or {}, rounds, eta_global, participation, clipped)
    done.regime._finite(np.concatenate([done.square, done.gain]))
    return done


def _require_rounds(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    rounds: int,
    participation: float,
    clipped: float,
    settings: int = 1,
) -> None:
    """Refuse rounds whose moments take too long or do not fit the memory.

    The time is counted for `settings` settings together. The numbers that every round leaves in memory are counted for
    all of these settings too. The simulated runs of drawn clients are counted for one setting.
    """
    require_size("rounds", rounds)
    _require_chance(clipped)
    regime = random_of_method(base, method, options, participation=participation)
    (n, outputs), clients = regime._initial_residual(None).shape, base.problem.n_clients
    one, sizes = regime._work_of_labels, np.bincount(base.problem.owner)
    if regime.noise.nothing_drawn:
        one += 10 * outputs * (CALL * len(regime.noise.blocks.clients.stacks) + float((sizes.astype(float) ** 3).sum()))
    else:
        runs = _runs(clipped)
        need = 8 * 20 * outputs * runs * (1 + regime.mean.round.memory)  # number of bytes for each sample
        larger = (
            f"clipped is {clipped:g}, for which {runs:.6g} runs are needed: a larger chance takes fewer, and "
            "participation 1, all clients in every round, needs none"
        )
        require("runs of drawn clients", lambda n: need * n, hint=larger, n=n)
        one += one + 8.0 * n**2 * outputs * runs
    require_work("the moments of private rounds", lambda rounds: settings * rounds * one, rounds=rounds)
    numbers = settings * (200.0 + 24.0 * clients)  # number of bytes of the numbers that every round leaves in memory
    require("the moments of private rounds", lambda rounds: numbers * rounds, rounds=rounds)


def _runs(chance: float) -> float:
    """The number of runs that must be simulated to bound this chance."""
    return float(np.ceil(np.log(UNSEEN) / np.log1p(-chance)))


def _private_rounds(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    rounds: int,
    eta_global: Sequence[float] | None = None,
    participation: float = 1.0,
    clipped: float = CLIPPED,
    everyone: PrivateRounds | None = None,
) -> PrivateRounds:
    drawn: dict[str, Any] = {"eta_global": eta_global, "participation": participation}
    regime, problem = random_of_method(base, method, options, **drawn), base.problem
    last = regime.of_round(regime.settled) if isinstance(regime, ScheduledRegime) else regime
    if isinstance(last, DrawnMemoryRegime):
        raise ValueError(
            f"{method}'s clients keep a memory: what clipping and noise do to it is not computed here; use a "
            "method without memory, such as fl-ntk"
        )
    if regime.noise.weighting != "uniform" and len(set(np.bincount(problem.owner))) > 1:
        raise ValueError(
            f"{method} weighs clients by their samples, which differ here; private training takes the plain mean over "
            "the clients: use the method fl-ntk, or clients of equal size"
        )
    unit = random_of_method(base, method, options, noise=1.0, **drawn)
    rates = () if eta_global is None else tuple(map(float, eta_global))
    return PrivateRounds(regime, unit, rounds, rates, clipped, everyone)


def _drawn_displacements(regime: RandomRegime, chance: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields for each round the longest displacements of independent runs, and the groups of these runs.

    There are enough runs to bound this chance.
    """
    runs, rng = int(_runs(chance)), np.random.default_rng(SEED)
    initial, noise = regime._initial_residual(None), regime.noise
    n, outputs = initial.shape
    kinds = 2 * outputs  # columns for displacements without noise, and for displacements by noise alone
    start = np.concatenate(
        [np.concatenate([part, 0 * part], axis=1) for part in (initial, *regime.mean._empty(initial))]
    )
    states = np.tile(start, runs)
    clients = noise.blocks.clients
    scale = np.sqrt(np.maximum(clients.values, 0)) * noise.blocks.response(noise.pull)
    order, starts = np.concatenate(clients.members), np.cumsum([0, *map(len, clients.members[:-1])])
    borders = np.linspace(0, runs, 1 + min(runs, GROUPS)).astype(int)
    for t, round_ in enumerate(regime._in_rounds()):
        interruption.check()
        draws = Draws.at_random(noise, runs, kinds, rng)
        x, y = np.moveaxis(noise.blocks.apply(scale, states[:n])[order].reshape(n, runs, 2, outputs), 2, 0)
        # the first displacement of every client counts, so that no clipping norm is below it
        sent = draws.taking[:, ::kinds] | (t == 0)
        products = [np.add.reduceat(np.einsum("nrc,nrc->nr", *pair), starts) for pair in ((x, x), (x, y), (y, y))]
        outermost = [
            _outermost(np.array([part[:, start:end][sent[:, start:end]] for part in products]))
            for start, end in pairwise(borders)
        ]
        groups = np.repeat(np.arange(len(outermost)), [len(points) for points in outermost])
        yield np.concatenate(outermost), groups
        states = round_._after(states, draws)
        pushed = np.zeros((n, runs, 2, outputs))
        pushed[:, :, 1] = (regime._root @ rng.standard_normal((n, runs * outputs))).reshape(n, runs, outputs)
        states = states + np.kron(round_._jump[:, None], pushed.reshape(n, -1))


def _outermost(points: Float[np.ndarray, "3 m"]) -> Float[np.ndarray, "k 3"]:
    """The points that no other point dominates; of equal points one is kept.

    A point dominates another if none of its coordinates is smaller.
    """
    kept = []
    while points.shape[1]:
        interruption.check()
        top = points[:, points.sum(axis=0).argmax()]
        kept.append(top)
        points = points[:, (points > top[:, None]).any(axis=0)]
    return np.array(kept)


# A stack describes the m clients that have k samples each, by three arrays. The first has the clients' indices, (m,).
# The second has the indices of their samples, (m, k). The third has one matrix for each client, (m, k, k). The matrix
# of client c times the client's residual r_c has the same norm as the client's displacement.
Stack = tuple[np.ndarray, np.ndarray, np.ndarray]


def _moments(
    stacks: Sequence[Stack], mean: Float[np.ndarray, "n C"], covariance: Float[np.ndarray, "C n n"]
) -> Float[np.ndarray, "N 3"]:
    """For each client, three moments of its displacement.

    The moments are the norm of the mean, and the trace and the largest eigenvalue of the covariance.
    """
    moments = np.empty((sum(len(clients) for clients, *_ in stacks), 3))
    for clients, owned, scaled in stacks:
        parts = scaled @ covariance[:, owned[:, :, None], owned[:, None]] @ scaled.swapaxes(1, 2)
        top = np.linalg.eigvalsh(parts)[..., -1].max(axis=0)
        traces = np.trace(parts, axis1=2, axis2=3).sum(axis=0)
        moments[clients] = np.stack([np.linalg.norm(scaled @ mean[owned], axis=(1, 2)), traces, np.maximum(top, 0)], 1)
    return moments


def _clients(noise: Noise) -> list[Stack]:
    """The clients in stacks; a stack has all clients with the same number of samples."""
    response, clients = noise.blocks.response(noise.pull), noise.blocks.clients
    scale = np.sqrt(np.maximum(clients.values, 0)) * response
    return [
        (numbers, owned, scale[owned][..., None] * basis.swapaxes(1, 2)) for numbers, owned, basis in clients.stacks
    ]


@dataclass(frozen=True)
class Choice:
    """The best training for a number of local steps or for a cohort, with its steps and its plan.

    Args:
        local_steps: K.
        eta_local: step of the clients.
        server_rate: step of the server; if it falls, the step of the first round.
        plan: the best plan over the numbers of rounds that were tried.
        last_rate: step of the server in the plan's last round.
        cohort: number of clients that a round draws.
    """

    local_steps: int
    eta_local: float
    server_rate: float
    plan: Plan
    last_rate: float
    cohort: int

    @property
    def turned(self) -> float:
        """The largest share of a sample's learned output that noise takes from a ReLU network, at any width.

        This bound holds for initial weights of size 1, as FL-NTK draws them. The expected error does not include this
        effect.

        Source: docs/proofs/random_rounds.md#noise-turns-neurons.
        """
        return float(np.arctan(self.server_rate * self.plan.noise * self.plan.rounds**0.5) / np.pi)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain numbers; infinity becomes None."""
        entries = asdict(self)
        entries["plan"] = {name: value if isfinite(value) else None for name, value in entries["plan"].items()}
        return entries


@dataclass(frozen=True)
class CohortChoice:
    """The best training with a cohort, compared with the best training over all cohorts.

    Args:
        cohort: number of clients that a round draws.
        choice: the best training with this cohort; None if bounds show, without simulated runs, that no training with
            this cohort is as good as the best training over all cohorts.
        least: a lower bound of the mean square of every training with this cohort; None if `choice` is None. If clients
            are drawn, simulated runs do not determine the smallest clipping norm that the chance `clipped` allows, and
            the accountant's noise is exact to one percent. `least` allows for the error of the clipping norm and for
            the error of the noise. If all clients take part, the clipping norm of a plan is only an upper bound of the
            smallest norm that `clipped` allows. In its place, unless `clip` is given, `least` uses the longest
            displacement of the first round, because no clipping norm is smaller than this displacement.
        is_best: whether no other cohort is better.
        as_good: whether `least` is at most the best mean square over all cohorts, so that this cohort cannot be told
            apart from the best cohort.
    """

    cohort: int
    choice: Choice | None
    least: float | None
    is_best: bool
    as_good: bool

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain numbers; infinity becomes None."""
        own = {"choice": None if self.choice is None else self.choice.to_dict()}
        return asdict(self) | own | {"least": None if self.least is None or not isfinite(self.least) else self.least}


def private_settings(
    problem: Problem,
    gram: ArrayLike | Kernel | None = None,
    *,
    local_steps: Sequence[int] = (1, 5, 20),
    rounds: int = 100,
    falls: Sequence[float] = (1.0,),
    participation: float | Sequence[float] = 1.0,
    clipped: float = CLIPPED,
) -> list[PrivateRounds]:
    """The rounds of FedAvg with the plain mean over clients, in the settings that `best_choices` compares.

    eta_local is half of the limit below which a client that trains alone contracts its residual. The server rate is
    tried at five shares of the largest stable rate, from slow rounds with little noise to fast rounds with more noise.

    Args:
        problem: data; y (n,) or (n, C).
        gram: as `ntkfl.kernel_regime`; default: H_inf of FL-NTK's network.
        local_steps: numbers of local steps to try; default (1, 5, 20).
        rounds: the largest number of rounds; default 100.
        falls: shares of the server rate to try, in (0, 1]. In every round the server rate falls by the same factor, and
            in round `rounds` it is this share of its first value. With the share 1 it stays constant. Default (1.0,).
        participation: share of the clients that each round draws without replacement, in (0, 1], or several shares to
            compare, such as `COHORTS`; default 1. Runs of drawn clients are simulated when a comparison needs them.
        clipped: as `private_rounds`; default 0.01.

    Raises:
        ValueError: as `private_rounds`; labels that are all 0; a Gram matrix with no stable server rate; a share
            outside (0, 1]; no local steps, or no share.
    """
    if not len(local_steps):
        raise ValueError("local_steps is empty; name at least one number of local steps")
    shares = list(participation) if isinstance(participation, Sequence) else [participation]
    if not shares:
        raise ValueError("participation is empty; name at least one share of the clients, such as 1")
    for fall in falls:
        if not 0 < fall <= 1:
            raise ValueError(f"falls has {fall}; the server rate falls to a share in (0, 1] of its first value")
    require_labels(problem)
    require_moments(problem.n, problem.y[0].size)
    choices = []
    base = algorithm1_limit(problem, Setup(), gram)
    eta_local = LOCAL_SHARE * base.step_limits.eta_local
    cohorts = sorted({cohort_size(problem.n_clients, share): share for share in shares}.items(), reverse=True)
    settings = len(local_steps) * len(SERVER_SHARES) * len(falls) * len(cohorts)
    for _, share in cohorts:
        _require_rounds(base.at(Setup(eta_local=eta_local)), "fl-ntk", {}, rounds, share, clipped, settings)
    for steps in local_steps:
        at_steps = base.at(Setup(eta_local=eta_local, local_steps=steps))
        limit = at_steps.step_limits.eta_global
        if not (limit > 0 and isfinite(limit)):
            raise ValueError("no server rate is stable: the Gram matrix is 0, or not positive definite")
        for share in SERVER_SHARES:
            rate = float(share * limit)
            for fall in falls:
                options = {"server_rate": rate} if fall == 1 else {}
                schedule = None if fall == 1 else np.geomspace(rate, fall * rate, rounds).tolist()
                everyone = None
                for cohort, share in cohorts:
                    done = _private_rounds(at_steps, "fl-ntk", options, rounds, schedule, share, clipped, everyone)
                    everyone = done if cohort == problem.n_clients else everyone
                    choices.append(done)
    return choices


def best_choices(
    settings: Sequence[PrivateRounds],
    epsilon: float,
    delta: float,
    clipped: float = CLIPPED,
    clip: float | None = None,
    progress: Callable[[str], None] = lambda label: None,
) -> list[Choice]:
    """For every number of local steps, the training with the smallest mean square within a budget, the best first.

    Each training has the cohort with which it reaches this mean square. The choice of a training looks at the data. The
    privacy that this choice costs is not counted.

    Args:
        settings: settings from `private_settings`.
        epsilon: the budget's epsilon, for a client's data; positive.
        delta: the budget's delta, in (0, 1).
        clipped: the largest allowed chance that anything is clipped; default 0.01.
        clip: the clipping norm S, the same in all settings; settings in which it may clip are left out. Default: for
            each setting the smallest S, as in `PrivateRounds.plan`.
        progress: a function that is called with the name of each setting before its rounds are run; default: none.

    Raises:
        ValueError: no settings; a norm that may clip in all of them; as `noise_multiplier`.
    """
    if not settings:
        raise ValueError("settings is empty; it must be those of private_settings")
    best = {}
    for count in {setting.regime.setup.local_steps for setting in settings}:
        own = [setting for setting in settings if setting.regime.setup.local_steps == count]
        choice, _ = _best(own, float("inf"), epsilon, delta, clipped, clip, progress)
        if choice is not None:
            best[count] = choice
    if not best:
        assert clip is not None
        least = (plan for setting in settings for plan in setting.plans(epsilon, delta, clipped))
        raise _active(clip, clipped, min(least, key=lambda plan: plan.clip))
    return sorted(best.values(), key=lambda choice: choice.plan.mean_square)


def best_cohorts(
    settings: Sequence[PrivateRounds],
    epsilon: float,
    delta: float,
    clipped: float = CLIPPED,
    clip: float | None = None,
) -> list[CohortChoice]:
    """For every cohort, the training with the smallest mean square within a budget, the largest cohort first.

    If lower bounds of the mean square show that a cohort is worse than the best cohort, no runs of it are simulated.

    Two numbers of a training may be inexact. If clients are drawn, the accountant finds the noise to one percent. The
    clipping norm may be larger than the smallest norm that the chance `clipped` allows. If a cohort with the exact
    noise and this smallest norm may be as good as the best cohort, the two are not told apart: `as_good` is True.

    Args:
        settings: settings from `private_settings`, with several shares of the clients.
        epsilon: the budget's epsilon, for a client's data; positive.
        delta: the budget's delta, in (0, 1).
        clipped: the largest allowed chance that anything is clipped; default 0.01.
        clip: as `best_choices`.

    Raises:
        ValueError: as `best_choices`.

    Source: docs/proofs/random_rounds.md#which-cohort.
    """
    best = best_choices(settings, epsilon, delta, clipped, clip)[0]
    lowest, choices = best.plan.mean_square, []
    for cohort in sorted({setting.cohort for setting in settings}, reverse=True):
        own = [setting for setting in settings if setting.cohort == cohort]
        choice, least = _best(own, float(np.nextafter(lowest, np.inf)), epsilon, delta, clipped, clip)
        as_good = choice is not None and least <= lowest
        # The first search leaves out plans whose lower bound is above `lowest`. Such a plan may still have a smaller
        # mean square than `choice`. So a second search takes all plans that may be as good as `choice`.
        if choice is not None:
            reached = float(np.nextafter(choice.plan.mean_square, np.inf))
            choice, _ = _best(own, reached, epsilon, delta, clipped, clip)
        choices.append(CohortChoice(cohort, choice, least if choice else None, cohort == best.cohort, as_good))
    return choices


def _best(
    settings: Sequence[PrivateRounds],
    below: float,
    epsilon: float,
    delta: float,
    clipped: float,
    clip: float | None,
    progress: Callable[[str], None] = lambda label: None,
) -> tuple[Choice | None, float]:
    """The best of these trainings, and a lower bound of their mean squares.

    If no training is left, the result has None in place of the best training. A training is left out if a lower bound
    of its mean square is at or above `below`, or if the norm `clip` may clip anything.
    """
    best, least = None, float("inf")
    for setting in sorted(settings, key=lambda setting: -setting.cohort):  # settings that need simulated runs come last
        progress(setting._label)
        bound = below if best is None else min(below, best.plan.mean_square)
        for plan, lowest in setting._plans_below(bound, epsilon, delta, clipped, clip):
            least = min(least, lowest)
            if best is None or plan.mean_square < best.plan.mean_square:
                setup, rates = setting.regime.setup, setting._rates
                last = rates[min(plan.rounds, len(rates)) - 1]
                best = Choice(setup.local_steps, setup.eta_local, rates[0], plan, last, setting.cohort)
    return best, least


def least_epsilon(
    settings: Sequence[PrivateRounds], delta: float, clipped: float = CLIPPED, clip: float | None = None
) -> float:
    """The smallest epsilon, up to one percent, at which a training in these settings lowers the expected error.

    The search halves an interval, which is possible since more noise never helps. The result is infinite if even
    epsilon = 6.9e4 does not lower the error.

    Args:
        settings: settings from `private_settings`.
        delta: the budget's delta, in (0, 1).
        clipped: the largest allowed chance that anything is clipped; default 0.01.
        clip: as in `best_choices`; default: the smallest suitable norm of each setting.

    Raises:
        ValueError: as `best_choices`, except that a norm that may clip is not refused.
    """
    before = float(min(setting.square[0] for setting in settings))

    def helps(step: int) -> bool:
        return any(
            plan.mean_square < before
            for setting in settings
            for plan, _ in setting._plans_below(before, FINER**step, delta, clipped, clip)
        )

    low = high = 0  # the search begins at epsilon = 1, since the accountant takes longest for extreme epsilons
    while not helps(high):
        interruption.check()
        low, high = high, high + max(high, TWICE)
        if FINER**high > MOST:
            return float("inf")
    lowest = -int(np.log(MOST) / np.log(FINER))
    while low > lowest and helps(low):
        interruption.check()
        low, high = max(low + min(low, -TWICE), lowest), low
    return float(FINER ** interruption.first(helps, low, high))
