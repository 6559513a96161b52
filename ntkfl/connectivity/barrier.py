"""Barriers between networks without a grid: loss, accuracy, connectivity loss, groups of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.convex_path import convex_supremum
from ntkfl.connectivity.long_sums import LONG_EPS
from ntkfl.connectivity.losses import ABSOLUTE, SQUARED, Loss, checked_labels, named_loss
from ntkfl.connectivity.network import TwoLayer, between, check_shapes, combination
from ntkfl.connectivity.path_loss import absolute_error, absolute_gap, correct_fraction, squared_error
from ntkfl.connectivity.piecewise import PiecewisePolynomial, Supremum
from ntkfl.connectivity.segment import EPS, Segment
from ntkfl.estimate import Estimate

TOLERANCE = 1e-10  # how closely a loss that is not a polynomial is bounded


@dataclass(frozen=True, eq=False)
class Barrier:
    """A supremum over the segment: its value, the alpha where it is taken, and how many pieces the path has."""

    value: Estimate
    at: float
    pieces: int


def loss_barrier(
    first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Barrier:
    """sup over alpha of L(alpha w_1 + (1 - alpha) w_2) - alpha L(w_1) - (1 - alpha) L(w_2), L the mean loss.

    Args:
        y: labels, see `LOSSES`; loss: squared, absolute, logistic or cross-entropy. The first two are piecewise
            polynomials, their supremum is exact up to rounding; the others are bounded to within TOLERANCE.

    Raises:
        ValueError: networks of different shapes, inputs or labels that do not fit them or the loss.
    Source: FedGuCci, Definition 2.1, Eq (3); ledger X1.
    """
    segment, chosen, y = _checked(first, second, x, y, loss)
    if chosen in (SQUARED, ABSOLUTE):
        path = _polynomial(segment, y, chosen)
        excess = path.minus_line(float(path.at(0.0)), float(path.at(1.0)))
        return _barrier(excess.supremum(), 2 * _rounding(segment, chosen, path), len(path.coefficients))
    found, bound = convex_supremum(segment, y, chosen, TOLERANCE)
    rounding = 2 * _rounding(segment, chosen)
    value = Estimate.between(max(found.value - rounding, 0.0), bound + rounding, "taken, and bounded on every piece")
    return Barrier(value, found.at, int((segment.edges[:, 1:-1] < 1).sum()) + 1)


def accuracy_barrier(first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray) -> Barrier:
    """sup over alpha of 1 - A(alpha w_1 + (1 - alpha) w_2) / (alpha A(w_1) + (1 - alpha) A(w_2)), A the accuracy.

    Args:
        y: ±1 for one output, classes 0..C-1 for C outputs; a tie counts as wrong, except at a single alpha inside.
            Samples that tie to within rounding on a whole piece are in the error.

    Raises:
        ValueError: as `loss_barrier`; an accuracy of 0 at an end, where the ratio is 0/0.
    Source: FedGuCci, Definition 2.1, Eq (4).
    """
    segment = Segment(first, second, x)
    y = checked_labels(None, y, len(segment.x), first.n_outputs)
    share, doubt = correct_fraction(segment, y)
    ends, doubts = zip(*(_accuracy(net, segment.x, y) for net in (second, first)), strict=True)
    for name, accuracy in (("second", ends[0]), ("first", ends[1])):
        if accuracy == 0:
            raise ValueError(
                f"the {name} network classifies none of the {len(y)} samples correctly: with an accuracy of 0 at an "
                "end the barrier's ratio is undefined there"
            )
    heights = np.asarray(share.coefficients[:, 0], float)
    left, right = (np.asarray(side, float) for side in (share.edges[:-1], share.edges[1:]))
    drops = [1 - heights / (ends[0] + side * (ends[1] - ends[0])) for side in (left, right)]
    side, piece = np.unravel_index(np.argmax(drops), (2, len(heights)))
    found = Supremum(float(drops[side][piece]), float((left, right)[side][piece]))
    error = 8 * EPS + (doubt + sum(doubts)) / min(ends)
    return _barrier(found, error, len(heights))


def connectivity_loss(
    first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Estimate:
    """The integral over alpha in [0, 1] of the mean loss at alpha w_1 + (1 - alpha) w_2, exactly.

    Raises:
        ValueError: as `loss_barrier`; a loss that is no piecewise polynomial.
    Source: FedGuCci, Eq (7).
    """
    segment, chosen, y = _checked(first, second, x, y, loss)
    if chosen not in (SQUARED, ABSOLUTE):
        raise ValueError(f"the integral of the {loss} loss has no closed form; it is exact for squared and absolute")
    path = _polynomial(segment, y, chosen)
    return Estimate(path.integral(), _rounding(segment, chosen, path), "exact pieces, rounding bound")


def sampled_connectivity_loss(
    first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str, rng: np.random.Generator
) -> float:
    """The mean loss at one uniform alpha: its expectation is `connectivity_loss` (FedGuCci, Eq (8))."""
    segment, chosen, y = _checked(first, second, x, y, loss)
    at = between(first, second, rng.uniform())
    return float(_losses(Segment(at, at, segment.x), y, chosen).mean())


def largest_gap(first: TwoLayer, second: TwoLayer, x: Float[np.ndarray, "n l"]) -> Barrier:
    """sup over alpha of the mean of |f - alpha f_1 - (1 - alpha) f_2|, one output: what the theorems bound."""
    segment = Segment(first, second, x)
    if first.n_outputs > 1:
        raise ValueError(f"the networks have {first.n_outputs} outputs; the gap is computed for one")
    path = absolute_gap(segment)
    return _barrier(path.supremum(), _rounding(segment, ABSOLUTE, path), len(path.coefficients))


def group_barrier(
    networks: Sequence[TwoLayer], x: Float[np.ndarray, "n l"], y: np.ndarray, loss: str = "squared"
) -> Estimate:
    """L(mean of the networks) - mean of their losses; negative where averaging helps.

    Raises:
        ValueError: fewer than two networks, different shapes, inputs or labels that do not fit.
    Source: FedGuCci, Definition 3.6.
    """
    networks = _group(networks)
    segment, chosen, y = _checked(networks[0], combination(networks), x, y, loss)
    spots = [Segment(net, net, segment.x) for net in (combination(networks), *networks)]
    losses = [_losses(spot, y, chosen) for spot in spots]
    means = [float(each.mean()) for each in losses]
    errors = [_deviation(spot, chosen, mean) for spot, mean in zip(spots, means, strict=True)]
    errors[0] += _centroid_error(networks, segment.x, chosen, means[0])
    error = errors[0] + float(np.mean(errors[1:])) + 8 * EPS * max(map(abs, means))
    return Estimate(means[0] - np.mean(means[1:]), error, "rounding bound")


def group_accuracy_barrier(networks: Sequence[TwoLayer], x: Float[np.ndarray, "n l"], y: np.ndarray) -> Estimate:
    """1 - A(mean of the networks) / mean of their accuracies; may be negative.

    Raises:
        ValueError: as `group_barrier`; networks none of which classifies a sample correctly.
    Source: FedGuCci, Definition 3.6.
    """
    networks = _group(networks)
    segment = Segment(networks[0], networks[0], x)
    y = checked_labels(None, y, len(segment.x), networks[0].n_outputs)
    shares, doubts = zip(*(_accuracy(net, segment.x, y) for net in (combination(networks), *networks)), strict=True)
    mean = float(np.mean(shares[1:]))
    if mean == 0:
        raise ValueError(f"none of the {len(networks)} networks classifies a sample correctly: the ratio is undefined")
    ratio = shares[0] / mean
    error = 8 * EPS * (1 + ratio) + (doubts[0] + ratio * float(np.mean(doubts[1:]))) / mean
    return Estimate(1 - ratio, error, "rounding bound")


def _checked(first: TwoLayer, second: TwoLayer, x, y, loss: str) -> tuple[Segment, Loss, np.ndarray]:
    segment, chosen = Segment(first, second, x), named_loss(loss)
    return segment, chosen, checked_labels(chosen, y, len(segment.x), first.n_outputs)


def _group(networks: Sequence[TwoLayer]) -> Sequence[TwoLayer]:
    if len(networks) < 2:
        raise ValueError(f"a group barrier needs at least 2 networks, got {len(networks)}")
    check_shapes(networks)
    return networks


def _polynomial(segment: Segment, y: np.ndarray, loss: Loss) -> PiecewisePolynomial:
    return squared_error(segment, y) if loss is SQUARED else absolute_error(segment, y)


def _losses(spot: Segment, y: np.ndarray, loss: Loss) -> np.ndarray:
    """The loss of each sample at the second end of a segment, (n,)."""
    outputs = np.concatenate([part.outputs_at(0) for part, _ in spot.chunks(y)])
    return loss.value(outputs if spot.first.n_outputs > 1 else outputs[:, 0], y)


def _accuracy(net: TwoLayer, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The accuracy, and the share of samples too close to a tie to be certain."""
    share, doubt = correct_fraction(Segment(net, net, x), y)
    return float(share.at(0.0)), doubt


