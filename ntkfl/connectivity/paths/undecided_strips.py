"""Stretches of a segment where rounding leaves open whether a sample is classified correctly, decided in integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ntkfl.connectivity.paths.exact_roots import Root
from ntkfl.connectivity.paths.exact_signs import ExactSegment

UNKNOWN = -1
NARROW = 1e-10
EXACT_WORK = 10**8  # products of integers spent on deciding strips

Row = tuple[float, float, int, int, int, int]  # left, right; how many are right before, after, at least, at most


@dataclass(frozen=True, eq=False)
class Strips:
    """Where a sample is undecided: its number, the strip, and 1 or 0 for right or wrong before, after, inside.

    What was decided is a strip of no sample in particular, and its ones and zeros are numbers of samples.
    """

    sample: np.ndarray
    left: np.ndarray
    right: np.ndarray
    before: np.ndarray  # UNKNOWN for a strip that begins at 0
    after: np.ndarray  # UNKNOWN for a strip that ends at 1
    low: np.ndarray
    high: np.ndarray

    def groups(self) -> Iterator[np.ndarray]:
        """The strips that hang together, left to right, group by group."""
        order = np.argsort(self.left, kind="stable")
        reach = np.maximum.accumulate(self.right[order])
        apart = 1 + np.flatnonzero(self.left[order[1:]] > reach[:-1])
        yield from np.split(order, apart) if len(order) else ()

    def is_plain(self, group: np.ndarray) -> bool:
        """Whether the group is one narrow strip with one change, or with nothing that lowers the accuracy."""
        one = group[0]
        alone = len(group) == 1 and self.right[one] - self.left[one] < NARROW
        sides = int(self.before[one]), int(self.after[one])
        return alone and UNKNOWN not in sides and (sides[0] != sides[1] or sides == (0, 0))

    def taken(self, chosen: np.ndarray) -> Strips:
        """The strips of these numbers."""
        return Strips(*(getattr(self, name)[chosen] for name in Strips.__annotations__))


def joined(parts: Sequence[Strips]) -> Strips:
    """The strips of all parts, one after the other."""
    return Strips(*(np.concatenate([getattr(part, name) for part in parts]) for name in Strips.__annotations__))


def decided(
    strips: Strips, exact: ExactSegment, x: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[Strips, int, float]:
    """The strips in numbers of samples, decided in integers where they need it; the number of changes; the `dip`."""
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
    """How many of the group's samples are right, left to right from before its first change, and at how many alphas."""
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
        if len(rows) > 1 and low <= rows[-1][1]:  # floats cannot tell it from the point before
            low, _, old, _, lowest = rows.pop()
            least = min(least, lowest)
        rows.append((low, high, old, count, least))
    return [_row(*row) for row in rows], len(steps)


def _row(low: float, high: float, old: int, new: int, least: int) -> Row:
    """The least number between the changes is taken for certain, where no piece beside the row has it."""
    beside = [number for number, seen in ((old, low > 0), (new, high < 1)) if seen]
    return low, high, old, new, least, max(old, new) if least in beside else least
