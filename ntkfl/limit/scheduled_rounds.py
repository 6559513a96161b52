"""Random rounds with a schedule: steps or clients change from round to round as set in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ntkfl import interruption
from ntkfl.limit.linear_regime import run_of
from ntkfl.limit.mean_square import MeanSquare
from ntkfl.limit.random_regime import RandomRegime
from ntkfl.limit.state_moments import StateMoments


def takes_part(clients: tuple[int, ...]) -> str:
    """The beginning of a sentence: client 2 takes part, or clients 0, 1 and 3 take part."""
    *first, last = map(str, clients)
    return f"clients {', '.join(first)} and {last} take part" if first else f"client {last} takes part"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScheduledRegime(RandomRegime):
    """A sequence of rounds with one regime for each round; made by `random_rounds`, which validates.

    `rate` and `stable` are those of the rounds that repeat for ever, as a mean over a cycle of cohorts. `of_round`
    gives the regime of round 0, 1, ...; from round `settled` on the regimes repeat, every `period` rounds.

    Source: docs/proofs/random_rounds.md#schedules-and-cohorts-in-turn.
    """

    of_round: Callable[[int], RandomRegime]
    settled: int
    period: int
    busiest: int  # most local steps of a round

    @cached_property
    def absent(self) -> tuple[int, ...]:
        """The clients that are in no cohort."""
        if not self.noise.blocks.given:
            return ()
        present = {client for number in range(self.period) for client in self.of_round(number).noise.blocks.given}
        return tuple(client for client in range(self.problem.n_clients) if client not in present)

    @cached_property
    def mean_square(self) -> MeanSquare | StateMoments:  # type: ignore[override]
        last = self.of_round(self.settled)
        if not last.noise.blocks.given:
            return last.mean_square

        cycle, mean = [regime._quiet for regime in self._cycle], np.eye(last._quiet._size(self.problem.n))
        for regime in cycle:
            mean = regime._map @ mean

        def noise(second: np.ndarray) -> np.ndarray:
            after = second
            for regime in cycle:
                after = regime._following(after)
            return after - mean @ second @ mean.T

        drawn = None if all(regime.noise.nothing_drawn for regime in cycle) else noise
        rests = bool(self.absent) or bool(last.mean.unreachable.shape[1])
        return StateMoments(mean, drawn, rests, self.period)

    def stationary_mean_square(self, initial_outputs=None) -> float:
        if self.mean_square.grows or (self.of_round(self.settled)._wanders and self.gram.any()):
            return float("inf")
        if self.mean_square.stable:
            if not self.noise.gaussian:
                return 0.0
            if not self.noise.blocks.given:
                return self.of_round(self.settled).stationary_mean_square(initial_outputs)
            return self._initial_residual(initial_outputs).shape[1] * self._over_a_cycle()
        if self.mean_square.undecided:
            raise ValueError("the stationary mean square is not known: the rounds are all but unstable")
        raise ValueError(
            "what the mean square tends to is not known where part of the residual stays after scheduled rounds; "
            "root_mean_square has any round"
        )

    def _require_reachable(self, initial: np.ndarray, target: float) -> None:
        """As in other regimes, and for absent clients: r(t) = r(0) - H c, and c is 0 at their samples."""
        super()._require_reachable(initial, target)
        if not self.absent:
            return
        moving = self.gram[:, ~np.isin(self.problem.owner, self.absent)]
        stays = float(np.linalg.norm(initial - moving @ np.linalg.lstsq(moving, initial)[0]))
        if stays > target:
            raise ValueError(
                f"the residual norm does not fall to {target:.6g}: {stays:.6g} of it stays, since "
                f"{takes_part(self.absent)} in no round"
            )

    def _over_a_cycle(self) -> float:
        """The limit of E |r|^2 of one output, averaged over a cycle; the cycle maps the second moments S to S.

        With F the map of second moments over a cycle, S solves S - (F(S) - F(0)) = F(0).
        """
        n, size, nothing = self.problem.n, self._size(self.problem.n), np.zeros(self.mean._size)

        def moments(second: np.ndarray) -> Iterator[np.ndarray]:
            for regime in self._cycle:
                interruption.check()
                second = regime._next(second, nothing, self.gram)
                yield second

        *_, driven = moments(np.zeros((size, size)))
        assert isinstance(self.mean_square, StateMoments)  # always so, since cohorts are given
        resting = self.mean_square.resting(driven)
        return float(np.mean([np.trace(after[:n, :n]) for after in moments(resting)]))

    @property
    def _cycle(self) -> list[RandomRegime]:
        """The regimes of the repeated rounds, one cycle."""
        return [self.of_round(self.settled + number) for number in range(self.period)]

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The means of r(t) and c_t of these rounds."""
        last, mean = int(t.max(initial=0)), self.of_round(self.settled).mean
        at_once = mean._takes_at_once((last - self.settled) // self.period, initial.shape[1])
        settled = self.settled if at_once else last  # one by one up to this round
        return run_of(t, initial, mean, lambda number: self.of_round(number).mean, settled, self.period)

    def _recurring(self) -> tuple[int, int]:
        return self.settled, self.period

    def _of_round(self, number: int) -> RandomRegime:
        return self.of_round(number)

    def _work_of_round(self, points: int) -> float:
        last = self.of_round(self.settled)
        return last._work_of_round(points) + last.noise.work(self.busiest) - last.noise.work()

    @property
    def _most_steps(self) -> int:
        return self.busiest

    def _size(self, points: int) -> int:
        return self.of_round(0)._size(points)
