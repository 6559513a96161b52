"""Deep networks: the clients' distance from their mean, alone and relative to the movement of a round."""

import sympy as sp

from bounds import Claim, Form, Kind, Statement
from bounds.deep.cases.deep_ladder import ERF, RELU, deep_ladders
from bounds.deep.premises import SEVERAL_CLIENTS
from bounds.fl_ntk.premises import SERVER_ONE
from bounds.fl_ntk.sources import reported
from bounds.mutants import replaced, shifted

HALF, ZERO = -sp.Rational(1, 2), sp.Integer(0)
q = sp.Symbol("q", positive=True)
OF_A_NEURON = "exponent in m of mean_c |theta_c - theta'| / sqrt(m)"
OF_A_ROUND = "mean_c |theta_c - theta'| / |theta' - theta|"

STATEMENTS = (
    Statement(
        id="deep/client-divergence",
        title="Deep networks' clients diverge as little as a round moves a neuron, and no less beside the round",
        kind=Kind.RATE,
        source=reported(
            "T1; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent",
            note="reported: sum_c p_c |theta_c - theta| = O(width^-1/2). In NTK parametrisation this holds for "
            "one neuron. Over all parameters the divergence is of order 1, as is the round's own movement, and "
            "their ratio tends to a number that depends on data, partition, steps and the limit kernel",
        ),
        hypotheses=(SEVERAL_CLIENTS, SERVER_ONE),
        forms={
            Form.STATED: Claim(
                HALF,
                measure=lambda ladder: ladder.exponent("neuron", biased=True),
                left_formula=OF_A_NEURON,
                note="for a neuron: the distance over all parameters, divided by the root of the width",
            ),
            Form.NEW: Claim(
                (HALF, ZERO, sp.log(q)),
                note="exponents of mean_c |theta_c - theta'| m^(-1/2), and of mean_c |theta_c - theta'| over |theta' - "
                "theta|; the logarithm of the second quantity's limit",
            ),
        },
        constants=lambda ladder: {q: ladder.limit_divergence},
        measure=lambda ladder: (ladder.exponent("neuron", biased=True), *ladder.tends_to("divergence")),
        symbols={q: "mean_c |theta_c - theta'| over |theta' - theta| in the kernel regime of the limit"},
        left_formula=(OF_A_NEURON, f"exponent in m of {OF_A_ROUND}", f"log lim_{{m -> inf}} {OF_A_ROUND}"),
        says_left="log-log slopes over networks trained by the engine, and the logarithm of the ratio, extrapolated",
        families=deep_ladders(RELU, ERF),
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            replaced(q, q / 2, "half as far"),
        ),
        uses=("fl-ntk/client-divergence", "deep/linearised"),
    ),
)
