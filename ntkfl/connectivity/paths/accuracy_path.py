"""The accuracy along a segment, enclosed by two step functions.

A margin is the output of the label's class less the output of another class; for a network with one output f the margin
is y f. A sample is classified correctly at alphas where all its margins are positive; if outputs are tied, the sample
counts as wrong.

A strip is an interval of alpha in which a margin differs from 0 by at most its rounding error. In a strip, floats do
not decide whether the sample is correct. Some strips are decided in integers, as far as EXACT_WORK allows:

- strips that overlap or touch;
- strips that are not narrow;
- strips that contain an end of the segment;
- strips before and after which the sample is correct. (Within such a strip the sample may be wrong. Or a margin may
  only touch 0 at a single alpha; this is no change between correct and wrong.)

Integers give the exact order of the alphas at which samples change between correct and wrong. All other strips make the
enclosure wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.exact_roots import ExactSegment, Root
from ntkfl.connectivity.paths.segment import EPS, Segment, located, places, roots, values_at

UNKNOWN = -1
NARROW = 1e-10
NUDGE = 4 * EPS  # strips are widened by this number, since edges are rounded to float64
EXACT_WORK = 10**8  # largest number of products of integers with which strips are decided

# a piece: its two ends, the numbers of correct samples before and after the piece, and the least and the largest number
# of correct samples within the piece
Row = tuple[float, float, int, int, int, int]


@dataclass(frozen=True, eq=False)
class Strips:
    """Strips in which a sample is undecided: the sample, the two ends, and what is known of the sample.

    `before` and `after` are 1 if the sample is correct before or after the strip, and 0 if the sample is wrong there.
    Within the strip the sample counts as at least `low` and at most `high`, where 1 is correct and 0 is wrong.

    A strip that has been decided does not belong to a single sample. Such a strip has numbers of correct samples in
    place of ones and zeros.
    """

    sample: np.ndarray
    left: np.ndarray
    right: np.ndarray
    before: np.ndarray  # UNKNOWN if the strip begins at alpha = 0
    after: np.ndarray  # UNKNOWN if the strip ends at alpha = 1
    low: np.ndarray
    high: np.ndarray

    def groups(self) -> Iterator[np.ndarray]:
        """For each group of strips that overlap or touch, the numbers of its strips. Groups go from left to right."""
        order = np.argsort(self.left, kind="stable")
        reach = np.maximum.accumulate(self.right[order])
        apart = 1 + np.flatnonzero(self.left[order[1:]] > reach[:-1])
        yield from np.split(order, apart) if len(order) else ()

    def is_plain(self, group: np.ndarray) -> bool:
        """Whether the group need not be decided in integers.

        The answer is yes if the group is a single narrow strip, does not contain an end of the segment, and the sample
        either changes between correct and wrong there or is wrong before and after the strip.
        """
        first = group[0]
        alone = len(group) == 1 and self.right[first] - self.left[first] < NARROW
        sides = int(self.before[first]), int(self.after[first])
        return alone and UNKNOWN not in sides and (sides[0] != sides[1] or sides == (0, 0))

    def taken(self, chosen: np.ndarray) -> Strips:
        """The strips with these numbers."""
        return Strips(*(getattr(self, name)[chosen] for name in Strips.__annotations__))


def joined(parts: Sequence[Strips]) -> Strips:
    """The strips of all parts, one after the other."""
    return Strips(*(np.concatenate([getattr(part, name) for part in parts]) for name in Strips.__annotations__))


def decided(
    strips: Strips, exact: ExactSegment, x: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[Strips, int, float]:
    """Strips with numbers of correct samples, the number of changes, and `AccuracyPath.dip`.

    Groups of strips that are not plain are decided in integers, as long as EXACT_WORK allows.
    """
    budget, plain, rows_kept, places, dip = EXACT_WORK, [np.zeros(0, int)], list[Row](), 0, 0.0
    for group in strips.groups():
        budget -= 0 if strips.is_plain(group) else exact.work * len(group)
        if strips.is_plain(group) or budget < 0:
            plain.append(group)
            places += 1
            continue
        rows, changes = _decided_group(strips.taken(group), exact, x, labels, counts)
        places += changes
        dip = max([dip, *(high - low for low, high, old, new, _, most in rows if most < max(old, new))])
        rows_kept += rows
    kept = strips.taken(np.concatenate(plain))
    sides = (kept.before, kept.after, kept.low, kept.high)
    weighted = (np.where(side == UNKNOWN, 0, side) * counts[kept.sample] for side in sides)
    left, right, *numbers = np.array(rows_kept, float).reshape(-1, 6).T
    others = Strips(np.full(len(left), UNKNOWN), left, right, *(number.astype(int) for number in numbers))
    return joined([Strips(kept.sample, kept.left, kept.right, *weighted), others]), places, dip


def _decided_group(
    group: Strips, exact: ExactSegment, x: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[list[Row], int]:
    """The rows of the group, and the number of changes of the number of correct samples.

    There is a row for the group's start and a row for each change.
    """
    before, count, steps = 0, 0, dict[Root, int]()
    for number in np.unique(group.sample):
        own = group.sample == number
        left, right, weight = group.left[own], group.right[own], int(counts[number])
        begin, changes = exact.changes(x[number], int(labels[number]), float(left.min()), float(right.max()))
        before += weight * max(0, int(group.before[own][np.argmin(left)]))
        count += weight * begin
        for point, correct in changes:
            steps[point] = steps.get(point, 0) + (weight if correct else -weight)
    edge = float(group.left.min())
    rows = [(edge, edge, before, count, count)]
    for point in sorted(steps):
        low, high = np.clip(point.floats(), 0, 1)
        old, count = count, count + steps[point]
        least = min(old, count)
        # whether the interval between this point's two floats meets the previous point's interval
        if len(rows) > 1 and low <= rows[-1][1]:
            low, _, old, _, lowest = rows.pop()
            least = min(least, lowest)
        rows.append((low, high, old, count, least))
    return [_row(*row) for row in rows], len(steps)


def _row(low: float, high: float, old: int, new: int, least: int) -> Row:
    """The row of a piece around a change; at the change `least` samples are correct.

    If a neighbouring piece has `least` correct samples too, then the largest number of correct samples within the piece
    is the larger of the numbers in the neighbouring pieces. Otherwise the largest number within the piece is `least`.
    """
    beside = [number for number, seen in ((old, low > 0), (new, high < 1)) if seen]
    return low, high, old, new, least, max(old, new) if least in beside else least


@dataclass(frozen=True, eq=False)
class AccuracyPath:
    """For each piece a lower and an upper bound, `low` and `high`, of the share of correctly classified samples."""

    edges: np.ndarray  # (P + 1,), ascending, all different
    # low, high: (P,)
    low: np.ndarray
    high: np.ndarray
    changes: int  # the number of alphas at which the accuracy may change
    # largest width of a piece around a change, among the pieces within which fewer samples are correct than on either
    # side of the piece
    dip: float


def accuracy_path(
    segment: Segment, y: np.ndarray, slack: np.ndarray | None = None, means: Sequence[TwoLayer] = ()
) -> AccuracyPath:
    """The share of correctly classified samples.

    A sample is classified correctly if y f > 0 for y = ±1 or, with several outputs, if the output of class y alone is
    the largest.

    If `means` are given, both ends of the segment are the mean of these networks, and `slack`, (n, C), bounds the error
    of the outputs that is caused by rounding this mean.
    """
    y = np.asarray(y).astype(int)
    x, labels, counts, extra = _distinct(segment.x, y, slack)
    whole = Segment(segment.first, segment.second, x)
    per_row = 5 if whole.first.n_outputs == 1 else 5 * (whole.first.n_outputs - 1)
    parts, start, offset = [], np.zeros(0, int), 0
    for part, rows in whole.chunks(np.arange(len(x)), per_row):
        begin, strips = _strips(part, labels[rows], extra[rows])
        parts.append(replace(strips, sample=strips.sample + offset))
        offset += len(part.x)
        start = np.concatenate([start, begin])
    exact = ExactSegment(means or [segment.first], means or [segment.second])
    return _summed(*decided(joined(parts), exact, x, labels, counts), start, counts)


def _distinct(x: np.ndarray, y: np.ndarray, slack: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """The different samples, their labels, how often each sample occurs, and the samples' slack."""
    number: dict[tuple[bytes, int], int] = {}
    rows = np.ascontiguousarray(x)
    member = np.array(
        [number.setdefault((row.tobytes(), int(label)), len(number)) for row, label in zip(rows, y, strict=True)]
    )
    _, index, counts = np.unique(member, return_index=True, return_counts=True)
    extra = np.zeros((len(x), 1)) if slack is None else slack
    return x[index], y[index], counts, extra[index]


