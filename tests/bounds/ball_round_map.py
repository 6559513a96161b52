"""A kernel case's round map M, computed independently of `bounds` in ball arithmetic.

Every number is a ball, an interval that provably contains the exact value. The number of local steps may be finite or
infinite.
"""

import numpy as np
from flint import arb, arb_mat

from bounds.cases.kernel_case import KernelCase
from ntkfl.balls import ball, ball_matrix, norm_inf

DOUBLINGS = 64  # enough doublings of the partial sum for up to 2^64 local steps
NEGLIGIBLE = 2.0**-100


def finite_response(block: arb_mat, eta: arb, steps: int) -> arb_mat:
    """Returns the response of one client, eta sum_{k<steps} (I - eta block)^k."""
    one = ball_matrix(np.eye(block.nrows()))
    total = one * 0
    for _ in range(steps):
        total = one * eta + (one - block * eta) * total
    return total


def limit_response(block: arb_mat, eta: arb) -> arb_mat:
    """Returns `finite_response` for infinitely many steps.

    The partial sums have 1, 2, 4, ... terms, and the last one is widened by a bound on the rest of the series. No
    inverse is taken. Let A = I - eta block, S the whole series, S_k its first k terms, and p = |A^k| < 1. Then the rest
    A^k S is at most p |S_k| / (1 - p) in the maximum norm.

    Raises:
        ValueError: no computed power of A is below 1, so that the rest has no bound.
    """
    one = ball_matrix(np.eye(block.nrows()))
    total, power = one * eta, one - block * eta
    for _ in range(DOUBLINGS):
        total, power = total + power * total, power * power
        if norm_inf(power) < NEGLIGIBLE:
            break
    size = norm_inf(power)
    if not size < 1:
        raise ValueError(
            f"after 2^{DOUBLINGS} local steps of {eta} the local map has not become small: K -> infinity needs "
            "0 < eta_l q < 2 for every eigenvalue q of the block"
        )
    rest = (size * norm_inf(total) / (1 - size)).upper()
    return arb_mat([[entry + arb(0, rest) for entry in row] for row in total.tolist()])


def round_map(case: KernelCase, *, unlimited: bool = False) -> arb_mat:
    """Returns M = I - (eta_g/N) H P, where P is the block diagonal matrix of the clients' responses.

    With `unlimited`, the clients' responses to infinitely many local steps are taken (K -> infinity).

    Source: fl-ntk/X.1, X.4.
    """
    h, n, eta = case.gram, case.problem.n, ball(case.setup.eta_local)
    response = ball_matrix(np.zeros((n, n)))
    for members in case.problem.members:
        block = arb_mat([[h[int(i), int(j)] for j in members] for i in members])
        own = limit_response(block, eta) if unlimited else finite_response(block, eta, case.setup.local_steps)
        for a, i in enumerate(members):
            for b, j in enumerate(members):
                response[int(i), int(j)] = own[a, b]
    return ball_matrix(np.eye(n)) - h * response * (ball(case.setup.eta_global) / case.problem.n_clients)
