"""Section 5: with one local step a round, federated averaging is gradient descent on all samples."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Claim, Form, Hypothesis, Kind, Limit, Options, Source, Statement
from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import global_weights, weight_families, weight_path
from bounds.mutants import MILLIONTH_MORE, power, sign_flipped, without
from bounds.symbols import N, eta_global, eta_local
from ntkfl.algorithm1.reference import BALL

u, gradient = sp.symbols("u g", real=True)

ONE_STEP = Hypothesis(
    "one-local-step",
    "K = 1",
    Limit("K", lambda case: case.setup.local_steps, at_most=1.0),
    free=True,
    eased_by=("local_steps",),
)


def _constants(case: FederatedRun) -> dict:
    path = weight_path(case)

    def downhill(round_):
        """The gradient of the loss over all samples at u(t)."""
        z = path.x @ round_.start.T
        residual = (z * (z >= 0)) @ path.signs / path.root_m - case.problem.y
        return path.signs[:, None] * (((z >= 0).T * residual) @ path.x) / path.root_m

    return run_values(case, eta_global, eta_local, N) | {
        u: path.each(lambda round_: round_.start),
        gradient: path.each(downhill),
    }


def _two_local_steps() -> FederatedRun:
    """Six points on the sphere, two local steps: the second one starts where the first ended."""
    return weight_families(Options(), local_steps=2)[1].case(0)


STATEMENTS = (
    Statement(
        id="fl-ntk/K1-is-GD",
        title="One local step a round is gradient descent with step eta_g eta_l / N",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "section 5",
            note="the paper says this in words ('essentially'). It is exact for half the sum of squares over all n "
            "samples, which is N times the paper's L",
        ),
        hypotheses=(ONE_STEP,),
        forms={Form.STATED: Claim(u - eta_global * eta_local / N * gradient)},
        constants=_constants,
        measure=lambda case: BALL.estimate(np.array(global_weights(case)[1:], dtype=object)),
        symbols={
            u: "an entry of u(t)",
            gradient: "the same entry of the gradient of (1/2)|y - f(u, X)|^2 at u(t)",
        },
        left_formula="u(t+1)",
        says_left="every entry of u(t+1) after a round of Algorithm 1 in balls; two rounds",
        families=lambda options: weight_families(options, local_steps=1),
        mutants=(
            MILLIONTH_MORE,
            without(eta_global),
            without(N),
            power(eta_local, sp.Rational(1, 2)),
            sign_flipped(gradient, "the gradient"),
        ),
        necessity={"one-local-step": _two_local_steps},
        uses=("fl-ntk/Alg1-update",),
    ),
)
