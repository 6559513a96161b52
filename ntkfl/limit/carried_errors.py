"""Error bounds for the rounds of linear methods, updated in every round of a run.

The errors have two sources. The first source is rounding. The second source is that H, the Gram matrix of all samples,
is stored in tiles (square pieces) whose entries differ slightly from the exact entries. A run adds up the errors of its
rounds in a few sums, from which the bounds follow:

- drift: a bound of the distance between the computed residual and r(0) - H c, where c are the computed coefficients;
- energy: a bound of (e' H e)^(1/2), where e is the error of the coefficients and ' transposes;
- defects: the sum of bounds of the errors that each round adds to the residual.

Several runs share each product with H, so that the entries of H are read once for all runs.

A round of plain averaging multiplies the residual by M = I - H P, where P maps the residual to the clients' mean
displacement times the server rate. Many rounds need few products with H if the powers of M are summed as Chebyshev
series. The eigenvalues x of M lie in [low, 1], so the eigenvalues of X = (2 M - (1 + low) I) / (1 - low) lie in [-1,
1]. Some sqrt(2 t log(1 / eps)) terms of the Chebyshev series in X of the functions x^t and 1 + x + ... + x^(t-1) are
enough for an error of eps, relative to the largest value of the function.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from scipy.fft import dct

from ntkfl import interruption
from ntkfl.gram.tiles import UNIT, HeldGram
from ntkfl.limit.feedback import Feedback, Gains, LocalErrors
from ntkfl.limit.linear_round import Blocks, LinearRound
from ntkfl.limit.round_modes import ClientModes, decay, geometric_sum, of_clients
from ntkfl.memory import require

Result = TypeVar("Result")
Vectors = Float[np.ndarray, "n k"]
# a run that yields vectors V, receives the product H V, and returns its result
Asking = Generator[Vectors, Vectors, Result]


def run_together(product: Callable[[Vectors], Vectors], runs: Sequence[Asking[Result]]) -> list[Result]:
    """Returns the result of each run.

    The vectors that the runs yield at the same time are multiplied by H in one product.
    """
    results: dict[int, Result] = {}
    answers: dict[int, Vectors | None] = dict.fromkeys(range(len(runs)))
    while answers:
        interruption.check()
        requests = {}
        for number, answer in answers.items():
            try:
                requests[number] = runs[number].send(answer)  # type: ignore[arg-type]  # None begins a run
            except StopIteration as stop:
                results[number] = stop.value
        answers = {}
        if requests:
            ends = np.cumsum([vectors.shape[1] for vectors in requests.values()])[:-1]
            images = np.hsplit(product(np.hstack(list(requests.values()))), ends)
            answers = dict(zip(requests, images, strict=True))
    return [results[number] for number in range(len(runs))]


SAFE = 1.01  # a factor that covers the rounding of the bounds themselves


class BoundedRound(NamedTuple):
    """The residual r(t) and the coefficients c_t of a run, and bounds of their errors."""

    # residual: r(t); moved: c_t; both (n, C)
    residual: Float[np.ndarray, "n C"]
    moved: Float[np.ndarray, "n C"]
    norm_error: float  # bound of the residual's error in the Frobenius norm
    entry_error: float  # bound of the error of each entry of the residual
    energy_error: float  # bound of (e' H e)^(1/2) for the error e of the coefficients, all columns together


@dataclass(frozen=True, eq=False)
class BlockErrors:
    """The errors of the decompositions H_cc = V diag(q) V' of the clients' blocks.

    H_cc is the block of H for the samples of client c. The errors are computed once, since they are the same for every
    method.
    """

    tiles: HeldGram
    clients: ClientModes

    @cached_property
    def of_clients(self) -> Float[np.ndarray, "N 2"]:
        """Returns two errors for each client.

        The first is the relative error of V and of products with V; the second is the distance of V diag(q) V' from
        H_cc.

        Source: docs/proofs/linear_methods.md#errors-of-tiles.
        """

        def of_client(owned: np.ndarray, basis: np.ndarray) -> tuple[float, ...]:
            interruption.check()
            size, q = len(owned), self.clients.values[owned]
            block, gamma = self.tiles[np.ix_(owned, owned)], 1.01 * (2 * size + 8) * UNIT * size
            top = float(q.max())
            skew = float(np.linalg.norm(basis.T @ basis - np.eye(size))) + gamma
            off = float(np.linalg.norm((basis * q) @ basis.T - block)) + gamma * top + 2.1 * skew * top
            return 2.1 * skew + gamma, off + self.tiles.block_error(owned, block)

        return np.array(list(of_clients(of_client, self.clients.members, self.clients.vectors)))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that is computed so far, by name, to be saved in a file."""
        return {name: value for name, value in vars(self).items() if name == "of_clients"}

    def recall(self, kept: Mapping[str, np.ndarray]) -> None:
        """Take from the arrays of a file the results that are not computed yet."""
        vars(self).update({name: kept[name] for name in ("of_clients",) if name in kept})


