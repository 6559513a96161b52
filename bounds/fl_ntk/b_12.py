"""Lemma B.12: while the residual contracts, no neuron of the global model moves far."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.fl_ntk.families.few_points import (
    long_row_converging,
    moving_families,
    one_neuron_wedge,
    overshooting_server,
)
from bounds.fl_ntk.premises import CONTRACTS_SO_FAR, POSITIVE_SPECTRUM, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import REACH, constants
from bounds.mutants import power, without
from bounds.symbols import K, eta_local, lam, m, n, r0

STATEMENTS = (
    Statement(
        id="fl-ntk/B.12",
        title="Movement of the global weights",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Lemma B.12",
            note="the scan reads sqrt(m lambda) in the lemma and sqrt(m) lambda in Lemma 6.1, Eq (14), the last line "
            "of the lemma's own proof and R in C.11. A scan easily loses how far the bar of a root reaches: the paper "
            "may well print sqrt(m) lambda throughout",
        ),
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM, CONTRACTS_SO_FAR, SMALL_LOCAL_STEPS),
        forms={
            Form.STATED: Claim(
                8 * sp.sqrt(n) * r0 / sp.sqrt(m * lam),
                recorded=Outcome.VIOLATED,
                nature=Nature.SCAN,
                witness=one_neuron_wedge,
                reading="the bar covers lambda here and in C.7, which repeats this bound, and ends before it "
                "everywhere else, in the last line of the lemma's own proof too",
                consequence="use sqrt(m) lambda: with lambda under the root the radius is too small by a factor "
                "sqrt(lambda), and a width chosen from that radius would be too small as well",
            ),
            Form.PROVED: Claim(
                8 * (1 + 2 * eta_local * n * K) * REACH,
                note="the last line of the proof, with its sum of square roots computed correctly",
            ),
            Form.REPAIRED: Claim(4 * (1 + 2 * eta_local * n * K) * REACH),
        },
        constants=constants,
        measure=lambda case: case.observed("movement"),
        left_formula="max_r |u_r(t) - u_r(0)|",
        says_left="max_r |u_r(t) - u_r(0)| of the simulated run, every round",
        families=moving_families,
        mutants=(
            power(lam, sp.Rational(1, 2)),
            without(lam),
            power(m, 2),
            power(r0, sp.Rational(3, 2)),
        ),
        necessity={"unit-rows": long_row_converging, "contracts-so-far": overshooting_server},
        uses=("fl-ntk/B.3", "fl-ntk/B.10"),
    ),
)
