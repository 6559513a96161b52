"""Networks of any depth whose kernel has a limit as the width grows: fully connected or convolutional.

Each network has two parametrisations, the NTK parametrisation and the standard parametrisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ntkfl import gram
from ntkfl.estimate import Estimate
from ntkfl.gram.deep import DUALS, checked_activation, checked_depth
from ntkfl.messages import require_number
from ntkfl.problem import checked_inputs
from ntkfl.training.model import Model, Request, require_parameters
from ntkfl.training.tree import Params

PHI: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "erf": torch.erf, "gelu": functional.gelu}
WIDTH, SIDE = 512, 3  # default width of a network; side of a convolution's window in pixels
# error of convolutional kernels, relative to the largest entry; for GELU the error is multiplied by the largest row
# norm of the inputs if that norm is above 1
CONVOLUTIONAL = 1e-12
READOUT = "readout.weight"


@dataclass(frozen=True)
class WideNetwork:
    """A network of any width whose neural tangent kernel has a limit.

    f(x) = w . phi(h_(L-1)) / sqrt m with h_1 = W_1 x and h_(l+1) = sqrt(c/m) W_(l+1) phi(h_l). All weights are drawn
    from the standard Gaussian and trained; c = 2 for ReLU and 1 for other activations. In convolutional networks each
    W_l is a convolution with a window of 3 x 3 pixels, divided by 3; pixels beyond the border are 0. Before the readout
    w the mean over pixels is taken. If `bias` is b, each h_l also has a summand: b times a Gaussian vector, which is
    trained too.

    Raises:
        ValueError: an unknown kind or activation (for an activation, the message has the nearest known one), a depth
            below 2, a negative bias.
    """

    kind: Literal["fc", "conv"] = "fc"  # "fc" or "conv"
    depth: int = 3  # number of layers of weights, L >= 2
    activation: str = "relu"  # phi
    bias: float = 0.0  # b; with 0 there are no biases
    # whether the parametrisation is the standard one, in which weights contain their scales; see `step_factors`
    standard: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("fc", "conv"):
            raise ValueError(f"the kind of the network is {self.kind!r}; it must be 'fc' or 'conv'")
        checked_depth(self.depth)
        checked_activation(self.activation)
        require_number("bias", self.bias, "be 0 or more, and finite")

    @classmethod
    def named(cls, spec: str) -> tuple[WideNetwork, int | None]:
        """The network of "KIND:DEPTH:ACTIVATION", and its width if ":WIDTH" follows, else None.

        The parts ":bias=B" and ":standard" may follow too.

        Raises:
            ValueError: a part is not understood; and as the class.
        """
        kind, *parts = spec.split(":")
        form = f"{kind if kind in ('fc', 'conv') else 'fc'}:3:relu:512, with :bias=0.1 or :standard after it or not"
        if len(parts) < 2 or not parts[0].isdigit():
            raise ValueError(f"the network {spec!r} is not understood; write it like {form}")
        chosen, width = cls(kind, int(parts[0]), parts[1]), None  # type: ignore[arg-type]
        for part in parts[2:]:
            name, _, value = part.partition("=")
            if part.isdigit() and int(part) and width is None:
                width = int(part)
            elif part == "standard":
                chosen = replace(chosen, standard=True)
            elif name == "bias" and _number(value) is not None:
                chosen = replace(chosen, bias=float(value))
            else:
                raise ValueError(f"the network {spec!r} has the part {part!r}; write it like {form}")
        return chosen, width

    @property
    def name(self) -> str:
        """The name that `named` understands, without a width."""
        bias = f":bias={self.bias:g}" if self.bias else ""
        return f"{self.kind}:{self.depth}:{self.activation}{bias}{':standard' if self.standard else ''}"

    def kernel(self, x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "p d"] | None = None) -> np.ndarray:
        """The limit of J(x) J(z)^T as the width grows, for one output, (n, p).

        Raises:
            ValueError: as `gram.deep` or `gram.convolutional`, which compute the kernel; the network is convolutional
                and has biases, for which no kernel is computed.
        """
        if self.kind == "fc":
            return gram.deep(x, z, depth=self.depth, activation=self.activation, bias=self.bias)
        if self.bias:
            raise ValueError(
                f"bias is {self.bias:g}; the limit of a convolutional network is computed only if there are no biases"
            )
        others = None if z is None else _images(z)
        return gram.convolutional(_images(x), others, depth=self.depth, activation=self.activation)

    def kernel_estimate(self, x: Float[np.ndarray, "n d"]) -> Estimate:
        """`kernel(x)` with its error. For "fc" the error is proven; for "conv" see `gram.convolutional`.

        Raises:
            ValueError: as `kernel`.
        """
        if self.kind == "fc":
            return gram.deep_estimate(x, depth=self.depth, activation=self.activation, bias=self.bias)
        value = self.kernel(x)
        stiff = max(1.0, float(np.linalg.norm(x, axis=1).max())) if self.activation == "gelu" else 1.0
        error = CONVOLUTIONAL * stiff * np.abs(value).max()
        return Estimate(value, np.full_like(value, error), "rounding, generous")

    def require_positive(self, x: Float[np.ndarray, "n d"]) -> None:
        """Raise if the limit's kernel is known to be singular on these inputs; the message names the rows.

        Raises:
            ValueError: two rows are equal, or the network has no biases and one of these cases holds: a row is zero;
                the activation is ReLU, and two rows are parallel; the network is fully connected and has two layers of
                weights with ReLU, and antipodal pairs of rows have linearly dependent directions.
        """
        if self.bias:
            gram.require_distinct(x)
        elif not DUALS[self.activation].homogeneous:
            gram.require_distinct(checked_inputs("x", x))
        elif self.kind == "fc" and self.depth == 2:
            gram.require_positive(x)
        else:
            gram.require_unparallel(x)

    def model(
        self,
        shape: tuple[int, ...],
        width: int = WIDTH,
        outputs: int | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> Model:
        """The network of this width as a `Model` for the engine.

        For convolutions, rows of numbers count as square images of one channel.

        Raises:
            ValueError: a convolutional network gets inputs that are no images. TooLittleMemory: the network does not
                fit.
        """
        sizes, scales, phi = self.sizes(shape, width, outputs), self._scales(width), PHI[self.activation]
        name = f"{self.name}, width {width}"
        require_parameters(name, sum(math.prod(size) for size in sizes.values()), dtype, device)
        inside = self.inner_scales(width)
        drawn = {key: scale if self.standard else 1.0 for key, scale in scales.items()}
        window, rows = (SIDE - 1) // 2, len(shape) == 1

        def initial(seed: int) -> Params:
            generator = torch.Generator().manual_seed(seed)
            draws = {key: torch.randn(*size, generator=generator, dtype=torch.float64) for key, size in sizes.items()}
            return {key: (drawn[key] * value).to(device, dtype) for key, value in draws.items()}

        def features(params: Params, x: Tensor) -> Tensor:
            if self.kind == "conv":
                h = x.reshape(len(x), *_image(tuple(x.shape[1:])))
            else:
                h = x if rows else x.flatten(1)
            for layer in range(1, self.depth):
                weight, bias = f"layer{layer}.weight", f"layer{layer}.bias"
                # The gradient of w h' by w has the memory layout of w. With many networks the gradient of h w' by w is
                # transposed, and a step along a transposed gradient takes four times as long.
                w = params[weight]  # the product is scaled, not w, since w is larger
                z = (w @ h.mT).mT if self.kind == "fc" else functional.conv2d(h, w, padding=window)
                h = _times(inside[weight], z)
                if self.bias:
                    b = _times(inside[bias], params[bias])
                    h = h + (b[..., None, :] if self.kind == "fc" else b[:, None, None])
                h = phi(h)
            return h if self.kind == "fc" else h.mean((-2, -1))

        def head(params: Params, z: Tensor) -> Tensor:
            readout = params[READOUT]
            if outputs:
                return _times(inside[READOUT], z @ readout.mT)
            return _times(inside[READOUT], z @ readout if readout.ndim == 1 else (z @ readout[..., None])[..., 0])

        return Model(name, initial, features, head, (READOUT,), stacks=self.kind == "fc" and rows)

    def kernels(self, params: Params, x: Tensor, width: int) -> Tensor:
        """J(theta, x) J(theta, x)^T of many fully connected networks of one output, (networks, n, n).

        The gradient by a layer's weights is an outer product of the layer's backward signal and its input. So the Gram
        matrix of these gradients is the entrywise product of the Gram matrix of the backward signals and the Gram
        matrix of the inputs, and no gradient is formed. The first axis of every array in `params` counts the networks.

        Raises:
            ValueError: a convolutional network.
        """
        if self.kind != "fc":
            raise ValueError(f"the network is {self.name!r}; kernels are computed only for fully connected ones, fc")
        scales, phi = self.inner_scales(width), PHI[self.activation]
        inputs: list[Tensor] = []
        slopes: list[Tensor] = []
        h = x
        for layer in range(1, self.depth):
            weight, bias = f"layer{layer}.weight", f"layer{layer}.bias"
            z = scales[weight] * (h @ params[weight].mT)
            z = (z + scales[bias] * params[bias][..., None, :] if self.bias else z).detach().requires_grad_()
            inputs.append(h)
            with torch.enable_grad():
                h = phi(z)
            slopes += torch.autograd.grad(h.sum(), z)
            h = h.detach()
        total = scales[READOUT] ** 2 * (h @ h.mT)
        back = scales[READOUT] * params[READOUT][..., None, :] * slopes[-1]
        for layer in range(self.depth - 1, 0, -1):
            weight, bias = f"layer{layer}.weight", f"layer{layer}.bias"
            inner = scales[weight] ** 2 * (inputs[layer - 1] @ inputs[layer - 1].mT)
            total = total + (inner + scales[bias] ** 2 if self.bias else inner) * (back @ back.mT)
            if layer > 1:
                back = scales[weight] * (back @ params[weight]) * slopes[layer - 2]
        return total

    def step_factors(self, width: int) -> dict[str, float]:
        """Factors for `SGD(of=...)` with which training is the same as in the NTK parametrisation.

        The factors are 1 in the NTK parametrisation, and the squared scales in the standard parametrisation.
        """
        return {key: scale**2 if self.standard else 1.0 for key, scale in self._scales(width).items()}

    def inner_scales(self, width: int) -> dict[str, float]:
        """The factor with which the network multiplies each parameter: 1 in the standard parametrisation."""
        return {key: 1.0 if self.standard else scale for key, scale in self._scales(width).items()}

    def sizes(self, shape: tuple[int, ...], width: int, outputs: int | None) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name, from the first layer to the readout.

        Raises:
            ValueError: a convolutional network gets inputs that are no images.
        """
        window = () if self.kind == "fc" else (SIDE, SIDE)
        first = math.prod(shape) if self.kind == "fc" else _image(shape)[0]
        sizes: dict[str, tuple[int, ...]] = {}
        for layer in range(1, self.depth):
            sizes[f"layer{layer}.weight"] = (width, first if layer == 1 else width, *window)
            if self.bias:
                sizes[f"layer{layer}.bias"] = (width,)
        return sizes | {READOUT: (*(() if outputs is None else (outputs,)), width)}

    def _scales(self, width: int) -> dict[str, float]:
        """The scale of each parameter. Before training the network uses a standard Gaussian times this scale."""
        window, gain = (1 if self.kind == "fc" else SIDE), DUALS[self.activation].gain
        scales = {}
        for layer in range(1, self.depth):
            scales[f"layer{layer}.weight"] = (1.0 if layer == 1 else math.sqrt(gain / width)) / window
            if self.bias:
                scales[f"layer{layer}.bias"] = self.bias
        return scales | {READOUT: 1 / math.sqrt(width)}


def _times(number: float, value: Tensor) -> Tensor:
    """Returns number * value.

    For `*`, PyTorch adds zeros to the forward derivative in Python, which takes half a millisecond.
    """
    return torch.ops.aten.mul.Scalar(value, number)


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The image shape (channels, height, width) of an input with the shape `shape`."""
    side = math.isqrt(math.prod(shape))
    if len(shape) == 1 and side**2 == shape[0]:
        return 1, side, side
    if len(shape) != 3:
        raise ValueError(
            f"an input has the shape {shape}; a convolutional network takes images (channels, height, width), or rows "
            "whose length is a square"
        )
    channels, height, width = shape
    return channels, height, width


def _images(given: np.ndarray) -> np.ndarray:
    rows = np.asarray(given, float)
    return rows.reshape(len(rows), *_image(rows.shape[1:]))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _built(request: Request) -> Model:
    chosen, width = WideNetwork.named(request.spec)
    return chosen.model(request.shape, width or WIDTH, request.outputs, request.dtype, request.device)


MODELS = {"fc": _built, "conv": _built}
