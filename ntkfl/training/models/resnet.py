"""Residual networks (He et al. 2016) with GroupNorm or without a norm, for images of 32 x 32 and 64 x 64."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ntkfl.training.model import Model, Request, from_modules
from ntkfl.training.models.layers import Mean, Norm, convolution, drawn_for_relu, readout


class Subsample(nn.Module):
    """He et al.'s shortcut without parameters (option A). The shortcut takes every second pixel and adds channels of 0.

    Half of the new channels come before the old channels, and half after them.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        missing = outputs - inputs
        self.below, self.above = missing // 2, missing - missing // 2

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x[..., ::2, ::2], (0, 0, 0, 0, self.below, self.above))


class Block(nn.Module):
    """A residual block of two 3 x 3 convolutions: relu(shortcut(x) + convolutions(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            *convolution(inputs, outputs, 3, norm, stride, 1),
            nn.ReLU(),
            *convolution(outputs, outputs, 3, norm, padding=1),
        )
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.branch(x))

    @torch.no_grad()
    def shrink(self, factor: float) -> None:
        """Multiply the weights of the block's last convolution by `factor`; the block must have no norm."""
        last = self.branch[-1]
        assert isinstance(last, nn.Conv2d)
        last.weight.mul_(factor)


def residual(
    request: Request,
    widths: tuple[int, ...],
    blocks: int,
    norm: Norm,
    projection: bool,
    projected: bool = False,
) -> Model:
    """A residual network: a 3 x 3 convolution, stages of blocks, the mean over the pixels, and the last layer.

    Each stage after the first halves the image and changes the width. Without a norm the convolutions have biases, and
    the weights of each block's last convolution are divided by the root of the number of blocks. Otherwise the signal's
    variance would double in every block.

    With `projection` the shortcut between stages is a 1 x 1 convolution (option B of He et al.); otherwise it has no
    parameters (option A). With `projected` a linear layer from widths[-1] to 128 stands before the last layer.

    Source: He et al. 2016, section 4.2 (6n + 2 layers); FedGuCci, appendix A.3 (no norm); IMA, Table IV (projected).
    """
    request.none()
    channels, *_ = request.image(4)

    def make() -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = [*convolution(channels, widths[0], 3, norm, padding=1), nn.ReLU()]
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                shortcut: nn.Module = nn.Identity()
                if stride == 2 and projection:
                    shortcut = nn.Sequential(*convolution(inputs, width, 1, norm, stride))
                elif stride == 2:
                    shortcut = Subsample(inputs, width)
                layers.append(Block(inputs, width, stride, norm, shortcut))
                inputs = width
        trunk = drawn_for_relu(nn.Sequential(*layers))
        if norm == "none":
            for part in trunk.modules():
                if isinstance(part, Block):
                    part.shrink((len(widths) * blocks) ** -0.5)
        projector = [nn.Linear(inputs, 128)] if projected else []
        return nn.Sequential(*trunk, Mean(), *projector), readout(128 if projected else inputs, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


THIN = partial(residual, widths=(16, 32, 64), projection=False)
WIDE = partial(residual, widths=(64, 128, 256, 512), blocks=2, projection=True)
MODELS = {
    "resnet20": partial(THIN, blocks=3, norm="none"),
    "resnet20-gn": partial(THIN, blocks=3, norm="group"),
    "resnet56": partial(THIN, blocks=9, norm="none"),
    "resnet56-gn": partial(THIN, blocks=9, norm="group"),
    "resnet18": partial(WIDE, norm="none"),
    "resnet18-gn": partial(WIDE, norm="group"),
    "ima-resnet18": partial(WIDE, norm="group", projected=True),
}
