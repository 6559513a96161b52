"""Deep networks: how far training is from that of the linearised network."""

from __future__ import annotations

import sympy as sp

from bounds.deep.cases.deep_ladder import ERF, RELU, deep_ladder_draws
from bounds.fl_ntk.centralised import REPORTED
from bounds.mutants import reversed_comparison, shifted
from bounds.statement import Claim, Form, Kind, Source, Statement

HALF = -sp.Rational(1, 2)

STATEMENTS = (
    Statement(
        id="deep/linearisation-error",
        title="A deep network is off its linearisation by at most the order m^(-1/2)",
        kind=Kind.UPPER,
        source=Source(
            REPORTED,
            "T2, after the note on theorems beyond the papers, sections E and G",
            note="reported: sup_t |f_lin - f| = O(width^-1/2). True; for smooth activations it is of order 1/m "
            "(deep/smooth), for ReLU its mean is of order m^(-1/2) in the end (deep/kinks), smaller at these widths",
        ),
        forms={Form.STATED: Claim(HALF, note="the exponent is at most -1/2")},
        constants=lambda ladder: {},
        measure=lambda ladder: ladder.exponent("own"),
        says_left="log-log slope over widths of the RMS over networks of max_t |y_m(t) - y_own(t)| / |r_0|, y_own the "
        "linearised network's run, by the kernel regime of H(0)",
        draws=deep_ladder_draws(RELU, ERF),
        mutants=(shifted(HALF), shifted(sp.Integer(-1)), reversed_comparison()),
        uses=("deep/linearised",),
    ),
)
