"""R2: a bound on the barrier of any two networks, with any number of outputs, from one pass over the data."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.network_pair import LIPSCHITZ_LOSS, STEEP_PAIRS, NetworkPair, pair_families
from bounds.fedgucci.premises.cube_symbols import SYMBOLS, L
from bounds.mutants import replaced, sign_flipped, without
from ntkfl.connectivity.network import TwoLayer

p, q = sp.symbols("p q", positive=True)


def steep_loss() -> NetworkPair:
    """The squared loss far from the labels, without R: its slope exceeds 1, the constant that is used without R."""
    first, second = (TwoLayer(np.array([[u]]), np.array([1.0])) for u in (1.0, -1.0))
    return NetworkPair(first, second, np.array([[1.0]]), np.array([1e3]), "squared")


STATEMENTS = (
    Statement(
        id="fedgucci/R2",
        title="Data-dependent bound on the loss barrier, in closed form",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#the-gap-on-a-segment",
            note="from the identity z = -alpha(1-alpha)(v_1 - v_2).(s_1 - s_2) - (alpha v_1 + (1-alpha) v_2).J (X2) "
            "and J_i <= |a_i c_i|/(|a_i| + |c_i|) where the signs of a = U_1 x and c = U_2 x differ, J_i = 0 "
            "elsewhere. With C outputs |.| is the l2 norm of the C-vector, and max(|v_1i|, |v_2i|) that of the "
            "readout's columns; the loss has its own Lipschitz constant, sqrt(2) for cross-entropy, which is attained "
            "in the limit of far outputs (steep pairs: left/right 1). Measured on 400 digits in ten classes (`ntkfl "
            "connectivity-table`; h = 32, clients trained apart): cross-entropy barrier .605 against R2 15.6, and .094 "
            "against 12.0 when trained with the connectivity loss. So the constant sqrt(2) matters little. R2 measures "
            "the gap of the outputs, not the flatness of the loss at these outputs, and does not distinguish the two",
        ),
        hypotheses=(LIPSCHITZ_LOSS,),
        forms={Form.NEW: Claim(L * (p / 4 + q))},
        constants=lambda case: {
            L: case.lipschitz,
            p: case.bilinear_term,
            q: case.kink_term,
        },
        measure=lambda case: case.barrier,
        symbols={
            L: SYMBOLS[L],
            p: "E_x |(v_1 - v_2) . (relu(U_1 x) - relu(U_2 x))|_2",
            q: "E_x sum_i max(|v_1i|, |v_2i|) |a_i c_i|/(|a_i| + |c_i|) over the units whose sign differs",
        },
        left_formula="B_{loss}(w_1, w_2)",
        says_left="the loss barrier: exact for the absolute and the squared loss, enclosed to 1e-10 for logistic and "
        "cross-entropy",
        families=lambda options: (
            pair_families(options) + (() if options.data else (STEEP_PAIRS.with_trials(options.trials),))
        ),
        mutants=(
            replaced(L, sp.Min(L, 1), "the constant 1 for every loss", Change.CONSTANT),
            without(p),
            replaced(q, q / 4, "kinks at a quarter", Change.CONSTANT),
            sign_flipped(p, "the bilinear term"),
        ),
        necessity={"lipschitz-loss": steep_loss},
        uses=("fedgucci/X2",),
    ),
)
