"""The kernel regime of any method that is linear in the weights: its round map, its spectrum, its rounds.

`MovingWindow` is the window of IMA (iterative moving averaging), which can be put around any linear method. IMA takes
the mean of the last models. It sends this mean to the clients, or only evaluates it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, count, repeat
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from ntkfl import interruption
from ntkfl.limit.infinite_width import Regime, StepLimits
from ntkfl.limit.linear_round import LinearRound, Memory, Vectors
from ntkfl.limit.many_rounds import MeanRounds, visited
from ntkfl.limit.radius import EPSILON, side_of_one
from ntkfl.memory import left_for, require
from ntkfl.messages import require_size
from ntkfl.work import CALL, SECOND


@dataclass(frozen=True)
class MovingWindow:
    """The mean of the last `size` models, or of all models while there are fewer than `size`; as in `ntkfl.training`.

    Args:
        size: number of models.
        start: the number of rounds after which the mean takes the model's place.
        fed_back: whether the mean is sent out and the next round starts from it; otherwise the mean is only evaluated.

    Raises:
        ValueError: a size below 1, a start below 0.
    """

    size: int
    start: int = 0
    fed_back: bool = True

    def __post_init__(self) -> None:
        require_size("the window of models", self.size)
        require_size("the number of rounds before averaging", self.start, least=0)


def with_full_window(own: LinearRound, size: int, n: int) -> LinearRound:
    """The round that maps the mean of the last `size` models to the next such mean.

    Besides the method's own memory, the round remembers Q - 1 vectors u_j, where Q = `size`. Each of the last Q models,
    except the oldest, has a vector u_j: the difference of this model from the mean of all Q models.

    Let the method remember nothing, and let its round multiply a mode by the factor l = 1 - nu. The eigenvalues z of
    the round with the window then satisfy z^Q = (l/Q) (1 + z + ... + z^(Q-1)). The only real numbers l for which some z
    is on the unit circle are l = 1 and l = -Q. So the round is stable for -Q < l < 1.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    if size == 1:
        return own
    rows = n if own.length is None else own.length
    kept, length = own.memory * rows, own.memory * rows + (size - 1) * n

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        (packed,) = memory
        move, inner = own.step(residual, tuple(np.split(packed[:kept], own.memory)) if own.memory else ())
        others = packed[kept:].reshape(size - 1, n, -1)  # the newest model first
        shift = (move + others.sum(axis=0)) / size
        behind = np.concatenate([move[None], others[:-1]]) - shift
        return shift, (np.concatenate([*inner, behind.reshape((size - 1) * n, -1)]),)

    def roots(nu: np.ndarray) -> np.ndarray:
        companion = np.zeros((len(nu), size, size))
        companion[:, 0, :] = ((1 - nu) / size)[:, None]
        companion[:, np.arange(1, size), np.arange(size - 1)] = 1
        return np.linalg.eigvals(companion)

    plain = own.memory == 0 and own.response is not None
    return replace(
        own,
        step=step,
        memory=1,
        length=length,
        response=own.response if plain else None,
        roots=roots if plain else None,
        limit=1.0 + size,
        server=None,
    )


DENSE = 2000  # up to this many rows, all eigenvalues of a round map are computed; of a larger map only the largest
# up to this many rows, computing all eigenvalues takes no longer than a few Cholesky factors of half as many rows
CHOLESKY_ABOVE = 150
ESTIMATED = 1e-6  # estimated error of the rate, for a large map without a formula
# search for the largest server rate: largest number of rows of a map; relative accuracy of the rate
SEARCHED, CLOSE = 800, 1e-9
# number of restarts, and of vectors, in the search for eigenvalues; where many eigenvalues are close to each other,
# this search does not converge
RESTARTS, BASIS = 20, 80
MOST_ROUNDS = 1_000_000  # the largest number of rounds that `rounds_to` counts
# the number of responses that are kept is at most RESPONSES, and this number times n^2 at most RESPONSE_ENTRIES; one
# response is always kept
RESPONSES, RESPONSE_ENTRIES = 8, 2**24
ALIKE = 8 * np.finfo(float).eps  # responses that differ by at most this, relative to themselves, count as equal
# the largest condition number of a basis of modes; the number of rounds that are computed at a time
UNEVEN, AT_ONCE = 1e4, 64


