"""Statements on how far local models and outputs drift within a round: Lemmas B.9 and B.10, Eqs (13) to (16)."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Kind, Nature, Outcome, Source, Statement
from bounds.federated_run import FederatedRun, distance, run_values
from bounds.fl_ntk.cases.weight_path import weight_path
from bounds.fl_ntk.families.few_points import long_row, overshooting_clients, small_step_families
from bounds.fl_ntk.families.paper_steps import (
    NEAR_LABELS,
    contracting_families,
    near_run,
    overshooting_client,
    unit_points,
)
from bounds.fl_ntk.premises import LOCAL_CONTRACTION, POSITIVE_SPECTRUM, SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import run_constants
from bounds.mutants import index_shifted, power, replaced, sign_flipped, without
from bounds.symbols import K, N, eta_local, lam, m, n, r_client, r_t
from ntkfl import Estimate, Setup
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import precision
from ntkfl.initialisation import draw

GROWTH = (1 + 2 * eta_local * n * K) ** 2 * r_t**2


k, n_c, r_client_local = sp.symbols("k n_c r_c^{(k)}", positive=True)
SAMPLES = {n_c: "number of samples of the client"}
DISTANCE = 4 * r_client / (sp.sqrt(m) * lam)
NECESSITY = {"unit-rows": long_row, "small-local-steps": overshooting_clients, "small-for-K": overshooting_clients}


def _sizes(case: FederatedRun) -> np.ndarray:
    return np.array([len(members) for members in case.problem.members], float)


def _residuals(case: FederatedRun) -> tuple[Estimate, Estimate]:
    """The residual norms |y_c - y_c(t)|, (T, N), and |y_c - y_c^{(k)}(t)|, (T, N, K+1)."""
    start, local = zip(*map(case.residual_part, range(case.problem.n_clients)), strict=True)
    return Estimate.stacked(start, axis=1), Estimate.stacked(local, axis=1)


def _contraction_constants(case: FederatedRun) -> dict:
    start, _ = _residuals(case)
    return run_values(case, eta_local, lam) | {
        r_client: start[:, :, None],
        k: np.arange(1, case.setup.local_steps + 1),
    }


def _distance_constants(case: FederatedRun) -> dict:
    start, _ = _residuals(case)
    return run_values(case, n, m, lam, eta_local, K) | {
        r_client: start[:, :, None],
        n_c: _sizes(case)[:, None],
    }


def _farthest(case: FederatedRun, pairs) -> Estimate:
    """max_r |w_{k,c,r} - u_r|, for every pair of local weights and server weights, every client c, and k = 1..K.

    The shape is (pairs, N, K).
    """
    with precision(case.bits):
        moves = [local[1:] - server for local, server in pairs]
        # as products, since the power 2 of a ball that contains 0 is not finite
        squares = [(move * move).sum(axis=-1) for move in moves]
        largest = [[[BALL.maximum(client) for client in step] for step in square] for square in squares]
        farthest = BALL.estimate(BALL.root(np.array(largest, dtype=object)))
    return Estimate(farthest.value.swapaxes(1, 2), farthest.error.swapaxes(1, 2), farthest.method, farthest.rigour)


def _distance_measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    farthest = _farthest(case, [(round_.local, round_.start) for round_ in weight_path(case).rounds])
    return farthest, farthest


def _printed_distance_measure(case: FederatedRun) -> Estimate:
    """The distance of w_{k,c,r}(t+1) from u_r(t).

    For the last round, w_{k,c,r}(t) takes the place of w_{k,c,r}(t+1), since no round follows.
    """
    rounds = weight_path(case).rounds
    return _farthest(case, zip([r.local for r in (*rounds[1:], rounds[-1])], [r.start for r in rounds], strict=True))


def satisfied_client() -> FederatedRun:
    """Two clients, of which one fits its labels already. The bound for this client is 0, but the server still moves."""
    weights = draw(32, 6, 0)
    setup = Setup(width=32, eta_local=0.05, local_steps=1, rounds=2)
    x = unit_points(np.random.default_rng(0), 4, 6)
    return near_run(x, np.array([0.0, 1.0, 0.0, 1.0]), np.arange(4) % 2, weights, setup)


def _step_constants(case: FederatedRun) -> dict:
    _, local = _residuals(case)
    return run_values(case, eta_local, n) | {
        r_client_local: local[:, :, :-1],
        n_c: _sizes(case)[:, None],
    }


def _step_measure(case: FederatedRun) -> Estimate:
    local = case.observed("local_outputs")
    steps = ((local[:, 1:, own] - local[:, :-1, own]).norm(-1) for own in case.problem.members)
    return Estimate.stacked(steps, axis=1).squared()


ALOC = 2 * eta_local * n * K
DRIFT = ALOC * r_client
UPDATE = eta_local * K * (1 + ALOC) * sp.sqrt(n) * r_t / (N * sp.sqrt(m))


def _constants(case: FederatedRun) -> dict:
    parts = Estimate.stacked(case.residual_part(c)[0] for c in range(case.problem.n_clients))
    return run_constants(case) | {m: case.setup.width, r_client: parts[:, :, None]}


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    """|y_c(t) - y_c^{(k)}(t)| for every client, round and k = 1..K, and max_r |Delta u_r(t)| for every round."""
    outputs, local = case.observed("outputs"), case.observed("local_outputs")
    drifts = ((local[:, 1:, own] - outputs[:-1, None, own]).norm(-1) for own in case.problem.members)
    return Estimate.stacked(drifts), case.observed("step")


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq16",
        title="Local residuals are bounded by the global one",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Eq (16)"),
        note="the first '=' must be '<='; the factor 2 is not needed (triangle inequality)",
        hypotheses=(UNIT_ROWS,),
        stated=Claim(2 * GROWTH, hypotheses=(SMALL_LOCAL_STEPS,)),
        new=Claim(GROWTH, hypotheses=(SMALL_FOR_K,)),
        constants=lambda case: run_constants(case) | {r_t: case.observed("residual_norm")[:-1, None]},
        measure=lambda case: distance(case.observed("local_outputs"), case.problem.y).squared(),
        left_formula="|y - y^{(k)}(t)|^2",
        says_left="|y - y^{(k)}(t)|^2 from the recorded local outputs, every round and k = 0..K",
        families=small_step_families,
        mutants=(sign_flipped(eta_local, "the drift"), power(r_t, sp.Rational(1, 2)), without(r_t)),
        necessity=NECESSITY,
    ),
    Statement(
        id="fl-ntk/B.9-13",
        title="Local training contracts the client's residual",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Lemma B.9, Eq (13)"),
        note="the paper names no step and gives no proof. The equation is read under the small steps of the "
        "theorems that use it (see the convention on steps): one local step is I - eta_l F with |F - H_cc(0)| <= "
        "E, and lambda_min(H_cc(0)) >= lambda. Theorem B.3's steps are far smaller than is required here. The case "
        "that shows the condition to be necessary has eta_l = 3/|H(0)|, and every local step doubles its residual",
        stated=Claim((1 - eta_local * lam / 2) ** k * r_client**2, hypotheses=(LOCAL_CONTRACTION,)),
        constants=_contraction_constants,
        measure=lambda case: _residuals(case)[1][:, :, 1:].squared(),
        symbols={k: "local step, 1..K"},
        left_formula="|y_c^{(k)}(t) - y_c|^2",
        says_left="|y_c^{(k)}(t) - y_c|^2 from the recorded local outputs, every round, client and k = 1..K",
        families=contracting_families,
        mutants=(
            replaced(lam, 8 * lam, "lambda times 8", Change.CONSTANT),
            replaced(k, 6 * k, "six steps for one", Change.INDEX),
            power(eta_local, sp.Rational(1, 2)),
            without(lam),
        ),
        necessity={"local-contraction": overshooting_client},
    ),
    Statement(
        id="fl-ntk/B.9-14",
        title="Local weights stay near the global ones",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Lemma B.9, Eq (14)"),
        note="the scan reads w_{k,c,r}(t+1) against w_{0,c,r}(t), one round apart; the lemma itself says 'in step "
        "t', and B.10 and B.4 need the same round. The repaired form has the same round and n_c for n; its second "
        "part is the sharper bound by K gradient steps",
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM),
        stated=Claim(
            sp.sqrt(n) * DISTANCE,
            recorded=Outcome.VIOLATED,
            nature=Nature.SCAN,
            left_formula="max_r |w_{k,c,r}(t+1) - u_r(t)|",
            measure=_printed_distance_measure,
            witness=satisfied_client,
            reading="the display occurs once; (13) and (15) beside it have t alone",
            consequence="read w_{k,c,r}(t) - u_r(t), within one round, as the later proofs do",
        ),
        repaired=Claim(
            (sp.sqrt(n_c) * DISTANCE, eta_local * K * sp.sqrt(n_c) * r_client / sp.sqrt(m)),
            hypotheses=(LOCAL_CONTRACTION,),
        ),
        constants=_distance_constants,
        measure=_distance_measure,
        symbols=SAMPLES,
        left_formula=("max_r |w_{k,c,r}(t) - u_r(t)|",) * 2,
        says_left="max_r |w_{k,c,r}(t) - u_r(t)| in balls, for every round, client and k = 1..K; printed form: "
        "max_r |w_{k,c,r}(t+1) - u_r(t)|, but max_r |w_{k,c,r}(t) - u_r(t)| for the last round, which no round follows",
        families=(NEAR_LABELS,),
        mutants=(power(m, sp.Rational(3, 2)), without(n_c), power(eta_local, sp.Rational(3, 2))),
        uses=("fl-ntk/B.9-13",),
    ),
    Statement(
        id="fl-ntk/B.9-15",
        title="How far one local step changes the client's outputs",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Lemma B.9, Eq (15)"),
        note="holds for any weights and any step: relu is 1-Lipschitz, and the client sees its own n_c samples",
        hypotheses=(UNIT_ROWS,),
        stated=Claim(eta_local**2 * n**2 * r_client_local**2),
        new=Claim(eta_local**2 * n_c**2 * r_client_local**2),
        constants=_step_constants,
        measure=_step_measure,
        symbols=SAMPLES | {r_client_local: "|y_c - y_c^{(k)}(t)|_2, the client's residual after k local steps"},
        left_formula="|y_c^{(k+1)}(t) - y_c^{(k)}(t)|^2",
        says_left="|y_c^{(k+1)}(t) - y_c^{(k)}(t)|^2 from the recorded local outputs, every round, client and k < K",
        families=small_step_families,
        mutants=(power(n_c, sp.Rational(1, 2)), without(n_c), power(eta_local, sp.Rational(3, 2))),
        necessity={"unit-rows": long_row},
    ),
    Statement(
        id="fl-ntk/B.10",
        title="Drift of local outputs, and size of the averaged update",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Lemma B.10"),
        note="'the choice of eta_local' is read as eta_l n K <= 1.2564, which is enough for every K. The exact "
        "condition (1 + x/K)^K <= 1 + 2x with x = eta_l n K is x <= inf, 4, 2.374, 1.953, 1.762 for K = 1..5",
        hypotheses=(UNIT_ROWS,),
        stated=Claim((DRIFT, 2 * UPDATE), hypotheses=(SMALL_LOCAL_STEPS,)),
        new=Claim(
            (DRIFT, UPDATE),
            hypotheses=(SMALL_FOR_K,),
            note="the second bound loses its factor 2, since Eq (16) loses its factor sqrt 2",
        ),
        constants=_constants,
        measure=_measure,
        left_formula=("|y_c(t) - y_c^{(k)}(t)|", "max_r |Delta u_r(t)|"),
        says_left="distances of recorded local outputs, every client, round and local step; the largest |Delta u_r(t)|",
        families=small_step_families,
        mutants=(
            power(n, sp.Rational(1, 2)),
            power(K, sp.Rational(1, 2)),
            index_shifted(K, -1),
            replaced(1 + ALOC, 1 - ALOC, "sign of 2 eta_l n K flipped", Change.SIGN),
        ),
        necessity=NECESSITY,
        uses=("fl-ntk/Eq16",),
    ),
)
