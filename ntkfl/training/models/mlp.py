"""Fully connected networks: linear layers with ReLU between them, on inputs of any shape."""

from torch import nn

from ntkfl.training.model import Model, Request, from_modules
from ntkfl.training.models.layers import dense, readout


def mlp(request: Request) -> Model:
    """ReLU layers of the given widths, two of 64 by default, and a linear head."""
    return _network(request, request.sizes((64, 64), exactly=False))


def linear(request: Request) -> Model:
    """One linear layer: softmax regression for classes, least squares for real labels."""
    request.none()
    return _network(request, ())


def _network(request: Request, widths: tuple[int, ...]) -> Model:
    sizes = (request.features, *widths)

    def make() -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(nn.Flatten(), *dense(*sizes)), readout(sizes[-1], request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


MODELS = {"mlp": mlp, "linear": linear}
