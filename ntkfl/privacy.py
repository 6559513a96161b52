"""Differentially private rounds in the kernel regime: what a privacy budget costs, exactly, before anything is trained.

A round clips every client's displacement at the norm S, takes the plain mean over all clients, and adds Gaussian noise
to every weight of the mean. While nothing is clipped, `random_rounds` has the exact moments. So S is chosen as small as
a proven bound on the chance of clipping allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import interruption
from ntkfl.exact_dynamics import random_of_method
from ntkfl.limit.algorithm1_limit import algorithm1_limit
from ntkfl.limit.drawn_memory import DrawnMemoryRegime
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.random_regime import Noise, RandomRegime
from ntkfl.limit.regime import Kernel
from ntkfl.limit.scheduled_rounds import ScheduledRegime
from ntkfl.problem import Problem, Setup

CLIPPED = 0.01  # largest chance that any displacement of the whole training is clipped
SERVER_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the largest stable server rate, that are tried
LOCAL_SHARE = 0.5  # of the largest eta_local at which a client alone contracts


@cache
def noise_multiplier(epsilon: float, delta: float, rounds: int) -> float:
    """Standard deviation of the noise on the sum of the displacements, over the clipping norm, that a budget asks for.

    Two data sets are neighbours if one client's displacements are 0 in one of them. The bound is exact: some rounds of
    Gaussian noise tell as much as one round with less noise.

    Args:
        epsilon: positive.
        delta: in (0, 1).
        rounds: T, 1 or more; all clients take part in each.

    Raises:
        ValueError: a value outside its range. ImportError: dp-accounting, which counts privacy, is missing.

    Source: https://arxiv.org/abs/1805.06530.
    """
    if not (epsilon > 0 and isfinite(epsilon)):
        raise ValueError(f"epsilon is {epsilon}; it must be a positive number")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; it must lie between 0 and 1")
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; it must be 1 or more")
    try:
        from dp_accounting import gaussian_mechanism
    except ImportError:
        raise ImportError("privacy budgets are counted by dp-accounting: pip install dp-accounting") from None
    return float(gaussian_mechanism.get_sigma_gaussian(epsilon, delta)) * rounds**0.5


@dataclass(frozen=True, eq=False)
class Displacements:
    """The clients' displacements, which are Gaussian.

    |X| passes |mean| + sqrt(trace) + sqrt(2 top log(1/p)) with chance p at most, trace and top eigenvalue those of its
    covariance. Source: docs/proofs/random_rounds.md#clipping.

    Args:
        mean: the norm of the mean in round t + 1 of client c, (T, N).
        trace: trace of the covariance, at noise of variance 1, shape (T, N).
        top: largest eigenvalue of the covariance, at noise of variance 1, shape (T, N).
    """

    mean: Float[np.ndarray, "T N"]
    trace: Float[np.ndarray, "T N"]
    top: Float[np.ndarray, "T N"]

    def clip(self, rounds: int, ratio: float, chance: float) -> float:
        """The smallest norm S that is passed with at most a given chance; infinite where the noise is too large.

        Args:
            rounds: T.
            ratio: standard deviation of the noise on the mean, over S.
            chance: that any is clipped, at most.
        """
        log = np.log(rounds * self.mean.shape[1] / chance)
        slope = ratio * (np.sqrt(self.trace[:rounds]) + np.sqrt(2 * log * self.top[:rounds]))
        return float("inf") if slope.max() >= 1 else float((self.mean[:rounds] / (1 - slope)).max())


@dataclass(frozen=True)
class Plan:
    """A private training that ends after some rounds.

    Args:
        rounds: T.
        noise_multiplier: noise on the sum over the clipping norm.
        clip: the norm S.
        noise: standard deviation of the noise on every weight of the mean.
        mean_square: E |y - f(T)|^2 / n over the training samples; infinite where every clip would be active.
    """

    rounds: int
    noise_multiplier: float
    clip: float
    noise: float
    mean_square: float


@dataclass(frozen=True, eq=False)
class PrivateRounds:
    """A method's rounds up to some round, without noise and with noise of variance 1; made by `private_rounds`.

    Args:
        regime: without noise.
        square: E |r(t)|^2 / n without noise, (T + 1,).
        gain: what noise of variance 1 adds.
        displacements: of the clients.
        eta_global: the server's rates by round, where they change; the last one stays.
    """

    regime: RandomRegime
    square: Float[np.ndarray, " T"]
    gain: Float[np.ndarray, " T"]
    displacements: Displacements
    eta_global: tuple[float, ...] = ()

    def plan(self, epsilon: float, delta: float, rounds: int, clipped: float = CLIPPED) -> Plan:
        """Training for these rounds within a budget.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            rounds: T.
            clipped: chance that any clip is active, at most.

        Raises:
            ValueError: rounds beyond those that were computed, or below 1; a chance outside (0, 1); as
                `noise_multiplier`.
        """
        if not 1 <= rounds < len(self.square):
            raise ValueError(f"rounds is {rounds}; it must be from 1 to {len(self.square) - 1}, which were computed")
        if not 0 < clipped < 1:
            raise ValueError(f"clipped is {clipped}; it is a chance and must lie between 0 and 1")
        multiplier = noise_multiplier(epsilon, delta, rounds)
        ratio = multiplier / self.regime.problem.n_clients
        clip = self.displacements.clip(rounds, ratio, clipped)
        noise = ratio * clip
        square = self.square[rounds] + noise**2 * self.gain[rounds] if isfinite(clip) else float("inf")
        return Plan(rounds, multiplier, clip, noise, float(square))

    def plans(self, epsilon: float, delta: float, clipped: float = CLIPPED) -> tuple[Plan, ...]:
        """Plans for about sixty numbers of rounds, evenly spaced on a logarithmic scale.

        Args:
            epsilon: the budget's epsilon, for a client's data; positive.
            delta: the budget's delta, in (0, 1).
            clipped: largest chance that any displacement of the whole training is clipped; default `CLIPPED`.

        Raises:
            ValueError: as `plan`.
        """
        counts = sorted({int(t) for t in np.geomspace(1, len(self.square) - 1, num=60).round()})
        return tuple(self.plan(epsilon, delta, t, clipped) for t in counts)


def private_rounds(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    rounds: int = 100,
    eta_global: Sequence[float] | None = None,
) -> PrivateRounds:
    """The moments that decide what private training with these steps reaches.

    Args:
        problem: data, as `random_rounds` takes them.
        setup: steps.
        gram: H, shape (n, n), or its kernel; default: H_inf of FL-NTK's network.
        method: its name, default "fl-ntk".
        options: of the method.
        rounds: rounds whose moments are computed, default 100.
        eta_global: a schedule of the server's rate, by round, the last one for all that follow; default: constant. The
            budget does not depend on it, since every round's mean has the same noise.

    Raises:
        ValueError: as `random_rounds`; rounds below 1; clients that remember; clients whose weights in the mean differ,
            since one client's share of the mean would not be known.
        OverflowError: steps beyond the limit whose moments pass the largest float64.

    Source: docs/proofs/random_rounds.md#gaussian-noise.
    """
    return _private_rounds(algorithm1_limit(problem, setup, gram), method, options or {}, rounds, eta_global)


def _private_rounds(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    rounds: int,
    eta_global: Sequence[float] | None = None,
) -> PrivateRounds:
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; it must be 1 or more")
    regime, problem = random_of_method(base, method, options, eta_global=eta_global), base.problem
    last = regime.of_round(regime.settled) if isinstance(regime, ScheduledRegime) else regime
    if isinstance(last, DrawnMemoryRegime):
        raise ValueError(
            f"{method}'s clients remember: what clipping and noise do to their memories is not computed here; use a "
            "method without memory, such as fl-ntk"
        )
    if not np.allclose(regime.noise.weights.mean, 1 / problem.n_clients, rtol=1e-12, atol=0):
        raise ValueError(
            f"{method} weighs clients by their samples, which differ here; private training takes the plain mean over "
            "the clients: use the method fl-ntk, or clients of equal size"
        )
    unit = random_of_method(base, method, options, noise=1.0, eta_global=eta_global)
    initial, clients = regime._initial_residual(None), list(_clients(regime.noise))
    square, gain, rows = [], [], []
    for t, (mean, added) in zip(range(rounds + 1), unit._rounds(initial), strict=False):
        interruption.check()
        square.append((mean**2).sum())
        gain.append(np.trace(added, 0, 1, 2).sum())
        if t < rounds:
            rows.append([_moments(*client, mean, added) for client in clients])
    regime._finite(np.concatenate([square, gain]))
    own = Displacements(*np.moveaxis(np.array(rows), 2, 0))
    rates = () if eta_global is None else tuple(map(float, eta_global))
    return PrivateRounds(regime, np.array(square) / problem.n, np.array(gain) / problem.n, own, rates)


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
        plan: the best of the rounds that were tried.
        last_rate: step of the server in the plan's last round.
    """

    local_steps: int
    eta_local: float
    server_rate: float
    plan: Plan
    last_rate: float

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
    progress: Callable[[str], None] = lambda label: None,
) -> list[PrivateRounds]:
    """The rounds of FedAvg with the plain mean over clients, in the settings that `best_choices` compares.

    eta_local is half of the largest at which a client alone contracts; the server rate is tried at five shares of the
    largest stable one, which trade speed against noise.

    Args:
        problem: data; y (n,) or (n, C).
        gram: as `ntkfl.kernel_regime`.
        local_steps: numbers of local steps to try.
        rounds: most rounds.
        falls: shares of the server rate, in (0, 1], to which it falls until the last of these rounds, by the same
            factor in every round; 1: it stays.
        progress: is told what is run.

    Raises:
        ValueError: as `private_rounds`; a Gram matrix with no stable server rate; a share outside (0, 1].
    """
    for fall in falls:
        if not 0 < fall <= 1:
            raise ValueError(f"falls has {fall}; the server rate falls to a share in (0, 1] of it")
    choices = []
    base = algorithm1_limit(problem, Setup(), gram)
    eta_local = LOCAL_SHARE * base.step_limits.eta_local
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
                choices.append(_private_rounds(at_steps, "fl-ntk", options, rounds, schedule))
    return choices


def best_choices(
    settings: Sequence[PrivateRounds], epsilon: float, delta: float, clipped: float = CLIPPED
) -> list[Choice]:
    """For every number of local steps the least mean square within a budget, best first.

    The choice looks at the data: what it gives away is not counted.

    Args:
        settings: of `private_settings`.
        epsilon: the budget's epsilon, for a client's data; positive.
        delta: the budget's delta, in (0, 1).
        clipped: chance that any clip is active, at most.

    Raises:
        ValueError: as `noise_multiplier`.
    """
    best: dict[int, Choice] = {}
    for setting in settings:
        setup, mean = setting.regime.setup, setting.regime.mean.round
        plan = min(setting.plans(epsilon, delta, clipped), key=lambda plan: plan.mean_square)
        rates = setting.eta_global or (mean.server_rate or 1.0,)
        last = rates[min(plan.rounds, len(rates)) - 1]
        choice = Choice(setup.local_steps, setup.eta_local, rates[0], plan, last)
        if choice.local_steps not in best or plan.mean_square < best[choice.local_steps].plan.mean_square:
            best[choice.local_steps] = choice
    return sorted(best.values(), key=lambda choice: choice.plan.mean_square)
