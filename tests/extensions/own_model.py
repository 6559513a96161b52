"""A user's model, for the tests: a hidden layer of sines."""

import torch
from torch import nn

from ntkfl.training.model import from_modules


class Sines(nn.Module):
    """sin, entry by entry."""

    def forward(self, x):
        """sin(x)."""
        return torch.sin(x)


def sines(request):
    """One hidden layer, 8 wide by default."""
    (width,) = request.sizes((8,))

    def make():
        body = nn.Sequential(nn.Flatten(), nn.Linear(request.features, width), Sines())
        return body, nn.Linear(width, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


MODELS = {"sines": sines}
