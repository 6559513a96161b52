"""Networks as lists of layers with activations, from a torch module or a network of `ntkfl.networks.wide`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import erf, expit, ndtr

from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import finite_array

if TYPE_CHECKING:
    from torch import nn

    from ntkfl.training.models.wide_networks import WideNetwork

# assumed bound of the errors of numpy's and scipy's functions, relative to 1 + |z|; a hundred times the error that a
# test measures
LIBRARY = 2.0**-44


def _density(z: np.ndarray) -> np.ndarray:
    z = np.minimum(np.abs(z), 40.0)  # beyond this |z| the Gaussian density is 0 in float64, and z * z may overflow
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Smooth:
    """A function phi of one variable, twice continuously differentiable except perhaps at one kink."""

    name: str  # name in networks
    function: Callable[[np.ndarray], np.ndarray]  # phi
    derivative: Callable[[np.ndarray], np.ndarray]  # phi'
    slope: float  # upper bound of |phi'|
    bend: float  # upper bound of |phi''|
    kink: float | None = None  # where phi is not smooth
    jumps: bool = False  # whether phi jumps at the kink

    def values(self, z: Estimate) -> Estimate:
        """phi(z)."""
        if not self.bend:
            return Estimate(self.function(z.value), z.error, z.method, z.rigour)
        return self._known(self.function(z.value), self.slope * z.error, z)

    def slopes(self, z: Estimate) -> Estimate:
        """phi'(z); if phi has a kink, this is the derivative on the side of the kink where z is. `Pass.clear` has the
        distance from the kink.
        """
        if not self.bend:
            return Estimate.exact(self.derivative(z.value))
        return self._known(self.derivative(z.value), self.bend * z.error, z)

    def _known(self, value: np.ndarray, carried: np.ndarray, z: Estimate) -> Estimate:
        error = (carried + LIBRARY * (1 + np.abs(z.value))) * (1 + 1e-12)
        return Estimate(value, error, "rounding bound", max(z.rigour, Rigour.ENCLOSED))


IDENTITY = Smooth("identity", lambda z: z, np.ones_like, 1.0, 0.0)
SMOOTH = {
    of.name: of
    for of in (
        Smooth("erf", erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z), 1.12838, 0.96789),
        Smooth("gelu", lambda z: z * ndtr(z), lambda z: ndtr(z) + z * _density(z), 1.12891, 0.79789),
        Smooth("tanh", np.tanh, lambda z: (1 - np.tanh(z)) * (1 + np.tanh(z)), 1.0, 0.76981),
        Smooth("softplus", lambda z: np.logaddexp(0, z), expit, 1.0, 0.25),
        Smooth("sin", np.sin, np.cos, 1.0, 1.0),
        Smooth("sigmoid", expit, lambda z: expit(z) * expit(-z), 0.25, 0.09623),
        Smooth("silu", lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z)), 1.09985, 0.5),
        IDENTITY,
    )
}
RELU = Smooth("relu", lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float), 1.0, 0.0, kink=0.0)
ACTIVATIONS = SMOOTH | {RELU.name: RELU}


def torch_softplus(threshold: float) -> Smooth:
    """The softplus of torch, which is z itself above the threshold, so that it jumps down at the threshold."""
    smooth = SMOOTH["softplus"]
    return replace(
        smooth,
        function=lambda z: np.where(z > threshold, z, smooth.function(z)),
        derivative=lambda z: np.where(z > threshold, 1.0, smooth.derivative(z)),
        kink=threshold,
        jumps=True,
    )


@dataclass(frozen=True)
class Image:
    """The geometry of a convolution, which acts on squares of pixels, with zeros beyond the border."""

    # height and width of the input image; side of the square, an odd number
    height: int
    width: int
    side: int
    stride: int = 1  # the convolution acts at the pixels whose row and column numbers are multiples of `stride`

    @property
    def pixels(self) -> int:
        """Number of input pixels."""
        return self.height * self.width

    @property
    def output_shape(self) -> tuple[int, int]:
        """Height and width of the output."""
        return -(-self.height // self.stride), -(-self.width // self.stride)

    @property
    def places(self) -> int:
        """Number of pixels at which the convolution acts."""
        return math.prod(self.output_shape)

    @property
    def overlap(self) -> int:
        """The root of an upper bound of the number of squares of the image that contain a pixel."""
        return -(-self.side // self.stride)


@dataclass(frozen=True, eq=False)
class Layer:
    """The layer h -> phi(scale W h + bias_scale b).

    For a convolution, h has the pixels of an image one after the other, each with its channels. The columns of W are
    ordered by channel, and for each channel by the place in the convolution's square.

    Raises:
        ValueError: an entry that is not finite; shapes that do not fit.
    """

    name: str  # name in messages
    weight: Float[np.ndarray, "m k"]  # W
    bias: Float[np.ndarray, " m"] | None  # b, or None
    # scale and bias_scale: numbers that are not trained
    scale: float
    bias_scale: float
    activation: Smooth  # phi
    trained: bool  # whether W and b are trained
    # residual connections: how many copies of h are stored before the layer, and how many of the stored copies (the
    # last one first) are added after it
    opens: int = 0
    closes: int = 0
    image: Image | None = None  # image of a convolution's input
    # whether the mean over pixels is taken after the layer and after the residual blocks that end with it
    pools: bool = False
    stands_in: bool = False  # whether the layer stands for an activation alone, with W = I

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", finite_array(f"the weight of layer {self.name}", self.weight))
        if self.weight.ndim != 2:
            raise ValueError(f"the weight of layer {self.name} has shape {self.weight.shape}; it must be a matrix")
        if self.bias is None:
            return
        object.__setattr__(self, "bias", finite_array(f"the bias of layer {self.name}", self.bias))
        if self.bias.shape != (len(self.weight),):
            raise ValueError(
                f"the bias of layer {self.name} has shape {self.bias.shape}; it must be ({len(self.weight)},), a "
                "number for each row of the weight"
            )

    @property
    def gain(self) -> float:
        """An upper bound of the factor by which scale W h multiplies changes of W or of h, also for a convolution."""
        return self.scale * (self.image.overlap if self.image else 1)

    @property
    def n_inputs(self) -> int:
        """Number of the layer's inputs."""
        columns = self.weight.shape[1]
        return columns * self.image.pixels // self.image.side**2 if self.image else columns

    @property
    def n_outputs(self) -> int:
        """Number of the layer's outputs, before any mean over pixels."""
        return len(self.weight) * (self.image.places if self.image else 1)

    @property
    def passes_on(self) -> int:
        """Number of inputs of the next layer."""
        return len(self.weight) if self.pools else self.n_outputs

    @property
    def shift(self) -> float:
        """The factor of a trained bias in the argument of phi; 0 if no bias is trained."""
        return 0.0 if self.bias is None else self.bias_scale