def _rounding(segment: Segment, loss: Loss, path: PiecewisePolynomial | None = None) -> float:
    """Bound on the error of the mean loss at any point of the segment, whose pieces are the path's."""
    if path is None:
        return _deviation(segment, loss, 0.0)
    return _deviation(segment, loss, path.upper_bound()) + path.error


def _deviation(segment: Segment, loss: Loss, largest: float) -> float:
    """How far the mean loss, at most `largest`, can be off when each output is off by its rounding."""
    parts = [part for part, _ in segment.chunks(segment.x)]
    errors = np.concatenate([np.linalg.norm(part.output_error, axis=1) for part in parts])
    terms = np.concatenate([np.linalg.norm(part.absolute_terms, axis=1) for part in parts])
    if loss is SQUARED:  # |f + e - y|^2 less |f - y|^2, by Cauchy-Schwarz over the samples; and squaring the pieces
        off = float(np.mean(errors**2))
        squaring = 512 * LONG_EPS * (float(np.mean(terms**2)) + abs(largest))
        return 2 * float(np.sqrt(max(largest, 0) * off)) + off + squaring + 8 * EPS * abs(largest)
    if loss is ABSOLUTE:  # twice: a sign may change at a root's rounding from its true place
        return 3 * float(errors.mean()) + 8 * EPS * abs(largest)
    return (loss.lipschitz or 1.0) * float(errors.mean()) + 32 * EPS * (1 + float(terms.mean()))


def _centroid_error(networks: Sequence[TwoLayer], x: np.ndarray, loss: Loss, largest: float) -> float:
    """How far rounding the mean of the weights can move the mean loss there."""
    hidden = sum(np.abs(net.hidden) for net in networks) / len(networks)
    readout = sum(np.abs(np.atleast_2d(net.readout)) for net in networks) / len(networks)
    off = (len(networks) + 4) * EPS * (np.abs(x) @ np.asarray(hidden).T) @ np.asarray(readout).T
    errors = 2 * np.linalg.norm(off, axis=1)
    if loss is SQUARED:
        return float(2 * np.sqrt(max(largest, 0) * np.mean(errors**2)) + np.mean(errors**2))
    return float((loss.lipschitz or 1.0) * errors.mean())


def _barrier(found: Supremum, error: float, pieces: int) -> Barrier:
    """A supremum that is at least 0: both ends of the segment give 0."""
    return Barrier(Estimate(max(found.value, 0.0), error, "exact pieces, rounding bound"), found.at, pieces)