def _strips(part: Segment, labels: np.ndarray, slack: np.ndarray) -> tuple[np.ndarray, Strips]:
    """Whether each sample is correct before its first strip, and the strips of all samples."""
    error = 2 * (part.output_error.max(axis=1) + slack.max(axis=1))
    dead, nudge = part.certainly_dead & (slack.max(axis=1) == 0)[:, None], NUDGE + part.crossing_error
    margins = _margins(part, labels)
    edges = part.edges
    kept = np.zeros((len(edges), edges.shape[1] - 2), bool)
    kept |= dead[:, 1:] != dead[:, :-1]
    more = []
    for _, margin in margins:
        ends = [np.abs(values_at(margin, side)) for side in (edges[:, :-1], edges[:, 1:])]
        near = 4 * error[:, None]
        kept |= (ends[0][:, 1:] <= near) | (ends[1][:, :-1] <= near)
        for height in (-error, error):
            moved = margin.copy()
            moved[..., 0] += height[:, None]
            more.append(roots(edges, moved).reshape(len(edges), -1))
    own = np.sort(np.concatenate([np.where(kept, edges[:, 1:-1], 1.0), *more], axis=1), axis=1)
    own = own[:, : int((own < 1).sum(axis=1).max(initial=0))]
    own = np.pad(own, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    middle = (own[:, 1:] + own[:, :-1]) / 2
    place, states = places(edges, middle), np.full(middle.shape, 2)  # states: 2 correct, 1 undecided, 0 wrong
    for sign, margin in margins:
        heights = sign[:, None] * values_at(located(margin, place), middle)
        states = np.minimum(states, np.where(heights > error[:, None], 2, np.where(heights < -error[:, None], 0, 1)))
    states[located(dead[..., None], place)[..., 0]] = 0
    return _runs(own, states, nudge)


def _runs(edges: np.ndarray, states: np.ndarray, nudge: np.ndarray) -> tuple[np.ndarray, Strips]:
    """Whether each sample is correct at first, and the strips, which are widened by `nudge`.

    Strips are the runs of undecided pieces, and the edges at which a correct and a wrong piece meet.
    """
    start, rows = np.zeros(len(edges), int), []
    for number, (edge, state, wider) in enumerate(zip(edges, states, nudge, strict=True)):
        some = edge[1:] > edge[:-1]
        left, right, state = edge[:-1][some], edge[1:][some], state[some]
        if (state == state[0]).all() and state[0] != 1:
            start[number] = state[0] // 2
            continue
        first = np.flatnonzero(np.concatenate([[True], state[1:] != state[:-1]]))
        runs, begin = state[first], left[first]
        end = np.concatenate([begin[1:], right[-1:]])
        start[number] = runs[0] // 2
        for index, run in enumerate(runs):
            before = runs[index - 1] // 2 if index else UNKNOWN
            if run == 1:
                after = runs[index + 1] // 2 if index + 1 < len(runs) else UNKNOWN
                rows.append((number, begin[index] - wider, end[index] + wider, before, after))
            elif index and runs[index - 1] != 1:
                rows.append((number, begin[index] - wider, begin[index] + wider, before, run // 2))
    table = np.array(rows, float).reshape(-1, 5)
    sample, before, after = (table[:, column].astype(int) for column in (0, 3, 4))
    left, right = np.clip(table[:, 1], 0, 1), np.clip(table[:, 2], 0, 1)
    return start, Strips(sample, left, right, before, after, np.zeros(len(table), int), np.ones(len(table), int))


def _summed(strips: Strips, places: int, dip: float, start: np.ndarray, counts: np.ndarray) -> AccuracyPath:
    total = int(counts.sum())
    edges, where = np.unique(np.concatenate([[0.0], strips.left, strips.right, [1.0]]), return_inverse=True)
    sides, shares = np.split(where[1:-1], 2), []
    for within in (strips.low, strips.high):
        change = np.zeros(len(edges), int)
        change[0] = counts @ start
        np.add.at(change, sides[0], within - strips.before)
        np.add.at(change, sides[1], strips.after - within)
        shares.append(np.clip(np.cumsum(change)[:-1], 0, total) / total)
    return AccuracyPath(edges, shares[0], shares[1], places, dip)


def _margins(part: Segment, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The margins of all samples, each as a sign and a quadratic in alpha: the margin is their product.

    Both orders of a pair of classes have the same quadratic.
    """
    if part.first.n_outputs == 1:
        return [(labels, part.coefficients(0))]
    outputs = np.stack([part.coefficients(c) for c in range(part.first.n_outputs)])
    count, rows, margins = len(outputs), np.arange(len(labels)), []
    for k in range(1, count):
        other = (labels + k) % count
        lower, two = np.minimum(labels, other), np.maximum(labels, other)
        margins.append((np.where(labels < other, 1, -1), outputs[lower, rows] - outputs[two, rows]))
    return margins
