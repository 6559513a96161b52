"""A model as pure functions of parameters, split into features and head; and `Request`, from which a model is built."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ntkfl.memory import TooLittleMemory, require
from ntkfl.training.tree import Params, Tensor

# PyTorch is imported only where it is used, since methods use the class Model as a type without PyTorch
if TYPE_CHECKING:
    import torch
    from torch import nn


DRAWN = 2  # number of copies of the parameters in memory while a model is drawn
# largest number of entries of the gradients that `jacobian` computes at a time; if the gradients of one sample have
# more entries, `jacobian` takes one sample at a time
AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Model:
    """A model f(params, x) = head(params, features(params, x)), for one client's parameters.

    Args:
        name: name of the model in reports.
        initial: seed -> parameters, a dict of tensors; a pure function of the seed.
        features: (params, x (b, ...)) -> z (b, k).
        head: (params, z) -> outputs (b, C), or (b,) for one output.
        head_names: the parameters that `head` uses and `features` does not.
        remark: a sentence that reports add to the name; "" for none.
        stacks: whether `outputs` also takes stacked parameters, with leading axes, and x (..., b, d), and then gives
            (..., b) or (..., b, C). Otherwise torch.func maps the model over clients. For a small model this mapping
            costs more than the model's matrix products. Default False.
    """

    name: str
    initial: Callable[[int], Params]
    features: Callable[[Params, Tensor], Tensor]
    head: Callable[[Params, Tensor], Tensor]
    head_names: tuple[str, ...] = ()
    remark: str = ""
    stacks: bool = False

    def outputs(self, params: Params, x: Tensor) -> Tensor:
        """f(params, x).

        Args:
            params: parameters by name.
            x: inputs, shape (b, ...).
        """
        return self.head(params, self.features(params, x))

    def size(self) -> int:
        """Number of parameters, P."""
        return sum(tensor.numel() for tensor in self.initial(0).values())

    def checked_outputs(self, params: Params, x: Tensor) -> Tensor:
        """Returns f(params, x), after checks of the model on two samples.

        The checks find whether outputs are differentiable, and whether a sample's outputs depend on other samples.

        Args:
            params: parameters by name.
            x: inputs, shape (b, ...).

        Raises:
            ValueError: a check fails, as in `ntkfl.training.checked_outputs`.
        """
        from ntkfl.training.checked_outputs import checked_outputs

        return checked_outputs(self.name, self.outputs, params, x)

    def gradients(self, params: Params, x: Tensor) -> Params:
        """The gradient of each output of each sample, by parameter, (b, C, *shape); C = 1 for outputs (b,).

        Gradients are computed sample by sample, so a sample's outputs must not depend on the rest of the batch. A model
        that torch.func cannot map over samples, such as an LSTM, is differentiated one sample at a time.

        Args:
            params: parameters by name.
            x: inputs, shape (b, ...).

        Raises:
            ValueError: the model uses computed numbers outside tensors, as `if` or `item` do.
        """

        import torch
        from torch.func import jacrev, vmap

        def of_sample(own: Params, row: Tensor) -> Tensor:
            return self.outputs(own, row[None]).reshape(-1)

        own = {name: value.detach() for name, value in params.items()}
        try:
            return vmap(jacrev(of_sample), (None, 0))(own, x)
        except RuntimeError as error:
            self._refuse_numbers(error)
        gradients = [self._gradients_alone(own, row[None]) for row in x]
        return {name: torch.stack([of[name] for of in gradients]) for name in own}

    def mappable(self, params: Params, x: Tensor) -> bool:
        """Whether torch.func can map the model over clients with different parameters, tried with two clients.

        Args:
            params: parameters of one client.
            x: samples; only the first two are evaluated.

        Raises:
            ValueError: as `gradients`.
        """
        import torch
        from torch.func import grad, vmap

        rows, samples = {name: torch.stack([value.detach()] * 2) for name, value in params.items()}, x[:2]

        def total(own: Params, batch: Tensor) -> Tensor:
            return self.outputs(own, batch).sum()

        try:
            with torch.enable_grad():
                own = {name: value.requires_grad_() for name, value in rows.items()}
                sums = vmap(total)(own, torch.stack([samples] * 2))
                torch.autograd.grad(sums.sum(), list(own.values()), allow_unused=True)
            vmap(grad(total), (0, None))({name: value.detach() for name, value in rows.items()}, samples)
        except RuntimeError as error:
            self._refuse_numbers(error)
            return False
        return True

    def _refuse_numbers(self, error: RuntimeError) -> None:
        """Raise if torch.func failed because the model uses computed numbers, as `if` does.

        In such a model one sample may affect the outputs of another sample.
        """
        from ntkfl.training.checked_outputs import LOOKS_AT_NUMBERS

        if any(words in str(error) for words in LOOKS_AT_NUMBERS):
            raise ValueError(
                f"{self.name} cannot be mapped over samples by torch.func: it looks at numbers that it computes (if, "
                "while, item, float); use torch.where in place of if, and tensors in place of numbers"
            ) from error

    def _gradients_alone(self, params: Params, x: Tensor) -> Params:
        """The gradient of each output of one sample, (C, *shape)."""
        import torch

        with torch.enable_grad():
            own = {name: value.detach().clone().requires_grad_() for name, value in params.items()}
            outputs, wanted = self.outputs(own, x).reshape(-1), list(own.values())
            rows = [
                torch.autograd.grad(output, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
                for output in outputs
            ]
        return {name: torch.stack(of) for name, of in zip(own, zip(*rows, strict=True), strict=True)}

    def jacobian(self, params: Params, x: Tensor) -> Tensor:
        """The gradient of each output of each sample by all parameters, (b, C, P); C = 1 for outputs (b,).

        The P columns have the parameters in the order of the dict, each of them flattened. Beside the result, only the
        gradients of a few samples are in memory at a time.

        Args:
            params: parameters by name.
            x: inputs, shape (b, ...).

        Raises:
            ValueError: as `gradients`.
        """
        import torch

        count = sum(value.numel() for value in params.values())
        outputs = self.outputs(params, x[:1])[0].numel() if len(x) else 1
        rows = torch.empty(len(x), outputs, count, dtype=next(iter(params.values())).dtype, device=x.device)
        together = max(1, AT_ONCE // (outputs * count))
        for samples in (slice(start, start + together) for start in range(0, len(x), together)):
            first = 0
            for gradients in self.gradients(params, x[samples]).values():
                flat = gradients.reshape(*gradients.shape[:2], -1)
                rows[samples, :, first : first + flat.shape[2]] = flat
                first += flat.shape[2]
        return rows


def from_modules(
    name: str, make: Callable[[], tuple[nn.Module, nn.Module]], dtype: torch.dtype, device: torch.device | str
) -> Model:
    """A model from two modules, body and head, that `make` builds.

    Parameters are drawn on the CPU, so that they are the same on every device. Buffers are constants: at every seed
    they have the values that `make` gives at seed 0.

    Raises:
        ValueError: a module that `refuse_state` refuses, or a head without parameters.
    """

    import torch

    def drawn(seed: int) -> tuple[nn.Module, nn.Module]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make()

    try:
        # the device "meta" gives the structure of the modules without memory and without random draws
        with torch.device("meta"):
            body, head = make()
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise TooLittleMemory(f"the model {name} has more numbers in a layer than can be counted") from None
    require_parameters(name, sum(w.numel() for part in (body, head) for w in part.parameters()), dtype, device)
    for module in (body, head):
        refuse_state(name, module)
    if any(True for module in (body, head) for _ in module.buffers()):
        body, head = drawn(0)
    head_names = tuple(f"head.{key}" for key, _ in head.named_parameters())
    if not head_names:
        raise ValueError(f"the head of {name} has no parameters; a head is the last layer, with its weights")

    def initial(seed: int) -> Params:
        return {
            f"{part}.{key}": value.detach().to(device, dtype).clone()
            for part, module in zip(("body", "head"), drawn(seed), strict=True)
            for key, value in module.named_parameters()
        }

    return Model(
        name,
        initial,
        applied(body, "body."),
        applied(head, "head."),
        head_names,
    )


def require_parameters(name: str, count: int, dtype: torch.dtype, device: torch.device | str) -> None:
    """Refuse a model if there is too little memory to draw its parameters.

    Raises:
        TooLittleMemory: the message gives the number of parameters that would fit.
    """
    import torch

    require(
        f"the model {name}",
        lambda parameters: DRAWN * dtype.itemsize * parameters,
        free_on(torch.device(device)),
        "give it smaller sizes",
        parameters=count,
    )


def free_on(device: torch.device) -> float | None:
    """The number of free bytes on a device with its own memory; None if the device uses the machine's memory."""
    import torch

    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


