"""What drawing batches adds to a client's displacement: its exact covariance after K local steps."""

import numpy as np
from jaxtyping import Float


def batch_noise(
    second: Float[np.ndarray, "n n"],
    basis: Float[np.ndarray, "n n"],
    values: Float[np.ndarray, " n"],
    step: float,
    steps: int,
    batch: int,
    pull: float = 0.0,
) -> Float[np.ndarray, "n n"]:
    """E e e^T of e = a - f_K(Q) r, a the client's displacement: coefficients, after steps on batches of its own.

    A step is a <- a + eta (D (r - Q a) - pull a), D = n/b on the samples of a batch and 0 elsewhere, drawn without
    replacement and independently of the other steps, so that E D = I and, for a symmetric Y,
    E D Y D = gamma Y + (n/b - gamma) diag(Y), gamma = n (b - 1) / (b (n - 1)). What is left of r before step k + 1 is
    u = (I - Q f_k) r - Q e, and e <- (I - eta (Q + pull)) e + eta (D - I) u, whose mean is 0.

    `second` is E r r^T of the client's residual r at the start of the round, and Q = basis diag(values) basis^T the
    client's block of the Gram matrix.

    Source: docs/proofs/random_rounds.md#noise-of-the-batches; of the noise alone, which loses no digits.
    """
    size = len(values)
    if batch >= size:
        return np.zeros_like(second)
    gamma = size * (batch - 1) / (batch * (size - 1))
    start = basis.T @ second @ basis
    kept = 1 - step * (values + pull)
    response, noise = np.zeros(size), np.zeros_like(start)
    for _ in range(steps):
        left = 1 - values * response
        unfitted = np.outer(left, left) * start + np.outer(values, values) * noise
        own = np.einsum("ij,ij->i", basis @ unfitted, basis)
        drawn = (gamma - 1) * unfitted + (size / batch - gamma) * ((basis.T * own) @ basis)
        noise = np.outer(kept, kept) * noise + step**2 * drawn
        response = kept * response + step
    return basis @ noise @ basis.T
