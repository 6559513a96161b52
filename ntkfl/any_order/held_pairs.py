"""The search for the set A of held pairs of the theorem in `ntkfl.any_order`.

Pairs that fail the theorem's sign condition are added to A, that is, held at their kinks w*_r.x_i = 0. This step is
repeated until no pair fails or the search gives up.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.any_order.constraint_rows import (
    NO_PAIRS,
    ConstraintRows,
    Dependent,
    Nearest,
    Pairs,
    Pass,
    near_pairs,
    preactivations,
)
from ntkfl.any_order.rounding import above, below, gamma, length

MARGIN = 8.0  # pairs with |w_r.x_i| / |x_i| below this multiple of D are checked
ROUNDS = 100
FEW = 16  # this many pairs may fail in any later round, even if fewer failed in the first round
# number of pairs in the first block, which has the pairs that are most likely to fail; number of entries in a later
# block
_FIRST, _ENTRIES = 2048, 2**22


@dataclass(frozen=True, eq=False)
class Grown:
    """The result of the search for A."""

    why: str  # empty if every pair off A meets the condition; otherwise the reason why the search failed
    rows: ConstraintRows  # C with the last A
    nearest: Nearest | None  # the W* of these rows; None if C is not shown to have full rank
    margin: float  # the least (sign w*_r.x_i - D kappa_ri) / |x_i| over the pairs off A, rounded down
    failing: Pairs  # the pairs that failed last


def grown(neurons: Pass, *, most_held: int, most_near: int, scale: float = 1.0) -> Grown:
    """Search for A, beginning with the empty set."""
    failing, pairs, nearest, margin = NO_PAIRS, NO_PAIRS, None, -np.inf
    reach, first = 0.0, 0
    rows = ConstraintRows(neurons, NO_PAIRS.neuron, NO_PAIRS.row)
    for round_ in range(ROUNDS):
        try:
            nearest = rows.nearest(scale)
        except Dependent as error:
            return Grown(dependent(rows, error.vector), rows, None, -np.inf, failing)
        except (ValueError, FloatingPointError) as error:  # after a NaN or an overflow no bound is known
            return Grown(f"the system for W* could not be solved in float64: {error}", rows, None, -np.inf, failing)
        distance = float(nearest.distance.hi)
        if not np.isfinite(distance):
            return Grown("the distance to W* has no bound in float64", rows, nearest, -np.inf, failing)
        if not reach > 2.5 * distance:
            reach = max(MARGIN * distance, 1e-300)
            looked_at = near_pairs(neurons, reach, most_near)
            if looked_at is None:
                why = f"W* is too far: more than {most_near} pairs lie within {reach:.2g} |x_i| of their kinks"
                return Grown(why, rows, nearest, -np.inf, failing)
            pairs = looked_at
        least, failing = failures(rows, nearest, pairs, max(first, FEW) if round_ else most_held)
        margin = float(np.minimum(least, reach - 2 * distance))  # np.minimum keeps a NaN
        if margin > 0 and not len(failing):
            return Grown("", rows, nearest, margin, failing)
        count = len(failing)
        if len(rows.neuron) + count > most_held:
            why = f"A is too large: {len(rows.neuron) + count} or more pairs would be held, the limit is {most_held}"
            return Grown(f"{why}; {named(neurons, failing)}", rows, nearest, margin, failing)
        if round_ and count > max(first, FEW):
            why = f"a chain reaction: {first} pairs failed at first, and with {len(rows.neuron)} held {count} more fail"
            return Grown(f"{why}; {named(neurons, failing)}", rows, nearest, margin, failing)
        if round_ == ROUNDS - 1:
            break  # no round is left in which the W* of a larger A could be computed
        first = max(first, count) if round_ == 0 else first
        neuron, row = np.append(rows.neuron, failing.neuron), np.append(rows.row, failing.row)
        order = np.lexsort((row, neuron))
        rows = ConstraintRows(neurons, neuron[order], row[order])
    return Grown(
        f"no end after {ROUNDS} rounds of adding pairs; {named(neurons, failing)}", rows, nearest, margin, failing
    )


def failures(rows: ConstraintRows, nearest: Nearest, pairs: Pairs, most: int) -> tuple[float, Pairs]:
    """The least margin over the pairs off A, rounded down, and the pairs whose margin is not positive (or NaN).

    The search stops once more than `most` pairs fail.
    """
    net = rows.neuron_pass.network
    held = np.zeros(len(pairs), bool)
    if len(rows.neuron):
        held = np.isin(pairs.neuron * net.n + pairs.row, rows.neuron * net.n + rows.row)
    index = np.flatnonzero(~held)
    least, failing, start, step = np.inf, [index[:0]], 0, _FIRST
    # the last pairs are left unchecked only if more than `most` others fail
    while start < len(index) and sum(map(len, failing)) <= max(most, 0):
        interruption.check()
        part = index[start : start + step]
        margin = margins(rows, nearest, pairs[part])
        least = np.minimum(least, margin.min())  # np.minimum keeps a NaN
        failing.append(part[~(margin > 0)])
        start, step = start + step, max(1, _ENTRIES // rows.size)
    return float(least), pairs[np.concatenate(failing)]


def margins(rows: ConstraintRows, nearest: Nearest, pairs: Pairs) -> Float[np.ndarray, " k"]:
    """The margins (sign w*_r.x_i - D kappa_ri) / |x_i| of pairs off A, rounded down.

    A negative value or NaN means that the margin is not shown to be positive.

    W* differs from the computed point by a vector in the span of the rows of C whose length is at most `slack`. So
    w_r.x_i changes by at most kappa_ri slack.
    """
    net, solution = rows.neuron_pass.network, nearest.solution
    columns, error = rows.columns(pairs.neuron, pairs.row)
    on = rows.neuron_pass.patterns(pairs.neuron)[np.arange(len(pairs)), pairs.row]
    value, error_of_value = preactivations(net, pairs)
    size, long = length(columns, axis=0), length(solution)
    z = value + solution @ columns
    doubt = error_of_value + (error + gamma(rows.size) * size) * long + gamma(1) * (np.abs(value) + np.abs(z))
    clear = np.where(on, z, -z) - above(doubt)
    reach = above(float(nearest.distance.hi) + nearest.slack)
    norms = np.linalg.norm(net.x[pairs.row], axis=1)
    kappa = np.minimum(above(norms), above((size + error) / np.sqrt(below(rows.smallest.lo))))
    margin = clear - above(kappa * reach)
    tight = ~(margin > 0) & (clear > 0)
    if tight.any():
        kappa[tight] = np.minimum(kappa[tight], rows.projections(columns[:, tight], error[tight])[1])
        margin = clear - above(kappa * reach)
    return np.where(margin > 0, below(margin / above(norms)), margin / norms)


def named(neurons: Pass, failing: Pairs, most: int = 3) -> str:
    """The first of these pairs, in words."""
    sample = neurons.network.sample[failing.row[:most]]
    named = ", ".join(f"({r}, {i})" for r, i in zip(failing.neuron[:most].tolist(), sample.tolist(), strict=True))
    return f"the first pairs (neuron, sample) that fail are {named}"


def dependent(rows: ConstraintRows, vector: Float[np.ndarray, " p"]) -> str:
    """The rows of C that depend on each other, in words, by the eigenvector of the smallest eigenvalue."""
    net = rows.neuron_pass.network
    if not np.isfinite(vector).all():
        return "C has no full row rank that float64 could show: its numbers are beyond the range"
    large = np.flatnonzero(np.abs(vector) > 0.1 * np.abs(vector).max())
    samples: Int[np.ndarray, " k"] = np.unique(net.sample[large[large < rows.n_samples] // net.n_outputs])
    pairs = large[large >= rows.n_samples] - rows.n_samples
    parts = [f"sample{'s' if len(samples) > 1 else ''} {_listed(samples.tolist())}"] if len(samples) else []
    if len(pairs):
        named = [f"({rows.neuron[k]}, {net.sample[rows.row[k]]})" for k in pairs]
        parts.append(f"held pairs (neuron, sample) {_listed(named)}")
    return f"C is not shown to have full row rank: the rows of {' and '.join(parts)} depend on each other, or nearly so"


def _listed(items: list, most: int = 8) -> str:
    return ", ".join(map(str, items[:most])) + (f" and {len(items) - most} more" if len(items) > most else "")