def of_wide(network: WideNetwork, params: Mapping[str, Any] | None, features: int | None) -> tuple[Layer, ...]:
    """The layers of a network of `ntkfl.networks.wide` with these parameters."""
    from ntkfl.training.models.wide_networks import SIDE

    if params is None:
        raise ValueError(f"params are missing; {network.name} has none: network.model(...).initial(0) draws some")
    phi = ACTIVATIONS[network.activation]
    given = dict(params)
    last = np.atleast_2d(_taken(given, "readout.weight"))
    inside = network.inner_scales(last.shape[1])
    layers: list[Layer] = []
    for number in range(1, network.depth):
        key = f"layer{number}"
        channels = len(layers[-1].weight) if layers else None
        square = (SIDE, SIDE) if network.kind == "conv" else ()
        weight = _taken(given, f"{key}.weight", (None, channels, *square))
        bias = _taken(given, f"{key}.bias", (len(weight),)) if network.bias else None
        scales = inside[f"{key}.weight"], inside.get(f"{key}.bias", 0.0)
        image = None
        if network.kind == "conv":
            image = layers[-1].image if layers else _square(weight, features)
            weight = weight.reshape(len(weight), -1)
        pools = image is not None and number == network.depth - 1
        layers.append(Layer(key, weight, bias, *scales, phi, True, image=image, pools=pools))
    layers.append(Layer("readout", last, None, inside["readout.weight"], 0.0, IDENTITY, True))
    _require_all_taken(given)
    return tuple(layers)


