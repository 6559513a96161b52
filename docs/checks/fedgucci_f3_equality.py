"""Check of fedgucci/F3-equality (FedGuCci, Lemma 3.3 / B.1, equality clause), with the standard library alone.

w is uniform on the cube |w - a|_inf <= d/2 about the anchor a, E = {w in Omega: L(w) < eps}, and P is the probability
that w is in E with L <= eps on the whole segment to a. The lemma: P <= |E|/d^S.
Printed: with equality if and only if E lies within |w - a|_inf <= d (sic) and is a star about a.

Counterexamples with one parameter (S = 1), smooth L, bounded Omega, both ways:
  wide     L = w^2, eps = 9/16, a = 0, d = 1: E = (-3/4, 3/4) is a star within d of a, but |E|/d = 3/2 and P = 1.
  pinched  L = 1 - (w - 1)^2 on Omega = (0, 2), eps = 1, a = 1/2, d = 4: E lacks the one point w = 1 and is no star, but
           L <= eps everywhere, P = |E|/d = 1/2.
Holds: equality if and only if what E has outside the cube, and outside the set that P is of, has volume 0.

All boundaries and all critical points of L are nodes of a grid of step 1/20. A cell between two nodes is in a set as a
whole or not at all, and L is largest at the ends of a cell: volumes are counts of cells, exactly.
"""

import sys
from fractions import Fraction as F

STEP = F(1, 20)
CASES = {  # L, Omega, eps, anchor, d
    "wide": (lambda w: w**2, (-2, 2), F(9, 16), F(0), 1),
    "same, d = 2": (lambda w: w**2, (-2, 2), F(9, 16), F(0), 2),
    "pinched": (lambda w: 1 - (w - 1) ** 2, (0, 2), F(1), F(1, 2), 4),
    "two wells": (lambda w: (w**2 - 1) ** 2, (-2, 2), F(24, 25) ** 2, F(1), 8),
}


class Region:
    """E, the set that is connected to the anchor, and the cube, by the midpoints of their cells."""

    def __init__(self, loss, omega, eps, anchor, side):
        middles = [k * STEP + STEP / 2 for k in range(int(omega[0] / STEP), int(omega[1] / STEP))]
        self.low = [w for w in middles if loss(w) < eps]
        self.anchor, self.side = anchor, side
        values = {w: [loss(v) for v in self.nodes(w)] + [loss(w)] for w in self.low}
        self.connected = [w for w in self.low if max(values[w]) <= eps]
        self.is_star = all(max(values[w]) < eps for w in self.low)

    def nodes(self, w):
        """The grid's nodes on the segment from w to the anchor."""
        first, last = sorted((w, self.anchor))
        return [k * STEP for k in range(-(-first // STEP), last // STEP + 1)]

    def outside(self, cells, reach):
        """The cells further than reach from the anchor."""
        return [w for w in cells if abs(w - self.anchor) > reach]

    @property
    def probability(self):
        return STEP * (len(self.connected) - len(self.outside(self.connected, F(self.side, 2)))) / self.side


def printed(region):
    """Whether equality is to be expected: E within d of the anchor, and a star."""
    return region.is_star and not region.outside(region.low, region.side)


def holds(region):
    """Whether equality is to be expected: E without the cube and without the connected set are null."""
    return not region.outside(region.low, F(region.side, 2)) and len(region.connected) == len(region.low)


def main():
    refuted, right = set(), True
    for name, case in CASES.items():
        region = Region(*case)
        share = STEP * len(region.low) / region.side
        equal = region.probability == share
        if printed(region) != equal:
            refuted.add(name)
        right &= holds(region) == equal and region.probability <= share
        said = "VIOLATED" if printed(region) != equal else "agrees"
        print(f"{name}: P = {region.probability}, |E|/d = {share}, equal: {equal}; printed: {printed(region)}, {said}; "
              f"what holds: {holds(region)}")  # fmt: skip
    print(f"printed clause refuted by: {', '.join(sorted(refuted)) or 'nothing'}; the repaired one "
          f"{'agrees on all' if right else 'DISAGREES'}")  # fmt: skip
    return 0 if refuted == {"wide", "pinched"} and right else 1


if __name__ == "__main__":
    sys.exit(main())
