"""FedLC (Zhang et al. 2022): cross-entropy on logits calibrated by the client's number of samples of each class."""

from ntkfl.training.method import Method, Objective
from ntkfl.training.objectives import calibrated

NAME = "fedlc"
NOT_LINEAR = "its loss is a cross-entropy of shifted outputs"


def method(objective: Objective, *, tau: float = 0.1) -> Method:
    """FedAvg on the cross-entropy of the logits f_c - tau n_c^(-1/4), where the client has n_c samples of class c.

    Classes of which the client has no sample are left out of the softmax. With tau = 0 the loss is the plain
    cross-entropy over all classes, as in FedAvg.

    Args:
        objective: the loss that clients descend.
        tau: strength of the calibration, at least 0, default .1.

    Raises:
        ValueError: an objective other than cross-entropy, or a negative tau.
    """
    return Method(NAME, calibrated(objective, tau), needs=frozenset({"classes"}))
