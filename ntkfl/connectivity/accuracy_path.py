"""The accuracy along a segment, between two step functions that enclose it.

A sample is classified correctly where its margins are positive; a tie is wrong. Where a margin is within its rounding
of 0 the sample is in a strip: rounding cannot tell. Strips that meet, or on which a sample only touches a tie, are
decided in integers, and changes at the very same alpha are one change. What is left undecided is in the enclosure.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ntkfl.connectivity.exact_signs import ExactSegment
from ntkfl.connectivity.path_loss import located, roots, values_at
from ntkfl.connectivity.segment import EPS, Segment

NUDGE = 4 * EPS  # edges are rounded to float64
UNKNOWN = -1
EXACT_WORK = 10**8  # products of integers spent on deciding strips


@dataclass(frozen=True, eq=False)
class AccuracyPath:
    """Shares of the samples: between `low` and `high` are classified correctly inside each piece.

    Args:
        edges: (P + 1,), ascending, all different. low, high: (P,). changes: the number of places where it may change.
    """

    edges: np.ndarray
    low: np.ndarray
    high: np.ndarray
    changes: int


@dataclass(eq=False)
class _Strips:
    """Where a sample is undecided: its number, the strip, and 1 or 0 for right or wrong before, after, inside."""

    sample: np.ndarray
    left: np.ndarray
    right: np.ndarray
    before: np.ndarray  # UNKNOWN for a strip that begins at 0
    after: np.ndarray  # UNKNOWN for a strip that ends at 1
    low: np.ndarray
    high: np.ndarray

    @property
    def _inside(self) -> tuple[np.ndarray, np.ndarray]:
        return self.low, self.high

    def to_decide(self) -> np.ndarray:
        """Whether each shares a point with another strip, may only touch a tie, or holds an end."""
        matters = (self.before != 0) | (self.after != 0)  # wrong before and after: it hides nothing
        order = np.flatnonzero(matters)
        order = order[np.argsort(self.left[order], kind="stable")]
        reach = np.maximum.accumulate(self.right[order])
        meets = np.zeros(len(matters), bool)
        meets[order[1:]] = self.left[order[1:]] <= reach[:-1]
        meets[order[:-1]] |= reach[:-1] >= self.left[order[1:]]
        return matters & (meets | (self.before == self.after) | (self.before == UNKNOWN) | (self.after == UNKNOWN))

    def places(self) -> int:
        """How many places there are at which the accuracy may change."""
        known = [(side != UNKNOWN) & (side != inside) for side in (self.before, self.after) for inside in self._inside]
        order = np.flatnonzero(np.any(known, axis=0))
        order = order[np.argsort(self.left[order], kind="stable")]
        reach = np.maximum.accumulate(self.right[order])
        return int(len(order) > 0) + int((self.left[order[1:]] > reach[:-1]).sum())


def accuracy_path(segment: Segment, y: np.ndarray, slack: np.ndarray | None = None) -> AccuracyPath:
    """The share of samples with y f > 0 (y = ±1), or whose class y is the largest output alone.

    Args:
        slack: (n, C), how far the outputs may be off beyond rounding; nothing is then decided in integers.
    """
    y = np.asarray(y).astype(int)
    x, labels, counts, extra = _distinct(segment.x, y, slack)
    whole = Segment(segment.first, segment.second, x)
    per_row = 5 if whole.first.n_outputs == 1 else 5 * (whole.first.n_outputs - 1)
    found, start, offset = [], np.zeros(0, int), 0
    for part, rows in whole.chunks(np.arange(len(x)), per_row):
        begin, strips = _strips(part, labels[rows], extra[rows])
        strips.sample += offset
        offset += len(part.x)
        start = np.concatenate([start, begin])
        found.append(strips)
    strips = _Strips(*(np.concatenate([getattr(each, name) for each in found]) for name in _Strips.__annotations__))
    if slack is None and len(strips.sample):
        _decide(strips, whole, labels, counts)
    return _summed(strips, start, counts)


def _distinct(x: np.ndarray, y: np.ndarray, slack: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Samples that differ, their labels, how often each occurs, and their slack."""
    number: dict[tuple[bytes, int], int] = {}
    rows = np.ascontiguousarray(x)
    member = np.array(
        [number.setdefault((row.tobytes(), int(label)), len(number)) for row, label in zip(rows, y, strict=True)]
    )
    _, index, counts = np.unique(member, return_index=True, return_counts=True)
    extra = np.zeros((len(x), 1)) if slack is None else slack
    return x[index], y[index], counts, extra[index]


