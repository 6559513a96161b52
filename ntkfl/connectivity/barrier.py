"""Barriers between two-layer ReLU networks, computed without a grid.

The barriers of the loss and of the accuracy are computed for two networks and for groups of networks. The connectivity
loss is computed for two networks. The segment between two networks is cut into pieces, at the points where a hidden
unit turns on or off.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.losses import ABSOLUTE, SQUARED, Loss, check_squares, checked_labels, named_loss
from ntkfl.connectivity.network import TwoLayer, check_shapes, combination
from ntkfl.connectivity.paths.accuracy_path import AccuracyPath, accuracy_path
from ntkfl.connectivity.paths.convex_path import MOST_POINTS, convex_integral, convex_supremum
from ntkfl.connectivity.paths.piecewise import PiecewisePolynomial, Supremum
from ntkfl.connectivity.paths.segment import EPS, Segment, absolute_error, absolute_gap, squared_error
from ntkfl.estimate import Estimate
from ntkfl.memory import NEGLIGIBLE, require
from ntkfl.messages import number_of, require_size
from ntkfl.rounding import LONG_EPS, SMALLEST, TINY, row_norms

# bound of the errors that underflow causes in two places: in the float64 operations that follow the operations in long
# precision, and in the computation of a bound of the error
UNDERFLOW = 64 * SMALLEST
A_CROSSING = 450  # largest measured number of bytes for each piece of the path
A_PAIR = 56  # bytes for each pair of sample and unit, if the loss is no piecewise polynomial
# wanted distance between the bound of the supremum and a computed value, if the loss is no piecewise polynomial
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Barrier:
    """A supremum over the segment: its value, the alpha where it is taken, and the number of pieces of the path.

    `stopped` is the reason if the search ended before the bound of the value was close to a computed value; else it is
    empty.
    """

    value: Estimate
    at: float
    pieces: int
    stopped: str = ""

    def __str__(self) -> str:
        text = f"{self.value} at alpha = {self.at:.6g}, on {number_of(self.pieces, 'piece')}"
        return f"{text}; {self.stopped}" if self.stopped else text


def loss_barrier(
    first: TwoLayer,
    second: TwoLayer,
    x: Float[np.ndarray, "n l"],
    y: np.ndarray,
    loss: str = "squared",
    most_points: int = MOST_POINTS,
) -> Barrier:
    """sup over alpha of L(alpha w_1 + (1 - alpha) w_2) - alpha L(w_1) - (1 - alpha) L(w_2), L the mean loss.

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        loss: squared (the default), absolute, logistic or cross-entropy. The first two are piecewise polynomials, and
            their supremum is exact up to rounding. For the other two losses the supremum is bounded: intervals of alpha
            are halved until the bound is within 1e-10 of a computed value, or until `most_points` points are evaluated.
            Between networks with very confident outputs an error of 5e-4 may remain; the error of `value`, and
            `stopped`, show this.
        most_points: the largest number of points at which a logistic or cross-entropy loss is evaluated. More points
            give a closer bound. Default 200000.

    Raises:
        ValueError: the networks have different shapes; inputs or labels do not fit the networks or the loss;
            most_points is below 1.
    Source: FedGuCci, Definition 2.1, Eq (3); fedgucci/X1.

    Example:
        >>> import numpy as np
        >>> from ntkfl.connectivity.barrier import loss_barrier
        >>> from ntkfl.connectivity.network import TwoLayer
        >>> first = TwoLayer(np.eye(2), np.array([1.0, -1.0]))
        >>> second = TwoLayer(np.eye(2)[::-1], np.array([-1.0, 1.0]))
        >>> float(loss_barrier(first, second, np.eye(2), np.array([1.0, -1.0])).value.value)
        1.0
    """
    segment, chosen, y = _checked(first, second, x, y, loss)
    if chosen in (SQUARED, ABSOLUTE):
        path = _polynomial(segment, y, chosen)
        excess = path.minus_line(float(path.at(0.0)), float(path.at(1.0)))
        return _barrier(excess.supremum(), 2 * _rounding(segment, chosen, path), len(path.coefficients))
    require_size("most_points", most_points)
    taken, bound = convex_supremum(segment, y, chosen, TOLERANCE, most_points)
    rounding = 2 * _deviation(segment, chosen)
    value = Estimate.between(max(taken.value - rounding, 0.0), bound + rounding, "taken, and bounded on every piece")
    open_ = bound - taken.value > TOLERANCE
    stopped = f"bounded to {bound - taken.value:.2g}, not {TOLERANCE:g}, by {most_points} points" if open_ else ""
    return Barrier(value, taken.at, int((segment.edges[:, 1:-1] < 1).sum()) + 1, stopped)


def accuracy_barrier(first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray) -> Barrier:
    """sup over alpha of 1 - A(alpha w_1 + (1 - alpha) w_2) / (alpha A(w_1) + (1 - alpha) A(w_2)), A the accuracy.

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        x: inputs, shape (n, l).
        y: labels (n,): ±1 for one output, classes 0..C-1 for C outputs. A sample on which outputs are tied counts as
            wrong.

    Raises:
        ValueError: as `loss_barrier`; or the accuracy at an end may be 0, so that the ratio would be 0/0 there.
    Source: FedGuCci, Definition 2.1, Eq (4); fedgucci/F1b.
    """
    segment = Segment(first, second, x)
    y = checked_labels(None, y, len(segment.x), first.n_outputs)
    path = accuracy_path(segment, y)
    ends = [accuracy_path(Segment(net, net, segment.x), y) for net in (second, first)]
    for name, end in zip(("second", "first"), ends, strict=True):
        _refuse_zero(f"the {name} network", end, len(y))
    lowest, _ = _largest_drop(path.edges, path.high, [float(end.low[0]) for end in ends])
    highest, _ = _largest_drop(path.edges, path.low, [float(end.high[0]) for end in ends])
    taken, at = _largest_drop(path.edges, path.high, [float(end.high[0]) for end in ends])
    level = ends[0].low[0] == ends[0].high[0] == ends[1].low[0] == ends[1].high[0]
    low, high = (0.0 if drop <= 0 and (level or drop < -8 * EPS) else drop for drop in (lowest, highest))
    least, most = min(float(end.low[0]) for end in ends), max(float(end.high[0]) for end in ends)
    rounding = 0.0 if level and low == high and high in (0, 1) else 8 * EPS + path.dip * (most - least) / least
    value = Estimate.between(max(low - rounding, 0.0), min(high + rounding, 1.0), "exact counts between changes")
    return Barrier(value, at if taken > 0 else 0.0, path.changes + 1)


def _largest_drop(edges: np.ndarray, shares: np.ndarray, ends: Sequence[float]) -> tuple[float, float]:
    """The supremum over alpha of 1 - A / (the line between both entries of `ends`), and the alpha where it is taken.

    A is an accuracy or a bound of an accuracy. A is constant on each piece, and `shares` has the values of A. The
    supremum is also over the limits of A at the ends of the pieces.
    """
    sides = np.stack([edges[:-1], edges[1:]])
    with np.errstate(divide="ignore", invalid="ignore"):
        drops = 1 - shares / (ends[0] + sides * (ends[1] - ends[0]))
    # there is no bound if the network at an end may classify no sample correctly
    drops = np.where(np.isnan(drops), -np.inf, drops)
    side, piece = np.unravel_index(np.argmax(drops), drops.shape)
    return float(drops[side, piece]), float(sides[side, piece])


def _refuse_zero(name: str, accuracy: AccuracyPath, n: int) -> None:
    """Refuse a network whose accuracy may be 0."""
    if accuracy.high[0] == 0:
        raise ValueError(
            f"{name} classifies none of the {n} samples correctly: with an accuracy of 0 at an end the barrier's ratio "
            "is undefined there"
        )
    if accuracy.low[0] == 0:
        raise ValueError(
            f"whether {name} classifies any of the {n} samples correctly cannot be decided: {accuracy.high[0] * n:.0f} "
            "of them tie to within rounding, and with an accuracy of 0 at an end the barrier's ratio is undefined there"
        )


def connectivity_loss(
    first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Estimate:
    """The integral over alpha in [0, 1] of the mean loss at alpha w_1 + (1 - alpha) w_2, a number.

    For the squared and the absolute loss the integral is exact up to rounding. For logistic and cross-entropy losses
    the integral is computed by a Gauss rule with a proved error bound.

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        loss: "squared", "absolute", "logistic" or "cross-entropy"; default squared.

    Raises:
        ValueError: as `loss_barrier`.
    Source: FedGuCci, Eq (7); fedgucci/F12.

    Example:
        >>> import numpy as np
        >>> from ntkfl.connectivity.barrier import connectivity_loss
        >>> from ntkfl.connectivity.network import TwoLayer
        >>> network = TwoLayer(np.eye(2), np.ones(2))
        >>> float(connectivity_loss(network, network, np.eye(2), np.zeros(2)).value)
        1.0
    """
    segment, chosen, y = _checked(first, second, x, y, loss)
    if chosen in (SQUARED, ABSOLUTE):
        path = _polynomial(segment, y, chosen)
        return Estimate(path.integral(), _rounding(segment, chosen, path), "exact pieces, rounding bound")
    value, error = convex_integral(segment, y, chosen)
    return Estimate(value, error + _deviation(segment, chosen), "Gauss rule on every piece, error bounded")


def largest_gap(first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"]) -> Barrier:
    """sup over alpha of the mean of |f - alpha f_1 - (1 - alpha) f_2|, for one output.

    FedGuCci's theorems bound this gap.

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        x: inputs, shape (n, l).

    Raises:
        ValueError: the networks have several outputs.
    """
    segment = Segment(first, second, x)
    if first.n_outputs > 1:
        raise ValueError(f"the networks have {first.n_outputs} outputs; the gap is computed for one")
    path = absolute_gap(segment)
    return _barrier(path.supremum(), _rounding(segment, ABSOLUTE, path), len(path.coefficients))


def largest_loss(
    first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Barrier:
    """sup over alpha of the mean loss, squared or absolute.

    Lemma 3.3 of FedGuCci assumes that this supremum is below epsilon.

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        loss: squared or absolute; default squared.

    Raises:
        ValueError: the loss is neither squared nor absolute.
    """
    segment, chosen, y = _checked(first, second, x, y, loss)
    if chosen not in (SQUARED, ABSOLUTE):
        raise ValueError(f"the largest {loss} loss is not computed; it is for squared and absolute")
    path = _polynomial(segment, y, chosen)
    return _barrier(path.supremum(), _rounding(segment, chosen, path), len(path.coefficients))


def group_barrier(
    networks: Sequence[TwoLayer], x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Estimate:
    """L(mean of the networks) - mean of their losses, a number. A negative number means that averaging helps.

    Args:
        networks: two or more networks of one shape, which get equal weights.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        loss: "squared", "absolute", "logistic" or "cross-entropy"; default squared.

    Raises:
        ValueError: there are fewer than two networks; they have different shapes; inputs or labels do not fit.
    Source: FedGuCci, Definition 3.6; fedgucci/F14.
    """
    networks = _group(networks)
    segment, chosen, y = _checked(networks[0], combination(networks), x, y, loss)
    spots = [Segment(net, net, segment.x) for net in (combination(networks), *networks)]
    losses = [_losses(spot, y, chosen) for spot in spots]
    means = [float(values.mean()) for values in losses]
    errors = [_deviation(spot, chosen, mean) for spot, mean in zip(spots, means, strict=True)]
    errors[0] += _centroid_error(networks, segment.x, chosen, means[0])
    error = errors[0] + float(np.mean(errors[1:])) + 8 * EPS * max(map(abs, means)) + UNDERFLOW
    return Estimate(means[0] - np.mean(means[1:]), error, "rounding bound")


def group_accuracy_barrier(networks: Sequence[TwoLayer], x: Float[np.ndarray, "n l"], y: np.ndarray) -> Estimate:
    """1 - A(mean of the networks) / mean of their accuracies, a number that may be negative.

    Args:
        networks: two or more networks of one shape, which get equal weights.
        x: inputs, shape (n, l).
        y: labels: ±1 for one output, classes 0..C-1 for C outputs. A sample on which outputs are tied counts as wrong.

    Raises:
        ValueError: as `group_barrier`; or no network classifies any sample correctly.
    Source: FedGuCci, Definition 3.6; fedgucci/F14.
    """
    networks = _group(networks)
    segment = Segment(networks[0], networks[0], x)
    y = checked_labels(None, y, len(segment.x), networks[0].n_outputs)
    centre = combination(networks)
    middle = accuracy_path(Segment(centre, centre, segment.x), y, _centroid_shift(networks, segment.x), networks)
    paths = [accuracy_path(Segment(net, net, segment.x), y) for net in networks]
    low, high = (float(np.mean([getattr(path, end)[0] for path in paths])) for end in ("low", "high"))
    if high == 0:
        raise ValueError(f"none of the {len(networks)} networks classifies a sample correctly: the ratio is undefined")
    if low == 0:
        raise ValueError(
            f"whether any of the {len(networks)} networks classifies a sample correctly cannot be decided: they tie to "
            "within rounding, and where none does the ratio is undefined"
        )
    ratios = float(middle.low[0]) / high, float(middle.high[0]) / low
    rounding = 0.0 if ratios[0] == ratios[1] and float(ratios[0]).is_integer() else 8 * EPS * (1 + ratios[1])
    return Estimate.between(1 - ratios[1] - rounding, min(1 - ratios[0] + rounding, 1.0), "exact counts")


def _checked(first: TwoLayer, second: TwoLayer, x, y, loss: str) -> tuple[Segment, Loss, np.ndarray]:
    segment, chosen = Segment(first, second, x), named_loss(loss)
    y = checked_labels(chosen, y, len(segment.x), first.n_outputs)
    if chosen is SQUARED:
        check_squares(segment.size_exponent, y)
    n, units = len(segment.x), len(first.hidden)
    if n * units * A_CROSSING > NEGLIGIBLE:
        pieces = chosen in (SQUARED, ABSOLUTE)
        per_sample = segment.crossings_in_all * A_CROSSING / n if pieces else units * A_PAIR
        require("the path between the networks", lambda n: per_sample * n, n=n)
    return segment, chosen, y


def _group(networks: Sequence[TwoLayer]) -> Sequence[TwoLayer]:
    if len(networks) < 2:
        raise ValueError(f"a group barrier needs at least 2 networks, got {len(networks)}")
    check_shapes(networks)
    return networks


def _polynomial(segment: Segment, y: np.ndarray, loss: Loss) -> PiecewisePolynomial:
    return squared_error(segment, y) if loss is SQUARED else absolute_error(segment, y)


def _losses(spot: Segment, y: np.ndarray, loss: Loss) -> np.ndarray:
    """The loss of each sample at alpha = 0 of a segment, (n,)."""
    outputs = np.concatenate([part.outputs_at(0) for part, _ in spot.chunks(y)])
    return loss.value(outputs if spot.first.n_outputs > 1 else outputs[:, 0], y)


def _rounding(segment: Segment, loss: Loss, path: PiecewisePolynomial) -> float:
    """A bound on the error of the mean loss at any point of the segment.

    `path` is the mean loss as a function of alpha.
    """
    return _deviation(segment, loss, path.upper_bound()) + path.error


def _deviation(segment: Segment, loss: Loss, largest: float = 0.0) -> float:
    """The largest error of the mean loss that the rounding errors of the outputs can cause.

    `largest` is a bound of the mean loss. The error of the squared and of the absolute loss depends on `largest`.
    """
    parts = [part for part, _ in segment.chunks(segment.x)]
    errors = np.concatenate([row_norms(part.output_error) for part in parts])
    terms = np.concatenate([row_norms(part.absolute_terms) for part in parts])
    if loss is SQUARED:  # the term `squaring` is the rounding of the pieces' squares
        squaring = 512 * LONG_EPS * (float(np.mean(terms**2)) + abs(largest))
        return _moved_square(errors, largest) + squaring + 8 * EPS * abs(largest) + UNDERFLOW
    # the outputs' mean error counts three times: once as such, and twice because rounding may have moved the alpha at
    # which a sign changes
    if loss is ABSOLUTE:
        return 3 * float(errors.mean()) + 8 * EPS * abs(largest) + UNDERFLOW
    return (loss.lipschitz or 1.0) * float(errors.mean()) + 32 * EPS * (1 + float(terms.mean()))


def _centroid_error(networks: Sequence[TwoLayer], x: np.ndarray, loss: Loss, largest: float) -> float:
    """The largest change of the loss at the networks' mean that the rounding of this mean can cause."""
    errors = 2 * row_norms(_centroid_shift(networks, x))
    return _moved_square(errors, largest) if loss is SQUARED else float((loss.lipschitz or 1.0) * errors.mean())