def refuse_state(name: str, module: nn.Module) -> None:
    """Refuse a module with a part in training mode that is a pure function only in eval mode, such as batch norm.

    Raises:
        ValueError: there is such a part; the message names the first.
    """
    for key, part in module.named_modules():
        does = in_training(part)
        if does and part.training:
            raise ValueError(
                f"{name} is in training mode, in which its part {key!r} ({type(part).__name__}) {does}; a model must "
                "be a function of parameters and inputs: call eval() on the module"
            )


RENEWS, RANDOM = "renews its statistics", "is random"


def in_training(part: nn.Module) -> str | None:
    """The reason why this part, without its subparts, is a pure function only in eval mode; None if it always is."""
    from torch import nn

    if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
        return RENEWS
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return RANDOM if part.p > 0 else None
    if isinstance(part, nn.MultiheadAttention | nn.RNNBase):
        return RANDOM if part.dropout > 0 else None
    return RANDOM if isinstance(part, nn.RReLU) else None


def applied(module: nn.Module, prefix: str) -> Callable[[Params, Tensor], Tensor]:
    """Returns the function (params, x) -> module(x), where the module computes with the parameters `params`.

    The key of a parameter in `params` is `prefix` and then the parameter's name in the module. The returned function
    replaces `torch.func.functional_call`, which looks up all names in each call and so costs as much as a layer.
    Buffers are constants, converted to the type of the parameters. A call that changes a buffer is refused, with one
    exception in eval mode: see `_refuse_change`.
    """
    # a parameter that several layers share has only one name
    names = {id(own): prefix + name for name, own in chain(module.named_parameters(), module.named_buffers())}
    parameters = [
        (part._parameters, key, names[id(own)])
        for part in module.modules()
        for key, own in part._parameters.items()
        if own is not None
    ]
    buffers = [
        (part, key, names[id(own)], own.detach())
        for part in module.modules()
        for key, own in part._buffers.items()
        if own is not None
    ]
    places = parameters + [(part._buffers, key, name) for part, key, name, _ in buffers]

    def call(params: Params, x: Tensor) -> Tensor:
        own = [held[key] for held, key, _ in places]
        if buffers:
            like = next(iter(params.values()))
            params = params | {name: in_type_of(like, value) for _, _, name, value in buffers}
        versions = [params[name]._version for _, _, name, _ in buffers]
        try:
            for held, key, name in places:
                held[key] = params[name]  # type: ignore[assignment]  # a module computes with any tensor
            outputs = module(x)
            for (part, key, name, _), version in zip(buffers, versions, strict=True):
                _refuse_change(part, key, name, params[name], version)
            return outputs
        finally:
            for (held, key, _), value in zip(places, own, strict=True):
                held[key] = value  # type: ignore[assignment]

    return call


