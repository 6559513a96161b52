"""X.5: in a stable run a round can enlarge the residual in the paper's norm, the Euclidean one."""

from dataclasses import replace

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Claim, Family, Form, Hypothesis, Kind, Source, Statement
from bounds.federated_run import FederatedRun, federated_run
from bounds.fl_ntk.premises import NO_OVERSHOOT_AT_START, POSITIVE_SPECTRUM, SERVER_AT_MOST_1
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, ROUND_MAP, map_constants, residuals
from bounds.formula import evaluate
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, sign_flipped, without
from bounds.part_strategies import log_uniform
from bounds.symbols import K, N, eta_global, n
from ntkfl import Estimate, Setup, data, gram
from ntkfl.algorithm1.reference import BALL
from ntkfl.initialisation import draw


def most_growing(seed: int, *, n: int = 6, d: int = 2, width: int = 256, eta_global: float = 0.5) -> FederatedRun:
    """One round of a linearised network, in balls: 2 clients, 20 local steps of 0.999 / (largest block eigenvalue).

    y(0) - y is the unit vector that the round map stretches the most (to rounding).
    """
    problem = data.sphere(n, d, seed=seed, clients=2)
    weights = draw(width, d, seed, 1.0)
    h = gram.finite(problem.x, weights.hidden)
    blocks = h * (problem.owner[:, None] == problem.owner)
    eta, steps, one = 0.999 / np.linalg.eigvalsh(blocks)[-1], 20, np.eye(n)
    response, power = np.zeros((n, n)), one
    for _ in range(steps):
        response, power = response + eta * power, power - eta * blocks @ power
    round_map = one - eta_global / problem.n_clients * h @ response
    stretched = np.linalg.svd(round_map)[2][0]
    outputs = weights.outputs(problem.x)
    problem = replace(problem, y=outputs - stretched, x_test=None, y_test=None)
    setup = Setup(width, eta_local=float(eta), eta_global=eta_global, local_steps=steps, rounds=1, seed=seed)
    return replace(federated_run(problem, setup, weights), linearised=True).with_arithmetic(BALL)


# In some of these rounds the residual grows. The search draws two to four dimensions and server steps up to 2.
GROWTH = Family(
    "six points on the circle, steps that all fit",
    most_growing,
    st.builds(
        most_growing,
        st.integers(0, 2**16),
        n=st.integers(2, 6),
        d=st.integers(2, 4),
        width=st.integers(16, 64),
        eta_global=log_uniform(0.05, 2),
    ),
    fixed=True,
)


r = sp.MatrixSymbol("r", n, 1)
AFTER = (ROUND_MAP * r).T * (ROUND_MAP * r)


def _constants(case: FederatedRun) -> dict:
    return map_constants(case, case.initial_gram) | {r: residuals(case)[:, 0]}


def _growth(case: FederatedRun) -> Estimate:
    """|M r|^2 - |r|^2, in balls."""
    return evaluate(AFTER - r.T * r, _constants(case))


STATEMENTS = (
    Statement(
        id="fl-ntk/X.5",
        title="The Euclidean residual can grow in a round of a stable run",
        kind=Kind.EXISTENCE,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#growth-of-the-residual",
            note="(5) and (9) claim |y - y(t+1)| < |y - y(t)| under steps that are smaller than practical steps. Under "
            "larger steps this is false, though by X.3 the run converges: M is not symmetric. The norm |L^-1 r|, H = L "
            "L^T, falls in every round. (7) cannot hold beyond eta_l K = 2 N / (eta_g lambda) either, where its factor "
            "is negative",
        ),
        hypotheses=(
            POSITIVE_SPECTRUM,
            NO_OVERSHOOT_AT_START,
            SERVER_AT_MOST_1,
            Hypothesis(
                "grows", "|M r| > |r| for the residual r of the case: that such cases exist is the claim", _growth
            ),
        ),
        forms={Form.NEW: Claim(AFTER, note="cases without growth are rejected; the other cases prove existence")},
        constants=_constants,
        measure=lambda case: case.observed("residual_norm")[1:2].squared(),
        symbols=MAP_SYMBOLS | {r: "y(0) - y"},
        left_formula="|y - y(1)|^2",
        says_left="|y - y(1)|^2 of a linearised network trained in parameter space for one round, in balls",
        families=(GROWTH,),
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            without(K),
            index_shifted(K, 1),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.3"),
    ),
)
