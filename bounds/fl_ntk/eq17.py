"""Eq (17): a round in the space of weights, through the gradients J(k,t)."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import WeightRound, small_run, updates, weight_families, weight_path
from bounds.fl_ntk.terms.jacobian import all_jacobians, jacobian
from bounds.fl_ntk.terms.limit_kernel import round_rate
from bounds.mutants import power, replaced, scaled
from bounds.symbols import K, rho
from ntkfl.algorithm1.reference import BALL

pull, pull_printed = sp.symbols("p p'", real=True)


def _constants(case: FederatedRun) -> dict:
    path, shape = weight_path(case), case.weights.hidden.shape

    def total(round_: WeightRound) -> np.ndarray:
        """sum_k J(k,t) (y^{(k)}(t) - y), as (m, d)."""
        parts = zip(all_jacobians(path, round_), round_.residual, strict=False)  # residual: y - y^{(k)}, k = 0..K
        return sum(-(j @ r) for j, r in parts).reshape(shape)

    def printed(round_: WeightRound) -> np.ndarray:
        """The same with every sample's column under the weights of the first client."""
        columns = [BALL.active(path.x @ local[0].T) for local in round_.local[:-1]]
        return sum(-(jacobian(path, on) @ r) for on, r in zip(columns, round_.residual, strict=False)).reshape(shape)

    return {pull: path.each(total), pull_printed: path.each(printed), rho: round_rate(case), K: case.setup.local_steps}


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq17",
        title="A round's change of the weights through J(k,t)",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Eq (17)",
            note="the scan reads J(k,c), where nothing binds c; a scan easily takes a t for a c. J is defined with a "
            "round as its second argument, and the expansion of U(T) - U(0) a page later has J(k,t). So J(k,t) is "
            "meant: each column under the weights of its own sample's client. Here the printed J(k,c) is taken with "
            "the weights of one client, the first, in every column. If c were a round number, the form would fail in "
            "every round but round c. Further, k runs over 0..K-1, not [K] = 1..K; the a_i in the display of |J - "
            "J(0)|^2 is a_r; in the display of v_1 below, the first sum is over [n], not S_c, and the term with "
            "H(t,k,c)^perp has the opposite sign, which changes no norm. Appendix C writes U(t) transposed",
        ),
        forms={
            Form.STATED: Claim(
                -rho / K * pull_printed,
                recorded=Outcome.VIOLATED,
                nature=Nature.SCAN,
                witness=lambda: small_run(4),
                reading="J(k,c) in both lines of (17), J(k,t) in the definition and everywhere else",
                consequence="none: read J(k,t)",
            ),
            Form.REPAIRED: Claim(-rho / K * pull),
        },
        constants=_constants,
        measure=updates,
        symbols={
            pull: "an entry of sum_k J(k,t) (y^{(k)}(t) - y), k = 0..K-1",
            pull_printed: "the same entry with 1{w_{k,c,r}(t).x_i >= 0} for one client c in every column",
        },
        left_formula="u_r(t+1) - u_r(t)",
        says_left="every entry of u_r(t+1) - u_r(t) after a round of Algorithm 1 in balls; two rounds",
        families=weight_families,
        mutants=(
            scaled(sp.Rational(1001, 1000)),
            power(rho, 2),
            replaced(pull, pull_printed, "the gradients of one client", Change.INDEX),
            replaced(pull, -pull, "ascent for descent", Change.SIGN),
        ),
        uses=("fl-ntk/Alg1-update",),
    ),
)
