"""Random rounds with a schedule, by which steps or clients change from round to round as set in advance.

Let z = (r, m), where m are the clients' memories, one entry for each of their samples. Each drawn client adds a linear
map of z, so that a round of a cohort S takes z to A z + sum_{c in S} B_c z. A client is drawn with probability p, and a
pair of clients with probability q. With B = sum_c B_c, M = A + p B and Z = E z z^T, the mean follows E z <- M E z, and
the covariance follows

    Cov z <- M Cov z M^T + (q - p^2) B Z B^T + (p - q) sum_c B_c Z B_c^T.

The batches of a drawn client add a noise to its displacement, hence to its move and to its memory. The covariance of
this noise is p sum_c J_c V_c J_c^T. Here J_c maps a change of client c's displacement to the change of z, and V_c is as
in `batch_noise`.

Some servers sum up the means that they receive. In this case the last part of the state is the change that all Gaussian
noise so far makes in the outputs. Each later round adds this change again, since the noise remains in the server's sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.draws import Draws
from ntkfl.limit.linear_regime import LinearRegime, run_of
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.limit.mean_square import MeanSquare, StateMoments, require_search
from ntkfl.limit.random_regime import Noise, RandomRegime, StateRegime

Map = Float[np.ndarray, "n 2n"]  # a linear map of (r, m)


class ByClient:
    """A map whose rows belong to clients, stored as one block for each client.

    A client's block has only those columns that the client's rows use.
    """

    def __init__(self, matrix: Float[np.ndarray, "k m"], owner: Float[np.ndarray, " k"]) -> None:
        self.rows, self.parts = len(matrix), []
        for client in np.unique(owner):
            own = np.flatnonzero(owner == client)
            read = np.flatnonzero(matrix[own].any(axis=0))
            self.parts.append((own, read, matrix[np.ix_(own, read)]))

    def __matmul__(self, other: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "k r"]:
        product = np.empty((self.rows, other.shape[1]))
        for own, read, block in self.parts:
            product[own] = block @ other[read]
        return product

    def around(self, second: Float[np.ndarray, "m m"]) -> tuple[Float[np.ndarray, "k m"], Float[np.ndarray, "k k"]]:
        """The product of the map with a symmetric matrix, and this product times the map's transpose."""
        met = self @ second
        return met, self @ np.ascontiguousarray(met.T)


