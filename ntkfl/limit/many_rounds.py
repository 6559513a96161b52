"""Many equal rounds at once, by squaring the map of the moments over a cycle of rounds again and again.

If nothing is drawn, a round takes the covariance X to M X M^T + Q, and several rounds together have the same form. If
clients or batches are drawn, the draws add to the covariance, by an amount that also depends on the mean. The map of
the covariance and of the mean's outer product is then written out as a matrix.

Source: docs/proofs/random_rounds.md#many-rounds-at-once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from ntkfl import interruption

Matrix = Float[np.ndarray, "s s"]
# maps the covariance and the mean before a round to the covariance after it
Next = Callable[[Matrix, Float[np.ndarray, " m"]], Matrix]


class Rounds(Protocol):
    """A number of rounds as one map of a state."""

    def then(self, later: Any) -> Rounds:
        """These rounds, followed by other rounds of the same class."""
        ...

    def after(self, *state: np.ndarray) -> tuple[np.ndarray, ...]:
        """The state after these rounds."""
        ...


class MeanRounds(NamedTuple):
    """Rounds as a map of residual and memory, and of the coefficients by which the model has moved."""

    mean: Float[np.ndarray, "m m"]
    moves: Float[np.ndarray, "n m"]

    def then(self, later: MeanRounds) -> MeanRounds:
        return MeanRounds(later.mean @ self.mean, self.moves + later.moves @ self.mean)

    def after(self, *state: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, moved = state
        return self.mean @ mean, moved + self.moves @ mean


class QuietRounds(NamedTuple):
    """Rounds that draw nothing, as a map of the samples' mean, (m, C), and of a covariance, (C, s, s).

    Gaussian noise may be added in each round.
    """

    mean: Float[np.ndarray, "m m"]
    spread: Matrix  # M, for states that have the residuals at all points of a kernel
    added: Matrix  # Q

    def then(self, later: QuietRounds) -> QuietRounds:
        added = later.spread @ self.added @ later.spread.T + later.added
        return QuietRounds(later.mean @ self.mean, later.spread @ self.spread, (added + added.T) / 2)

    def after(self, *state: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, covariance = state
        return self.mean @ mean, self.spread @ covariance @ self.spread.T + self.added


class DrawnRounds(NamedTuple):
    """Rounds that draw clients or batches, as an affine map of upper triangles.

    The triangles are those of the covariance and of the mean's outer product. The state is the same as in
    `QuietRounds`.
    """

    mean: Float[np.ndarray, "m m"]
    matrix: Float[np.ndarray, "d d"]
    shift: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, mean: Float[np.ndarray, "m m"], size: int, following: Next) -> DrawnRounds:
        """The map of one round.

        It is found from the covariances after the round if the covariance before the round is a unit matrix (0 but for
        one entry and its mirror image), or if the mean before the round is a unit vector or the sum of two.
        """
        nothing, zero, units = np.zeros((size, size)), np.zeros(len(mean)), np.eye(len(mean))
        own, outer = np.triu_indices(size), np.triu_indices(len(mean))
        added = following(nothing, zero)
        matrix = np.zeros((len(own[0]) + len(outer[0]),) * 2)
        for column, (i, j) in enumerate(zip(*own, strict=True)):
            interruption.check()
            unit = nothing.copy()
            unit[i, j] = unit[j, i] = 1.0
            matrix[: len(own[0]), column] = (following(unit, zero) - added)[own]
        alone = [(following(nothing, unit) - added)[own] for unit in units]
        for column, (i, j) in enumerate(zip(*outer, strict=True), len(own[0])):
            interruption.check()
            caused = alone[i]
            if i != j:
                caused = (following(nothing, units[i] + units[j]) - added)[own] - alone[i] - alone[j]
            matrix[: len(own[0]), column] = caused
            product = np.outer(mean[:, i], mean[:, j])
            matrix[len(own[0]) :, column] = (product if i == j else product + product.T)[outer]
        return cls(mean, matrix, np.append(added[own], np.zeros(len(outer[0]))))

    def then(self, later: DrawnRounds) -> DrawnRounds:
        shift = later.matrix @ self.shift + later.shift
        return DrawnRounds(later.mean @ self.mean, later.matrix @ self.matrix, shift)

    def after(self, *state: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, covariance = state
        own, outer = np.triu_indices(covariance.shape[-1]), np.triu_indices(len(mean))
        result = np.zeros_like(covariance)
        for column, before, after in zip(mean.T, covariance, result, strict=True):
            both = np.append(before[own], np.outer(column, column)[outer])
            after[own] = (self.matrix @ both + self.shift)[: len(own[0])]
            after += np.triu(after, 1).T
        return self.mean @ mean, result


class Repeated:
    """Rounds repeated any number of times, by composing 1, 2, 4, ... of them."""

    def __init__(self, rounds: Rounds) -> None:
        self.doubled = [rounds]

    def after(self, times: int, *state: np.ndarray) -> tuple[np.ndarray, ...]:
        """The state after these rounds are repeated `times` times."""
        for power in range(times.bit_length()):
            interruption.check()
            if power == len(self.doubled):
                self.doubled.append(self.doubled[-1].then(self.doubled[-1]))
            if times >> power & 1:
                state = self.doubled[power].after(*state)
        return state


def visited(
    asked: Sequence[int],
    state: tuple[np.ndarray, ...],
    step: Callable[..., tuple[np.ndarray, ...]],
    settled: int,
    period: int,
    cycle: Iterable[Rounds],
) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """Yields the state before each of these rounds, whose numbers ascend.

    `step` maps the number of a round and the state before the round to the state after the round. From round `settled`
    on, the `period` rounds of the cycle recur. `cycle` is used only where several rounds are taken at once.
    """
    now, repeated = 0, None
    for target in asked:
        while now < min(target, settled):
            interruption.check()
            state, now = step(now, *state), now + 1
        turns, rest = divmod(target - now, period)
        if turns:
            repeated = repeated or Repeated(reduce(lambda earlier, later: earlier.then(later), cycle))
            state, now = repeated.after(turns, *state), target - rest
        shown = state
        for number in range(now, target):
            shown = step(number, *shown)
        yield target, shown