def _strips(part: Segment, labels: np.ndarray, slack: np.ndarray) -> tuple[np.ndarray, _Strips]:
    """Whether each sample is right before its first strip, and the strips."""
    error = 2 * (part.output_error.max(axis=1) + slack.max(axis=1))
    dead, nudge = part.certainly_dead, NUDGE + part.crossing_error
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
    flat = np.zeros((len(own), 1)), np.ones((len(own), 1))
    own = np.concatenate([flat[0], own, flat[1]], axis=1)
    middle = (own[:, 1:] + own[:, :-1]) / 2
    states = np.full(middle.shape, 2)  # 2 right, 1 undecided, 0 wrong
    for sign, margin in margins:
        heights = sign[:, None] * values_at(located(edges, margin, middle), middle)
        states = np.minimum(states, np.where(heights > error[:, None], 2, np.where(heights < -error[:, None], 0, 1)))
    states[located(edges, dead[..., None].astype(float), middle)[..., 0] > 0] = 0
    return _runs(own, states, nudge)


def _runs(edges: np.ndarray, states: np.ndarray, nudge: np.ndarray) -> tuple[np.ndarray, _Strips]:
    """Maximal undecided runs, and places where right turns into wrong at once, both a little widened."""
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
    return start, _Strips(sample, left, right, before, after, np.zeros(len(table), int), np.ones(len(table), int))


def _decide(strips: _Strips, segment: Segment, labels: np.ndarray, counts: np.ndarray) -> None:
    """Find in integers what happens in the strips that need it; strips with one common change get one hull."""
    work = 2 * segment.first.hidden.size + 20 * segment.first.hidden.shape[0] * segment.first.n_outputs
    chosen = np.flatnonzero(strips.to_decide() & ~_crowded(strips))[: EXACT_WORK // work]
    exact, groups = ExactSegment(segment.first, segment.second), dict[Hashable, list[int]]()
    for strip in chosen:
        number = strips.sample[strip]
        states, points = exact.constant_states(
            segment.x[number], int(labels[number]), float(strips.left[strip]), float(strips.right[strip])
        )
        sides = int(strips.before[strip]), int(strips.after[strip])
        known = UNKNOWN not in sides
        if not points:
            strips.low[strip] = strips.high[strip] = states[0]
        elif len(points) == 1 and (known or len(states) == 2):
            one, two = sides if known else (int(states[0]), int(states[1]))
            if one == two:  # a tie at one alpha only
                strips.low[strip] = strips.high[strip] = one
            elif known:
                groups.setdefault(next(iter(points)), []).append(int(strip))
    for members in groups.values():
        _join(strips, np.array(members), counts)


def _crowded(strips: _Strips) -> np.ndarray:
    """Strips that overlap another strip of their own sample."""
    same = strips.sample[1:] == strips.sample[:-1]
    overlap = same & (strips.left[1:] <= strips.right[:-1])
    return np.concatenate([overlap, [False]]) | np.concatenate([[False], overlap])


def _join(strips: _Strips, members: np.ndarray, counts: np.ndarray) -> None:
    """One change of all these samples at once: just before it all are as before, just after it as after."""
    left, right = strips.left[members].min(), strips.right[members].max()
    for member in members:
        beside = [k for k in (member - 1, member + 1) if 0 <= k < len(strips.sample)]
        beside = [k for k in beside if strips.sample[k] == strips.sample[member]]
        if any(strips.left[k] <= right and strips.right[k] >= left for k in beside):
            return
    weights = counts[strips.sample[members]]
    before, after = strips.before[members], strips.after[members]
    fewer = before if weights @ before <= weights @ after else after
    strips.left[members], strips.right[members] = left, right
    strips.low[members], strips.high[members] = fewer, before + after - fewer


def _summed(strips: _Strips, start: np.ndarray, counts: np.ndarray) -> AccuracyPath:
    total, weights = int(counts.sum()), counts[strips.sample]
    edges, where = np.unique(np.concatenate([[0.0], strips.left, strips.right, [1.0]]), return_inverse=True)
    sides = where[1 : 1 + len(weights)], where[1 + len(weights) : -1]
    shares = []
    for within in (strips.low, strips.high):
        change = np.zeros(len(edges), int)
        change[0] = counts @ start
        np.add.at(change, sides[0], weights * (within - np.where(strips.before != UNKNOWN, strips.before, 0)))
        np.add.at(change, sides[1], weights * (np.where(strips.after != UNKNOWN, strips.after, 0) - within))
        shares.append(np.clip(np.cumsum(change)[:-1], 0, total) / total)
    return AccuracyPath(edges, shares[0], shares[1], strips.places())


def _margins(part: Segment, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Signs and quadratics whose products must be positive; for two classes the same quadratic, whichever is meant."""
    if part.first.n_outputs == 1:
        return [(labels, part.coefficients(0))]
    outputs = np.stack([part.coefficients(c) for c in range(part.first.n_outputs)])
    count, rows, found = len(outputs), np.arange(len(labels)), []
    for k in range(1, count):
        other = (labels + k) % count
        one, two = np.minimum(labels, other), np.maximum(labels, other)
        found.append((np.where(labels < other, 1, -1), outputs[one, rows] - outputs[two, rows]))
    return found
