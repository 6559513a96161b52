"""B_2 and B_3, the parts of U(T) - U(0) that the initial gradients and the printed linear map leave over."""

import numpy as np
from flint import arb

from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import WeightPath, weight_path
from bounds.fl_ntk.terms.error_term import printed_powers
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import ball, precision
from ntkfl.estimate import Estimate


def changed_gradient_part(case: FederatedRun) -> np.ndarray:
    """B_2 = rho sum_t (1/K) sum_k (J(k,t) - J(0,0)) (I - rho H_inf)^t y, as balls (m, d)."""
    path = weight_path(case)
    with precision(case.bits):
        start, left = path.rounds[0].active[0].astype(int), _balls(printed_powers(case, case.problem.y))
        terms = [
            _through(path, active.astype(int) - start, power)
            for round_, power in zip(path.rounds, left, strict=False)  # one power more than rounds
            for active in round_.active[:-1]
        ]
        return np.array(terms).sum(axis=0) * _per_step(case)


def remaining_part(case: FederatedRun) -> np.ndarray:
    """B_3 = -rho sum_t (1/K) sum_k J(k,t) (y^{(k)}(t) - y + (I - rho H_inf)^t y), as balls (m, d)."""
    path = weight_path(case)
    with precision(case.bits):
        left = _balls(printed_powers(case, case.problem.y))
        terms = [
            _through(path, active.astype(int), residual - power)
            for round_, power in zip(path.rounds, left, strict=False)
            for active, residual in zip(round_.active[:-1], round_.residual, strict=False)
        ]
        return np.array(terms).sum(axis=0) * _per_step(case)


def norm(part: np.ndarray, bits: int) -> Estimate:
    """The Euclidean norm of an array of balls."""
    with precision(bits):
        return BALL.estimate(BALL.root(np.array([(part * part).sum()], dtype=object)))[0]


def _balls(vectors: Estimate) -> np.ndarray:
    return np.vectorize(ball, otypes=[object])(vectors.value, vectors.error)


def _through(path: WeightPath, pattern: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """J vector for gradients a_r x_i pattern_ir / sqrt m, (m, d)."""
    return path.signs[:, None] * ((pattern.T * vector) @ path.x) / path.root_m


def _per_step(case: FederatedRun) -> arb:
    """rho / K."""
    return ball(float(case.rho.value), float(case.rho.error)) / case.setup.local_steps