def _moved_square(errors: np.ndarray, largest: float) -> float:
    """A bound of the change of a mean square if each sample changes by at most its error.

    The mean square is at most `largest`. The bound follows from the inequality of Cauchy and Schwarz.
    """
    off = float(row_norms(errors[None])[0]) / np.sqrt(len(errors))  # the mean of the squares might underflow
    return float(2 * np.sqrt(max(largest, 0) + UNDERFLOW) * off + off**2)


def _centroid_shift(networks: Sequence[TwoLayer], x: np.ndarray) -> np.ndarray:
    """The largest change of the outputs at the networks' mean that the rounding of this mean can cause, (n, C)."""
    hidden, readout = (
        np.asarray(sum(np.abs(part) / len(networks) for part in parts))
        for parts in ([net.hidden for net in networks], [np.atleast_2d(net.readout) for net in networks])
    )
    paths = (x != 0).astype(float) @ (hidden > 0).T.astype(float) @ (readout > 0).T.astype(float)
    # EPS times TINY is the smallest positive float64
    least = [np.where(part > 0, part + TINY, 0.0) for part in (hidden, readout)]
    return np.asarray((len(networks) + 4) * EPS * (np.abs(x) @ least[0].T @ least[1].T + TINY * paths))


def _barrier(supremum: Supremum, error: float, pieces: int) -> Barrier:
    """The barrier with the value of the supremum, or with the value 0 if the supremum is negative."""
    return Barrier(Estimate(max(supremum.value, 0.0), error, "exact pieces, rounding bound"), supremum.at, pieces)
