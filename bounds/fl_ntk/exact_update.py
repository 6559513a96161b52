"""Statements on the averaged update of Algorithm 1.

The statements concern a round as Eqs (2) and (17) write it, and rounds of one local step. A round of one local step is
a step of gradient descent.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from bounds import (
    FL_NTK,
    Change,
    Claim,
    Family,
    Hypothesis,
    Kind,
    Limit,
    Nature,
    Options,
    Outcome,
    Source,
    Statement,
    with_own,
)
from bounds.federated_run import FEW_NEURONS, ORDER_SAFETY, FederatedRun, federated_run, federated_runs, run_values
from bounds.fl_ntk.cases.weight_path import (
    WeightRound,
    all_jacobians,
    global_weights,
    jacobian,
    small_run,
    updates,
    weight_families,
    weight_path,
)
from bounds.fl_ntk.terms.limit_kernel import round_rate
from bounds.fl_ntk.terms.round_map import times
from bounds.mutants import MILLIONTH_MORE, power, replaced, scaled, sign_flipped, without
from bounds.symbols import K, N, eta_global, eta_local, m, rho
from ntkfl import Estimate, Problem, Setup, Trajectory, Weights, data, simulate
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import ball

ROUNDINGS = 64  # number of roundings that are allowed for a weight, which is kept as u(0) plus its movement

Way = Callable[..., Trajectory]


def _on_devices(*run: Any, **named: Any) -> Trajectory:
    import jax  # here, since jax loads slowly

    return simulate(*run, movements=False, devices=jax.devices()[:1], **named)


def _by_the_engine(*run: Any, **named: Any) -> Trajectory:
    from ntkfl.training.engine_trajectory import engine_trajectory  # here, since torch loads slowly

    return engine_trajectory(*run, movements=False, **named)


WAYS: dict[str, Way] = {
    # these are functions and not partials, since a test replaces `simulate` in this module by a faulty one
    "in arrays": lambda *run, **named: simulate(*run, compiled=False, **named),
    "compiled": lambda *run, **named: simulate(*run, compiled=True, **named),
    "by the host's threads": lambda *run, **named: simulate(
        *run, movements=False, grouped=True, compiled=False, **named
    ),
    "tracking switches": lambda *run, **named: simulate(*run, movements=False, grouped=True, compiled=True, **named),
    "on JAX devices": _on_devices,
    "by the training engine": _by_the_engine,
}


def updates_by_all_ways(run: FederatedRun) -> list[Estimate]:
    """u(t+1) - u(t) for every round, (T, m, d), by each implementation. Below FEW_NEURONS neurons the list is empty.

    The error is measured, not proved. It is ten times the difference from a run of the same network with its neurons in
    the opposite order, plus some roundings of the weights. Fewer neurons than FEW_NEURONS would show too little of the
    rounding.
    """
    if run.setup.width < FEW_NEURONS:
        return []
    return [_updates(run, way) for way in WAYS.values()]


def _updates(run: FederatedRun, way: Way) -> Estimate:
    rounds = range(run.setup.rounds + 1)
    other = Weights(run.weights.hidden[::-1], run.weights.signs[::-1])
    weights, again = (way(run.problem, run.setup, network, keep=rounds).weights for network in (run.weights, other))
    value = np.diff([weights[t] for t in rounds], axis=0)
    difference = np.abs(value - np.diff([again[t][::-1] for t in rounds], axis=0)).max()
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs([weights[t] for t in rounds]).max())
    return Estimate(value, np.full(value.shape, ORDER_SAFETY * difference + rounding), "two orders of the neurons")


def _every_way(d: int, n: int, width: int, seed: int) -> FederatedRun:
    """Two clients of unequal sizes on the sphere, with three local steps and two rounds.

    There are few enough neurons for ball arithmetic. The clients' sizes are the same for all seeds, so that code
    compiled for one seed is used for the others. In two dimensions the clients have so many samples that the grouped
    simulator updates the weights; otherwise it updates coefficients.
    """
    whole = data.sphere(n, d, seed=seed, clients=1, labels="uniform")
    problem = Problem(whole.x, whole.y, (np.arange(n) < n // 2 - 1).astype(int), name=whole.name)
    setup = Setup(width=width, eta_local=0.05, eta_global=1.3, local_steps=3, rounds=2, seed=seed)
    return federated_run(problem, setup).with_arithmetic(BALL)


WAYS_DRAWS = tuple(
    Family(
        f"sphere, n={n}, d={d}, {width} neurons, every way",
        _every_way,
        federated_runs(width=(1, 12), local_steps=(1, 3), rounds=(1, 2), in_balls=True),
        (d, n, width),
        trials=2,
    )
    for d, n, width in ((8, 7, 128), (2, 17, 64))
)


pull, pull_printed = sp.symbols("p p'", real=True)
AVERAGED = eta_local / (N * sp.sqrt(m))


def _update_constants(case: FederatedRun) -> dict:
    path, steps = weight_path(case), case.setup.local_steps
    return run_values(case, eta_local, N, m) | {
        pull: path.of_every_round(lambda round_: path.negative_gradients(round_, range(steps))),
        pull_printed: path.of_every_round(lambda round_: path.negative_gradients(round_, range(1, steps + 1))),
    }


def _update(case: FederatedRun) -> Estimate:
    """(u(t+1) - u(t))/eta_g by `plain_run` in ball arithmetic, then by each of the ways, (1 + ways, T, m, d)."""
    return times(1 / case.setup.eta_global, Estimate.stacked([updates(case), *updates_by_all_ways(case)]))


after, after_printed, before = sp.symbols("s_{t+1} s' s_t", real=True)


def _constants_eq2(case: FederatedRun) -> dict:
    path, setup = weight_path(case), case.setup

    def step(round_: WeightRound) -> np.ndarray:
        """eta_g Delta u(t), where Delta u(t) is the display below Eq (2) with k = 0..K-1."""
        total = path.negative_gradients(round_, range(setup.local_steps))
        return ball(setup.eta_global) * ball(setup.eta_local) / (path.root_m * case.problem.n_clients) * total

    return {
        after: path.of_every_round(lambda round_: path.sums(round_.start + step(round_))),
        after_printed: path.of_every_round(lambda round_: path.sums(round_.end + step(round_))),
        before: path.of_every_round(lambda round_: path.sums(round_.start)),
        m: setup.width,
    }


def _measure(case: FederatedRun) -> Estimate:
    outputs = case.observed("outputs")
    return outputs[1:] - outputs[:-1]


def _constants_eq17(case: FederatedRun) -> dict:
    path, shape = weight_path(case), case.weights.hidden.shape

    def total(round_: WeightRound) -> np.ndarray:
        """sum_k J(k,t) (y^{(k)}(t) - y), as (m, d)."""
        # the residuals are y - y^{(k)} for k = 0..K
        parts = zip(all_jacobians(path, round_), round_.residual, strict=False)
        return sum(-(j @ r) for j, r in parts).reshape(shape)

    def printed(round_: WeightRound) -> np.ndarray:
        """The same sum as `total`, with every sample's column of J under the weights of the first client."""
        columns = [BALL.active(path.x @ local[0].T) for local in round_.local[:-1]]
        return sum(-(jacobian(path, on) @ r) for on, r in zip(columns, round_.residual, strict=False)).reshape(shape)

    return {
        pull: path.of_every_round(total),
        pull_printed: path.of_every_round(printed),
        rho: round_rate(case),
        K: case.setup.local_steps,
    }


