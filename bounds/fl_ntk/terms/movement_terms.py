"""B_2 and B_3: parts of U(T) - U(0) beyond the initial gradients and beyond the printed linear map."""

from collections.abc import Callable

import numpy as np
from flint import arb, arb_mat

from bounds.cases.kernel_case import BITS, KernelCase
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.feature_space import train_features
from bounds.fl_ntk.cases.weight_path import WeightPath, weight_path
from bounds.fl_ntk.terms.limit_kernel import printed_powers
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate


def changed_gradient_part(case: FederatedRun) -> np.ndarray:
    """B_2 = rho sum_t (1/K) sum_k (J(k,t) - J(0,0)) (I - rho H_inf)^t y, as balls (m, d)."""
    start = weight_path(case).rounds[0].active[0].astype(int)
    return _summed(case, lambda active, residual, power: (active - start, power))


def remaining_part(case: FederatedRun) -> np.ndarray:
    """B_3 = -rho sum_t (1/K) sum_k J(k,t) (y^{(k)}(t) - y + (I - rho H_inf)^t y), as balls (m, d)."""
    return _summed(case, lambda active, residual, power: (active, residual - power))


def norm(part: np.ndarray, bits: int) -> Estimate:
    """The Euclidean norm of an array of balls."""
    with precision(bits):
        return BALL.estimate(BALL.root(np.array([(part * part).sum()], dtype=object)))[0]


def remaining_norm_at_limit(case: KernelCase, rounds: int) -> Estimate:
    """|B_3| after `rounds` rounds of training on features.

    B_3 = -rho sum_t (1/K) sum_k J (y^{(k)}(t) - y + (I - rho H)^t y), J = L^T at every step.
    """
    setup, n = case.setup, case.problem.n
    with precision(BITS):
        features = ball_matrix(case.factor)
        rho = ball(setup.eta_global) / case.problem.n_clients * ball(setup.eta_local) * setup.local_steps
        powers, parts = [ball_matrix(case.problem.y)], [arb_mat(n, 1)]
        for _ in range(rounds):
            powers.append(powers[-1] - features * (features.transpose() * powers[-1]) * rho)

        def add(t: int, members: np.ndarray, rows: arb_mat, off: arb_mat) -> None:
            power = arb_mat([[powers[t][int(i), 0]] for i in members])
            parts.append(rows.transpose() * (off + power) * (rho / setup.local_steps))

        train_features(case, rounds, add)
        total = -sum(parts[1:], parts[0])
        square = sum((total[i, 0] * total[i, 0] for i in range(n)), arb(0))
        return enclosure(square.nonnegative_part().sqrt())


def _summed(case: FederatedRun, part: Callable[..., tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """rho sum_t (1/K) sum_k J v, as balls (m, d); `part` gives the patterns in J and the vector v of a local step."""
    path = weight_path(case)
    with precision(case.bits):
        powers = printed_powers(case)
        left = np.vectorize(ball, otypes=[object])(powers.value, powers.error)
        terms = [
            _through(path, *part(active.astype(int), residual, power))
            for round_, power in zip(path.rounds, left, strict=False)  # there is one power more than rounds
            for active, residual in zip(round_.active[:-1], round_.residual, strict=False)
        ]
        return np.array(terms).sum(axis=0) * _per_step(case)


def _through(path: WeightPath, pattern: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """J vector for gradients a_r x_i pattern_ir / sqrt m, (m, d)."""
    return path.signs[:, None] * ((pattern.T * vector) @ path.x) / path.root_m


def _per_step(case: FederatedRun) -> arb:
    """rho / K."""
    return ball(float(case.rho.value), float(case.rho.error)) / case.setup.local_steps
