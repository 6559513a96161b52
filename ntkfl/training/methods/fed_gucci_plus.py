"""FedGuCci+: FedGuCci with FedLC's calibrated cross-entropy in both of its terms, and sharpness-aware steps."""

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
    """FedGuCci with a sharpness-aware step on the whole objective; alpha is the same at w and at w + e.

    The two ablations are rho = 0, only calibration, and tau = 0, only sharpness. Each of several sequential steps is
    sharpness-aware by itself. With `released` the gradient of an anchor's term is not cleared between the two passes,
    as in the authors' code: the gradient at w is added to the gradient at w + e, which acts about like twice this beta.

    Args:
        objective: cross-entropy.
        beta: weight of the connectivity loss, as FedGuCci's; default 0.1.
        anchors: the most global models, as FedGuCci's; default 1.
        alpha: how alpha is drawn, as FedGuCci's.
        step: one step on the sum or one on each term, as FedGuCci's.
        anchor_history: the models that are anchors, as in FedGuCci; default server.
        released: whether the defaults of alpha and step are those of the authors' code.
        tau: strength of the calibration; default 0.1.
        rho: length of the perturbation, a Euclidean norm; default 0.05.

    Raises:
        ValueError: an objective other than cross-entropy, a negative tau or rho, and FedGuCci's.
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
