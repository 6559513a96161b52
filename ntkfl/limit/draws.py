"""The random choices of a round: the cohort of clients, and the batches of each client.

The choices are either drawn at random, or all possible choices are enumerated with their probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import comb, factorial, prod
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.limit.mean_square import ESTIMATE
from ntkfl.memory import require

if TYPE_CHECKING:
    from ntkfl.limit.random_regime import Noise


# for each run, the factor of each sample's gradient in a step; 0 for samples outside the batch
Scale = Float[np.ndarray, "k m"]


@dataclass(frozen=True, eq=False)
class Draws:
    """For each of several runs, the cohort of a round and the batches of its clients."""

    noise: Noise  # the kinds of noise in a round: cohort, batches and their sizes
    taking: Bool[np.ndarray, "N m"]  # for each client and run, whether the client is drawn
    batches: Callable[[int], Iterator[Scale]]  # takes a client and yields its batches, step by step

    @classmethod
    def at_random(cls, noise: Noise, runs: int, outputs: int, rng: np.random.Generator) -> Draws:
        """Draws of independent runs; all outputs of one run share the run's draws."""
        given, count = noise.blocks.given, len(noise.blocks.clients.members)
        taking = np.zeros((count, runs), bool)
        if given:
            taking[list(given)] = True
        else:
            chosen = rng.permuted(np.tile(np.arange(count)[:, None], runs), axis=0)[: noise.cohort]
            np.put_along_axis(taking, chosen, True, axis=0)

        def batches(client: int) -> Iterator[Scale]:
            size, batch, turns, passes = noise.steps_of(client)
            for _ in range(passes):
                ranks = rng.permuted(np.tile(np.arange(size)[:, None], runs), axis=0) // batch if batch < size else None
                for turn in range(turns):
                    drawn = min(batch, size - turn * batch)  # the last batch of a pass may be smaller
                    scale = np.ones((size, runs)) if ranks is None else (ranks == turn) * (size / drawn)
                    yield np.repeat(scale, outputs, axis=1)

        return cls(noise, np.repeat(taking, outputs, axis=1), batches)

    @classmethod
    def every(cls, noise: Noise, columns: int) -> Iterator[tuple[float, Draws]]:
        """Yields every possible choice of cohort and batches: its probability, and `columns` runs that all make this
        choice.
        """
        members = noise.blocks.clients.members
        cohorts = [noise.blocks.given] if noise.blocks.given else list(combinations(range(len(members)), noise.cohort))
        for cohort in cohorts:
            taking = np.zeros((len(members), columns), bool)
            taking[list(cohort)] = True
            outcomes = [list(_sequences(*noise.steps_of(client))) for client in cohort]
            chance = 1 / (len(cohorts) * prod(map(len, outcomes)))
            for outcome in product(*outcomes):
                interruption.check()
                taken = dict(zip(cohort, outcome, strict=True))

                def batches(client: int, taken: dict = taken) -> Iterator[Scale]:
                    return (np.tile(scale[:, None], columns) for scale in taken[client])

                yield chance, cls(noise, taking, batches)

    @property
    def weights(self) -> Float[np.ndarray, "N m"]:
        """For each run, each client's weight in the mean over the cohort."""
        sizes = np.array([len(owned) for owned in self.noise.blocks.clients.members])
        shares = self.taking * (np.ones_like(sizes) if self.noise.weighting == "uniform" else sizes)[:, None]
        return shares / shares.sum(axis=0)

    def displacements(
        self, residual: Float[np.ndarray, "n m"], drift: Float[np.ndarray, "n m"] | None = None
    ) -> Float[np.ndarray, "n m"]:
        """The displacement of each drawn client by its batches, and 0 for the other clients.

        `drift`: how much the clients' memories lower each sample's residual in a local step, for a unit of step length.
        """
        blocks, pull = self.noise.blocks, self.noise.pull
        if self.noise.batch is None and drift is None:
            return blocks.apply(blocks.response(pull), residual) * self.taking[blocks.owner]
        moved = np.zeros_like(residual)
        for client, owned in enumerate(blocks.clients.members):
            if not self.taking[client].any():
                continue
            own, start, length = blocks.gram[np.ix_(owned, owned)], residual[owned], 0.0
            gone = np.zeros_like(start)
            for scale in self.batches(client):
                interruption.check()
                left = start - own @ gone - (0 if drift is None else length * drift[owned])
                gone = gone + blocks.eta_local * (scale * left - pull * gone)
                length = (1 - blocks.eta_local * pull) * length + blocks.eta_local
            moved[owned] = gone * self.taking[client]
        return moved