@dataclass(frozen=True)
class Margins:
    """Bounds of how far a computed round is from the round with the exact H and the exact P.

    P = u(H_D) is a function of the matrix H_D, and the function u belongs to the method. H_D holds the clients' own
    blocks H_cc of H, and 0 elsewhere. Norms are spectral.
    """

    local: LocalErrors
    entry: float  # an upper bound of the diagonal entries of H
    # lower and upper bound of the eigenvalues of P
    least: float
    most: float
    largest: float  # an upper bound of the eigenvalues of H P
    alone: float  # an upper bound of the eigenvalues of H_D P
    # an upper bound of the size of a local step times an eigenvalue of H_cc + mu I, with mu as in FedProx
    steepest: float

    @classmethod
    def of(cls, work: Blocks, round: LinearRound, errors: BlockErrors) -> "Margins":
        """The margins of a round, for steps of any size.

        Raises:
            ValueError: no error bound is proved for the method.

        Source: docs/proofs/linear_methods.md#errors-of-tiles.
        """
        response = round.in_turn
        if round.feedback is not None:
            response = round.feedback.response
        elif not round.memory and round.server is not None:
            response = round.response
        if response is None:
            raise ValueError(
                "no error bound is proved for this method with tiles: there is one for fl-ntk, fedavg, fedprox, "
                "fednova, fedavgm, scaffold (option II, equal steps), feddyn and cyclic, without momentum of the "
                "clients. `residual` and `predict` give the numbers without a bound"
            )
        tiles, plain = errors.tiles, work.response(round.pull)
        count, length, cut = 0, np.zeros(len(tiles)), np.zeros(len(tiles))
        # the steps are taken one by one, because the sizes of all steps would be n K numbers in memory
        for steps in work.local_steps():
            interruption.check()
            count, length, cut = count + 1, length + steps, np.maximum(cut, steps)

        def of_client(owned: np.ndarray, turning: float, off: float) -> tuple[float, ...]:
            q, u = work.clients.values[owned], response[owned]
            top, walked = float(q.max()), float(length[owned[0]])
            steepest = cut[owned[0]] * (top + off + round.pull)
            # how much the later steps lengthen an error; 1 if every step contracts
            growth = max(1.0, steepest - 1) ** (count - 1)
            weight = float((u / plain[owned]).max())
            rounded = turning + (8 + 4 * count) * UNIT
            turned = weight * walked * growth * rounded
            wrong = weight * walked * growth * walked * off / 2 + turned
            own = float((q * u).max()) + off * weight * walked * growth + (top + off) * wrong
            return wrong, float(u.max()) + wrong, own, off, rounded, -(float(u.min()) - wrong), steepest, growth, turned

        # these numbers may overflow if eta_local is beyond the clients' limit, where no bound is proved
        with np.errstate(all="ignore"):
            of_all = np.array(
                [
                    of_client(owned, turning, off)
                    for owned, (turning, off) in zip(work.clients.members, errors.of_clients, strict=True)
                ]
            )
        wrong_response, largest_response, alone, blocks, relative, *others = of_all.max(axis=0).tolist()
        least_response, steepest, growth, turned = others
        largest, least_response = float(of_all[:, 2].sum()), -least_response
        return cls(
            LocalErrors(
                SAFE * (tiles.error + tiles.product_rounding),
                SAFE * (tiles.norm + tiles.error),
                SAFE * wrong_response,
                SAFE * blocks,
                SAFE * relative,
                SAFE * tiles.error,
                SAFE * turned,
                SAFE * growth if growth > 1 else 1.0,
            ),
            SAFE * (tiles.largest_own + tiles.error),
            least_response / SAFE,
            SAFE * largest_response,
            SAFE * largest,
            SAFE * alone,
            steepest,
        )

    @property
    def growth(self) -> float:
        """An upper bound of the factor by which a round of plain averaging lengthens an error.

        The factor is the norm of I - H P in the metric in which this matrix is symmetric.
        """
        return max(1.0, self.largest - 1)

    def proved(self, work: Blocks, round: LinearRound, passing: bool = False) -> "Margins":
        """Returns these margins if error bounds of the rounds are proved for these steps.

        `passing`: whether the run later changes to other steps. If it does, steps with which a round of plain averaging
        lengthens errors are allowed too.

        Raises:
            ValueError: no error bound is proved for these steps.
        """
        if not self.steepest <= 2:
            most = max(float(steps.max()) for steps in work.local_steps())
            raise ValueError(
                f"no error bound is proved for eta_local = {most:g}: it must be below {2 * most / self.steepest:.6g}, "
                "where every local step contracts"
            )
        if round.in_turn is not None and self.alone > 2:
            raise ValueError(
                f"no error bound is proved for these steps: the eigenvalues of a client's own map are at most "
                f"{self.alone:.6g}, which must be at most 2"
            )
        beyond = round.in_turn is None and self.largest > 2 and not (passing and self.largest < np.inf)
        if round.feedback is None and (self.least <= 0 or beyond):
            raise ValueError(
                f"no error bound is proved for these steps: a round's eigenvalues are at most {self.largest:.6g}, "
                f"which must be at most 2, and its response is at least {self.least:.6g}, which must be positive"
            )
        return self