u, gradient = sp.symbols("u g", real=True)

ONE_STEP = Hypothesis(
    "one-local-step",
    "K = 1",
    Limit("K", lambda case: case.setup.local_steps, at_most=1.0),
    free=True,
    eased_by=("local_steps",),
)


def _constants_k1_is_gd(case: FederatedRun) -> dict:
    path = weight_path(case)

    def downhill(round_):
        """The gradient of the loss over all samples at u(t)."""
        z = path.x @ round_.start.T
        residual = (z * (z >= 0)) @ path.signs / path.root_m - case.problem.y
        return path.signs[:, None] * (((z >= 0).T * residual) @ path.x) / path.root_m

    return run_values(case, eta_global, eta_local, N) | {
        u: path.of_every_round(lambda round_: round_.start),
        gradient: path.of_every_round(downhill),
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/Alg1-update",
        title="The averaged update as a sum over local gradients",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Algorithm 1, lines 4-19, and the display of Delta u_r(t) below Eq (2)"),
        note="lines 5-14 let k run over 1..K, evaluate at w_k and update w_{k-1}; section 3.1 has w_{k+1} = w_k - "
        "eta_l dL_c(w_k)/dw_k. With the step of section 3.1 the sum over k in [K] runs over 0..K-1, and Lemma B.10 "
        "does use (15) for k = 0; [K] is nowhere defined. If [K] means 1..K, as [n] means 1..n, the display is "
        "false. In the display y_c^{(k)}(t) lacks its index j, and dL_c/du_r is printed with a sum over all n, "
        "where S_c is meant",
        stated=Claim(
            AVERAGED * pull_printed,
            recorded=Outcome.VIOLATED,
            nature=Nature.READING,
            witness=small_run,
            note="k in [K] read as 1..K",
            reading="Algorithm 1 and six displays print the indices alike",
            consequence="index local steps from 0 to K-1; with 1..K the update of a round comes out wrong "
            "by the size of one local step",
        ),
        repaired=Claim(AVERAGED * pull, note="k = 0..K-1"),
        constants=_update_constants,
        measure=_update,
        symbols={
            pull: "an entry of a_r sum_c sum_{j in S_c} sum_k (y_j - y_c^{(k)}(t)_j) x_j 1{w_{k,c,r}(t).x_j >= 0}, "
            "k = 0..K-1",
            pull_printed: "the same with k = 1..K",
        },
        left_formula="(u_r(t+1) - u_r(t))/eta_g",
        says_left="every entry of (u(t+1) - u(t))/eta_g in two rounds, from a plain run in balls; for networks of 64 "
        "neurons or more also from six other implementations: in arrays, compiled, by the host's threads, tracking "
        "switches, on JAX devices and by the training engine",
        families=with_own(weight_families, *WAYS_DRAWS),
        mutants=(
            MILLIONTH_MORE,
            power(m, sp.Rational(1, 2)),
            without(N),
            replaced(pull, pull_printed, "k = 1..K for 0..K-1", Change.INDEX),
        ),
    ),
    Statement(
        id="fl-ntk/Eq2",
        title="A round's change of the outputs through Delta u_r(t)",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Eq (2)"),
        note="the scan reads u_r(t+1) + eta_g Delta u_r(t) in its last line, which would add the update twice, and "
        "x for x_i. (3) and section 6 have u_r(t) + eta_g Delta u_r(t); this is meant, and may well be printed "
        "here too",
        stated=Claim(
            (after_printed - before) / sp.sqrt(m),
            recorded=Outcome.VIOLATED,
            nature=Nature.SCAN,
            witness=lambda: small_run(4),
            reading="the line occurs once; the same bracket has u_r(t) in (3), in section 6 and in the appendix",
            consequence="none: read u_r(t) for u_r(t+1) and x_i for x",
        ),
        repaired=Claim((after - before) / sp.sqrt(m)),
        constants=_constants_eq2,
        measure=_measure,
        symbols={
            before: "sum_r a_r relu(u_r(t).x_i)",
            after: "sum_r a_r relu((u_r(t) + eta_g Delta u_r(t)).x_i)",
            after_printed: "sum_r a_r relu((u_r(t+1) + eta_g Delta u_r(t)).x_i), as printed",
        },
        left_formula="y_i(t+1) - y_i(t)",
        says_left="y_i(t+1) - y_i(t) from the outputs of a run in balls, every sample, two rounds",
        families=weight_families,
        mutants=(
            MILLIONTH_MORE,
            power(m, sp.Rational(1, 2)),
            replaced(after, after_printed, "the update added twice", Change.INDEX),
            sign_flipped(before, "the old outputs"),
        ),
        uses=("fl-ntk/Alg1-update",),
    ),
    Statement(
        id="fl-ntk/Eq17",
        title="A round's change of the weights through J(k,t)",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Eq (17)"),
        note="the scan reads J(k,c), where nothing binds c; a scan easily takes a t for a c. J is defined with a "
        "round as its second argument, and the expansion of U(T) - U(0) a page later has J(k,t). So J(k,t) is "
        "meant: each column under the weights of its own sample's client. Here the printed J(k,c) is taken with "
        "the weights of one client, the first, in every column. If c were a round number, the form would fail in "
        "every round but round c. Further, k runs over 0..K-1, not [K] = 1..K; the a_i in the display of |J - "
        "J(0)|^2 is a_r; in the display of v_1 below, the first sum is over [n], not S_c, and the term with "
        "H(t,k,c)^perp has the opposite sign, which changes no norm. Appendix C writes U(t) transposed",
        stated=Claim(
            -rho / K * pull_printed,
            recorded=Outcome.VIOLATED,
            nature=Nature.SCAN,
            witness=lambda: small_run(4),
            reading="J(k,c) in both lines of (17), J(k,t) in the definition and everywhere else",
            consequence="none: read J(k,t)",
        ),
        repaired=Claim(-rho / K * pull),
        constants=_constants_eq17,
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
    Statement(
        id="fl-ntk/K1-is-GD",
        title="One local step a round is gradient descent with step eta_g eta_l / N",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "section 5"),
        note="the paper says this in words ('essentially'). It is exact for half the sum of squares over all n "
        "samples, which is N times the paper's L",
        hypotheses=(ONE_STEP,),
        stated=Claim(u - eta_global * eta_local / N * gradient),
        constants=_constants_k1_is_gd,
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
        # Six points on the sphere, with two local steps, of which the second starts where the first ended.
        necessity={"one-local-step": lambda: weight_families(Options(), local_steps=2)[1].case(0)},
        uses=("fl-ntk/Alg1-update",),
    ),
)
