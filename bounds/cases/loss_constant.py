"""The Lipschitz constant of a loss in the outputs (Assumption 3.2), which every bound on a barrier uses.

By convexity, B_loss <= sup over alpha of E_x (L(f_alpha) - L(alpha f_1 + (1 - alpha) f_2)); by the constant L, the
right side is at most L sup over alpha of E_x |z|_2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bounds.hypothesis import Hypothesis
from ntkfl.connectivity.losses import named_loss
from ntkfl.connectivity.network import TwoLayer
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps


def lipschitz_constant(loss: str, reach: float | None = None) -> Estimate:
    """In the l2 norm of the outputs: 1 for absolute and logistic loss, sqrt 2 for cross-entropy, 2 R for squared loss.

    Raises:
        ValueError: an unknown loss, or the squared loss without a reach.
    """
    known = named_loss(loss).lipschitz
    if known is not None:
        return Estimate(known, 0.0 if known == round(known) else EPS * known, "rounding bound")
    if reach is None:
        raise ValueError(
            f"the {loss} loss has no Lipschitz constant and no reach is given; it is 2 R where |f - y| <= R, so "
            "reach must be such an R"
        )
    return Estimate(2 * reach, 0.0, "rounding bound")


def assumed_constant(case: Any) -> Estimate:
    """The constant of the case's loss; for a loss without one, the 1 of Assumption 3.2."""
    if named_loss(case.loss).lipschitz is None and case.reach is None:
        return Estimate.exact(1.0)
    return lipschitz_constant(case.loss, case.reach)


def farthest(networks: Sequence[TwoLayer], x: np.ndarray, y: np.ndarray) -> float:
    """A bound on |f - y|_2 for the outputs of these networks, their averages, and the outputs of averaged networks.

    Each is at most sum_i max_k |v_ki| max_k |u_ki . x|, rounded up; y is (n,) or (n, C).
    """
    active = np.max([np.abs(x @ net.hidden.T) for net in networks], axis=0)
    readout = np.max([np.abs(np.atleast_2d(net.readout)) for net in networks], axis=0)
    rows = np.max([np.linalg.norm(net.hidden, axis=1) for net in networks], axis=0)
    rounding = 4 * (x.shape[1] + 8) * EPS * np.linalg.norm(x, axis=1)[:, None] * rows
    sizes = np.linalg.norm((active + rounding) @ readout.T, axis=1)
    labels = np.linalg.norm(np.asarray(y, float).reshape(len(x), -1), axis=1)
    return float((sizes + labels).max() * (1 + 8 * (len(rows) + len(readout) + 8) * EPS))


def _margin(case: Any) -> float:
    if named_loss(case.loss).lipschitz is not None:
        return 0.0
    return -1.0 if case.reach is None else case.reach - farthest(case.networks, case.x, case.y)


LIPSCHITZ_LOSS = Hypothesis(
    "lipschitz-loss",
    "the loss is convex and Lipschitz in the outputs; squared: on the outputs there are, all with |f - y| <= R",
    _margin,
)

AS_ASSUMED = Hypothesis(
    "assumption-3.2",
    "one output, and a loss that is convex and 1-Lipschitz in it",
    lambda case: 0.0 if case.networks[0].n_outputs == 1 and named_loss(case.loss).lipschitz == 1 else -1.0,
)