def _refuse_change(part: nn.Module, key: str, name: str, before: Tensor, version: int) -> None:
    """Refuse a buffer that a call has changed.

    A buffer that a call in eval mode has replaced by another tensor is not refused, since the caller puts the old one
    back.
    """
    in_place = before._version != version
    if part.training and (in_place or (key not in part._buffers or part._buffers[key] is not before)):
        raise ValueError(f"in training mode it renews its buffer {name!r} in each call: call eval() on the module")
    if in_place:
        raise ValueError(
            f"it changes its buffer {name!r} in place, in eval mode too; buffers are constants: compute with a copy"
        )


def in_type_of(like: Tensor, value: Tensor) -> Tensor:
    """The constant `value` on the device of `like`; real and complex numbers also get the precision of `like`."""
    if value.is_floating_point():
        return value.to(like.device, like.dtype)
    return value.to(like.device, like.dtype.to_complex() if value.is_complex() else value.dtype)


@dataclass(frozen=True)
class Request:
    """A model to be built."""

    spec: str  # the name and sizes as the user wrote them
    argument: str  # the part after the colon, or ""
    shape: tuple[int, ...]  # shape of one input
    outputs: int | None  # C; None for a single output, in the shape (b,)
    # dtype, device: the dtype and the device of the parameters
    dtype: torch.dtype
    device: torch.device | str
    seed: int  # seed of random parts that are not trained, such as the signs of "ntk:WIDTH"

    @property
    def features(self) -> int:
        """The number of numbers in one input."""
        return math.prod(self.shape)

    def sizes(self, default: tuple[int, ...], exactly: bool = True) -> tuple[int, ...]:
        """The positive integers in the argument, such as 64 and 32 in "64-32"; `default` if there is no argument.

        Raises:
            ValueError: the sizes are not positive integers; or, with `exactly`, there are more or fewer sizes than in
                `default`.
        """
        if not self.argument:
            return default
        example = f"{self.spec.partition(':')[0]}:{'-'.join(map(str, default))}"
        try:
            sizes = tuple(int(text) for text in self.argument.split("-"))
        except ValueError:
            sizes = ()
        if not sizes or min(sizes) < 1 or (exactly and len(sizes) != len(default)):
            raise ValueError(
                f"the model {self.spec!r} has the sizes {self.argument!r}; they must be positive integers, such as "
                f"{example!r}"
            )
        return sizes

    def none(self) -> None:
        """Refuse an argument, for a model whose sizes cannot be chosen.

        Raises:
            ValueError: there is an argument.
        """
        if self.argument:
            raise ValueError(f"the model {self.spec!r} takes no sizes; write {self.spec.partition(':')[0]!r}")

    def image(self, least: int = 1) -> tuple[int, int, int]:
        """The shape (channels, height, width) of the inputs.

        Raises:
            ValueError: the inputs are no images, or their height or width is below `least`.
        """
        if len(self.shape) != 3 or min(self.shape[1:]) < least:
            raise ValueError(
                f"the model {self.spec!r} takes images (channels, height, width) of at least {least} x {least} "
                f"pixels; an input of these data has the shape {self.shape}"
            )
        channels, height, width = self.shape
        return channels, height, width
