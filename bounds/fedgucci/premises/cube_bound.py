"""The common parts of statements with high-probability bounds on networks drawn in a cube."""

from typing import Any

from bounds import Change, Kind, Source, Statement
from bounds.cases.network_pair import AS_ASSUMED, LIPSCHITZ_LOSS
from bounds.fedgucci.families.cube_families import loss_families, scattered, steep_loss
from bounds.fedgucci.premises.cube_symbols import SYMBOLS, L, d_anc, side
from bounds.fedgucci.premises.cube_terms import IN_CUBE, cube_constants, gap_and_barrier
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced, without

MUTANTS = (without(d_anc), power(side, 2), replaced(d_anc, -d_anc, "the anchor's term subtracted", Change.SIGN))
NEEDED = {"in-the-cube": scattered, LIPSCHITZ_LOSS.name: steep_loss, AS_ASSUMED.name: steep_loss}
LOSS_MUTANT = replaced(L, L / 10**4, "a ten-thousandth of the loss's constant", Change.CONSTANT)
GAP, BARRIER = "sup_alpha E_x |z_x(alpha)|_2", "B_{loss}(w_1, w_2)"
GROUP_GAP, GROUP_BARRIER = "E_x |z(x)|_2", "B_{loss}({w_k})"
SAYS_BOTH = (
    "left 1: sup over alpha of E_x |z_x(alpha)|_2, exactly for one output (piecewise quadratic in alpha), to 1e-10 for "
    "several; left 2: the barrier of the case's loss, exactly for absolute and squared loss, to 1e-10 for logistic "
    "loss and cross-entropy"
)


def cube_bound(id: str, title: str, source: Source, *, kind: Kind, **changes: Any) -> Statement:
    """A statement on two networks drawn in a cube. It bounds the gap of the outputs and the barrier of a loss."""
    fields: dict[str, Any] = {
        "hypotheses": (IN_CUBE, FAILURE_PROBABILITY, LIPSCHITZ_LOSS),
        "constants": cube_constants,
        "measure": gap_and_barrier,
        "symbols": SYMBOLS,
        "left_formula": (GAP, BARRIER),
        "says_left": SAYS_BOTH,
        "families": loss_families,
        "mutants": (*MUTANTS, LOSS_MUTANT),
        "necessity": {name: NEEDED[name] for name in ("in-the-cube", LIPSCHITZ_LOSS.name)},
    }
    return Statement(id=id, title=title, source=source, kind=kind, **(fields | changes))
