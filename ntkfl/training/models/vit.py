"""A small vision transformer (Dosovitskiy et al. 2021), without dropout."""

import torch
from torch import Tensor, nn

from ntkfl.training.model import Model, Request, from_modules
from ntkfl.training.models.layers import attention, readout


class Layer(nn.Module):
    """A layer of the transformer: x + attention(norm(x)), then x + mlp(norm(x)). The mlp is four times as wide."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.joint(self.before_attention(x)).chunk(3, -1)
        x = x + self.out(attention(query, key, value, self.heads))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """A transformer on patches as tokens, with a class token in front and learned positions.

    The features are the states of the class token.
    """

    def __init__(self, channels: int, patches: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(width))
        self.positions = nn.Parameter(0.02 * torch.randn(1 + patches, width))
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(-2).transpose(-2, -1)
        first = self.token.expand(len(x), 1, -1)
        return self.norm(self.layers(torch.cat([first, tokens], 1) + self.positions))[:, 0]


def vit(request: Request) -> Model:
    """The model "vit:PATCH-WIDTH-DEPTH-HEADS", a transformer on patches; the default sizes are 4-64-4-4.

    Raises:
        ValueError: patches that do not tile the image, heads that do not divide the width.
    """
    patch, width, depth, heads = request.sizes((4, 64, 4, 4))
    channels, height, breadth = request.image(patch)
    if height % patch or breadth % patch:
        raise ValueError(
            f"the model {request.spec!r} has patches of {patch} x {patch} pixels; images of {height} x {breadth} are "
            "not tiled by them: PATCH must divide both sides"
        )
    if width % heads:
        raise ValueError(f"the model {request.spec!r} has width {width} and {heads} heads; HEADS must divide WIDTH")
    patches = (height // patch) * (breadth // patch)

    def make() -> tuple[nn.Module, nn.Module]:
        return Transformer(channels, patches, patch, width, depth, heads), readout(width, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


MODELS = {"vit": vit}
