"""The small convolutional networks of FedGuCci (SimpleCNN) and of IMA (Table IV).

In the papers the ReLU comes before the pooling; here the pooling comes first. Outputs and gradients are the same to the
bit, and the ReLU is applied to a quarter of the numbers.
"""

from collections.abc import Callable

from torch import nn

from ntkfl.training.model import Model, Request, from_modules
from ntkfl.training.models.layers import convolution, dense, flat_length, readout


def simple_cnn(request: Request) -> Model:
    """SimpleCNN, which has 122,570 parameters on images of 3 x 32 x 32 in ten classes.

    Source: FedGuCci, appendix A.3. The layer that is printed there as "(6444, 64)" has 64 * 4 * 4 = 1024 inputs.
    """

    def convolutions(channels: int) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Conv2d(channels, 32, 3), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()),
        )

    return _network(request, 18, convolutions, (64,), last_relu=True)


def ima_cnn(request: Request) -> Model:
    """IMA's CNN, with 32 filters for grey images and 64 filters for colour images.

    Source: IMA, Table IV. The table prints 1 input channel for the second block for FMNIST; the right number is 32. As
    in the table, no ReLU stands between the last two layers. The network has 274,026 parameters on grey images of 28 x
    28, and 772,682 on colour images of 32 x 32.
    """

    def convolutions(channels: int) -> nn.Sequential:
        filters = 32 if channels == 1 else 64
        return nn.Sequential(
            *(nn.Conv2d(channels, filters, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(filters, filters, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        )

    return _network(request, 16, convolutions, (384, 128))


def ima_domain_cnn(request: Request) -> Model:
    """IMA's CNN with GroupNorm for Digit Five.

    Source: IMA, Table IV. The table prints a third pooling, after which 28 x 28 images would leave 1152 features. But
        the FC(6272, 2048) of the table needs 128 x 7 x 7 features. Two poolings leave this number, so this network has
        two poolings.
    """

    def convolutions(channels: int) -> nn.Sequential:
        return nn.Sequential(
            *(*_normed(channels, 64), nn.MaxPool2d(2), nn.ReLU()),
            *(*_normed(64, 64), nn.MaxPool2d(2), nn.ReLU()),
            *(*_normed(64, 128), nn.ReLU(), nn.Flatten()),
        )

    return _network(request, 4, convolutions, (2048, 128))


def _network(
    request: Request,
    least: int,
    convolutions: Callable[[int], nn.Module],
    widths: tuple[int, ...],
    last_relu: bool = False,
) -> Model:
    """A network of these convolutions, linear layers of these widths with ReLU between them, and the last layer.

    Height and width of an image must be at least `least`. `last_relu` says whether a ReLU stands before the last layer.
    """
    request.none()
    channels, *_ = request.image(least)
    flat = flat_length(lambda: convolutions(channels), request.shape)

    def make() -> tuple[nn.Module, nn.Module]:
        drawn, linear = convolutions(channels), dense(flat, *widths)
        body = nn.Sequential(*drawn.children(), *(linear if last_relu else linear[:-1]))
        return body, readout(widths[-1], request.outputs)

    return from_modules(request.spec, make, request.dtype, request.device)


def _normed(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return convolution(inputs, outputs, 5, "group", padding=2)


MODELS = {"simple-cnn": simple_cnn, "ima-cnn": ima_cnn, "ima-domain-cnn": ima_domain_cnn}
