"""The norm of an entrywise nonnegative matrix, bounded in balls."""

from functools import reduce

import numpy as np
from flint import arb, arb_mat

from ntkfl.balls import ball, ball_matrix


def nonnegative_norm(matrix: arb_mat) -> arb:
    """Upper bound of the spectral norm of a symmetric entrywise nonnegative matrix, sharp to about 1e-6.

    Collatz-Wielandt: max_i (A v)_i / v_i for any positive v. With s slightly above the norm, v = (s - A)^-1 1 is
    positive and gives s - 1/v_i, also where the Perron vector of a reducible A has zeros.
    """
    middle = np.array([[float(b) for b in row] for row in matrix.tolist()])
    scale = middle.max()
    if not scale > 0:
        return sum((b for row in matrix.tolist() for b in row), arb(0)).upper()  # 0, or what the radii leave
    middle = (middle + middle.T) / (2 * scale)
    shift = np.linalg.eigvalsh(middle)[-1] * (1 + 1e-6)
    v = np.linalg.solve(shift * np.eye(len(middle)) - middle, np.ones(len(middle)))
    v = np.maximum(v, 1 / (2 * shift))
    image = matrix * ball_matrix(v)
    ratios = [image[i, 0] / ball(v[i]) for i in range(len(v))]
    return reduce(arb.max, (ratio.upper() for ratio in ratios))
