"""What the high-probability bounds on networks drawn in a cube have in common as statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

from bounds.fedgucci.cube_terms import IN_CUBE, SYMBOLS, cube_constants, d_anc, gap, scattered, sharp_draws, side
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.formula import Formula
from bounds.mutants import power, replaced, reversed_comparison, scaled, without
from bounds.statement import Change, Form, Kind, Outcome, Source, Statement

MUTANTS = (
    scaled(sp.Rational(1, 1000)),
    without(d_anc),
    power(side, 2),
    replaced(d_anc, -d_anc, "the anchor's term subtracted", Change.SIGN),
    reversed_comparison(),
)
SAYS_GAP = (
    "sup over alpha of E_x |z_x(alpha)|, exactly (piecewise quadratic in alpha); the barrier of a convex 1-Lipschitz "
    "loss does not exceed it"
)


def cube_bound(id: str, title: str, source: Source, forms: Mapping[Form, Formula], **changes: Any) -> Statement:
    """A bound on two networks drawn in a cube, on everyday and on sharp families; `changes`: other fields."""
    fields: dict[str, Any] = {
        "kind": Kind.PROBABILITY,
        "hypotheses": (IN_CUBE, FAILURE_PROBABILITY),
        "recorded": dict.fromkeys(forms, Outcome.HOLDS),
        "constants": cube_constants,
        "measure": gap,
        "symbols": SYMBOLS,
        "says_left": SAYS_GAP,
        "draws": sharp_draws,
        "mutants": MUTANTS,
        "necessity": {"in-the-cube": scattered},
    }
    return Statement(id=id, title=title, source=source, forms=forms, **(fields | changes))
