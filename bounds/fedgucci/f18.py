"""Theorem 3.8 (B.3): the group barrier under heterogeneous clients."""

import sympy as sp

from bounds import FEDGUCCI, Claim, Form, Nature, Source
from bounds.cases.network_pair import AS_ASSUMED, LIPSCHITZ_LOSS
from bounds.fedgucci.families.cube_families import counted, group_families, unit_loss_families
from bounds.fedgucci.families.low_loss_families import CONNECTED, hardly_connected, low_loss_families
from bounds.fedgucci.premises.cube_bound import GROUP_BARRIER, GROUP_GAP, NEEDED, cube_bound
from bounds.fedgucci.premises.cube_symbols import MEAN_GAP, SURE, SYMBOLS, K, S, b, d_anc, d_eps, h, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE, group_loss, mean_group_deviation
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.symbols import delta

STATED = sp.sqrt(2 * h) * b / (2 * (1 - delta) ** (2 / S)) * d_eps * (d_eps + d_anc) * sp.log(4 * h * K**2 / delta)

STATEMENTS = (
    cube_bound(
        "fedgucci/F18",
        "Transitivity of group connectivity under data heterogeneity",
        Source(
            FEDGUCCI,
            "Theorem 3.8 (B.3), Eqs (10), (38)",
            note="d_* stands for d_{epsilon + gamma Gamma^2} (the appendix prints epsilon + Gamma, a loss plus a "
            "length). The step (51), which gives gamma Gamma^2, is not true, and (52) uses Definition 3.7's Gamma, the "
            "clients' distances to the global minimum, for their distances to the anchor (F17). For this architecture "
            "gamma is infinite on a domain with a dead row. No draw violates the conclusion, since (50) at the true d "
            "is loose by a factor of 100 to 10000. In most families the domain is the cube, and the level is above "
            "every loss in the cube, so d_* = d. In two families the domain is wider: the clients see different inputs "
            "and share a minimiser, the anchor, so that Gamma = 0, and d_* is d_epsilon of their mean loss, by "
            "sampling. The repaired form follows from the proof of R4 at the true d: for any data on |x| <= b and C "
            "outputs (F16), with the loss's own constant, without gamma and Gamma, and without growth in K. R5 has a "
            "volume of low loss in place of d, also without gamma and Gamma",
        ),
        {
            Form.STATED: Claim(
                STATED,
                failure=delta,
                trivial=SURE,
                nature=Nature.PROOF_GAP,
                hypotheses=(AS_ASSUMED, CONNECTED),
                measure=mean_group_deviation,
                left_formula=GROUP_GAP,
                families=lambda options: (*counted(unit_loss_families(options)), *low_loss_families(options, own=True)),
                consequence="the dependence on gamma and Gamma is not established; the repaired form bounds the "
                "barrier of the group without them, and without growth in the number of clients",
            ),
            Form.REPAIRED: Claim(with_loss(MEAN_GAP), failure=delta, hypotheses=(LIPSCHITZ_LOSS,)),
        },
        hypotheses=(IN_CUBE, FAILURE_PROBABILITY),
        # the printed left side is the gap of the outputs, which does not depend on the loss; so no case can show that
        # Assumption 3.2 is needed
        necessity={name: case for name, case in NEEDED.items() if name != AS_ASSUMED.name}
        | {CONNECTED.name: hardly_connected},
        measure=lambda case: (mean_group_deviation(case), group_loss(case)),
        symbols=SYMBOLS | {d_eps: "S-th root of the volume of the networks whose loss is below the level in d_*"},
        left_formula=(GROUP_GAP, GROUP_BARRIER),
        says_left="left 1, and the printed form: E_x |z(x)|_2, which bounds the group barrier of every convex "
        "1-Lipschitz loss; left 2: the group barrier of the case's loss",
        families=group_families,
        uses=("fedgucci/F16", "fedgucci/F17", "fedgucci/R4", "fedgucci/R5"),
    ),
)
