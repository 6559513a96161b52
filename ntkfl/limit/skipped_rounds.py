"""Many rounds of plain averaging by few products: powers of the round's map as Chebyshev series of it.

The eigenvalues of M = I - H P lie in [low, 1], and X = (2 M - (1 + low) I) / (1 - low) has them in [-1, 1]. There
x^t and 1 + x + ... + x^(t-1) are series in Chebyshev's polynomials that end after some sqrt(2 t log(1 / eps)) terms.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.fft import dct

from ntkfl import interruption
from ntkfl.gram.tiles import UNIT, Tiles
from ntkfl.limit.carried_errors import SAFE, BoundedRound, Margins
from ntkfl.limit.linear_round import LinearRound
from ntkfl.limit.round_modes import decay, geometric_sum

Progress = Callable[[int, int], None]
CUT = 1e-13  # what all terms that are left out come to, relative to the largest value of the function


class Series(NamedTuple):
    """Coefficients of x^t and of 1 + ... + x^(t-1), a row for each t, and what they leave out, relative."""

    low: float  # least x, from -1 to below 1
    # powers, sums: (T, terms)
    powers: Float[np.ndarray, "T terms"]
    sums: Float[np.ndarray, "T terms"]
    cut: Float[np.ndarray, "2 T"]  # (2, T), of either; with its own rounding

    @classmethod
    def of(cls, rounds: Float[np.ndarray, " T"], low: float) -> "Series":
        """The series of these rounds.

        Source: docs/proofs/linear_methods.md#many-rounds-at-once.
        """
        most = int(max(rounds, default=0))
        nodes = 16 + int(np.ceil(np.sqrt(2 * most * np.log(4 * most / CUT)))) if most else 16
        gap = (1 - low) * np.sin(np.pi * (np.arange(nodes) + 0.5) / (2 * nodes)) ** 2  # 1 - x, to full accuracy near 1
        t = np.asarray(rounds)[:, None]
        coefficients = dct(np.stack([decay(gap, t), geometric_sum(gap, 1.0, t)]), axis=2) / nodes
        coefficients[:, :, 0] /= 2
        size = np.stack([np.ones(len(t)), np.maximum(t[:, 0], 1)])
        left = np.cumsum(np.abs(coefficients)[:, :, ::-1], axis=2)[:, :, ::-1] / size[:, :, None]
        terms = max(2, int((left > CUT).any(axis=(0, 1)).sum()))
        cut = left[:, :, terms] if terms < nodes else np.zeros(size.shape)
        powers, sums = coefficients[:, :, :terms]
        return cls(low, powers, sums, cut + CUT + 16 * nodes * UNIT)


def bounded_powers(
    tiles: Tiles,
    round: LinearRound,
    series: Series,
    initial: Float[np.ndarray, "n C"],
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> list[BoundedRound]:
    """The rounds of a series, with bounds where there are margins, infinite ones where not.

    Source: docs/proofs/linear_methods.md#many-rounds-at-once.
    """
    span, local = 1 - series.low, None if margins is None else margins.local
    before, now = np.zeros_like(initial), initial
    residuals, sums = (np.zeros((len(series.powers), *initial.shape)) for _ in range(2))
    both = np.abs(np.stack([series.powers, series.sums]))
    terms, reached, slips, far = both.shape[2], np.zeros(both.shape[:2]), 0.0, 0.0
    for term in range(terms):
        interruption.check()
        residuals += series.powers[:, term, None, None] * now
        sums += series.sums[:, term, None, None] * now
        if progress is not None:
            progress(term, terms - 1)
        reached += both[:, :, term] * (far + 2 * terms * UNIT * float(np.linalg.norm(now)))
        if term + 1 == terms:
            break
        move, _ = round.step(now, ())
        image = now - 2 / span * (tiles @ move)
        before, now = now, image if term == 0 else 2 * image - before
        if local is not None:
            size = float(np.linalg.norm(before))
            lost = local.product * float(np.linalg.norm(move)) + local.size * local.response * size
            slips += 4 / span * lost + 24 / span * UNIT * (size + local.size * float(np.linalg.norm(move)))
            far += slips  # a slip grows by itself with every term
    moved = [round.step(each, ())[0] for each in sums]
    start = float(np.linalg.norm(initial))
    bounded = []
    for i, (residual, coefficients) in enumerate(zip(residuals, moved, strict=True)):
        norm_error = energy_error = np.inf
        if margins is not None and local is not None:
            total = max(1.0, float(np.abs(series.sums[i]).sum()))
            wrong = reached[:, i] + series.cut[:, i] * np.array([1.0, total]) * start
            slip = local.response * float(np.linalg.norm(sums[i]))
            norm_error = SAFE * float(np.sqrt(margins.most / margins.least) * wrong[0])
            energy_error = SAFE * float(np.sqrt(margins.largest * margins.most) * wrong[1] + np.sqrt(local.size) * slip)
        bounded.append(BoundedRound(residual, coefficients, norm_error, norm_error, energy_error))
    return bounded
