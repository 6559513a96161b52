"""A model such as a user writes, for tests: a hidden layer of sines."""

import torch
from torch import nn

from ntkfl.training.model import from_modules


class Sines(nn.Module):
    """The sine of each entry."""

    def forward(self, x):
        """sin(x)."""
        return torch.sin(x)


def sines(request):
    """Returns the model, which has one hidden layer of 8 units by default."""
    (width,) = request.sizes((8,))

    def make():
        body = nn.Sequential(nn.Flatten(), nn.Linear(request.features, width), Sines())
        return body, nn.Linear(width, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


MODELS = {"sines": sines}
