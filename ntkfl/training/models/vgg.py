"""VGG11 (Simonyan & Zisserman 2015) without batch norm, and AlexNet (Krizhevsky et al. 2012).

Pooling comes before the ReLU, for the reason given in `convolutional`.
"""

from functools import partial

from torch import nn

from ntkfl.training.model import Model, Request, from_modules
from ntkfl.training.models.layers import Mean, Norm, convolution, drawn_for_relu, flat_length, readout

FILTERS = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)  # channels of each convolution; 0 stands for a pooling


def vgg11(request: Request, norm: Norm, projected: bool = False) -> Model:
    """VGG11 for images of 32 x 32 or more: eight convolutions, the mean over the remaining pixels, and a linear layer.

    `norm` is "group" or "none". With `projected` a linear layer from 512 to 128 stands before the last layer.

    Source: FedGuCci's runs on Fashion-MNIST (no norm, FC(512, 10)); IMA, Table IV (GroupNorm, projected).
    """
    request.none()
    channels, *_ = request.image(32)

    def make() -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = []
        inputs = channels
        for filters in FILTERS:
            if filters:
                layers += [*convolution(inputs, filters, 3, norm, padding=1), nn.ReLU()]
                inputs = filters
            else:
                layers.insert(-1, nn.MaxPool2d(2))
        projector = [nn.Linear(512, 128)] if projected else []
        body = nn.Sequential(*drawn_for_relu(nn.Sequential(*layers)), Mean(), *projector)
        return body, readout(128 if projected else 512, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


def ima_alexnet(request: Request) -> Model:
    """AlexNet without dropout, with GroupNorm after its convolutions, and with FC(4096, 512) before the last layer.

    Source: IMA, Table IV (PACS, images of 224 x 224), which prints "ResNet18.FC(4096,512)" where AlexNet is meant.
    """
    request.none()
    channels, *_ = shape = request.image(63)

    def convolutions() -> nn.Sequential:
        return nn.Sequential(
            *(*convolution(channels, 64, 11, "group", 4, 2), nn.MaxPool2d(3, 2), nn.ReLU()),
            *(*convolution(64, 192, 5, "group", padding=2), nn.MaxPool2d(3, 2), nn.ReLU()),
            *(*convolution(192, 384, 3, "group", padding=1), nn.ReLU()),
            *(*convolution(384, 256, 3, "group", padding=1), nn.ReLU()),
            *(*convolution(256, 256, 3, "group", padding=1), nn.MaxPool2d(3, 2), nn.ReLU(), nn.Flatten()),
        )

    flat = flat_length(convolutions, shape)

    def make() -> tuple[nn.Module, nn.Module]:
        wide = (nn.Linear(flat, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU())
        return nn.Sequential(*convolutions(), *wide, nn.Linear(4096, 512)), readout(512, request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


MODELS = {
    "vgg11": partial(vgg11, norm="none"),
    "vgg11-gn": partial(vgg11, norm="group"),
    "ima-vgg11": partial(vgg11, norm="group", projected=True),
    "ima-alexnet": ima_alexnet,
}