def choices(noise: Noise) -> int:
    """The number of possible choices of cohort and batches in a round."""
    members, given = noise.blocks.clients.members, noise.blocks.given
    ways = [_ways(*noise.steps_of(client)) for client in range(len(members))]
    if given:
        return prod(ways[client] for client in given)
    # sums[s] counts the choices of all cohorts of s clients, drawn from the clients that the loop has passed. The
    # number of choices of a cohort is the product of its clients' numbers of choices.
    sums = [1] + [0] * noise.cohort
    for way in ways:
        for size in range(noise.cohort, 0, -1):
            sums[size] += way * sums[size - 1]
    return sums[-1]


def _ways(size: int, batch: int, turns: int, passes: int) -> int:
    if batch >= size:
        return 1
    orders = factorial(size) // (factorial(batch) ** (turns - 1) * factorial(size - (turns - 1) * batch))
    return (comb(size, batch) if turns == 1 else orders) ** passes


def _sequences(size: int, batch: int, turns: int, passes: int) -> Iterator[list[Float[np.ndarray, " k"]]]:
    """Yields every sequence of batches of a client, as factors of its samples' gradients; all are equally likely."""
    if batch >= size:
        yield [np.ones(size)] * (turns * passes)
        return
    once: list[tuple[tuple[int, ...], ...]]
    if turns == 1:
        once = [(batch_,) for batch_ in combinations(range(size), batch)]
    else:
        once = sorted(
            {
                tuple(tuple(sorted(order[batch * turn : batch * (turn + 1)])) for turn in range(turns))
                for order in permutations(range(size))
            }
        )
    for passes_ in product(once, repeat=passes):
        scales = []
        for taken in sum(passes_, ()):
            scale = np.zeros(size)
            scale[list(taken)] = size / len(taken)
            scales.append(scale)
        yield scales


WORK = 1e10  # the largest allowed number of multiplications in a round


def require_few(noise: Noise, size: int) -> float:
    """Returns the number of multiplications in a round, or refuses a round with too many choices to enumerate."""
    require("the fourth moments of random rounds", lambda size: 40.0 * size**4, hint=ESTIMATE, size=size)
    count = choices(noise)
    work = 4.0 * count * size**5
    if work > WORK:
        raise ValueError(
            f"a round has {count:.3g} choices of clients and batches, and a state has {size} numbers, so that the "
            f"fourth moments take {work:.2g} products in a round; at most {WORK:.0g} are allowed; {ESTIMATE}"
        )
    return work