@dataclass(frozen=True, eq=False)
class DrawnRound:
    """A round as a map of (r, m): a move is n coefficients, so that r' = r - H move.

    Each row of a map belongs to the client of its sample.
    """

    always: Map  # the part of the move that does not depend on the draw
    moves: Map  # each drawn client's contribution to the coefficients of its own samples in the move
    changes: Map  # the change of each drawn client's memory
    # each client's contribution to the coefficients of all samples in the move; it is multiplied by the client's weight
    shared: Map
    drift: Map  # effect of the memories on each sample's residual in a local step, for a unit of step length
    # factors by which the noise of a client's displacement enters the move and the memory
    noise: Float[np.ndarray, "2 n"]
    weights: Float[np.ndarray, " n"]  # weight of each sample's client
    owner: Float[np.ndarray, " n"]  # client of each sample
    cohort: int  # number of clients that are drawn, without replacement
    jump: float  # factor by which noise on the mean enters the residual
    remembered: float = 0.0  # share of the noise on the mean that every later round adds to the model once more
    given: tuple[int, ...] = ()  # the clients that take part, if they are not drawn

    @cached_property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.owner.max()) + 1

    @cached_property
    def chance(self) -> Float[np.ndarray, " N"]:
        """The probability with which each client is drawn, (N,)."""
        if not self.given:
            return np.full(self.clients, self.cohort / self.clients)
        return np.isin(np.arange(self.clients), self.given).astype(float)

    @cached_property
    def mean(self) -> Float[np.ndarray, "2n 2n"]:
        """The map of (r, m) to the mean, over the draws, of the move and of the change of the memories."""
        return self._summed(self.chance) + np.concatenate([self.always, np.zeros_like(self.always)])

    def _summed(self, times: Float[np.ndarray, " N"]) -> Float[np.ndarray, "2n 2n"]:
        """The map of the state to the move and then to the changes of the memories, summed over the clients.

        The contributions of client c are multiplied by times[c].
        """
        own = times[self.owner][:, None]
        shared = times @ self.weights_of_clients * self.shared
        return np.concatenate([own * self.moves + shared, own * self.changes])

    @cached_property
    def _own(self) -> ByClient:
        return ByClient(np.concatenate([self.moves, self.changes]), np.tile(self.owner, 2))

    @cached_property
    def by_client(self) -> ByClient:
        """`mean`, as one block for each client."""
        return ByClient(self.mean, np.tile(self.owner, 2))

    @cached_property
    def weights_of_clients(self) -> Float[np.ndarray, " N"]:
        """For each client, the weight by which the map `shared` is multiplied to give the client's contribution."""
        return np.array([self.weights[self.owner == c][0] for c in np.unique(self.owner)])

    def covariance(self, second: Float[np.ndarray, "2n 2n"]) -> Float[np.ndarray, "2n 2n"]:
        """The covariance of move and change over the draws of a round, where E z z^T = second before the round.

        Let Y have the rows of the clients' own maps, let E_c keep the rows of client c, and let P be the map `shared`,
        and let w_c be the weight of client c. Then sum_c (E_c Y + w_c P) Z (E_c Y + w_c P)^T has the entries of Y Z Y^T
        between rows of the same client. Its mixed terms are rows of Y Z P^T times the weight of the row's client.
        """
        clients, s = self.clients, self.cohort
        if self.given or s == clients:
            return np.zeros_like(second)
        p, q = s / clients, s * (s - 1) / (clients * (clients - 1))  # chances of a client and of a pair
        owner, n = np.tile(self.owner, 2), len(self.owner)
        met, drawn = self._own.around(second)
        drawn *= np.where(owner[:, None] == owner, p - p**2, q - p**2)
        if not self.shared.any():
            return drawn
        mixed, weights = met @ self.shared.T, np.tile(self.weights, 2)[:, None]
        mixed *= (q - p**2) * self.weights_of_clients.sum() + (p - q) * weights
        drawn[:, :n] += mixed
        drawn[:n] += mixed.T
        squares = (q - p**2) * self.weights_of_clients.sum() ** 2 + (p - q) * (self.weights_of_clients**2).sum()
        drawn[:n, :n] += squares * (self.shared @ second @ self.shared.T)
        return drawn

    def in_the_mean(self, pull: float) -> LinearRound:
        """The mean of the round over the draws."""
        n = len(self.always)

        def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
            move = self.mean @ np.concatenate([residual, memory[0]])
            return move[:n], (memory[0] + move[n:],)

        return LinearRound(step, 1, pull=pull)


