"""Networks are aligned by permuting their hidden units. A permutation moves weights; the function stays the same.

A unit is described by a row of numbers, see `unit_rows`. Two networks are aligned when the sum of squared distances
between rows of the same index is smallest. To find the order of the units with the smallest sum is an assignment
problem. In a two-layer network a unit's incoming and outgoing weights are permuted together. So a single assignment
gives the exact optimum, also if units are described by their weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs
from ntkfl.estimate import Estimate
from ntkfl.messages import did_you_mean
from ntkfl.problem import number_array

By = Literal["weights", "activations", "outputs"]
RULES = ("weights", "activations", "outputs")
# largest number of rounds; in a round every network of a group is aligned once. Each round lowers a sum that has only
# finitely many values, and a few rounds are enough
ROUNDS = 100
EPS, TINY = np.finfo(float).eps, np.finfo(float).smallest_normal


@dataclass(frozen=True, eq=False)
class Alignment:
    """The second of two networks, with its units in the order that fits the first network's units best.

    Args:
        permutation: the order of the units, (h,): unit r of `aligned` is unit permutation[r] of the given network.
        aligned: the network with its units in the new order; its function is the same.
        cost_before: the sum over units of the squared distance between the unit's rows in the two networks, in the
            given order.
        cost_after: the same sum in the new order.
    """

    permutation: Int[np.ndarray, " h"]
    aligned: TwoLayer
    cost_before: Estimate
    cost_after: Estimate


def align(
    first: TwoLayer, second: TwoLayer, by: By = "weights", x: Float[np.ndarray, "n l"] | None = None
) -> Alignment:
    """Permute the second network's hidden units, to the order that is nearest to the first network's units.

    The sum of the units' squared distances is the smallest possible, up to the rounding of its products. If no
    permutation is better than the identity by more than rounding, the identity is taken. Among permutations of equal
    cost, as with duplicate or dead units, the choice is always the same.

    Args:
        first: the network that stays.
        second: the network whose units are permuted, of the same shape.
        by: the description of a unit, as in `unit_rows`; default weights.
        x: inputs, for activations and outputs; default none.

    Raises:
        ValueError: the networks have different shapes; `by` is unknown; inputs are missing, are not needed, or do not
            fit.
    Source: Git Re-Basin (arXiv:2209.04836), sections 3.1 and 3.2, for one hidden layer.

    Example:
        >>> import numpy as np
        >>> from ntkfl.connectivity.alignment import align
        >>> from ntkfl.connectivity.network import TwoLayer
        >>> first, second = TwoLayer(np.eye(2), np.array([1.0, 2.0])), TwoLayer(np.eye(2)[::-1], np.array([2.0, 1.0]))
        >>> align(first, second).permutation
        array([1, 0])
    """
    check_shapes([first, second])
    target, rows = unit_rows(first, by, x), unit_rows(second, by, x)
    order = _better(target, rows, np.arange(len(rows.value)))
    return Alignment(
        order, permuted(second, order), squared_distance(target, rows), squared_distance(target, rows[order])
    )


def align_group(
    networks: Sequence[TwoLayer],
    by: By = "weights",
    x: Float[np.ndarray, "n l"] | None = None,
    reference: int | None = None,
) -> list[Alignment]:
    """Align all networks to one of them, or all to each other.

    Args:
        networks: two or more of one shape.
        by: the description of a unit, as in `unit_rows`; default "weights".
        x: inputs (n, l), for activations and outputs; default none.
        reference: the index of the network to which the others are aligned. None: one network after the other is
            aligned to the mean of the others' rows, again and again until no permutation changes. None of these
            alignments raises the sum of squared distances over all pairs, and no network is preferred.

    Returns:
        An alignment for every network. The costs of an alignment are squared distances to the reference, or to the mean
        of the others.

    Raises:
        ValueError: as `align`; or the reference is not the index of a network.
    Source: Git Re-Basin (arXiv:2209.04836), Algorithm 3 (MergeMany), with the units' rows in place of weights.
    """
    check_shapes(networks)
    if reference is not None and not 0 <= reference < len(networks):
        raise ValueError(f"the reference is {reference}; there are networks 0..{len(networks) - 1}")
    if reference is not None or len(networks) == 1:
        return [align(networks[reference or 0], network, by, x) for network in networks]
    given = [unit_rows(network, by, x) for network in networks]
    orders = [np.arange(len(rows.value)) for rows in given]
    for _ in range(ROUNDS):
        before = [order.copy() for order in orders]
        for k, rows in enumerate(given):
            moved = [other[order] for other, order in zip(given, orders, strict=True)]
            orders[k] = _better(mean_of_others(k, moved), rows, orders[k])
        if all(np.array_equal(*pair) for pair in zip(before, orders, strict=True)):
            break
    moved = [rows[order] for rows, order in zip(given, orders, strict=True)]
    return [
        Alignment(
            orders[k],
            permuted(network, orders[k]),
            squared_distance(mean_of_others(k, given), given[k]),
            squared_distance(mean_of_others(k, moved), moved[k]),
        )
        for k, network in enumerate(networks)
    ]


def unit_rows(network: TwoLayer, by: By = "weights", x: Float[np.ndarray, "n l"] | None = None) -> Estimate:
    """The numbers that describe the hidden units, (h, p), with a row for each unit.

    Args:
        network: a network with h hidden units, l inputs and C outputs.
        by: "weights": the unit's incoming weights u and outgoing weights v, p = l + C. "activations": relu(u.x_i) /
            sqrt(n) for all inputs x_i, p = n. "outputs": what the unit adds to the outputs, v relu(u.x_i) / sqrt(n), p
            = n C; this does not change if the unit's weights are rescaled to (c u, v / c). Default weights.
        x: inputs, for activations and outputs; default none.

    Raises:
        ValueError: `by` is unknown; inputs are missing, are not needed, or do not fit.
    """
    if by not in RULES:
        raise ValueError(f"units are compared by {', '.join(RULES)}, not by {by!r};{did_you_mean(by, RULES)}")
    readout = np.atleast_2d(network.readout)
    if by == "weights":
        if x is not None:
            raise ValueError("units are compared by their weights, which takes no inputs; leave x out, or change `by`")
        return Estimate.exact(np.concatenate([network.hidden, readout.T], axis=1))
    if x is None:
        raise ValueError(f"units are compared by their {by}, which needs inputs: give x")
    x = checked_inputs(network, x) / np.sqrt(len(x))
    value, size = np.maximum(network.hidden @ x.T, 0), np.abs(network.hidden) @ np.abs(x).T
    if by == "outputs":
        value, size = ((readout.T[:, :, None] * part[:, None]).reshape(len(part), -1) for part in (value, size))
    return Estimate(value, (x.shape[1] + 8) * EPS * np.abs(size) + TINY, "rounding bound")


def permuted(network: TwoLayer, permutation: Int[np.ndarray, " h"]) -> TwoLayer:
    """The network with its units permuted: unit r of the result is unit permutation[r] of `network`.

    Args:
        network: weights U (h, l) and v.
        permutation: the new order of the units, shape (h,).

    Raises:
        ValueError: `permutation` is no permutation of the network's hidden units.
    """
    order = checked_order("permutation", permutation, len(network.hidden))
    return TwoLayer(network.hidden[order], network.readout[..., order])


def checked_order(name: str, order, units: int) -> Int[np.ndarray, " h"]:
    """The order as an array, after a check that it is a permutation of 0..units - 1.

    Args:
        name: the name of the order in messages.
        order: numbers of units.
        units: the number of units.

    Raises:
        ValueError: the order is no permutation of 0..units - 1.
    """
    indices = number_array(name, order)
    if indices.dtype.kind not in "iu" or not np.array_equal(np.sort(indices, axis=None), np.arange(units)):
        raise ValueError(f"{name} is {indices.tolist()!s:.60}; it must be a permutation of the integers 0..{units - 1}")
    return indices.reshape(units)


def balanced(network: TwoLayer) -> TwoLayer:
    """The network with each unit's weights (u, v) rescaled to (c u, v / c), so that |u_r| = |v_r| for every unit r.

    The function is the same, and of all such rescalings the result has the smallest norm. Units whose incoming or
    outgoing weights are all 0 add nothing to the output and are not changed.

    Args:
        network: weights U (h, l) and v.
    """
    inner, outer = _norms(network.hidden), _norms(np.atleast_2d(network.readout).T)
    alive = (inner > 0) & (outer > 0)
    scale = np.sqrt(np.where(alive, outer, 1.0)) / np.sqrt(np.where(alive, inner, 1.0))
    return TwoLayer(network.hidden * scale[:, None], network.readout / scale)


def _norms(rows: Float[np.ndarray, "h p"]) -> Float[np.ndarray, " h"]:
    """The Euclidean norm of every row, also if squares of its entries would overflow or underflow."""
    largest = np.abs(rows).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    return largest * np.linalg.norm(rows / safe[:, None], axis=1)


def _better(target: Estimate, rows: Estimate, order: Int[np.ndarray, " h"]) -> Int[np.ndarray, " h"]:
    """The order of `rows` with the smallest sum of squared distances to the target's rows.

    If the smallest sum is not certainly below the sum in the given order, the result is the given order. The sum of
    squared distances is smallest in the order in which the sum of inner products is largest.
    """
    # scaled so that products neither overflow nor underflow
    scale = max(np.abs(target.value).max(), np.abs(rows.value).max()) or 1.0
    better = linear_sum_assignment((target.value / scale) @ (rows.value / scale).T, maximize=True)[1]
    return better if squared_distance(target, rows[better]).hi < squared_distance(target, rows[order]).lo else order


def squared_distance(target: Estimate, rows: Estimate) -> Estimate:
    """The sum of squared differences of the entries of two arrays of one shape.

    Args:
        target: the first array.
        rows: the second array, of the same shape.
    """
    change, error = target.value - rows.value, target.error + rows.error
    value = float(np.sum(change**2))
    wide = float(np.sum((2 * np.abs(change) + error) * error))
    return Estimate(value, 1.0001 * wide + (change.size + 8) * (EPS * value + TINY), "rounding bound")


def mean_of_others(k: int, rows: Sequence[Estimate]) -> Estimate:
    """The mean of all arrays but the k-th, in their shape.

    Args:
        k: index of the array that is left out.
        rows: two or more arrays of one shape.
    """
    others = [row for j, row in enumerate(rows) if j != k]
    value, size = (sum(part) / len(others) for part in ([e.value for e in others], [np.abs(e.value) for e in others]))
    error = sum(row.error for row in others) / len(others) + len(rows) * EPS * size
    return Estimate(value, 1.0001 * error, "rounding bound")
