"""The order m^(-1/2) by which the outputs of a finite network differ from those of the infinite-width limit.

The order has two parts: the initial Gram matrix H(0) is not H_inf (random, mean zero), and neurons at the kinks change
their pattern (deterministic to this order). Both parts are for the same first residual at every width. A network with
another y(0) adds a third part, M^t (y_m(0) - y_inf(0)).
"""

import numpy as np
from jaxtyping import Float

from ntkfl.estimate import Estimate
from ntkfl.finite_width.boundary_layer import REPLICATES, kink_layers, over_replicates
from ntkfl.gram import infinite
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.problem import Problem, Setup


def response_derivative(
    block: Float[np.ndarray, "c c"], change: Float[np.ndarray, "c c"], eta_local: float, steps: int
) -> Float[np.ndarray, "c c"]:
    """The Frechet derivative of f_K(A) = eta_l sum_{k<K} (I - eta_l A)^k at a symmetric block, in a direction.

    In the eigenbasis the derivative multiplies by the divided differences f_K[q_i, q_j]. Each is computed as -eta_l^2
    sum_{k<K} of the complete homogeneous polynomial of degree k-1 in 1 - eta_l q_i and 1 - eta_l q_j, so that equal
    eigenvalues are no special case and close eigenvalues lose no digits.
    """
    values, vectors = np.linalg.eigh(block)
    factor = 1 - eta_local * values
    homogeneous, total = np.zeros_like(block, float), np.zeros_like(block, float)
    for k in range(1, steps):
        homogeneous = factor[:, None] * homogeneous + factor ** (k - 1)
        total = total + homogeneous
    inner = vectors.T @ change @ vectors
    return vectors @ (-(eta_local**2) * total * inner) @ vectors.T


def map_derivative(
    problem: Problem, setup: Setup, gram: Float[np.ndarray, "n n"], change: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, "n n"]:
    """dM = -(eta_g/N)(dH P + H dP): the change of the round map M = I - (eta_g/N) H P with the Gram matrix.

    Source: fl-ntk/X.10.
    """
    response, moved = np.zeros_like(gram), np.zeros_like(gram)
    for owned in problem.members:
        block = np.ix_(owned, owned)
        values, vectors = np.linalg.eigh(gram[block])
        powers = (1 - setup.eta_local * values) ** np.arange(setup.local_steps)[:, None]
        response[block] = (vectors * (setup.eta_local * powers.sum(axis=0))) @ vectors.T
        moved[block] = response_derivative(gram[block], change[block], setup.eta_local, setup.local_steps)
    return -(setup.eta_global / problem.n_clients) * (change @ response + gram @ moved)


def gram_correction(
    problem: Problem, setup: Setup, change: Float[np.ndarray, "n n"], gram: Float[np.ndarray, "n n"] | None = None
) -> Float[np.ndarray, "T n"]:
    """First order of the outputs y(t), t = 0..T, in a change dH of the Gram matrix (default: of H_inf).

    It is -sum_{s<t} M^{t-1-s} dM M^s r with r = y - y(0): the residual moves by the sum, the outputs by minus the sum.
    Source: fl-ntk/X.10.

    `problem.y` is the residual r = y - y(0) at the start.
    """
    gram = infinite(problem.x) if gram is None else gram
    moved = map_derivative(problem, setup, gram, change)
    round_map = algorithm1_limit(problem, setup, gram).round_map
    residual, first = problem.y, np.zeros(problem.n)
    path = [first]
    for _ in range(setup.rounds):
        first = round_map @ first + moved @ residual
        residual = round_map @ residual
        path.append(first)
    return -np.array(path)


def drift_correction(problem: Problem, setup: Setup, **sampling) -> Estimate:
    """The coefficient of m^(-1/2) in y_m(t) that the neurons at the kinks cause, (T+1, n); errors at 99%.

    The effect of the neurons on each local and server step reaches later rounds by the infinite-width dynamics. The
    result does not depend on the draw of the network. Sampling is that of `kink_layers`.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.

    Raises: as `kink_layers`. Source: fl-ntk/X.9, X.10.
    """
    h = infinite(problem.x)
    local, server = _forcing(problem, setup, **sampling)
    same = problem.owner[:, None] == problem.owner
    own, share = setup.eta_local * h * same, setup.eta_global * setup.eta_local / problem.n_clients
    error = np.zeros((REPLICATES, problem.n))  # the change of y(t), in units of m^(-1/2)
    path = [error]
    for t in range(setup.rounds):
        inside, felt = error, np.zeros_like(error)
        for k in range(setup.local_steps):
            felt = felt + inside
            inside = inside - inside @ own + local[:, t, k]
        error = error - share * felt @ h + server[:, t]
        path.append(error)
    return over_replicates(np.stack(path, axis=1))


def _forcing(problem: Problem, setup: Setup, **sampling) -> tuple[np.ndarray, np.ndarray]:
    """The change of the outputs by the boundary layers in a local step, (R, T, K, n), and in a server step, (R, T, n).

    A neuron near the kink of sample i changes output i by the difference of relu from its frozen pattern. It changes
    the other outputs because its gradient has or lacks the part of sample i; for these outputs it keeps its initial
    pattern.
    """
    inner = problem.x @ problem.x.T
    residual = problem.y - algorithm1_limit(problem, setup).trajectory().local_outputs[:, : setup.local_steps]
    sign = np.array([1.0, -1.0])[:, None, None]
    local = np.zeros((REPLICATES, *residual.shape))
    server = np.zeros((REPLICATES, setup.rounds, problem.n))
    share = setup.eta_global * setup.eta_local / problem.n_clients
    for layer in kink_layers(problem, setup, **sampling):
        i = layer.sample
        was = layer.start >= 0
        mates = (problem.owner == problem.owner[i]) * inner[i]
        mates[i] = 0.0
        rest = inner[i].copy()
        rest[i] = 0.0
        for t, k, before, after, frozen in layer.walk():
            beyond = sign * (np.maximum(after, 0.0) - np.maximum(before, 0.0) - frozen * was)
            if k == setup.local_steps:
                server[:, t, i] += layer.mean(beyond)
                continue
            local[:, t, k, i] += layer.mean(beyond)
            pulled = residual[t, k, i] * layer.mean((before >= 0) * 1.0 - was, patterns=True)
            local[:, t, k] += setup.eta_local * mates * pulled
            server[:, t] += share * rest * pulled
    return local, server
