"""Weight matching of two-layer networks finds the order of the units with the smallest distance."""

import sympy as sp

from bounds import Change, Claim, Form, Kind, Provenance, Source, Statement
from bounds.alignment.cases import MOST, PAPERS, AlignedPair, as_estimate, pair_families
from bounds.mutants import MILLIONTH_MORE, replaced

least, given, greedy = sp.symbols("D_min D_0 D_greedy", nonnegative=True)


def _constants(case: AlignedPair) -> dict:
    identity = case.cost(tuple(range(len(case.distances))))
    return {least: as_estimate(case.least_cost), given: as_estimate(identity), greedy: as_estimate(case.greedy_cost)}


STATEMENTS = (
    Statement(
        id="alignment/optimality",
        title="Weight matching of two-layer networks is exact: no order of the units is nearer",
        kind=Kind.EQUALITY,
        source=Source(
            PAPERS,
            "Ainsworth et al., section 3.2 and Lemma 1",
            note="with one hidden layer a unit's incoming and outgoing weights move together. The distance is then a "
            "sum over pairs of units, and the linear assignment problem is solved exactly. With two or more hidden "
            "layers the distance is a sum of bilinear assignments, NP-hard, and coordinate descent ends where no step "
            "in a single layer lowers it",
            read=Provenance.REPORTED,
        ),
        forms={Form.STATED: Claim(least)},
        constants=_constants,
        measure=lambda case: case.alignment.cost_after,
        symbols={
            least: f"the smallest squared distance of all h! orders, in exact rational numbers (h <= {MOST})",
            given: "the squared distance in the given order",
            greedy: "the squared distance in the greedy order: each unit in turn takes the nearest unit that is left",
        },
        left_formula="|w_1 - w_{aligned}|^2",
        says_left="the squared distance of the weights after `ntkfl.connectivity.alignment.align`",
        families=pair_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(least, given, "the order given", Change.OTHER),
            replaced(least, greedy, "the nearest that is left, unit by unit", Change.OTHER),
        ),
        uses=("alignment/invariance",),
    ),
)
