"""X.8: the trained network's output at a test point, and the movement of its weights, in the kernel regime."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.measured_regime import MeasuredRegime
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import linearised_families
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.terms.round_map import COEFFICIENTS, MAP_SYMBOLS, MOVEMENT, map_constants, residuals, start
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, sign_flipped, without
from bounds.symbols import N, T, eta_local, n
from ntkfl import Estimate, gram
from ntkfl.limit.infinite_width import KernelRegime

p = sp.Symbol("p", positive=True)  # number of test points
h = sp.MatrixSymbol("h", p, n)  # h(x)_j = H(x, x_j)
f0 = sp.MatrixSymbol("f_0", p, 1)


def _points(case: FederatedRun) -> np.ndarray:
    """Test points of a run, (p, d)."""
    x = np.random.default_rng([case.setup.seed, 2]).normal(size=(5, case.problem.d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _output(case: FederatedRun, hidden: np.ndarray) -> Estimate:
    """Outputs of the linearised network with these hidden weights, (p,), under the patterns of the initial weights."""
    x = _points(case)
    z = (x @ hidden.T) * gram.activations(x, case.weights.hidden)
    m, eps = len(hidden), np.finfo(float).eps
    norms, sizes = np.linalg.norm(hidden, axis=1).sum() / np.sqrt(m), np.abs(z).sum(axis=1)
    error = (case.problem.d + case.setup.rounds + 8) * eps * norms + m * eps * sizes / np.sqrt(m)
    return Estimate(z @ case.weights.signs / np.sqrt(m), error, "rounding bound")


def _cross(case: FederatedRun) -> np.ndarray:
    """H(x, x_j) between test and training points, (p, n)."""
    return gram.finite(_points(case), case.weights.hidden, z=case.problem.x)


def _constants(case: FederatedRun) -> dict:
    cross_error = (case.problem.d + 8) * np.finfo(float).eps * (np.abs(_points(case)) @ np.abs(case.problem.x).T)
    return map_constants(case, case.initial_gram) | {
        T: case.setup.rounds,
        h: Estimate(_cross(case), cross_error, "counts, rounding bound"),
        f0: _output(case, case.weights.hidden),
        start: -residuals(case)[:, 0],
    }


def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    last, cross = case.setup.rounds, _cross(case)
    moved = case.observed("total_movement")[-1:].squared()
    trained = _output(case, case.trajectory.weights[last])
    regime = MeasuredRegime(case.problem, case.setup, case.initial_gram.value)
    before, start = _output(case, case.weights.hidden), case.trajectory.outputs[0]

    def predicted(limit: KernelRegime, order: slice, start: np.ndarray) -> np.ndarray:
        return limit.predict(None, last, start, before.value, cross_gram=cross[:, order])

    size = float(np.abs(before.value).max() + np.abs(trained.value).max())
    prediction = regime.of(predicted, size=size, start=start)
    movement = regime.of(lambda limit, _, start: limit.movement([last], start), start=start)
    return trained, moved, replace(prediction, error=prediction.error + before.error), movement.squared()


STATEMENTS = (
    Statement(
        id="fl-ntk/X.8",
        title="Predictions and movement of the trained network in the kernel regime",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#movement-and-predictions",
            note="f(x,T) = f(x,0) + h(x)^T H^-1 (I - M^T)(y - y(0)), |U(T) - U(0)|_F^2 = c_T^T H c_T; as T grows, the "
            "limit of f(x,T) does not depend on N, K, the steps or the partition",
        ),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        forms={Form.NEW: Claim((f0 + h * COEFFICIENTS, MOVEMENT) * 2)},
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            h: "kernel of test against training points",
            f0: "outputs at the test points before training",
            start: "y - y(0)",
        },
        left_formula=("f(x,T)", "|U(T) - U(0)|_F^2") * 2,
        says_left="left 1 and 2: the linearised network's outputs at five random test points, and |U(T) - U(0)|_F^2, "
        "after training in parameter space; left 3 and 4: prediction and movement of the kernel regime of H(0) from "
        "the same start",
        families=linearised_families,
        mutants=(
            MILLIONTH_MORE,
            index_shifted(T, 1),
            without(N),
            power(eta_local, sp.Rational(1, 2)),
            sign_flipped(f0, "the outputs at the start"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