@dataclass(frozen=True, eq=False)
class ResidualModes:
    """Rounds in coordinates a in which the modes of the residual do not mix: r = basis a, a = inverse r.

    The state of a mode is its entry of a and its entries of the memory; `maps` takes this state to the state of the
    next round.
    """

    maps: Float[np.ndarray, "n b b"]
    basis: Float[np.ndarray, "n n"]
    inverse: Float[np.ndarray, "n n"]

    def start(self, residual: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n b C"]:
        """The state before the first round."""
        state = np.zeros((*self.maps.shape[:2], residual.shape[1]))
        state[:, 0] = self.inverse @ residual
        return state

    def sizes(self, residual: Float[np.ndarray, "n C"]) -> Iterator[float]:
        """Yields |r(t)| for t = 1, 2, ..."""
        states = in_turn(self.maps @ self.start(residual), lambda state: self.maps @ state)
        power = np.linalg.matrix_power(self.maps, AT_ONCE)
        while True:
            interruption.check()
            residuals = states[:, 0].reshape(len(states), AT_ONCE, -1)
            yield from np.linalg.norm(np.tensordot(self.basis, residuals, 1), axis=(0, 2)).tolist()
            states = power @ states


def in_turn(state: np.ndarray, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The states of `AT_ONCE` successive rounds, from this state on, side by side along the last axis."""
    following = accumulate(repeat(state, AT_ONCE), lambda last, _: step(last))
    return np.concatenate(list(following), axis=-1)


@dataclass(frozen=True, eq=False)
class Schedule:
    """The first `count` rounds of a run, each of which is the round of a regime with steps of its own.

    The rounds after these repeat for ever.
    """

    count: int
    of_round: Callable[[int], LinearRegime]


@dataclass(eq=False)
class ClientsResponse:
    """A response P of the clients and the decompositions that depend on P, but not on the server."""

    response: Float[np.ndarray, " n"]  # P at the eigenvalues of H_D, the matrix of the clients' own blocks
    nu: Float[np.ndarray, " n"] | None = None  # eigenvalues of H P, ascending
    # the eigenvalues of P^(1/2) H P^(1/2); P^(-1/2) Q; Q^T P^(1/2), where Q has the eigenvectors of P^(1/2) H P^(1/2)
    modes: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


def mode_maps(round: LinearRound, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n b b"]:
    """For each mode, the map of its residual and memory in a round; `values` are the eigenvalues of P^(1/2) H
    P^(1/2).
    """
    assert round.server is not None
    columns = []
    for unit in np.eye(1 + round.memory):
        first, *memory = (np.full((len(values), 1), entry) for entry in unit)
        move, after = round.server(values[:, None] * first, tuple(memory))
        columns.append(np.concatenate([first - move, *after], axis=1))
    return np.stack(columns, axis=2)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearRegime(Regime):
    """Federated training by a linear method in the kernel regime; made by `kernel_regime`, which checks its arguments.

    The state is the residual r(t) = y - y(t) and the memories of server and clients, each of n coefficients. A round is
    a linear map of the state, `round_map`. Rounds are computed in float64: either one by one, each with one product
    with H, or many at once by powers of the map.

    If the steps change with the round, then map, spectrum, rate and limits belong to the rounds that repeat for ever.

    Args:
        method: the method's name.
        round: one round of the method.
        step_factors: the factors of eta_local in the local steps; an empty tuple means 1 in all steps.
        at_server_rate: a function that gives the same regime at another server rate; None if a formula gives the
            largest stable rate, or if the method has no server rate.
        before: earlier rounds with other steps; default none.

    Source: docs/proofs/linear_methods.md#state-maps.
    """

    method: str
    round: LinearRound
    step_factors: tuple[float, ...] = ()
    at_server_rate: Callable[[float], LinearRegime] | None = None
    before: Schedule | None = None
    no_answer: ClassVar = {
        "at": "only the regime of Algorithm 1 (method fl-ntk) has it; call kernel_regime with the other steps",
        "nu": "only Algorithm 1 (method fl-ntk) has nu, which leaves out the server's step; use `response_eigenvalues`",
        "local_outputs": "only Algorithm 1 (method fl-ntk) has clients' outputs; `outputs` has the server's model",
        "trajectory": "only Algorithm 1 (method fl-ntk) has a trajectory; `outputs` are known for all rounds",
    }

    @cached_property
    def response_eigenvalues(self) -> Float[np.ndarray, " n"] | None:
        """Eigenvalues of H times the clients' mean response and the server rate, ascending.

        A round of averaging has the eigenvalues 1 minus these numbers. The result is None if these numbers do not
        determine the rounds.

        Source: fl-ntk/X.2.
        """
        if self.round.response is None:
            return None
        own = self._mean_response
        if own.nu is None:
            values, basis = self._eigen
            root = basis * np.sqrt(np.maximum(values, 0))
            product = root.T @ self._clients.apply(own.response, root)
            own.nu = np.linalg.eigvalsh((product + product.T) / 2)
        return own.nu if self.round.server_rate is None else self.round.server_rate * own.nu

    @cached_property
    def _mean_response(self) -> ClientsResponse:
        """The clients' response and its decompositions.

        Regimes that differ only in their servers share the response and its decompositions, if the regimes have a
        common list `_responses`.
        """
        response, kept = self.round.mean_response, vars(self).get("_responses", [])
        for known in kept:
            if (np.abs(known.response - response) <= ALIKE * np.abs(response)).all():
                return known
        kept.append(ClientsResponse(response))
        del kept[: -max(1, min(RESPONSES, RESPONSE_ENTRIES // self.problem.n**2))]
        return kept[-1]

    @cached_property
    def modes(self) -> ResidualModes | None:
        """The modes of a round whose server combines the clients' mean displacements P r; None for other rounds.

        Let Q have the orthonormal eigenvectors of P^(1/2) H P^(1/2), and let r = P^(-1/2) Q a. Then every a_i evolves
        like the residual of a single sample, with the eigenvalue of the i-th mode in place of H P.

        The result is also None if P is not positive, if the largest eigenvalue of P is more than the square of `UNEVEN`
        times the smallest, or if steps change with the round.
        """
        if self.round.response is None or self.round.server is None or self.before is not None:
            return None
        own = self._mean_response
        response = own.response
        if not response.min() > 0 or response.max() > UNEVEN**2 * response.min():
            return None
        if own.modes is None:
            root, inverse = (self._clients.apply(response**power, np.eye(self.problem.n)) for power in (0.5, -0.5))
            product = root @ self.gram @ root
            values, vectors = np.linalg.eigh((product + product.T) / 2)
            own.modes = values, inverse @ vectors, vectors.T @ root
        values, basis, inverse = own.modes
        return ResidualModes(mode_maps(self.round, values), basis, inverse)

    @cached_property
    def round_map(self) -> Float[np.ndarray, "s s"]:
        """The map of one output's state (r, memory) to the state after a round, (s, s); its first n rows give r."""
        size = self._size
        require("the round map", lambda n: 8 * 4 * (n * size / self.problem.n) ** 2, n=self.problem.n)
        return self.mapped(np.eye(size))

    @property
    def _size(self) -> int:
        """Number of rows of a state, which consists of r and the memory."""
        return self.problem.n + self.round.memory * self._length

    @property
    def _length(self) -> int:
        return self.problem.n if self.round.length is None else self.round.length

    def mapped(self, states: Float[np.ndarray, "s k"]) -> Float[np.ndarray, "s k"]:
        """The states after one round.

        Args:
            states: one state in each column, shape (s, k).
        """
        n = self.problem.n
        residual, memory, _ = self._next(states[:n], self._split(states[n:]))
        return np.concatenate([residual, *memory])

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the round map, (s,), ordered by absolute value."""
        if self.response_eigenvalues is not None and self.round.roots is not None:
            eigenvalues = self.round.roots(self.response_eigenvalues).ravel()
        else:
            eigenvalues = np.linalg.eigvals(self.round_map)
        return eigenvalues[np.argsort(np.abs(eigenvalues))]

    @cached_property
    def rate(self) -> float:
        """Spectral radius of the round map, which is the factor per round by which the residual falls in the
        long run.
        """
        size = self._size
        if self.round.outer is not None and size > CHOLESKY_ABOVE:
            outer = self.round.outer.largest(self.gram, self._clients)
            if outer is not None:
                return outer
        if self.round.response is not None or size <= DENSE:
            return float(np.abs(self.spectrum[-1]))
        start = np.random.default_rng(0).standard_normal(size)
        try:
            operator = LinearOperator((size, size), lambda vector: self.mapped(vector.reshape(-1, 1)).ravel())
            eigenvalues = eigs(
                operator, k=2, ncv=BASIS, which="LM", v0=start, maxiter=RESTARTS, tol=1e-12, return_eigenvectors=False
            )
        except ArpackError:  # no convergence, because many eigenvalues are nearly as large as the largest
            eigenvalues = self.spectrum
        return float(np.abs(eigenvalues).max())

    @property
    def stable(self) -> bool:
        """Whether it is known that every residual goes to 0; False if 1 is within the error of the rate."""
        return not self.unreachable.shape[1] and self._side < 0

    @property
    def undecided(self) -> bool:
        """Whether neither stability nor instability is known, although H is not singular."""
        return not self.unreachable.shape[1] and self._side == 0

    @cached_property
    def _side(self) -> int:
        """Which side of 1 the spectral radius of the round map is on, for a positive definite H.

        The result is -1 where the radius is known to be below 1, 1 where the radius is known to be at least 1, and 0
        where neither is known. Eigenvalues are known up to rounding. For large maps without a formula the rate is an
        estimate; its error `ESTIMATED` is no proved bound.

        Source: docs/proofs/linear_methods.md#state-maps.
        """
        if self.response_eigenvalues is not None:
            inside = min(self.response_eigenvalues[0], self.round.limit - self.response_eigenvalues[-1])
            return -1 if inside > self._nu_error else 1 if inside < -self._nu_error else 0
        if self._size <= DENSE:
            return int(side_of_one(self.round_map, self._size * EPSILON * float(np.linalg.norm(self.round_map))))
        if self.round.in_turn is not None:
            moves = self.round.in_turn * self._clients.values
            if moves.min() > 0 and moves.max() < 2 - ESTIMATED:  # each client's turn contracts this client's residual
                return -1
        side = None if self.round.outer is None else self.round.outer.side_of_one(self.gram, self._clients)
        if side is None:
            side = 0 if abs(self.rate - 1) <= ESTIMATED else int(np.sign(self.rate - 1))
        return side

    @property
    def _nu_error(self) -> float:
        """Error of `response_eigenvalues` by rounding."""
        assert self.response_eigenvalues is not None
        return len(self.response_eigenvalues) * EPSILON * float(np.abs(self.response_eigenvalues[[0, -1]]).max())

    @property
    def step_limits(self) -> StepLimits:
        """The largest stable server rate, and the eta_local up to which the clients' local steps contract; NaN if
        unknown.

        If no formula gives the server rate, a search finds a rate such that rounds are stable just below it and not
        stable just above. This search is made for states of at most 800 rows. The eta_local that is returned is 2 /
        (max_c |H_cc| + mu), divided by the largest of `step_factors`, where mu is the strength with which clients are
        drawn back to their start, as in FedProx. Below this number, every local step of a client alone lowers the
        client's residual.
        """
        local = self._local_limit(self.round.pull) / max(self.step_factors, default=1.0)
        if self.response_eigenvalues is None or self.round.server_rate is None:
            return StepLimits(self._searched_limit, local)
        slowest, fastest = self.response_eigenvalues[0], self.response_eigenvalues[-1]
        rate = self.round.server_rate * self.round.limit / fastest if slowest > 0 else 0.0
        return StepLimits(float(rate), local)

    @cached_property
    def _searched_limit(self) -> float:
        """The largest stable server rate; 0 if no rate down to 2^-40 is stable, inf if all rates up to 2^40 are."""
        if self.at_server_rate is None or self._size > SEARCHED:
            return float("nan")
        if self.unreachable.shape[1]:
            return 0.0
        low = high = 1.0
        below = above = self._beyond(1.0)
        while low > 2.0**-40 and below >= 0:
            interruption.check()
            low, high, above = low / 2, low, below
            below = self._beyond(low)
        if low <= 2.0**-40:
            return 0.0
        while above < 0:
            interruption.check()
            low, high, below = high, 2 * high, above
            if high > 2.0**40:
                return float("inf")
            above = self._beyond(high)
        turns, last = 0, 0
        while high - low > CLOSE * low:
            interruption.check()
            # The next rate is the root of the secant, but at least a third of CLOSE inside the interval, so that two
            # such rates close the interval. Every fourth rate is the middle, because the radius may not be a smooth
            # function.
            inside = CLOSE * low / (3 * (high - low))
            share = 0.5 if turns % 4 == 3 else min(max(below / (below - above), inside), 1 - inside)
            tried = low + share * (high - low)
            value, turns = self._beyond(tried), turns + 1
            # If an end of the interval stays twice, the value at this end is halved, so that the secant's root moves
            # towards this end.
            if value < 0:
                low, below, above, last = tried, value, above / 2 if last < 0 else above, -1
            else:
                high, above, below, last = tried, value, below / 2 if last > 0 else below, 1
        return low

    def _beyond(self, server_rate: float) -> float:
        """The round's rate at another server rate, minus 1; the result is negative where the rounds are stable."""
        assert self.at_server_rate is not None
        return self.at_server_rate(server_rate).rate - 1

    @property
    def _grows(self) -> bool:
        if self.response_eigenvalues is not None:
            beyond = self.response_eigenvalues[-1] - self.round.limit > self._nu_error
            return bool(self.response_eigenvalues[0] < -1e-12 * abs(self.response_eigenvalues[-1]) or beyond)
        # The rate of a small map comes from its eigenvalues, which are far from exact where eigenvectors nearly
        # coincide (a Jordan chain). So `_side` must confirm that the rounds grow.
        return self.rate > 1 + 1e-9 and (self._size > CHOLESKY_ABOVE or self._side >= 0)

    @property
    def _setting(self) -> str:
        """The method and its steps, in words."""
        steps = self.setup
        return f"{self.method} at eta_local = {steps.eta_local:g} with {steps.local_steps} local steps"

    @cached_property
    def step_warning(self) -> str | None:
        """A warning that rounds are unstable, with steps at which they would be stable; None if no residual grows."""
        if not self._grows:
            return None
        limits = self.step_limits
        if limits.eta_global > 0:
            return f"{self._setting} is stable for a server rate below {limits.eta_global:.6g} only"
        return f"{self._setting} is not stable: the residual grows by {self.rate:.6g} a round; try smaller steps"

    def rounds_to(self, eps: float, initial_outputs: ArrayLike | None = None, at_most: int = MOST_ROUNDS) -> int:
        """The first t with |r(t)|_2 <= eps |r(0)|_2; no round is skipped in the search.

        Args:
            eps: positive.
            initial_outputs: y(0), 0 unless given.
            at_most: the largest number of rounds that are tried; default 1000000.

        Raises:
            ValueError: eps not positive, a step beyond the stability limit, a residual that cannot fall so far because
                part of it lies where H is zero, or a residual that needs more than `at_most` rounds.
        """

        def counted(initial: np.ndarray, target: float) -> int:
            self.require_reachable(initial, target)
            sizes: Iterable[float] = self._sizes(initial)
            if self.modes is not None:
                sizes = chain([float(np.linalg.norm(initial))], self.modes.sizes(initial))
            return first_below(target, sizes, at_most, "residual norm", lambda: self.rate)

        return self._first_round(eps, initial_outputs, counted)

    def require_reachable(self, initial: Float[np.ndarray, "n C"], target: float) -> None:
        """Raise a ValueError if the part of this residual that no weights can change is larger than the target.

        Args:
            initial: the residual r(0), shape (n, C).
            target: a Frobenius norm.

        Raises:
            ValueError: this part is larger than the target.
        """
        stays = float(np.linalg.norm(self.unreachable.T @ initial))
        if stays > target:
            raise ValueError(
                f"the residual norm does not fall to {target:.6g}: {stays:.6g} of it stays, where the Gram matrix is "
                "zero or its eigenvalue cannot be told from rounding"
            )

    @cached_property
    def unreachable(self) -> Float[np.ndarray, "n k"]:
        """Directions of the outputs that no weights can change.

        The directions are the eigenvectors of H whose eigenvalues cannot be told from rounding.
        """
        values, vectors = self._eigen
        return vectors[:, values <= len(values) * np.finfo(float).eps * values[-1]]

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        require("a report of these rounds", lambda rounds: 16 * rounds * initial.size, rounds=len(t))
        settled = 0 if self.before is None else self.before.count
        if self._takes_at_once(int(t.max(initial=0)) - settled, initial.shape[1]):
            return run_of(t, initial, self, self._of_round, settled, 1)
        states = np.empty((2, len(t), *initial.shape))
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports an overflow
            for now, (residual, moved) in zip(range(int(t.max(initial=-1)) + 1), self._rounds(initial), strict=False):
                states[0, t == now], states[1, t == now] = residual, moved
                interruption.check()
        return states[0], states[1]

    def _sizes(self, initial: Float[np.ndarray, "n C"]) -> Iterator[float]:
        """Yields |r(t)| for t = 0, 1, ...

        The rounds are computed one by one until they have taken as long as computing a power of the map would. From
        then on the power is used, and `AT_ONCE` rounds are computed at a time.
        """
        (n, outputs), size = initial.shape, self._size
        if self.before is not None or not self._takes_at_once(MOST_ROUNDS, outputs):
            yield from (float(np.linalg.norm(residual)) for residual, _ in self._rounds(initial))
            return
        state = np.concatenate([initial, *self._empty(initial)])
        power_takes = AT_ONCE.bit_length() * 2.0 * size**3
        for _ in range(int(power_takes / (5 * CALL + 6.0 * n**2 * outputs))):
            yield float(np.linalg.norm(state[:n]))
            state = self.mapped(state)
        states, power = in_turn(state, self.mapped), np.linalg.matrix_power(self.round_map, AT_ONCE)
        while True:
            interruption.check()
            yield from np.linalg.norm(states[:n].reshape(n, AT_ONCE, outputs), axis=(0, 2)).tolist()
            states = power @ states

    def _takes_at_once(self, rounds: int, outputs: int) -> bool:
        """Whether powers of the map should be used for these rounds.

        Powers are used if the rounds would take more than a second one by one, if powers take less work, and if the
        powers fit the memory.
        """
        rows, doublings = self._size + self.problem.n, max(rounds, 0).bit_length() + 1
        needed = 8.0 * doublings * self._size * rows
        at_once = doublings * (2.0 * self._size**2 * rows + CALL)
        one_by_one = rounds * (5 * CALL + 6.0 * self.problem.n**2 * outputs)
        return max(at_once, SECOND) < one_by_one and needed < left_for(needed) / 2

    def as_map(self) -> MeanRounds:
        """A round of this regime as a matrix."""
        n, unit = self.problem.n, np.eye(self._size)
        residual, memory, move = self._next(unit[:n], self._split(unit[n:]))
        return MeanRounds(np.concatenate([residual, *memory]), move)

    def _split(self, packed: Float[np.ndarray, "l k"]) -> tuple[np.ndarray, ...]:
        """The vectors of the memory."""
        return tuple(np.split(packed, self.round.memory)) if self.round.memory else ()

    def _rounds(self, initial: Float[np.ndarray, "n C"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields r(t) and c_t for t = 0, 1, ..."""
        residual, memory, moved = initial, self._empty(initial), np.zeros_like(initial)
        image = np.zeros_like(initial)
        for t in count():
            interruption.check()
            yield residual, moved
            move, memory = self._onward(t, residual, memory, image)
            image = self.gram @ move
            residual, moved = residual - image, moved + move

    def _of_round(self, t: int) -> LinearRegime:
        """The regime that has the steps of round t."""
        return self if self.before is None or t >= self.before.count else self.before.of_round(t)

    def _onward(
        self, t: int, residual: np.ndarray, memory: tuple[np.ndarray, ...], image: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """The result of `LinearRound.onward` for round t.

        `image` is H times the move of the round before. If that round had other steps, `image` does not determine the
        memory and is not used.
        """
        now = self._of_round(t)
        if t and self._of_round(t - 1) is not now:
            return now.round.step(residual, memory)
        return now.round.onward(residual, memory, image)

    def _next(self, residual: np.ndarray, memory: tuple[np.ndarray, ...]) -> tuple[np.ndarray, tuple, np.ndarray]:
        move, memory = self.round.step(residual, memory)
        return residual - self.gram @ move, memory, move

    def _empty(self, initial: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.zeros((self._length, initial.shape[1])),) * self.round.memory


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WindowedRegime(LinearRegime):
    """A linear method under a moving window.

    If the mean of the window is sent out, spectrum, rate and limits belong to rounds with a full window. If the mean is
    only evaluated, spectrum, rate and limits belong to the method without a window.

    Args:
        inner: the method's own round.
        window: the window over the models of this round.

    Source: IMA, eq. 5; docs/proofs/linear_methods.md#state-maps.
    """

    inner: LinearRound
    window: MovingWindow

    @classmethod
    def of(cls, regime: LinearRegime, window: MovingWindow) -> WindowedRegime:
        """The regime of a method under the window.

        Args:
            regime: the method, without a window.
            window: the window over the models of the method.
        """
        own = regime.round
        full = with_full_window(own, window.size, regime.problem.n) if window.fed_back else own
        fields = {name: getattr(regime, name) for name in ("problem", "setup", "gram", "kernel", "step_factors")}
        windowed = cls(**fields, method=f"{regime.method}+ima", round=full, inner=own, window=window)
        # `windowed` shares the clients' blocks that `regime` has cached or computes now
        vars(windowed)["_clients"] = regime._clients
        return windowed

    @property
    def modes(self) -> None:
        """None, because not the model itself but a mean of models is reported or sent out."""
        return None

    def _takes_at_once(self, rounds: int, outputs: int) -> bool:
        return False  # the reported mean is no linear map of one state

    def _rounds(self, initial: Float[np.ndarray, "n C"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        # the memory in this loop is the method's own, without the window's vectors
        plain = replace(self, round=self.inner)
        model, memory, t = (initial, np.zeros_like(initial)), plain._empty(initial), 0
        models: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=self.window.size)
        reported = model
        while True:
            interruption.check()
            yield reported
            residual, memory, move = plain._next(model[0], memory)
            t += 1
            model = residual, model[1] + move
            models.append(model)
            if t < self.window.start:
                reported = model
            else:
                reported = np.mean([r for r, _ in models], axis=0), np.mean([c for _, c in models], axis=0)
            if self.window.fed_back:
                model = reported


def run_of(
    t: Float[np.ndarray, " T"],
    initial: Float[np.ndarray, "n C"],
    regime: LinearRegime,
    of_round: Callable[[int], LinearRegime],
    settled: int,
    period: int,
) -> tuple[np.ndarray, np.ndarray]:
    """r(t) and c_t, (T, n, C) each; many rounds are computed at once.

    From round `settled` on, the rounds repeat with the period `period`.
    """
    n = len(initial)

    def step(number: int, state: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        now = of_round(number)
        residual, memory, move = now._next(state[:n], now._split(state[n:]))
        return np.concatenate([residual, *memory]), moved + move

    states, steps = np.empty((2, len(t), *initial.shape)), np.unique(t).tolist()
    start = np.concatenate([initial, *regime._empty(initial)]), np.zeros_like(initial)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports an overflow
        cycle = (of_round(settled + number).as_map() for number in range(period))
        for now, (state, moved) in visited(steps, start, step, settled, period, cycle):
            states[0, t == now], states[1, t == now] = state[:n], moved
    return states[0], states[1]


def first_below(target: float, sizes: Iterable[float], at_most: int, what: str, rate: Callable[[], float]) -> int:
    """The first round in which a size is at most the target.

    Raises:
        ValueError: more than `at_most` rounds are needed, `at_most` is negative, or a size is not finite.
    """
    require_size("at_most", at_most, least=0)
    for t, size in zip(range(at_most + 1), sizes, strict=False):
        interruption.check()
        if size <= target:
            return t
        if not size < float("inf"):
            raise ValueError(f"the {what} passes the largest float64 in round {t}; try smaller steps")
    raise ValueError(
        f"the {what} does not fall to {target:.6g} within {at_most} rounds: {size:.6g} is left, and the rate in the "
        f"long run is {rate():.9g} a round"
    )