def _square(weight: np.ndarray, features: int | None) -> Image:
    """The square image of a convolution's inputs."""
    channels, side = weight.shape[1], weight.shape[2]
    edge = math.isqrt((features or 0) // channels)
    if channels * edge**2 != features:
        raise ValueError(f"the data have {features} features; a convolution takes {channels} square image a sample")
    return Image(edge, edge, side)


def of_module(module: nn.Module, params: Mapping[str, Any] | None, features: int | None) -> tuple[Layer, ...]:
    """The layers of a torch Sequential, with these parameters or the module's own."""
    from torch import nn

    if any(getattr(nn.modules.module, f"_global_{kind}_hooks") for kind in HOOKS):
        raise ValueError("torch has hooks on all modules, which may change what the network computes; remove them")
    own = dict(module.named_parameters())
    given: dict[str, Any] = dict(own if params is None else params)
    layers: list[Layer] = []
    # for parameters seen so far: first and last address in memory, and their layer
    met: list[tuple[int, int, str]] = []
    opened = 0  # residual blocks that begin with the next layer
    shape: tuple[int, ...] | None = None  # channels, height and width if h is an image
    begun: list[tuple[int, ...] | None] = []  # the shapes at which the open residual blocks began
    for where, part in _parts(module, ""):
        kind = type(part)
        if kind is nn.Identity:
            continue
        if kind is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
            shape = None
            continue
        if kind is nn.Unflatten and not layers and part.dim == 1 and len(part.unflattened_size) == 3:
            shape = tuple(part.unflattened_size)
            continue
        if part is OPENS:
            opened += 1
            begun.append(shape)
            continue
        if part is CLOSES:
            if opened or layers[-1].pools or begun.pop() != shape:
                what = "without a Linear layer" if opened else "that changes the shape of images"
                raise ValueError(f"layer {where} is a Residual {what}")
            layers[-1] = replace(layers[-1], closes=layers[-1].closes + 1)
            continue
        if kind is nn.AdaptiveAvgPool2d and part.output_size in (1, (1, 1)) and shape and layers and not opened:
            layers[-1], shape = replace(layers[-1], pools=True), (len(layers[-1].weight), 1, 1)
            continue
        image = _image(part, shape, where)
        if image is None and kind is nn.Linear and shape:
            raise ValueError(f"layer {where} must follow a Flatten, as images come to it")
        if image or kind is nn.Linear:
            for value in part.parameters():
                start, end = _span(value)
                for begins, ends, other in met:
                    if start < ends and begins < end:
                        raise ValueError(f"layer {where} has the weights of layer {other}; they must be its own")
                met.append((start, end, where))
                if value._backward_hooks or value._post_accumulate_grad_hooks:
                    raise ValueError(f"a parameter of layer {where} has hooks, which may change its gradient")
            trained = {value.requires_grad for value in part.parameters()}
            if len(trained) > 1:
                raise ValueError(f"layer {where} trains its weight or its bias alone; it must be both or neither")
            bias = None if part.bias is None else _taken(given, f"{where}.bias", part.bias.shape)
            weight = _taken(given, f"{where}.weight", part.weight.shape)
            if image:
                weight = weight.reshape(len(weight), -1)
            elif (reordered := _pixels_first(weight, layers)) is not weight:
                if begun:
                    raise ValueError(
                        f"layer {where} takes a flattened image within a Residual, whose sum would be in two orders of "
                        "pixels; end the Residual before the Flatten, and begin the next one after this Linear"
                    )
                weight = reordered
            layers.append(Layer(where, weight, bias, 1.0, 1.0, IDENTITY, trained.pop(), opened, image=image))
            opened, shape = 0, (len(weight), *image.output_shape) if image else None
            continue
        phi = _activation(part)
        if phi is None:
            raise ValueError(f"layer {where} is {_shown(part)}; {_why_not(part)}{COVERED}")
        if getattr(part, "inplace", False) and (opened or not layers):
            lost = "what the Residual adds" if opened else "the data"
            raise ValueError(f"layer {where} is {_shown(part)}, which overwrites {lost}; take inplace=False")
        if opened or not layers or layers[-1].activation is not IDENTITY or layers[-1].closes or layers[-1].pools:
            layers.append(replace(_standing_in(where, layers, shape, features), opens=opened))
            opened = 0
        layers[-1] = replace(layers[-1], activation=phi)
    if all(layer.stands_in for layer in layers):
        raise ValueError(f"the network {type(module).__name__} has no Linear layer")
    _require_all_taken(given)
    return tuple(layers)


def _span(value: Any) -> tuple[int, int]:
    """The first and last address of a tensor in memory."""
    last = sum((length - 1) * stride for length, stride in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


COVERED = (
    "the certificate covers Linear, ntkfl.training.Residual, Conv2d with an odd kernel and padding of half of it, "
    "AdaptiveAvgPool2d(1), and Tanh, GELU, Softplus, Sigmoid, SiLU and ReLU as torch has them by default"
)


def _shown(part: nn.Module) -> str:
    """The text of a module on one line; if it consists of other modules, only its name."""
    shown = repr(part)
    return type(part).__name__ if "\n" in shown else shown


def _why_not(part: nn.Module) -> str:
    """Why a layer of this kind is not covered, as the beginning of a sentence."""
    from torch import nn

    if isinstance(part, nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d | nn.AdaptiveMaxPool2d):
        return "a maximum has a kink wherever two of its pixels are equal; "
    if isinstance(part, nn.modules.batchnorm._NormBase):
        return "what it gives for one sample depends on the others of its batch; "
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return "what it gives is random, or it does nothing: replace it by Identity; "
    if isinstance(part, nn.ELU | nn.CELU | nn.SELU):
        return "its second derivative jumps at 0: SiLU and Softplus are smooth functions like it; "
    if isinstance(part, nn.MultiheadAttention):
        return "it multiplies its inputs with each other; "
    return ""


def _standing_in(where: str, layers: list[Layer], shape: tuple[int, ...] | None, features: int | None) -> Layer:
    """A layer with W = I, for an activation that does not directly follow a Linear layer."""
    before = layers[-1] if layers else None
    size: int | None
    image: Image | None = None
    if shape is not None:
        size, image = shape[0], Image(shape[1], shape[2], 1)
    # the image, flattened in the order of its pixels
    elif before is not None and before.image is not None and not before.pools:
        size, image = len(before.weight), Image(*before.image.output_shape, 1)
    else:
        size = features if before is None else before.passes_on
    if size is None:
        raise ValueError(f"layer {where} is the first one, and how many features it takes is not known")
    return Layer(where, np.eye(size), None, 1.0, 0.0, IDENTITY, False, image=image, stands_in=True)


HOOKS = "forward", "forward_pre", "backward", "backward_pre"
OPENS, CLOSES = object(), object()  # marks of the beginning and the end of a residual block


def _parts(module: nn.Module, path: str) -> Iterator[tuple[str, Any]]:
    """The innermost modules with their names; the marks OPENS and CLOSES stand before and after the modules of a
    residual block.
    """
    from torch import nn

    from ntkfl.training.models.layers import Residual

    hooks = [getattr(module, f"_{kind}_hooks") for kind in HOOKS]
    if any(hooks) or "forward" in vars(module):
        what = "hooks" if any(hooks) else "a forward of its own"
        raise ValueError(
            f"layer {path or 'network'} ({type(module).__name__}) has {what}, which may change what it computes"
        )
    if type(module) not in (nn.Sequential, Residual):
        yield path or "network", module
        return
    block = type(module) is Residual
    if block:
        yield path or "network", OPENS
    for name, part in module._modules.items():  # named_children skips a module that occurs twice
        if part is not None:
            yield from _parts(part, f"{path}.{name}" if path else name)
    if block:
        yield path or "network", CLOSES


def _image(part: Any, shape: tuple[int, ...] | None, where: str) -> Image | None:
    """The `Image` of a convolution on squares of pixels; None for another module."""
    from torch import nn

    if type(part) is not nn.Conv2d:
        return None
    side = part.kernel_size[0]
    same = part.padding in ("same", (side // 2, side // 2)) and part.padding_mode == "zeros"
    if (
        part.kernel_size != (side, side)
        or side % 2 == 0
        or not same
        or part.stride != (part.stride[0],) * 2
        or {*part.dilation} != {1}
        or part.groups > 1
    ):
        return None
    if shape is None:
        raise ValueError(f"layer {where} takes images: put Unflatten(1, (channels, height, width)) first")
    if shape[0] != part.in_channels:
        raise ValueError(f"layer {where} takes {part.in_channels} channels; it gets {shape[0]}")
    return Image(shape[1], shape[2], side, part.stride[0])


def _pixels_first(weight: np.ndarray, layers: list[Layer]) -> np.ndarray:
    """The weight reordered for images that are stored pixel after pixel, since torch stores images channel after
    channel.
    """
    before = layers[-1] if layers else None
    if before is None or before.image is None or before.pools or weight.shape[1:] != (before.n_outputs,):
        return weight
    if 1 in (len(before.weight), before.image.places):  # with one channel or one pixel both orders are the same
        return weight
    return weight.reshape(len(weight), -1, before.image.places).transpose(0, 2, 1).reshape(len(weight), -1)


def _activation(part: nn.Module) -> Smooth | None:
    """The activation of a torch module, or None."""
    from torch import nn

    if type(part) is nn.GELU:
        return SMOOTH["gelu"] if part.approximate == "none" else None
    if type(part) is nn.Softplus:
        return torch_softplus(float(part.threshold)) if part.beta == 1 else None
    return {
        nn.ReLU: RELU,
        nn.Tanh: SMOOTH["tanh"],
        nn.Sigmoid: SMOOTH["sigmoid"],
        nn.SiLU: SMOOTH["silu"],
    }.get(type(part))


def _taken(params: dict[str, Any], name: str, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """The parameter of this name in float64, which is removed from `params`.

    None in the required shape allows any length.
    """
    if name not in params:
        raise ValueError(f"params have no {name!r}; found: {', '.join(params) or 'none'}")
    value = finite_array(f"the parameter {name!r}", params.pop(name))
    if shape is not None and (
        value.ndim != len(shape) or any(b not in (None, a) for a, b in zip(value.shape, shape, strict=True))
    ):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(
            f"the parameter {name!r} has shape {value.shape}; the network's is ({wanted}{',' * (len(shape) == 1)})"
        )
    return value


def _require_all_taken(params: dict[str, Any]) -> None:
    if params:
        raise ValueError(f"params have {', '.join(params)}, which the network has not")
