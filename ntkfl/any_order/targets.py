"""Targets for the outputs. They minimise the loss of every sample, and weights near the network's own weights reach
them.

The certificate takes such targets as labels.

The theorem of docs/proofs/losses_in_any_order.md allows any targets in the intervals of outputs at which the losses are
minimal, so rounding errors here do no harm.
"""

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.any_order.constraint_rows import NO_PAIRS, ConstraintRows, passed
from ntkfl.any_order.scaled_network import Unreachable, scaled
from ntkfl.connectivity.network import TwoLayer
from ntkfl.problem import Problem, Weights

# largest number of iterations of the active set method; number of iterations without progress after which only one row
# is changed at a time
TURNS, PATIENCE = 200, 3


def proposed(
    problem: Problem,
    weights: Weights | TwoLayer,
    low: Float[np.ndarray, "n C"],
    high: Float[np.ndarray, "n C"],
    names: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "n C"]:
    """Targets t with low <= t <= high, (n, C), for which the change of the weights is nearly as small as possible.

    `names` are the samples' numbers in messages.

    Raises:
        Unreachable: equal inputs whose intervals have no number in common.
    Source: docs/proofs/losses_in_any_order.md#choosing-targets
    """
    start = scaled(Problem(problem.x, np.zeros(low.shape), problem.owner), weights)
    shift = (start.gain - start.exponent)[:, None]
    ends = []
    for end, worst in ((low, np.maximum), (high, np.minimum)):
        shared = np.full((start.n, start.n_outputs), -np.inf if worst is np.maximum else np.inf)
        worst.at(shared, start.row, np.ldexp(end, shift))
        ends.append(shared)
    apart = np.flatnonzero((ends[0] > ends[1])[start.row].any(axis=1))
    if len(apart):
        named = ", ".join(map(str, names[start.row == start.row[apart[0]]]))
        raise Unreachable(f"samples {named} have the same input, up to a factor, and no output minimises all losses")
    rows = ConstraintRows(passed(start), NO_PAIRS.neuron, NO_PAIRS.row)
    outputs = -rows.target()[0]
    change = nearest_in_box(rows.gram[0], *(end.reshape(-1) - outputs for end in ends))
    targets = np.clip((outputs + change).reshape(ends[0].shape), *ends)
    return np.clip(np.ldexp(targets[start.row], -shift), low, high)


def nearest_in_box(
    kernel: Float[np.ndarray, "p p"], low: Float[np.ndarray, " p"], high: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """A vector u, (p,), low <= u <= high, with nearly the least u'K^-1 u; the least |u| if K is singular in float64."""
    best = np.clip(0.0, low, high)
    try:
        factor = scipy.linalg.cho_factor(kernel)
    except (np.linalg.LinAlgError, ValueError):
        return best
    least, tolerance = float(best @ scipy.linalg.cho_solve(factor, best)), 1e-13 * np.abs(best).max()
    # 1 for an entry that is fixed at its lower end, -1 for an entry that is fixed at its upper end, otherwise 0
    side, fewest, patience = np.zeros(len(low)), len(low) + 1, PATIENCE
    for _ in range(TURNS):
        interruption.check()
        tied, pull = np.flatnonzero(side), np.zeros(len(low))
        if len(tied):
            wanted = np.where(side > 0, low, high)[tied]
            try:
                pull[tied] = scipy.linalg.cho_solve(scipy.linalg.cho_factor(kernel[np.ix_(tied, tied)]), wanted)
            # because of rounding, a block may be singular although the whole matrix is not
            except np.linalg.LinAlgError:
                return best
        change = kernel @ pull
        inside = np.clip(change, low, high)
        if (cost := float(inside @ scipy.linalg.cho_solve(factor, inside))) < least:
            best, least = inside, cost
        wrong = np.where(side == 0, (change < low - tolerance) | (change > high + tolerance), side * pull < 0)
        count = int(wrong.sum())
        if not count:
            break
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        side = np.where(wrong, np.where(side != 0, 0, np.where(change < low, 1, -1)), side)
    return best