@dataclass(frozen=True, eq=False)
class FourthMoments:
    """Second and fourth moments of the states z_k of all outputs k, summed over the outputs."""

    second: Float[np.ndarray, "s s"]  # sum_k E z_k z_k^T
    fourth: Float[np.ndarray, "s s s s"]  # the mean of the outer product of the matrix sum_k z_k z_k^T with itself
    outputs: int

    @classmethod
    def start(cls, states: Float[np.ndarray, "s C"]) -> FourthMoments:
        """The moments of known states."""
        second = states @ states.T
        return cls(second, np.multiply.outer(second, second), states.shape[1])

    def after(
        self, maps: Sequence[tuple[float, Float[np.ndarray, "s s"]]], added: Float[np.ndarray, "s s"] | None
    ) -> FourthMoments:
        """The moments after a round.

        `maps` are the round's possible maps with their probabilities, and `added` is the covariance of Gaussian noise.
        """
        second, fourth = np.zeros_like(self.second), np.zeros_like(self.fourth)
        for chance, step in maps:
            interruption.check()
            mapped = self.fourth
            for _ in range(4):  # each product maps the first axis and makes it the last axis
                mapped = np.tensordot(mapped, step, (0, 1))
            fourth += chance * mapped
            second += chance * step @ self.second @ step.T
        if added is not None:
            count = self.outputs
            fourth += count * (np.multiply.outer(second, added) + np.multiply.outer(added, second))
            fourth += _crossed(second, added) + _crossed(added, second)
            fourth += count**2 * np.multiply.outer(added, added) + count * _crossed(added, added)
            second = second + count * added
        return FourthMoments(second, fourth, self.outputs)

    def variance(self, n: int) -> float:
        """The variance of |r|^2 over all outputs, where r is the first n entries of a state."""
        square = float(np.trace(self.second[:n, :n]))
        return max(float(np.einsum("iijj->", self.fourth[:n, :n, :n, :n])) - square**2, 0.0)


def _crossed(first: Float[np.ndarray, "s s"], other: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s s s"]:
    """The tensor with the entries A_ik B_jl + A_il B_jk, where A is `first` and B is `other`."""
    return np.einsum("ik,jl->ijkl", first, other) + np.einsum("il,jk->ijkl", first, other)


ERRORS = 3  # an estimate's error is this number of standard errors


@dataclass(frozen=True, eq=False)
class SampledRounds:
    """Squared residuals of independent runs; made by `RandomRegime.sampled`.

    The error of an estimate is three standard errors, estimated from the runs. This error is too small if a few runs
    dominate the mean, which happens where the mean square is close to growing.

    Args:
        rounds: the rounds t, (T,).
        of_mean: |E r(t)|^2, which is exact, (T,).
        squares: |r(t)|^2 of each of R runs, (T, R).
        spreads: |r(t) - E r(t)|^2 of each run, (T, R).
    """

    rounds: np.ndarray
    of_mean: Float[np.ndarray, " T"]
    squares: Float[np.ndarray, "T R"]
    spreads: Float[np.ndarray, "T R"]

    @property
    def mean_square(self) -> Estimate:
        """E |r(t)|^2, (T,), computed as |E r(t)|^2 plus the mean of the spreads."""
        error = ERRORS * self.spreads.std(axis=-1, ddof=1) / self.spreads.shape[-1] ** 0.5
        return Estimate(self.of_mean + self.spreads.mean(axis=-1), error, self._how, Rigour.SAMPLED)

    @property
    def square_variance(self) -> Estimate:
        """The variance of |r(t)|^2, (T,)."""
        runs = self.squares.shape[-1]
        deviations = (self.squares - self.squares.mean(axis=-1, keepdims=True)) ** 2
        error = ERRORS * deviations.std(axis=-1, ddof=1) / runs**0.5
        return Estimate(self.squares.var(axis=-1, ddof=1), error, self._how, Rigour.SAMPLED)

    def chance_above(self, level: float) -> Estimate:
        """The chance that |r(t)|^2 exceeds a level, (T,), by Clopper and Pearson's interval of 95%.

        Args:
            level: the level of |r|^2.
        """
        from ntkfl.connectivity.low_loss_region import binomial_share

        runs = self.squares.shape[-1]
        shares = [binomial_share(int(hits), runs) for hits in (self.squares > level).sum(axis=-1)]
        low, high = ([float(getattr(share, end)) for share in shares] for end in ("lo", "hi"))
        return Estimate.between(low, high, f"Clopper-Pearson 95%, {runs} runs", Rigour.SAMPLED)

    @property
    def _how(self) -> str:
        return f"{ERRORS} standard errors of {self.squares.shape[-1]} runs"