class RunState(NamedTuple):
    """A run after some rounds: its residual, its coefficients, the method's memory, and the sums of the errors."""

    round: int
    # residual and coefficients: (n, C)
    residual: Float[np.ndarray, "n C"]
    moved: Float[np.ndarray, "n C"]
    memory: tuple[np.ndarray, ...]
    # sums of the errors; before the first round, only a bound of the norm of the residual's error
    sums: tuple[float, ...]
    image: Float[np.ndarray, "n C"]  # H times the last round's change of the coefficients

    @classmethod
    def start(cls, initial: Float[np.ndarray, "n C"], memory: tuple[np.ndarray, ...], wrong: float = 0.0) -> "RunState":
        """The run before its first round; `wrong` bounds the norm of the error in the initial residual."""
        return cls(0, initial, zeros := np.zeros_like(initial), memory, (wrong,), zeros)


class Carried(ABC):
    """The rules by which the error bounds of a method's run are computed.

    A round changes the sums of the errors (`added`, `after`), and the bounds follow from these sums (`bounds`).
    """

    @abstractmethod
    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        """Bounds of the residual's error in norm, of the error of its entries, and of (e' H e)^(1/2).

        Here e is the error of the coefficients.
        """

    def begun(self, wrong: float) -> tuple[float, ...]:
        """The sums before the first round; `wrong` bounds the norm of the residual's error."""
        return wrong, 0.0, wrong, 0.0

    @abstractmethod
    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        """The amounts that a round adds to the sums."""

    def after(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        """The sums after a round."""
        return tuple(float(a + b) for a, b in zip(old.sums, self.added(old, move, new), strict=True))


@dataclass(frozen=True)
class Least(Carried):
    """The smallest of the bounds by several rules; each rule has sums of its own."""

    parts: tuple[Carried, ...]

    def _own(self, sums: tuple[float, ...]) -> Iterator[tuple[Carried, tuple[float, ...]]]:
        size = len(sums) // len(self.parts)
        return ((part, sums[i * size : (i + 1) * size]) for i, part in enumerate(self.parts))

    def begun(self, wrong: float) -> tuple[float, ...]:
        return tuple(chain.from_iterable(part.begun(wrong) for part in self.parts))

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        norm, entry, energy = zip(*(part.bounds(own) for part, own in self._own(sums)), strict=True)
        return min(norm), min(entry), min(energy)

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        added = (part.added(old._replace(sums=own), move, new) for part, own in self._own(old.sums))
        return tuple(chain.from_iterable(added))

    def after(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        after = (part.after(old._replace(sums=own), move, new) for part, own in self._own(old.sums))
        return tuple(chain.from_iterable(after))


def carried(
    work: Blocks,
    round: LinearRound,
    margins: Margins,
    rounds: int,
    largest: Callable[[np.ndarray], float] | None = None,
) -> Carried:
    """The rules for a method's run of `rounds` rounds.

    Raises:
        ValueError: steps for which no bound is proved.

    Source: docs/proofs/linear_methods.md#errors-of-tiles.
    """
    if round.feedback is not None:
        gains = Gains.of(round.feedback, work.clients, margins.local, rounds, largest)
        return _Remembering(margins, round.feedback, gains)
    return _Averaging(margins) if round.in_turn is None else _InTurn(margins, len(work.clients.members))


def bounded_rounds(
    onward: Callable[..., tuple[np.ndarray, tuple[np.ndarray, ...]]],
    state: RunState,
    errors: Carried | None,
    last: int,
    record: Callable[[RunState, BoundedRound], None],
) -> Asking[None]:
    """Run the rounds from this state to the round `last`.

    `record` is called with each state and with the `BoundedRound` of this state, which has the error bounds. If
    `errors` is None, these bounds are infinite. The function `onward` computes a round, as `LinearRegime._onward` does.
    """
    if errors is not None and not state.round:
        state = state._replace(sums=errors.begun(state.sums[0]))
    while True:
        interruption.check()
        bounds = (np.inf,) * 3 if errors is None else errors.bounds(state.sums)
        record(state, BoundedRound(state.residual, state.moved, *(SAFE * float(bound) for bound in bounds)))
        if state.round >= last:
            return
        move, memory = onward(state.round, state.residual, state.memory, state.image)
        image = yield move
        new = RunState(state.round + 1, state.residual - image, state.moved + move, memory, state.sums, image)
        if errors is not None:
            new = new._replace(sums=errors.after(state, move, new))
        state = new


def lost_in(local: LocalErrors, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, float, float]:
    """The errors that the rounding and the tiles of one round cause: in the residual, the coefficients and the drift.

    The drift is the residual's distance from r(0) - H c. If the tiles have the error E, a round that changes the
    coefficients by `move` adds E times `move` to the drift. So all rounds so far add E c. Hence this part of the bound
    is proportional to the norm of c, and not to the sum of the norms of the rounds' changes.
    """
    size, before, after = (float(np.linalg.norm(part)) for part in (move, old.moved, new.moved))
    rounding, lost = UNIT * float(np.linalg.norm(new.residual)), UNIT * after
    drift = (local.product - local.stored) * size + rounding + (local.size + local.stored) * lost
    return local.product * size + rounding, lost, drift + local.stored * (after - before)


def spread_within(weighted: float, largest: float) -> float:
    """Returns `weighted` times (2 - `largest`)^(-1/2), and infinity if `largest` is 2 or more.

    `largest` bounds the eigenvalues of H P, or of H_D P where clients train one after the other. The returned number is
    large where `largest` is near 2, since steps near their limit hardly shorten an error.
    """
    return weighted * float((2 - largest) ** -0.5) if largest < 2 else np.inf


def further(length: float, once: float, spread: float) -> float:
    """How much one more error adds to the bound `length`.

    The error adds at most `once` to the bound, and at most `spread`^2 to the square of the bound. The smaller of the
    two resulting increments is returned; it is `once` if `spread` is 0 or infinite.
    """
    return min(once, spread * (spread / (np.hypot(length, spread) + length)) if 0 < spread < np.inf else once)


@dataclass(frozen=True)
class _Averaging(Carried):
    """Error bounds for plain averaging; the sums are drift, energy and defects."""

    margins: Margins

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        drift, energy, defects, _ = sums
        norm = float(np.sqrt(self.margins.most / self.margins.least)) * defects
        norm = min(norm, drift + np.sqrt(self.margins.local.size) * energy)
        return norm, min(norm, drift + np.sqrt(self.margins.entry) * energy), energy

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        margins, local = self.margins, self.margins.local
        (defect, lost, farther), drift = lost_in(local, old, move, new), old.sums[0]
        slip = local.response * float(np.linalg.norm(old.residual))
        weighted = np.sqrt(margins.most) * drift
        energy = further(old.sums[1], np.sqrt(margins.largest) * weighted, spread_within(weighted, margins.largest))
        energy += np.sqrt(local.size) * (slip + lost)
        return farther, energy, defect + local.size * slip, 0.0


@dataclass(frozen=True)
class _InTurn(Carried):
    """Error bounds for clients that train one after the other.

    The sums are the drift and the energy, a bound of (e' H e)^(1/2) for the error e of the coefficients. Each client's
    steps shorten this error.

    Source: docs/proofs/linear_methods.md#errors-of-clients-in-turn.
    """

    margins: Margins
    clients: int

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        drift, energy, *_ = sums
        norm, entry = (drift + np.sqrt(size) * energy for size in (self.margins.local.size, self.margins.entry))
        return norm, entry, energy

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        margins, local, root = self.margins, self.margins.local, np.sqrt(self.clients)
        (_, lost, farther), size = lost_in(local, old, move, new), float(np.linalg.norm(move))
        # the second term bounds the rounding of a product with whole rows of H
        rows = local.product + SAFE * (len(move) + 4) * UNIT * local.size
        rounding = 2 * UNIT * (float(np.linalg.norm(old.residual)) + 2 * local.size * size)
        # a bound of the errors in the residuals from which the clients start in this round, for all clients together
        weighted = np.sqrt(margins.most) * (old.sums[0] + rows * size + root * rounding)
        slip = root * local.response / margins.least * size
        energy = further(old.sums[1], root * np.sqrt(margins.alone) * weighted, spread_within(weighted, margins.alone))
        energy += np.sqrt(local.size) * (slip + lost)
        return farther, energy, 0.0, 0.0


@dataclass(frozen=True)
class Changing(Carried):
    """Error bounds for a method without memory whose steps change with the round.

    The sums are the drift, the energy and a bound of the norm of the residual's error.

    Source: docs/proofs/linear_methods.md#errors-where-steps-change.
    """

    of_round: Callable[[int], tuple[LinearRound, Margins, Carried]]

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        (drift, energy, norm, _), margins = sums, self.of_round(0)[1]  # the bounds of H are the same in every round
        norm = min(norm, drift + np.sqrt(margins.local.size) * energy)
        return norm, min(norm, drift + np.sqrt(margins.entry) * energy), energy

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        round, margins, own = self.of_round(old.round)
        drift, energy, defects, _ = own.added(old, move, new)
        if round.response is None:  # clients train in turn
            return drift, energy, np.inf, 0.0
        weight, norm, growth = np.sqrt(margins.most / margins.least), old.sums[2], margins.growth
        energy += (growth - 1) * old.sums[1]
        return drift, energy, growth * (norm if old.round else weight * norm) - norm + weight * defects, 0.0

    def after(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        (round, margins, _), (later, following, _) = self.of_round(old.round), self.of_round(new.round)
        drift, energy, norm, _ = super().after(old, move, new)
        if round.response is not None and later is not round:
            assert later.response is not None
            wrong = margins.local.response
            with np.errstate(over="ignore"):
                stretched = float((later.response / round.response).max())
            stretched += (stretched * wrong + following.local.response) / margins.least
            norm *= float(np.sqrt(stretched * margins.least / following.least))
        return drift, energy, norm, 0.0


@dataclass(frozen=True)
class _Remembering(Carried):
    """Error bounds for a method that remembers one vector, such as the server's momentum.

    The sums are the drift and the errors of coefficients, of residual and of memory.

    Source: docs/proofs/linear_methods.md#errors-of-methods-that-remember.
    """

    margins: Margins
    feedback: Feedback
    gains: Gains

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        (drift, direct, defects, forgotten), gains = sums, self.gains
        norm = gains.residual * defects + gains.by_memory * forgotten
        energy = gains.energy * defects + gains.energy_by_memory * forgotten
        energy += np.sqrt(self.margins.local.size) * direct
        return norm, min(norm, drift + np.sqrt(self.margins.entry) * energy), energy

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        local = self.margins.local
        forgotten, slip = self.feedback.slips(local, old.residual, old.memory[0], move, new.memory[0])
        defect, lost, farther = lost_in(local, old, move, new)
        return farther, slip + lost, defect + local.size * slip, forgotten


Progress = Callable[[int, int], None]
CUT = 1e-13  # allowed sum of all omitted terms, relative to the function's largest value


class Series(NamedTuple):
    """Chebyshev coefficients of x^t and of 1 + ... + x^(t-1), and their relative truncation errors.

    The coefficients have a row for each t.
    """

    low: float  # the least x, at least -1 and below 1
    # coefficients of the powers and of the sums: (T, terms)
    powers: Float[np.ndarray, "T terms"]
    sums: Float[np.ndarray, "T terms"]
    # (2, T): error by truncation and rounding together; row 0 for the powers, row 1 for the sums
    cut: Float[np.ndarray, "2 T"]
    rounds: Float[np.ndarray, " T"]
    # The number of interpolation nodes. The degree of every Chebyshev polynomial of the series is below this number,
    # whether the polynomial is kept or omitted. So outside [-1, 1] no such polynomial is larger than the Chebyshev
    # polynomial of this degree.
    nodes: int

    @classmethod
    def of(cls, rounds: Float[np.ndarray, " T"], low: float) -> "Series":
        """The series for these rounds.

        Source: docs/proofs/linear_methods.md#many-rounds-at-once.
        """
        most, reported = int(max(rounds, default=0)), len(rounds)
        require("the series of these rounds", lambda rounds: 64 * reported * nodes_of(rounds), rounds=most)
        nodes = nodes_of(most)
        gap = (1 - low) * np.sin(np.pi * (np.arange(nodes) + 0.5) / (2 * nodes)) ** 2  # 1 - x, accurate near 1
        t = np.asarray(rounds)[:, None]
        coefficients = dct(np.stack([decay(gap, t), geometric_sum(gap, 1.0, t)]), axis=2) / nodes
        coefficients[:, :, 0] /= 2
        size = np.stack([np.ones(len(t)), np.maximum(t[:, 0], 1)])
        left = np.cumsum(np.abs(coefficients)[:, :, ::-1], axis=2)[:, :, ::-1] / size[:, :, None]
        terms = max(2, int((left > CUT).any(axis=(0, 1)).sum()))
        cut = left[:, :, terms] if terms < nodes else np.zeros(size.shape)
        powers, sums = coefficients[:, :, :terms]
        return cls(low, powers, sums, cut + CUT + 16 * nodes * UNIT, t[:, 0], nodes)


def nodes_of(most: int) -> int:
    """The number of interpolation nodes that resolve the powers x^t up to the round t = `most`."""
    return 16 + int(np.ceil(np.sqrt(2 * most * np.log(4 * most / CUT)))) if most else 16


class SeriesState(NamedTuple):
    """The partial sums of a series, and the last two terms, from which the next term follows."""

    term: int
    # the last two terms: (n, C)
    before: Float[np.ndarray, "n C"]
    now: Float[np.ndarray, "n C"]
    # residuals, sums: (T, n, C)
    residuals: Float[np.ndarray, "T n C"]
    sums: Float[np.ndarray, "T n C"]
    # Error bounds. On axis 0, the first bounds include the errors of the stored matrices, and the second bounds leave
    # them out. On axis 1, the first bounds are for the residuals, and the second for the sums. Axis 2 has the rounds.
    reached: Float[np.ndarray, "2 2 T"]
    # slips: the error bounds of the recursion's steps so far, summed; far: an error bound of `now`. Both hold two
    # numbers: the first includes the errors of the stored matrices, and the second leaves them out.
    slips: Float[np.ndarray, "2"]
    far: Float[np.ndarray, "2"]

    @classmethod
    def start(cls, series: Series, initial: Float[np.ndarray, "n C"], wrong: float = 0.0) -> "SeriesState":
        """The state before the first term; `wrong` bounds the norm of the initial residual's error."""
        nothing = np.zeros((len(series.powers), *initial.shape))
        reached, none = np.zeros((2, 2, len(nothing))), np.zeros(2)
        return cls(0, np.zeros_like(initial), initial, nothing, nothing, reached, none, none + wrong)


def summed(
    round: LinearRound,
    series: Series,
    state: SeriesState,
    margins: Margins | None = None,
    record: Callable[[SeriesState], None] = lambda state: None,
) -> Asking[SeriesState]:
    """Returns the sums after the last term; `record` is called with the sums after each term.

    Source: docs/proofs/linear_methods.md#many-rounds-at-once.
    """
    span, local = 1 - series.low, None if margins is None else margins.local
    both = np.abs(np.stack([series.powers, series.sums]))
    terms, state = both.shape[2], state._replace(residuals=state.residuals.copy(), sums=state.sums.copy())
    _, before, now, residuals, sums, reached, slips, far = state
    for term in range(state.term, terms):
        interruption.check()
        residuals += series.powers[:, term, None, None] * now
        sums += series.sums[:, term, None, None] * now
        rounded = 2 * terms * UNIT * float(np.linalg.norm(now))
        reached = reached + both[:, :, term] * (far + rounded)[:, None, None]
        if term + 1 < terms:
            move, _ = round.step(now, ())
            image = now - 2 / span * (yield move)
            before, now = now, image if term == 0 else 2 * image - before
            if local is not None:
                size, step = float(np.linalg.norm(before)), float(np.linalg.norm(move))
                of_product = np.array([local.product, local.product - local.stored])
                lost = of_product * step + local.size * size * np.array([local.response, local.turned])
                slips = slips + 4 / span * lost + 24 / span * UNIT * (size + local.size * step)
                far = far + slips  # the effect of each step's error grows linearly with the number of terms
        state = SeriesState(term + 1, before, now, residuals, sums, reached, slips, far)
        record(state)
    return state


def bounded_powers(
    round: LinearRound, series: Series, state: SeriesState, start: float, margins: Margins | None = None
) -> list[BoundedRound]:
    """The rounds of a summed series, with error bounds if `margins` are given; `start` is |r(0)|.

    Source: docs/proofs/linear_methods.md#many-rounds-at-once.
    """
    bounded = []
    for i, (residual, summed) in enumerate(zip(state.residuals, state.sums, strict=True)):
        moved, _ = round.step(summed, ())
        norm_error = entry_error = energy_error = np.inf
        if margins is not None:
            local, total = margins.local, max(1.0, float(np.abs(series.sums[i]).sum()))
            wrong = state.reached[:, :, i] + series.cut[:, i] * np.array([1.0, total]) * start
            size, skew = float(np.linalg.norm(summed)), float(np.sqrt(margins.most / margins.least))
            root, slip = np.sqrt(margins.largest * margins.most), np.sqrt(local.size) * local.response * size
            norm_error, energy_error = skew * wrong[0, 0], root * wrong[0, 1] + slip
            # The lines below compute a second bound of each error, and the smaller of the two bounds is kept. The
            # series gives rounds with the stored matrices. One part of a second bound is for the errors of these
            # rounds, and the other part is for their distance from rounds with H and P.
            wrong = wrong[1] * _outside(series, margins)
            way = _way(margins, float(np.sqrt(max(np.vdot(summed, moved), 0.0) + local.turned * size**2)), wrong[1])
            # |P^(1/2) r| is at most `left` times most^(1/2)
            left = start * float(np.exp(min(series.rounds[i] * _off(margins), 100.0)))
            weighted = np.sqrt(margins.most) * (local.stored * way + local.response / margins.least * left)
            apart = np.sqrt(series.rounds[i]) * spread_within(weighted, margins.largest)
            drift = skew * wrong[0] + local.stored * way
            norm_error = min(norm_error, drift + np.sqrt(local.size) * apart)
            entry_error = min(norm_error, drift + np.sqrt(margins.entry) * apart)
            energy_error = min(energy_error, apart + root * wrong[1] + np.sqrt(local.size) * local.turned * size)
        errors = (SAFE * float(bound) for bound in (norm_error, entry_error, energy_error))
        bounded.append(BoundedRound(residual, moved, *errors))
    return bounded


def _outside(series: Series, margins: Margins) -> float:
    """An upper bound of |T_j| and of |U_j| / (j + 1), for the Chebyshev polynomials of all terms.

    The bound exceeds 1 because eigenvalues of the stored matrices may be outside [-1, 1].
    """
    return float(np.exp(min(series.nodes * np.sqrt(4 * _off(margins) / (1 - series.low)), 100.0)))


def _way(margins: Margins, length: float, wrong: float) -> float:
    """An upper bound of the norm of the coefficients in every round so far.

    The last round's coefficients are P v, where v is the sum of the residuals of all rounds before. `length` is
    |P^(1/2) v|, and `wrong` bounds the error of v.
    """
    left, root = 2 - margins.largest - _off(margins), np.sqrt(margins.most)
    return float(root * (length + root * wrong) / min(1.0, left)) if left > 0 else np.inf


def _off(margins: Margins) -> float:
    """A bound of how far the eigenvalues of H P are from the eigenvalues of the product of the stored matrices."""
    local = margins.local
    return margins.most * local.stored + local.size * local.response
