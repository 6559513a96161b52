"""Algorithm 1 on linear features of H_inf: a network of infinite width with y(0) = 0, in balls."""

from collections.abc import Callable

import numpy as np
from flint import arb, arb_mat

from bounds.cases.kernel_case import BITS, KernelCase
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate

Look = Callable[[int, np.ndarray, arb_mat, arb_mat], None]


def train_features(case: KernelCase, rounds: int, look: Look | None = None) -> arb_mat:
    """The weights of f(x_i) = L_i . w, H = L L^T, trained from w = 0 client by client, (n, 1).

    In every local step `look` is called with the round, the client's samples, their rows of L, and the error of their
    outputs.
    """
    problem, setup = case.problem, case.setup
    step, server = ball(setup.eta_local), ball(setup.eta_global) / problem.n_clients
    weights = arb_mat(problem.n, 1)
    for t in range(rounds):
        change = arb_mat(problem.n, 1)
        for members in problem.clients():
            rows, labels = ball_matrix(case.factor[members]), ball_matrix(problem.y[members])
            local = weights
            for _ in range(setup.local_steps):
                off = rows * local - labels
                if look is not None:
                    look(t, members, rows, off)
                local = local - rows.transpose() * off * step
            change = change + local - weights
        weights = weights + change * server
    return weights


def remaining_norm_at_limit(case: KernelCase, rounds: int) -> Estimate:
    """|B_3| after this many rounds of training on features.

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
