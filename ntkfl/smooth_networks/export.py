"""Write a certificate of a smooth network to a folder that `ntkfl_check_network.py` checks without this package."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from ntkfl.any_order import ntkfl_check
from ntkfl.any_order.certificate import minimised
from ntkfl.any_order.export import checked_folder
from ntkfl.problem import checked_rows
from ntkfl.smooth_networks import ntkfl_check_network
from ntkfl.smooth_networks.certificate import NetworkCertificate
from ntkfl.smooth_networks.layers import Layer

SCRIPT = "ntkfl_check_network.py"
CHECKERS = ntkfl_check_network, ntkfl_check
# number of balls to try, each GROWTH times as large as the one before, since the script's bounds are less tight than
# those of the package
BALLS = 40
GROWTH = 1.02


def export_network(certificate: NetworkCertificate, folder: Path, x_test: np.ndarray | None = None) -> dict:
    """Write a certificate, its network, its data and a witness to a folder, and let the script in the folder check the
    certificate.

    Args:
        certificate: a certified network without convolutions.
        folder: a new folder, or an empty one. It is created when its content is complete.
        x_test: inputs (k, d) whose final classes are part of the claim; default none.

    Returns: the conclusions that the checker has proved: `loss`, `size` (the number in the loss's name, or 0), `kept`,
        `step`, `visits`, `samples`, `distance`, `reach`, `window_factor`, `eigenvalue` (a lower bound of the
        eigenvalues of J J' at the checkpoint, where J has the gradients at the kept samples) and `final`.

    Raises:
        ValueError: the certificate does not hold; its loss has no name in `--loss`; its network has convolutions; or
            the checker cannot confirm it (the message then has the checker's words). OSError: the folder is not empty,
            or cannot be written.
    """
    content, arrays = _content(certificate, x_test)
    return checked_folder(folder, content, arrays, CHECKERS, lambda part: _proved(part, content))


def _proved(part: Path, content: dict) -> dict:
    """The conclusions of the script in the first ball that is large enough; this ball is written to `content`."""
    _, net, x, y, tests = ntkfl_check_network.loaded(part)
    start = ntkfl_check_network.started(net, x, y, content)
    for _ in range(BALLS - 1):
        try:
            ntkfl_check_network.window(start, *(Fraction(content[key]) for key in ntkfl_check_network.BALL))
            break
        except ntkfl_check.Refused:
            content["ball"] *= GROWTH
    return ntkfl_check_network.proved(start, x, y, tests, content)


def _content(certificate: NetworkCertificate, x_test: np.ndarray | None) -> tuple[dict, dict[str, np.ndarray]]:
    """The content of certificate.json without the checker's results, and the arrays."""
    if certificate.window is None:
        raise ValueError(f"the certificate does not hold, and nothing is exported: {certificate.why}")
    loss, size = _named(certificate)
    problem, layers = certificate.problem, certificate.start.curvature.layers
    for layer in layers:
        if layer.image is not None:
            raise ValueError(
                f"layer {layer.name} is a convolution; the script that checks an exported certificate cannot check it"
            )
    arrays = {
        "x": problem.x,
        "y": problem.y.reshape(problem.n, -1),
        "x_test": np.zeros((0, problem.d)) if x_test is None else checked_rows("x_test", x_test),
    }
    for k, layer in enumerate(layers):
        arrays[f"weight{k}"] = layer.weight
        if layer.bias is not None:
            arrays[f"bias{k}"] = layer.bias
    content = {
        "schema": ntkfl_check_network.SCHEMA,
        "layers": [_described(layer) for layer in layers],
        "loss": loss,
        "size": size,
        "kept": certificate.kept.tolist(),
        "step": certificate.step_limit,
        "visits": certificate.visits,
        "ball": certificate.window.ball,
        "sha256": {},
    }
    return content, arrays


def _named(certificate: NetworkCertificate) -> tuple[str, float]:
    """The loss's name and number for the checker; raises a ValueError if the loss was defined by the caller."""
    loss, problem = certificate.loss, certificate.problem
    kind, _, size = loss.name.partition(":")
    try:
        known, ends = minimised(loss.name, problem)
        own = known.halved != loss.halved or not np.array_equal(ends, minimised(loss, problem)[1])
    except ValueError:
        own = True
    if own:
        raise ValueError(
            f"the loss is one of your own, named {loss.name!r}; the script that checks an exported certificate knows "
            "squares, hinge, huber:DELTA and band:WIDTH"
        )
    return kind, float(size or 0)


def _described(layer: Layer) -> dict:
    return {
        "name": layer.name,
        "columns": layer.weight.shape[1],
        "bias": layer.bias is not None,
        "scale": float(layer.scale),
        "bias_scale": float(layer.bias_scale),
        "phi": layer.activation.name,
        "kink": layer.activation.kink,
        "trained": layer.trained,
        "opens": layer.opens,
        "closes": layer.closes,
    }
