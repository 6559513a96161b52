"""Algorithm 1 on features of H_inf, that is, a network of infinite width with y(0) = 0, in balls."""

from collections.abc import Callable

import numpy as np
from flint import arb_mat

from bounds.cases.kernel_case import KernelCase
from ntkfl.balls import ball, ball_matrix

Look = Callable[[int, np.ndarray, arb_mat, arb_mat], None]


def train_features(case: KernelCase, rounds: int, look: Look | None = None) -> arb_mat:
    """The weights w, (n, 1), of f(x_i) = L_i . w, H = L L^T, after training from w = 0.

    Every local step calls `look` with the round, the client's samples, their rows of L, and their outputs less the
    labels.
    """
    problem, setup = case.problem, case.setup
    step, server = ball(setup.eta_local), ball(setup.eta_global) / problem.n_clients
    weights = arb_mat(problem.n, 1)
    for t in range(rounds):
        change = arb_mat(problem.n, 1)
        for members in problem.members:
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
