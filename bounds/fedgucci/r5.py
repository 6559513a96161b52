"""R5: the side of the cube against the volume of low mean loss, without the clients' heterogeneity."""

import sympy as sp

from bounds import Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.bounded_sum import exact
from bounds.fedgucci.cases.loss_table import LOSS_TABLES, LossTable
from bounds.mutants import power, replaced
from bounds.symbols import delta
from bounds.vocabulary import BEYOND
from ntkfl.estimate import Estimate

K, S, d_eps, joint = sp.symbols("K S d_epsilon delta_K", positive=True)


def _constants(case: LossTable) -> dict:
    shares = {delta: exact(case.largest_failure), joint: exact(case.joint_failure)}
    return {K: case.clients, S: case.size, d_eps: case.radius} | shares


def one_client_fails() -> LossTable:
    """Three clients; one of them fails on two cells of five, so that K times the largest delta is above 1."""
    return LossTable(((0, 0, 30), (0, 0, 30), (0, 0, 0), (0, 0, 0), (0, 0, 0)), 10, 1, 1.0)


def both_fail_often() -> LossTable:
    """Two clients; each fails on two cells of five, and no cell fails both."""
    return LossTable(((0, 20), (0, 20), (20, 0), (20, 0), (0, 0)), 10, 1, 1.0)


STATEMENTS = (
    Statement(
        id="fedgucci/R5",
        title="Low mean loss from low losses of the clients, without heterogeneity",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#groups",
            note="replaces the step (51)-(52) of Theorem 3.8. All clients draw in the same cube: the sets where L_i < "
            "epsilon share at least 1 - K delta of it, and the mean loss is below epsilon there. No gamma, no Gamma; "
            "a statement of measure theory, true of any losses, so it is checked on losses that are constant on "
            "cells, where every volume is rational. Second part: where K independent networks, one a client, are all "
            "good with probability 1 - delta_K, sum_i delta_i <= -log(1 - delta_K), so K does not enter",
        ),
        hypotheses=(
            Hypothesis(
                "few-failures",
                "K delta < 1",
                lambda case: float(1 - case.clients * case.largest_failure) - 1e-12,  # exactly signed
            ),
            Hypothesis(
                "few-joint-failures",
                "delta_K < .632, a little below 1 - 1/e",
                lambda case: 0.632 - float(case.joint_failure),
            ),
        ),
        forms={Form.NEW: Claim((d_eps / (1 - K * delta) ** (1 / S), d_eps / (1 + sp.log(1 - joint)) ** (1 / S)))},
        constants=_constants,
        measure=lambda case: (Estimate.exact(case.side),) * 2,
        symbols={
            K: "number of clients",
            S: "number of parameters",
            d_eps: "S-th root of the volume of the networks with a mean loss below epsilon",
            delta: "largest probability, over the clients, that a draw in the cube has L_i >= epsilon",
            joint: "probability that one of K independent draws, one a client, has L_i >= epsilon for its client",
        },
        left_formula=("d", "d"),
        says_left="d, the side of the cube, an input",
        families=(LOSS_TABLES,),
        mutants=(
            replaced(K, 1, "K dropped", Change.FACTOR),
            power(d_eps, 2),
            replaced(S, 2 * S, "root of 2S for S", Change.INDEX),
        ),
        necessity={"few-failures": one_client_fails, "few-joint-failures": both_fail_often},
        uses=("fedgucci/F3",),
    ),
)
