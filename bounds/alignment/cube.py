"""Theorem 3.5 of FedGuCci for two networks and the cube that contains them after alignment."""

from bounds import BEYOND, Change, Claim, Form, Kind, Nature, Outcome, Source
from bounds.alignment.cases import CHOSEN_PAIRS, chosen_pair, cubes_of, sharp_families
from bounds.cases.network_pair import LIPSCHITZ_LOSS
from bounds.fedgucci.premises.cube_bound import SAYS_BOTH, cube_bound
from bounds.fedgucci.premises.cube_symbols import AT_TRUE_SIDE, SURE, C, L, d_anc, side, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE, absolute_value, gap_and_barrier
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced

STATEMENTS = (
    cube_bound(
        "alignment/cube",
        "Theorem 3.5 at the aligned distance",
        Source(
            BEYOND,
            "FedGuCci, Theorem 3.5 (B.2), Eq (32); docs/proofs/connectivity.md#the-sure-bound",
            note="d is the side of the smallest cube around the midpoint of the first network and the aligned second "
            "one that holds both. Theorem 3.5 is about networks drawn uniformly in a cube that is fixed before the "
            "draw. For two given networks it claims nothing, and its inequality fails for networks that differ along "
            "an input (1600 features: left/right above 1). The repaired form is the sure bound, which needs no draw",
        ),
        {
            Form.STATED: Claim(
                AT_TRUE_SIDE.subs(C, 1),
                recorded=Outcome.VIOLATED,
                nature=Nature.READING,
                hypotheses=(FAILURE_PROBABILITY,),
                measure=absolute_value,
                left_formula="|z_x(alpha)|",
                families=(CHOSEN_PAIRS,),
                witness=chosen_pair,
                consequence="do not quote Theorem 3.5 for models that were trained and then aligned, however near they "
                "are; quote the sure bound",
            ),
            Form.REPAIRED: Claim(with_loss(SURE), hypotheses=(LIPSCHITZ_LOSS,)),
        },
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE,),
        measure=gap_and_barrier,
        families=lambda options: tuple(map(cubes_of, sharp_families(options))),
        mutants=(
            replaced(d_anc, -d_anc, "the middle's term subtracted", Change.SIGN),
            power(side, 3),
            replaced(L, L / 10, "a tenth of the loss's constant", Change.CONSTANT),
        ),
        says_left=SAYS_BOTH + "; as printed: |z_x(alpha)| in balls at the one input",
        uses=("fedgucci/sure", "alignment/optimality"),
    ),
)
