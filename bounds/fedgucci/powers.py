"""Statements on the powers of the width and of the cube's side with which barriers fall: fedgucci/X3 and X5.

On a ladder the same quantity is measured at several sizes. The sizes are widths or sides of the cube.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Case, Claim, Family, Kind, Source, Statement
from bounds.cases.cube_networks import CubeFamily
from bounds.fedgucci.cases.group_ladder import GROUP_LADDERS, GroupLadder
from bounds.ladders.slopes import slope
from bounds.ladders.width_rate import HALF, THREE_QUARTERS, Quantity, width_rate
from bounds.mutants import shifted
from ntkfl.connectivity.barrier import largest_gap
from ntkfl.connectivity.network import between
from ntkfl.estimate import Estimate

SIDES = tuple(0.1 * 2.0**-k for k in range(5))


@dataclass(frozen=True)
class SideLadder(Case):
    """`pairs` pairs of networks, drawn in the unit cube and then shrunk to cubes of several sides.

    Each pair has its own anchor and inputs. Shrinking keeps the law, since the shrunk networks are uniform in the
    shrunk cube. The rows of U_anc lie on the unit sphere, or are 0.
    """

    seed: int
    h: int = 8
    l: int = 4  # noqa: E741 (the paper's name)
    n: int = 1000
    pairs: int = 6
    sides: tuple[float, ...] = SIDES

    @property
    def n_runs(self) -> int:
        """The number of pairs of networks, over all sides."""
        return self.pairs * len(self.sides)

    def exponent(self, *, at_origin: bool) -> Estimate:
        """The exponent of sup over alpha of E_x |z_x| in d, with its interval."""
        return _exponent(self, at_origin)

    def fresh(self) -> SideLadder:
        """The same ladder of sides with other networks."""
        return SideLadder(self.seed + 10_000, self.h, self.l, self.n, self.pairs, self.sides)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"h": self.h, "l": self.l, "n": self.n, "pairs": self.pairs, "d": f"{self.sides[0]}..{self.sides[-1]}"}


@lru_cache(maxsize=16)
def _exponent(ladder: SideLadder, at_origin: bool) -> Estimate:
    """The slope of the root mean square over pairs.

    Every pair is one draw, shrunk towards its anchor to cubes of all sides.
    """
    unit = CubeFamily(h=ladder.h, l=ladder.l, side=1.0, rows="ball", n=ladder.n, at_origin=at_origin)
    cases = [unit.case(ladder.seed * ladder.pairs + number) for number in range(ladder.pairs)]
    squares = np.zeros(len(ladder.sides))
    for case in cases:
        for rung, side in enumerate(ladder.sides):
            first, second = (between(net, case.anchor, side) for net in case.networks)
            squares[rung] += float(largest_gap(first, second, case.x).value.value) ** 2
    return -slope(1 / np.array(ladder.sides), np.sqrt(squares / len(cases)))


SIDE_LADDERS = Family(
    f"cubes of sides {SIDES[0]:g} to {SIDES[-1]:.2g}",
    SideLadder,
    st.builds(SideLadder, st.integers(0, 2**16), st.integers(4, 24), st.integers(2, 6)),
    trials=3,
    needs=20,
    most=3,
)


def _off_limit(ladder: GroupLadder) -> list:
    return [barrier - ladder.limit for barrier in ladder.samples("barrier")]


STATEMENTS = (
    # At a finite width the slope is biased, since the claimed power is only approached in the limit. With eleven widths
    # this bias shows when the line is fitted without the two smallest widths. So no next-order term is fitted here; it
    # would only fit noise.
    width_rate(
        "fedgucci/X3",
        "The group barrier tends to -E_x Var_k of the kernel predictions: exponents -1/2, -3/4 and -1",
        (
            Quantity("|B_m - B_inf|", HALF, _off_limit, biased=False),
            Quantity("rms_x (f_FMA - f_WENS)", THREE_QUARTERS, lambda ladder: ladder.samples("gap"), biased=False),
            Quantity("|L(FMA) - L(WENS)|", 2 * HALF, lambda ladder: ladder.samples("excess"), biased=False),
        ),
        source=Source(BEYOND, "docs/proofs/connectivity.md#groups-of-wide-networks"),
        note="B = L(mean of the clients) - mean of their losses, for the squared loss. B_inf = -E_x Var_k f_k with "
        "f_k = Theta(x, X_k) Theta^-1 (I - (I - eta Theta)^K) y at infinite width; nothing is fitted. Reason for "
        "-1/2: the kernel at the start fluctuates, and kinks near the training points shift the mean. For -3/4: "
        "m^(1/2) neurons have a kink between the clients, and each adds m^(-1) with its own sign. For -1: averaged "
        "over x, all m neurons add m^(-3/2). The hidden layer is trained, d = 2, and x is uniform on the circle, "
        "integrated without sampling error: over M sampled x the last exponent is -1 only while m is small against "
        "M^2. Rows have the length 2^(1/2), which leaves the limit unchanged. For Gaussian rows in the plane E "
        "|w|^-2 is infinite: the last difference then has heavy tails and a further factor, the root of a "
        "logarithm (measured slopes of -.84 to -.90); from d = 3 on this moment is finite",
        claim_note="exponents in the width of |B_m - B_inf|, rms(f_FMA - f_WENS) and |L(FMA) - L(WENS)|",
        says_left="log-log slopes over widths 2^8..2^13 of the RMS over starts, three clients trained by gradient "
        "descent from one start with their hidden layers averaged",
        families=(GROUP_LADDERS,),
        uses=("fl-ntk/X.8", "fedgucci/F14"),
    ),
    Statement(
        id="fedgucci/X5",
        title="The barrier is of order d^2, and of order d at U_anc = 0",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/connectivity.md#powers-of-the-side"),
        note="for small d the right side of Theorem 3.5 is of order d d_anc. With anchor rows away from 0 both "
        "parts of z are of second order: the product of the layers' differences, and the kinks (R3). At U_anc = 0 "
        "a unit switches on a share of the inputs that does not fall with d. A ladder from d = .2 to .0125 gave "
        "1.86, since its larger sides are not small against the rows",
        new=Claim((sp.Integer(2), sp.Integer(1)), note="exponents in d, for unit rows and for U_anc = 0"),
        measure=lambda ladder: tuple(ladder.exponent(at_origin=zero) for zero in (False, True)),
        left_formula=(
            "exponent in d, anchor rows of length 1, of sup_alpha E_x |z_x(alpha)|",
            "exponent in d, anchor rows all 0, of sup_alpha E_x |z_x(alpha)|",
        ),
        says_left="log-log slope over a ladder of sides of sup over alpha of E_x |z_x(alpha)|, exact for each pair",
        families=(SIDE_LADDERS,),
        mutants=tuple(shifted(sp.Rational(quarters, 4)) for quarters in (-2, -1, 1, 2)),
        uses=("fedgucci/R3",),
    ),
)
