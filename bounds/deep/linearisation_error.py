"""Deep networks: the distance between training and the training of the linearised network."""

import sympy as sp

from bounds import Claim, Form, Kind, Statement
from bounds.deep.cases.deep_ladder import ERF, RELU, deep_ladders
from bounds.fl_ntk.sources import reported
from bounds.mutants import power
from bounds.symbols import m
from ntkfl.estimate import Estimate

STATEMENTS = (
    Statement(
        id="deep/linearisation-error",
        title="A deep network is off its linearisation by O(m^(-1/2))",
        kind=Kind.ORDER,
        source=reported(
            "T2",
            note="reported: sup_t |f_lin - f| = O(width^-1/2). This is true. For smooth activations the error is of "
            "order 1/m (deep/smooth); for ReLU its mean is of order m^(-1/2) at large widths (deep/kinks) and smaller "
            "at these widths",
        ),
        forms={Form.STATED: Claim(1 / sp.sqrt(m), note="O(): the ratio of the two sides must not grow with the width")},
        constants=lambda ladder: {m: Estimate.exact(ladder.sizes)},
        measure=lambda ladder: ladder.root_mean_square("own"),
        left_formula="rms_{networks} max_t |y_m(t) - y_{own}(t)| / |r_0|",
        says_left="RMS over networks of max_t |y_m(t) - y_own(t)| / |r_0|, y_own the linearised network's run, by the "
        "kernel regime of H(0), at each width",
        families=deep_ladders(RELU, ERF),
        mutants=(power(m, 3), power(m, 4)),
        uses=("deep/linearised",),
    ),
)
