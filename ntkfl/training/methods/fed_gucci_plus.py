"""FedGuCci+: FedGuCci with sharpness-aware steps and with FedLC's calibrated cross-entropy in both of its terms."""

from dataclasses import replace

from ntkfl.training.method import Method, Objective
from ntkfl.training.methods import fed_gucci
from ntkfl.training.methods.fed_gucci import Alpha, History, Steps
from ntkfl.training.methods.fed_sam import SharpnessAware
from ntkfl.training.objectives import calibrated

NAME = "fedgucci+"
NOT_LINEAR = "its clients are sharpness-aware and train on the segment to anchors"


def method(
    objective: Objective,
    *,
    beta: float = 0.1,
    anchors: int = 1,
    alpha: Alpha | None = None,
    step: Steps | None = None,
    anchor_history: History = "server",
    released: bool = False,
    tau: float = 0.1,
    rho: float = 0.05,
) -> Method:
    """FedGuCci with sharpness-aware steps on the whole objective.

    A sharpness-aware step takes the gradient at w + e, with a perturbation e along the gradient at w. alpha is the same
    at both points. The two ablations are rho = 0, which leaves only the calibration, and tau = 0, which leaves only the
    sharpness-aware steps. If steps are sequential, each of them is sharpness-aware by itself. With `released`, as in
    the authors' code, the gradient of an anchor's term is not cleared between the two passes: the gradient at w is
    added to the gradient at w + e. The sum of both gradients has about the effect of twice the beta.

    Args:
        objective: cross-entropy.
        beta: weight of the connectivity loss, as in FedGuCci; default 0.1.
        anchors: the largest number of anchors, as in FedGuCci; default 1.
        alpha: how alpha is drawn, as in FedGuCci.
        step: one step on the sum or a step on each term, as in FedGuCci.
        anchor_history: the models that are anchors, as in FedGuCci; default server.
        released: whether the defaults of `alpha` and `step`, and the uncleared gradient, are those of the authors'
            code.
        tau: strength of the calibration; default 0.1.
        rho: length of the perturbation, a Euclidean norm; default 0.05.

    Raises:
        ValueError: an objective other than cross-entropy, a negative tau or rho, and as FedGuCci.
    """
    connected = fed_gucci.method(
        calibrated(objective, tau),
        beta=beta,
        anchors=anchors,
        alpha=alpha,
        step=step,
        anchor_history=anchor_history,
        released=released,
    )
    return replace(
        connected,
        name=NAME,
        gradient=SharpnessAware(rho),
        further_gradient=SharpnessAware(rho, uncleared=released),
        needs=frozenset({"classes"}),
    )
