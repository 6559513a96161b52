"""FedGuCci at infinite width is FedAvg with other steps, for squared loss and the current global model as anchor."""

from dataclasses import replace

import numpy as np

from ntkfl.problem import Setup


def equivalent_setup(setup: Setup, beta: float) -> Setup:
    """Step sizes for FedAvg. With them, FedAvg's global models are those of FedGuCci(beta) with the steps of `setup`.

    The local step is multiplied by 1 + beta/3, the server's by 1 + beta/(6 + 2 beta). The global models are exactly the
    same if the model is linear in its weights, hence at infinite width. So FedGuCci's global models at infinite width
    are those of `kernel_regime(problem, equivalent_setup(setup, beta))`. The local models differ, see `overshoot`.

    Args:
        setup: the steps of FedGuCci.
        beta: weight of the connectivity loss, at least 0.

    Raises:
        ValueError: beta is negative or not finite.
    Source: fedgucci/X4; FedGuCci, Eq (12) with one anchor.
    """
    c = overshoot(beta)
    return replace(setup, eta_local=setup.eta_local * (1 + beta / 3), eta_global=setup.eta_global * (1 + c))


def overshoot(beta: float) -> float:
    """The number c = beta / (6 + 2 beta): a converged client has -c times the residual of the global model.

    Args:
        beta: weight of the connectivity loss, at least 0.

    Raises:
        ValueError: beta is negative or not finite.
    Source: fedgucci/X4.
    """
    if not (np.isfinite(beta) and beta >= 0):
        raise ValueError(f"beta is {beta!r}; the weight of the connectivity loss must be 0 or positive, and finite")
    return beta / (6 + 2 * beta)
