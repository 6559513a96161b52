"""Lemma 3.3 / B.1, Eqs (5) and (13): the probability, by volumes, that a network near the anchor is connected to it."""

from fractions import Fraction

import sympy as sp

from bounds import Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.fedgucci.cases.low_loss_cube import LowLossCube
from bounds.fedgucci.cases.low_loss_region import ONE_WELL, WELLS, LowLossRegion
from bounds.fedgucci.families.low_loss_families import WIDE_CUBES
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, without
from bounds.symbols import n_parameters, side
from bounds.vocabulary import FEDGUCCI
from ntkfl.estimate import Estimate

diameter, volume_inside = sp.symbols("d_eps V_cube", positive=True)
CONNECTED = "Pr(max_alpha L(alpha w_anc + (1 - alpha) w) <= eps)"
SHARE = (diameter / side) ** n_parameters
SYMBOLS = {
    diameter: "d_eps = |E_eps|^(1/S), E_eps = {w in Omega: L(w) < eps}, Omega a bounded box",
    volume_inside: "volume of E_eps within the cube",
    side: "side d of the cube, |w - w_anc|_inf <= d/2",
}


def _constants(case: LowLossRegion | LowLossCube) -> dict:
    whole = float(case.side)
    rounded = whole if Fraction(whole) == case.side else Estimate(whole, 2e-16 * whole, "rounding bound")
    values = {diameter: case.low_loss_size, n_parameters: case.size, side: rounded}
    return values | ({volume_inside: case.volume_in_cube()} if isinstance(case, LowLossRegion) else {})


def _inside(half_sides: int) -> Hypothesis:
    name = "inside-cube" if half_sides == 1 else "inside-twice-the-cube"
    says = f"E_eps lies in |w - w_anc|_inf <= {'d/2' if half_sides == 1 else 'd'}"
    return Hypothesis(name, says, lambda case: half_sides * float(case.side) / 2 - case.farthest())


STAR = Hypothesis("star", "E_eps is a star domain about the anchor", lambda case: 0.0 if case.is_star() else -1.0)


def wide_well() -> LowLossRegion:
    """L = w^4, eps = .9^4, d = 1: E_eps = (-.9, .9) is a star within d of the anchor 0, and wider than the cube."""
    zero, one = (Fraction(0),), Fraction(1)
    return LowLossRegion(zero, zero, zero, one, Fraction(6561, 10_000), Fraction(4))


def two_wells() -> LowLossRegion:
    """L = (w^2 - 1)^2, eps = 1/4, wells at 1 and -1, the anchor in the first, d = 8: both wells lie in the cube."""
    one = Fraction(1)
    return LowLossRegion((Fraction(0),), (one,), (one,), Fraction(8), Fraction(1, 4), Fraction(4))


STATEMENTS = (
    Statement(
        id="fedgucci/F3",
        title="P(connected to the anchor) <= (d_eps/d)^S",
        kind=Kind.UPPER,
        source=Source(
            FEDGUCCI,
            "Lemma 3.3 / B.1, Eqs (5) and (13)",
            note="D_eps is the set of w in E_eps whose segment to the anchor stays at or below eps, as the KDD text "
            "prints it. The scan of the ICLR version reads 'there exists w' in this definition, and no part of the "
            "proof uses these words. Omega must be bounded, as the lemma says: on all of R^S the volume of a ReLU "
            "network's E_eps is infinite (rescale u and v), and so is d_eps; on a box both grow with the box. "
            "Continuity of L is enough. The check uses losses with exact volumes",
        ),
        forms={
            Form.STATED: Claim((SHARE, SHARE), families=(WELLS, ONE_WELL, *WIDE_CUBES)),
            Form.NEW: Claim((volume_inside / side**n_parameters, SHARE)),
        },
        constants=_constants,
        measure=lambda case: (case.probability(), case.probability()),
        symbols=SYMBOLS,
        left_formula=(CONNECTED,) * 2,
        says_left="the share of the cube from which the segment to the anchor stays at or below eps, in balls; for "
        "networks by sampling, with each segment exact",
        families=(WELLS, ONE_WELL),
        mutants=(
            index_shifted(n_parameters, 1),
            power(side, 2),
            without(volume_inside),
        ),
    ),
    Statement(
        id="fedgucci/F3-equality",
        title="P(connected to the anchor) = (d_eps/d)^S for a star inside the cube",
        kind=Kind.EQUALITY,
        source=Source(
            FEDGUCCI,
            "Lemma 3.3 / B.1, equality clause",
            note="the clause prints the cube |w - w_anc|_inf <= d, twice alike in either version. The proof and the "
            "lemma's first sentence have d/2, which is right and meant. 'Only if' holds up to null sets: with L = 1 - "
            "(w - 1)^2 on (0, 2), eps = 1 and the anchor 1/2, E_eps lacks the single point w = 1, so that it is no "
            "star, and yet P = |E_eps|/d. Equality holds if and only if the part of E_eps outside the cube, and its "
            "part outside the connected set, are null sets",
        ),
        forms={
            Form.STATED: Claim(
                SHARE,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISPRINT,
                hypotheses=(_inside(2), STAR),
                witness=wide_well,
                reading="the lemma and its copy in the appendix print d alike, in both versions",
                consequence="d_eps/d may exceed 1 for a star within d of the anchor, and a probability cannot: "
                "equality needs the cube of half-side d/2. (5) itself is not affected.",
            ),
            Form.REPAIRED: Claim(SHARE, hypotheses=(_inside(1), STAR)),
        },
        constants=_constants,
        measure=lambda case: case.probability(),
        symbols=SYMBOLS,
        left_formula=CONNECTED,
        says_left="the exact share of the cube from which the segment to the anchor stays at or below eps, in balls",
        families=(ONE_WELL,),
        necessity={"inside-cube": wide_well, "star": two_wells},
        mutants=(
            MILLIONTH_MORE,
            index_shifted(n_parameters, 1),
            power(side, 2),
            without(diameter),
        ),
        uses=("fedgucci/F3",),
    ),
)