@dataclass(frozen=True, eq=False)
class DrawnMoments:
    """The second moments of the residuals at the points of a kernel and of the memories m; the samples come first."""

    drawn: DrawnRound
    gram: Float[np.ndarray, "p p"]
    noise: Noise  # noise by the batches
    size: int  # s

    @cached_property
    def mean(self) -> Float[np.ndarray, "s s"]:
        """M."""
        matrix, points = np.eye(self.size), len(self.gram)
        matrix[:, self.known] += self._lifted(self.drawn.mean)
        matrix[:points] -= np.eye(points, self.size, points + self._n)
        return matrix

    def added(self, second: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
        """The contribution of a round's draws to the covariance, where E z z^T = second before the round."""
        if self.noise.nothing_drawn:
            return np.zeros_like(second)
        second = second[np.ix_(self.known, self.known)]
        return self._lifted(self._lifted(self.drawn.covariance(second) + self._of_batches(second)).T)

    def following(self, second: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
        """E z z^T after a round of z = (r, m).

        A round takes z to z + J w, where w are the moves and the changes of the memories. The result is Z + J E w z^T +
        E z w^T J^T + J E w w^T J^T, with Z = E z z^T.
        """
        met, spread = self.drawn.by_client.around(second)
        if not self.noise.nothing_drawn:
            spread = spread + self.drawn.covariance(second) + self._of_batches(second)
        mixed = self._lifted(met)
        return second + mixed + mixed.T + self._lifted(self._lifted(spread).T)

    @property
    def between(self) -> float:
        """An upper bound of |H| times the norm of the map that gives the moves."""
        of_moves = np.abs(self.drawn.mean)
        return float(np.abs(self.gram).sum(0).max() * (of_moves.sum(0).max() * of_moves.sum(1).max()) ** 0.5)

    def _of_batches(self, second: Float[np.ndarray, "2n 2n"]) -> Float[np.ndarray, "2n 2n"]:
        """The covariance that the drawn clients' batches cause in the moves and in the changes of the memories."""
        added, n, drawn = np.zeros_like(second), self._n, self.drawn
        if self.noise.batch is None:
            return added
        begun = np.concatenate([np.eye(n, 2 * n), drawn.drift])
        begun = begun @ second @ begun.T
        for client, owned in enumerate(self.noise.blocks.clients.members):
            both = np.concatenate([owned, n + owned])
            own = self.noise.of_batches(client, begun[np.ix_(both, both)])
            scale = drawn.noise[:, owned].ravel()
            added[np.ix_(both, both)] += drawn.chance[client] * np.outer(scale, scale) * np.tile(own, (2, 2))
        return added

    @property
    def _n(self) -> int:
        return len(self.drawn.always)

    @cached_property
    def known(self) -> np.ndarray:
        """The positions in the state of the samples' residuals and of the memories."""
        return np.concatenate([np.arange(self._n), len(self.gram) + np.arange(self._n)])

    def _lifted(self, moved: Float[np.ndarray, "2n k"]) -> Float[np.ndarray, "s k"]:
        """The change of residuals and memories that these moves and changes of the memories cause."""
        after = np.concatenate([-self.gram[:, : self._n] @ moved[: self._n], moved[self._n :]])
        return after if len(after) == self.size else np.pad(after, ((0, self.size - len(after)), (0, 0)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DrawnMemoryRegime(StateRegime):
    """Random rounds whose clients remember, as in SCAFFOLD and FedDyn.

    Source: docs/proofs/random_rounds.md#clients-that-remember.
    """

    drawn: DrawnRound

    @cached_property
    def mean_square(self) -> StateMoments:  # type: ignore[override]
        noise = None
        if not self.noise.nothing_drawn:
            require_search(self._quiet._size(self.problem.n))  # refused before H is decomposed
            noise = self._quiet._moments_of_samples.added
        moments = self._quiet._moments_of_samples
        rests, size = bool(self.mean.unreachable.shape[1]), moments.between
        return StateMoments(moments.mean, noise, rests, onward=moments.following, between=size)

    @property
    def _keeps_noise(self) -> bool:
        return bool(self.noise.gaussian and self.drawn.remembered)

    @property
    def _jump(self) -> Float[np.ndarray, " p"]:
        # clients' memories do not contain the noise of the round
        return np.array([self.drawn.jump, 0.0, self.drawn.remembered])[: 3 if self._keeps_noise else 2]

    def _size(self, points: int) -> int:
        # memories are kept as n coefficients, whatever the points
        return (2 if self._keeps_noise else 1) * points + self.problem.n

    def _after(self, states: Float[np.ndarray, "s m"], draws: Draws) -> Float[np.ndarray, "s m"]:
        drawn, n = self.drawn, self.problem.n
        own, known = draws.taking[drawn.owner], states[: 2 * n]
        changes, move = own * (drawn.changes @ known), drawn.always @ known + own * (drawn.moves @ known)
        move += (drawn.weights_of_clients @ draws.taking) * (drawn.shared @ known)
        if self.noise.batch is not None:
            drift = drawn.drift @ known
            noise = draws.displacements(states[:n], drift)
            noise -= own * self.noise.blocks.moved(states[:n], drift, self.noise.pull)
            move, changes = move + drawn.noise[0][:, None] * noise, changes + drawn.noise[1][:, None] * noise
        after = states[:n] - self.gram @ move
        if self._keeps_noise:
            after -= states[2 * n :]
        return np.concatenate([after, states[n : 2 * n] + changes, states[2 * n :]])

    def _next(
        self, covariance: Float[np.ndarray, "s s"], mean: Float[np.ndarray, " 2n"], gram: Float[np.ndarray, "p p"]
    ) -> Float[np.ndarray, "s s"]:
        moments = self._moments_at(gram)
        second = covariance.copy()
        second[np.ix_(moments.known, moments.known)] += np.outer(mean, mean)
        after = moments.mean @ covariance @ moments.mean.T + moments.added(second)
        if self.noise.gaussian:
            noised = np.delete(np.arange(len(after)), len(gram) + np.arange(self.problem.n))
            jump = self._jump[::2]  # factors for the residual and, if the state has one, for the sum of noises
            after[np.ix_(noised, noised)] += np.kron(np.outer(jump, jump), self.noise.gaussian**2 * gram)
        return (after + after.T) / 2

    def _following(self, second: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
        return self.mean_square.following(second)

    def _map_at(self, gram: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "s s"]:
        return self._moments_at(gram).mean

    def _work_of_round(self, points: int) -> float:
        return super()._work_of_round(points) + 4.0 * self._size(points) ** 3 + 16.0 * self.problem.n**3

    def _moments_at(self, gram: Float[np.ndarray, "p p"]) -> DrawnMoments:
        return self._moments_of_samples if gram is self.gram else self._moments_of(gram)

    @cached_property
    def _moments_of_samples(self) -> DrawnMoments:
        return self._moments_of(self.gram)

    def _moments_of(self, gram: Float[np.ndarray, "p p"]) -> DrawnMoments:
        return DrawnMoments(self.drawn, gram, self.noise, self._size(len(gram)))


def drawn_memory_regime(
    mean: LinearRegime, blocks: Blocks, drawn: DrawnRound, batch: int | None, gaussian: float
) -> DrawnMemoryRegime:
    """The regime of a method with drawn clients; `mean` is the regime with all clients on full batches."""
    drawn = replace(drawn, given=blocks.given)
    own = replace(mean, round=drawn.in_the_mean(mean.round.pull), at_server_rate=None)
    vars(own)["_clients"] = blocks.clients
    noise = Noise(blocks, "uniform", mean.round.pull, batch, gaussian)
    shared = (mean.problem, mean.setup, mean.gram, mean.kernel)
    return DrawnMemoryRegime(*shared, mean=own, noise=noise, drawn=drawn)


def takes_part(clients: tuple[int, ...]) -> str:
    """The beginning of a sentence: "client 2 takes part" or "clients 0, 1 and 3 take part"."""
    *first, last = map(str, clients)
    return f"clients {', '.join(first)} and {last} take part" if first else f"client {last} takes part"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScheduledRegime(RandomRegime):
    """A sequence of rounds with one regime for each round; made by `random_rounds`, which checks its arguments.

    `rate` and `stable` describe the rounds that repeat for ever; over a cycle of cohorts, the rate is the
    geometric mean per round.
    `of_round` gives the regime of round 0, 1, ... From round `settled` on, the regimes repeat every `period` rounds.

    Source: docs/proofs/random_rounds.md#schedules-and-cohorts-in-turn.
    """

    of_round: Callable[[int], RandomRegime]
    settled: int
    period: int
    busiest: int  # the largest number of local steps in a round

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
        if self.mean_square.grows or (self.of_round(self.settled)._keeps_noise and self.gram.any()):
            return float("inf")
        if self.mean_square.stable:
            if not self.noise.gaussian:
                return 0.0
            if not self.noise.blocks.given:
                return self.of_round(self.settled).stationary_mean_square(initial_outputs)
            return self._initial_residual(initial_outputs).shape[1] * self._over_a_cycle()
        if self.mean_square.undecided:
            raise ValueError("the stationary mean square is not known: the rounds are nearly unstable")
        raise ValueError(
            "what the mean square tends to is not known if part of the residual stays after scheduled rounds; "
            "root_mean_square gives the mean square of any round"
        )

    def _require_reachable(self, initial: np.ndarray, target: float) -> None:
        """Raise a ValueError as in other regimes, and also if clients that are in no cohort keep the residual above the
        target.

        In r(t) = r(0) - H c the coefficients c are 0 at the samples of these clients.
        """
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
        """The limit of E |r|^2 of one output, averaged over a cycle of rounds.

        In the limit the cycle maps the second moments S to S. If F is the map of second moments over a cycle, S solves
        S - (F(S) - F(0)) = F(0).
        """
        n, size, nothing = self.problem.n, self._size(self.problem.n), np.zeros(self.mean._size)

        def moments(second: np.ndarray) -> Iterator[np.ndarray]:
            for regime in self._cycle:
                interruption.check()
                second = regime._next(second, nothing, self.gram)
                yield second

        *_, driven = moments(np.zeros((size, size)))
        # in every regime with given cohorts `mean_square` is of this class
        assert isinstance(self.mean_square, StateMoments)
        return float(np.mean([np.trace(after[:n, :n]) for after in moments(self.mean_square.resting(driven))]))

    @property
    def _cycle(self) -> list[RandomRegime]:
        """The regimes of one cycle of the repeated rounds."""
        return [self.of_round(self.settled + number) for number in range(self.period)]

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The means of r(t) and c_t of these rounds."""
        last, mean = int(t.max(initial=0)), self.of_round(self.settled).mean
        at_once = mean._takes_at_once((last - self.settled) // self.period, initial.shape[1])
        settled = self.settled if at_once else last  # rounds are run one by one up to this round
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
