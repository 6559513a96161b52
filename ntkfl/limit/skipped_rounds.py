"""Many rounds of plain averaging for few products: powers of the round's map as Chebyshev series.

The eigenvalues x of M = I - H P lie in [low, 1], those of X = (2 M - (1 + low) I) / (1 - low) in [-1, 1]. There the
Chebyshev series of x^t and of 1 + x + ... + x^(t-1) may end after some sqrt(2 t log(1 / eps)) terms.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.fft import dct

from ntkfl import interruption
from ntkfl.gram.tiles import UNIT
from ntkfl.limit.asked_products import Asking
from ntkfl.limit.carried_errors import SAFE, BoundedRound, Margins, spread_within
from ntkfl.limit.linear_round import LinearRound
from ntkfl.limit.round_modes import decay, geometric_sum
from ntkfl.memory import require

Progress = Callable[[int, int], None]
CUT = 1e-13  # allowed sum of all omitted terms, relative to the function's largest value


class Series(NamedTuple):
    """Chebyshev coefficients of x^t and of 1 + ... + x^(t-1), a row for each t, and relative truncation errors."""

    low: float  # least x, from -1 to below 1
    # powers, sums: (T, terms)
    powers: Float[np.ndarray, "T terms"]
    sums: Float[np.ndarray, "T terms"]
    cut: Float[np.ndarray, "2 T"]  # (2, T), truncation and rounding of powers and of sums
    rounds: Float[np.ndarray, " T"]
    nodes: int  # degree of the interpolation: outside [-1, 1] no omitted term is larger than the term of this number

    @classmethod
    def of(cls, rounds: Float[np.ndarray, " T"], low: float) -> "Series":
        """The series of these rounds.

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
    """The number of nodes that resolve the powers up to this round."""
    return 16 + int(np.ceil(np.sqrt(2 * most * np.log(4 * most / CUT)))) if most else 16


class SeriesState(NamedTuple):
    """The partial sums of a series, and the last two terms, from which the next follows."""

    term: int
    # before, now: (n, C)
    before: Float[np.ndarray, "n C"]
    now: Float[np.ndarray, "n C"]
    # residuals, sums: (T, n, C)
    residuals: Float[np.ndarray, "T n C"]
    sums: Float[np.ndarray, "T n C"]
    # error bounds, with and without the errors of the stored matrices, of residuals and of sums
    reached: Float[np.ndarray, "2 2 T"]
    # slips, far: error bounds of a step of the recursion and of `now`, with and without the errors of the stored
    # matrices
    slips: Float[np.ndarray, "2"]
    far: Float[np.ndarray, "2"]

    @classmethod
    def start(cls, series: Series, initial: Float[np.ndarray, "n C"], wrong: float = 0.0) -> "SeriesState":
        """The state before the first term; the norm of the initial residual's error is at most `wrong`."""
        nothing = np.zeros((len(series.powers), *initial.shape))
        reached, none = np.zeros((2, 2, len(nothing))), np.zeros(2)
        return cls(0, np.zeros_like(initial), initial, nothing, nothing, reached, none, none + wrong)


def summed(
    round: LinearRound,
    series: Series,
    state: SeriesState,
    margins: Margins | None = None,
    seen: Callable[[SeriesState], None] = lambda state: None,
) -> Asking[SeriesState]:
    """The sums after the last term; `seen` gets the sums after each term.

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
        seen(state)
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
            # errors of rounds with the stored matrices, which are summed here, and the distance to rounds with H and P
            wrong = wrong[1] * _outside(series, margins)
            way = _way(margins, float(np.sqrt(max(np.vdot(summed, moved), 0.0) + local.turned * size**2)), wrong[1])
            # |P^(1/2) r| is at most this times most^(1/2)
            left = start * float(np.exp(min(series.rounds[i] * _off(margins), 100.0)))
            seen = np.sqrt(margins.most) * (local.stored * way + local.response / margins.least * left)
            apart = np.sqrt(series.rounds[i]) * spread_within(seen, margins.largest)
            drift = skew * wrong[0] + local.stored * way
            norm_error = min(norm_error, drift + np.sqrt(local.size) * apart)
            entry_error = min(norm_error, drift + np.sqrt(margins.entry) * apart)
            energy_error = min(energy_error, apart + root * wrong[1] + np.sqrt(local.size) * local.turned * size)
        errors = (SAFE * float(bound) for bound in (norm_error, entry_error, energy_error))
        bounded.append(BoundedRound(residual, moved, *errors))
    return bounded


def _outside(series: Series, margins: Margins) -> float:
    """A bound of a term's excess over 1, at eigenvalues of the stored matrices outside [-1, 1]."""
    return float(np.exp(min(series.nodes * np.sqrt(4 * _off(margins) / (1 - series.low)), 100.0)))


def _way(margins: Margins, length: float, wrong: float) -> float:
    """At least the norm of every earlier round's coefficients P v, given |P^(1/2) v| and an error of v."""
    left, root = 2 - margins.largest - _off(margins), np.sqrt(margins.most)
    return float(root * (length + root * wrong) / min(1.0, left)) if left > 0 else np.inf


def _off(margins: Margins) -> float:
    """A bound of the distance between eigenvalues of H P and those of the stored matrices."""
    local = margins.local
    return margins.most * local.stored + local.size * local.response
