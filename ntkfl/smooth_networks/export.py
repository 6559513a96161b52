"""Write a certificate of a smooth network to a folder that `ntkfl_check_network.py` checks without this package."""

from pathlib import Path

import numpy as np

from ntkfl.any_order import ntkfl_check
from ntkfl.any_order.export import checked_folder
from ntkfl.limit.convex_loss import SQUARES
from ntkfl.problem import checked_rows
from ntkfl.smooth_networks import ntkfl_check_network
from ntkfl.smooth_networks.certificate import NetworkCertificate
from ntkfl.smooth_networks.layers import Layer

SCRIPT = "ntkfl_check_network.py"
CHECKERS = ntkfl_check_network, ntkfl_check
BALLS = 40  # balls tried, each GROWTH times larger, since the script's bounds are a little looser
GROWTH = 1.02


def export_network(certificate: NetworkCertificate, folder: Path, x_test: np.ndarray | None = None) -> dict:
    """Write a certificate, its network, its data and a witness to a folder, and let the script in the folder check it.

    Args:
        certificate: a certified network without convolutions.
        folder: a new folder, or an empty one. It appears when it is complete.
        x_test: inputs (k, d) whose final classes are claimed too; default none.

    Returns: what the checker has proved: `step`, `visits`, `distance`, `reach`, `window_factor`, `eigenvalue` (a lower
        bound of the eigenvalues of J J' at the checkpoint), `final`.

    Raises:
        ValueError: the certificate does not hold, is of another loss than squares or of a network with convolutions, or
            the checker cannot confirm it; the message has the checker's words. OSError: the folder is not empty, or
            cannot be written.
    """
    content, arrays = _content(certificate, x_test)
    return checked_folder(folder, content, arrays, CHECKERS, lambda part: _proved(part, content))


def require_squares(loss: str) -> None:
    """Raise a ValueError for another loss: the script has neither intervals of minimisers nor samples left out."""
    if loss != SQUARES.name:
        raise ValueError(
            f"an export is for squares, and the loss is {loss}: the script that checks it has the inequalities of "
            "squares alone; export a certificate of squares, or none"
        )


def _proved(part: Path, content: dict) -> dict:
    """The script's conclusions in the first ball that is large enough; the ball is written to `content`."""
    _, net, x, y, tests = ntkfl_check_network.loaded(part)
    start = ntkfl_check_network.started(net, x, y)
    for _ in range(BALLS - 1):
        try:
            return ntkfl_check_network.proved(start, tests, content["step"], content["ball"], content["visits"])
        except ntkfl_check.Refused:
            content["ball"] *= GROWTH
    return ntkfl_check_network.proved(start, tests, content["step"], content["ball"], content["visits"])


def _content(certificate: NetworkCertificate, x_test: np.ndarray | None) -> tuple[dict, dict[str, np.ndarray]]:
    """The content of certificate.json without the checker's results, and the arrays."""
    if certificate.window is None:
        raise ValueError(f"the certificate does not hold, and nothing is exported: {certificate.why}")
    require_squares(certificate.loss.name)
    problem, layers = certificate.problem, certificate.start.curvature.layers
    for layer in layers:
        if layer.image is not None:
            raise ValueError(
                f"layer {layer.name} is a convolution; the script that checks an exported certificate has none"
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
        "step": certificate.step_limit,
        "visits": certificate.visits,
        "ball": certificate.window.ball,
        "sha256": {},
    }
    return content, arrays


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
