"""On which data the kernel of the two-layer ReLU network is strictly positive definite."""

import numpy as np

from ntkfl.gram import degenerate_pairs


def relu_strictly_positive(x: np.ndarray) -> bool:
    """Whether lambda_min(H_inf) > 0 on the rows of x (n, d): no two parallel, and antipodal pairs independent.

    Raises:
        ValueError: an entry that is not finite, or a zero row.
    Source: FL-NTK, Section 3.2, which excludes parallel points only; see `ntkfl.gram.degenerate_pairs`.
    """
    return not any(degenerate_pairs(x))
