"""Algorithm 1 on linear features of H_inf: a network of infinite width with y(0) = 0, in balls."""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat

from bounds.cases.kernel_case import BITS, KernelCase
from ntkfl import gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate


def remaining_norm_at_limit(case: KernelCase, rounds: int) -> Estimate:
    """|B_3| after this many rounds of f(x_i) = L_i . w, H = L L^T, trained from w = 0 client by client.

    B_3 = -rho sum_t (1/K) sum_k J (y^{(k)}(t) - y + (I - rho H)^t y), J = L^T at every step.
    """
    problem, setup, n = case.problem, case.setup, case.problem.n
    factor = np.linalg.cholesky(gram.infinite(problem.x))
    with precision(BITS):
        features, target = ball_matrix(factor), ball_matrix(problem.y)
        step, server = ball(setup.eta_local), ball(setup.eta_global) / problem.n_clients
        rho = server * step * setup.local_steps
        weights, left, total = arb_mat(n, 1), target, arb_mat(n, 1)
        for _ in range(rounds):
            change = arb_mat(n, 1)
            for members in problem.clients():
                rows, labels = ball_matrix(factor[members]), ball_matrix(problem.y[members])
                power = arb_mat([[left[int(i), 0]] for i in members])
                local = weights
                for _ in range(setup.local_steps):
                    off = rows * local - labels
                    total = total - rows.transpose() * (off + power) * (rho / setup.local_steps)
                    local = local - rows.transpose() * off * step
                change = change + local - weights
            weights = weights + change * server
            left = left - features * (features.transpose() * left) * rho
        square = sum((total[i, 0] * total[i, 0] for i in range(n)), arb(0))
        return enclosure(square.nonnegative_part().sqrt())
