"""Users' networks as models for the engine: torch modules, and JAX functions with their parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import jax
import numpy as np
import torch
from jax.dtypes import float0
from torch import Tensor, nn

from ntkfl.double_precision import in_float64
from ntkfl.training.model import RANDOM, RENEWS, Model, applied, in_training, in_type_of, refuse_state
from ntkfl.training.tree import Params

Arrays = tuple[jax.Array, ...]


class Call:
    """A JAX function from arrays to a tuple of arrays, computed on the CPU, with its derivatives and batched forms.

    Derived functions are kept, so that each of them is compiled only once for each shape.
    """

    def __init__(self, function: Callable[..., Arrays]) -> None:
        self.function = function
        self._derived: dict[Any, Call] = {}

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The function's values at torch tensors, which torch can differentiate."""
        return _Applied.apply(self, *tensors)

    @cached_property
    def compiled(self) -> Callable[..., Arrays]:
        """The compiled function."""
        return jax.jit(self.function)

    def mapped(self, axes: tuple[int | None, ...]) -> Call:
        """The function, mapped over one further axis of its arrays. In every result this axis is the first.

        `axes` has the position of this axis in each array; None stands for an array without this axis, which is shared.
        """
        return self._kept(("mapped", axes), lambda: jax.vmap(self.function, axes))

    def pullback(self, wanted: tuple[bool, ...]) -> Call:
        """The function (arrays, cotangents) -> the gradients by the `wanted` arrays, which must have real numbers."""
        count = len(wanted)

        def back(*given: jax.Array) -> Arrays:
            def of_wanted(*some: jax.Array) -> Arrays:
                rest = iter(some)
                return self.function(*(next(rest) if w else g for w, g in zip(wanted, given[:count], strict=True)))

            outputs, pull = jax.vjp(of_wanted, *(g for w, g in zip(wanted, given[:count], strict=True) if w))
            return pull(tuple(_like(c, o) for c, o in zip(given[count:], outputs, strict=True)))

        return self._kept(("pullback", wanted), lambda: back)

    def pushforward(self, moved: tuple[bool, ...]) -> Call:
        """The function (arrays, tangents of the `moved` arrays) -> the derivatives of all results."""
        count = len(moved)

        def forward(*given: jax.Array) -> Arrays:
            tangents = iter(given[count:])
            directions = tuple(
                next(tangents) if m else _no_tangent(g) for m, g in zip(moved, given[:count], strict=True)
            )
            outputs, derivatives = jax.jvp(self.function, given[:count], directions)
            return tuple(
                jax.numpy.zeros_like(o) if f.dtype == float0 else f for o, f in zip(outputs, derivatives, strict=True)
            )

        return self._kept(("pushforward", moved), lambda: forward)

    def _kept(self, key: Any, derive: Callable[[], Callable[..., Arrays]]) -> Call:
        if key not in self._derived:
            self._derived[key] = Call(derive())
        return self._derived[key]


class _Applied(torch.autograd.Function):
    """A `Call` as a torch function.

    Its derivatives are other `Call`s, so that derivatives of derivatives are possible.
    """

    @staticmethod
    def forward(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        for tensor in tensors:
            if tensor.device.type != "cpu":
                raise ValueError(f"a JAX function is run on the processor; its tensors are on {tensor.device}")
        with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
            arrays = call.compiled(*(jax.dlpack.from_dlpack(tensor.detach().contiguous()) for tensor in tensors))
        # The call waits for the results and copies them, for two reasons: the arguments share memory with tensors that
        # are later changed in place, and JAX may return an argument as a result.
        return tuple(torch.from_dlpack(array).clone() for array in jax.block_until_ready(arrays))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, tensors = inputs[0], inputs[1:]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        wanted = tuple(ctx.needs_input_grad[1:])
        gradients = iter(ctx.call.pullback(wanted)(*tensors, *cotangents))
        return (None, *(next(gradients) if w else None for w in wanted))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        moved = tuple(tangent is not None for tangent in tangents)
        return ctx.call.pushforward(moved)(*ctx.saved_tensors, *(t for t in tangents if t is not None))

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], call: Call, *tensors: Tensor) -> tuple[Any, Any]:
        results = call.mapped(axes[1:])(*tensors)
        return results, (0,) * len(results)


def _like(cotangent: jax.Array, output: jax.Array) -> Any:
    """The cotangent in the type that JAX needs. Integer and boolean arrays have a special type of cotangents."""
    real = jax.numpy.issubdtype(output.dtype, jax.numpy.inexact)
    return cotangent if real else jax.numpy.zeros(output.shape, float0)


def _no_tangent(array: jax.Array) -> Any:
    real = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
    return jax.numpy.zeros_like(array) if real else jax.numpy.zeros(array.shape, float0)


# For each fused implementation of attention: the function that tells whether it is on, and the function that switches
# it. The switches in torch.backends.cuda take effect on the CPU too, where flash attention (flash_sdp) is used.
FUSED: tuple[tuple[Callable[[], bool], Callable[[bool], Any]], ...] = (
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
)


def from_module(module: nn.Module, name: str) -> Model:
    """A torch module as a model in float64. The module is copied, and the copy keeps its mode (`train` or `eval`).

    Seed 0 gives the module's own parameters. Any other seed draws them anew by `reset_parameters` of the module's
    parts, in the module's type. Parameters with `requires_grad` False, and buffers, are the same at every seed, and the
    neural tangent kernel has no derivatives by them. Outputs (b, 1) count as a single output, (b,).

    Raises:
        ValueError: a parameter or buffer has no shape or no numbers yet; a parameter is not real; no parameter can be
            trained; a part that `refuse_state` refuses.
    """
    kinds = ("parameter", module.named_parameters()), ("buffer", module.named_buffers())
    for kind, key, value in ((kind, key, value) for kind, entries in kinds for key, value in entries):
        if nn.parameter.is_lazy(value):
            raise ValueError(f"the {kind} {key!r} of {name} has no shape yet; call the module once on some inputs")
        if value.is_meta:
            raise ValueError(f"the {kind} {key!r} of {name} has no numbers: it is on the device 'meta'; load some")
    for key, value in module.named_parameters():
        if not value.is_floating_point():
            raise ValueError(f"the parameter {key!r} of {name} is {value.dtype}; parameters must be real numbers")
    refuse_state(name, module)
    given = _copied(module)
    own = _in_float64(copy.deepcopy(given))
    frozen = {key: value.detach() for key, value in own.named_parameters() if not value.requires_grad}
    if len(frozen) == len(dict(own.named_parameters())):
        raise ValueError(f"{name} has no parameters that can be trained; a network has at least one")
    without = [
        key or name
        for key, part in given.named_modules()
        if any(value is not None and value.requires_grad for value in part._parameters.values())
        and (_derived(part) or not callable(getattr(part, "reset_parameters", None)))
    ]

    def initial(seed: int) -> Params:
        if seed == 0:
            drawn = given
        elif without:
            raise ValueError(
                f"{name} cannot be drawn for seed {seed}: {without[0]!r} has parameters and no reset_parameters(); "
                "give it one, or take seed 0, the parameters as they are"
            )
        else:
            drawn = copy.deepcopy(given)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                for part in drawn.modules():
                    if any(value is not None and value.requires_grad for value in part._parameters.values()):
                        part.reset_parameters()  # type: ignore[operator]
        return {
            key: value.detach().to(torch.float64, copy=True)
            for key, value in drawn.named_parameters()
            if key not in frozen
        }

    call = applied(own, "")

    def features(params: Params, x: Tensor) -> Tensor:
        like = next(iter(params.values()))
        with _default_dtype(like.dtype), _plain_attention():  # constants that `forward` makes get the default type
            # a copy of x, since an in-place ReLU on the inputs, or x -= 1, would change x
            return call(params | {key: in_type_of(like, value) for key, value in frozen.items()}, x.clone())

    return Model(name, initial, features, _outputs, remark=_in_eval_mode(given))


def _in_eval_mode(module: nn.Module) -> str:
    """A sentence about those parts whose outputs differ between training mode and eval mode; "" if there are none."""
    parts: dict[str | None, list[str]] = {RENEWS: [], RANDOM: []}
    for key, part in module.named_modules():
        parts.setdefault(in_training(part), []).append(f"{key!r} ({type(part).__name__})")
    first = {does: f"{of[0]}{f' and {len(of) - 1} more' if of[1:] else ''}" for does, of in parts.items() if of}
    notes = [f"the statistics of {first[RENEWS]} are constants"] if RENEWS in first else []
    notes += [f"the randomness of {first[RANDOM]} is off"] if RANDOM in first else []
    return f"the network is taken in eval mode: {', '.join(notes)}" if notes else ""


def _copied(module: nn.Module) -> nn.Module:
    """A copy of a module. The module may store tensors computed from its parameters, as the old weight_norm does."""
    parts = list(module.modules())
    kept = [value for part in parts for value in vars(part).values() if isinstance(value, Tensor)]
    kept += [value for part in parts for value in part._buffers.values() if value is not None]
    return copy.deepcopy(module, {id(value): value.detach().clone() for value in kept if not value.is_leaf})


def _in_float64(module: nn.Module) -> nn.Module:
    """The module in float64, including tensors that are plain attributes of its parts."""
    with warnings.catch_warnings():  # torch warns of the missing .grad in a copy of a scripted module
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
        module = module.double()  # complex buffers stay complex; to(torch.float64) would make them real
    for part in module.modules():
        for key, value in vars(part).items():
            if isinstance(value, Tensor) and value.is_floating_point():
                vars(part)[key] = value.to(torch.float64)
    return module


def _derived(part: nn.Module) -> bool:
    """Whether a weight of this part is computed from other weights; `reset_parameters` does not draw such a weight."""
    ends = ("_g", "_v", "_orig")  # suffixes that weight_norm, spectral_norm and pruning add to names
    names = [key for key, _ in part._parameters.items()]
    return any(key.endswith(end) and key.removesuffix(end) in vars(part) for key in names for end in ends)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Switches off fused attention, which has no forward derivative and rounds differently."""
    before = [enabled() for enabled, _ in FUSED]
    for _, enable in FUSED:
        enable(False)
    try:
        yield
    finally:
        for (_, enable), value in zip(FUSED, before, strict=True):
            enable(value)


def from_function(apply: Callable[[Any, Any], Any], params: Any, name: str) -> Model:
    """A JAX function apply(params, x) as a model, with parameters in float64. JAX computes it on the CPU.

    `apply` is a pure function of parameters and inputs (b, ...), with outputs (b,) or (b, C). Outputs (b, 1) count as a
    single output, (b,). `params` is a pytree of arrays of real numbers, or a function from a seed to such a pytree.

    If `params` is a pytree, seed 0 gives these parameters, and other seeds are refused. Parameters are named by their
    paths in the pytree, such as "layers.0.w".

    Raises:
        ValueError: the pytree has no arrays, or an array whose numbers are not real.
    """
    drawn = in_float64(params) if callable(params) else None
    names, leaves, structure = _named(drawn(0) if drawn else params, name)

    def initial(seed: int) -> Params:
        if seed == 0:
            drawn_leaves = leaves
        elif drawn is None:
            raise ValueError(
                f"{name} cannot be drawn for seed {seed}: its parameters are given; give a function of the seed in "
                "their place, or take seed 0"
            )
        else:
            others, drawn_leaves, same = _named(drawn(seed), name)
            if same != structure or any(a.shape != b.shape for a, b in zip(drawn_leaves, leaves, strict=True)):
                raise ValueError(f"{name} has other parameters at seed {seed} than at seed 0: {others}, {names}")
        return {key: torch.tensor(leaf) for key, leaf in zip(names, drawn_leaves, strict=True)}

    def flat(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        outputs = apply(jax.tree.unflatten(structure, arrays[:-1]), arrays[-1])
        if not isinstance(outputs, jax.Array | np.ndarray):
            raise ValueError(f"it gives a {type(outputs).__name__}; its outputs must be one array, (b,) or (b, C)")
        return (jax.numpy.asarray(outputs),)

    call = Call(flat)
    return Model(name, initial, lambda params, x: call(*(params[key] for key in names), x)[0], _outputs)


def _outputs(_: Params, z: Tensor) -> Tensor:
    """The outputs in the shape of labels: (b, 1) becomes (b,)."""
    return z.squeeze(1) if isinstance(z, Tensor) and z.ndim == 2 and z.shape[1] == 1 else z


def _named(params: Any, name: str) -> tuple[list[str], list[np.ndarray], Any]:
    """The names and values of a pytree's arrays, and the pytree's structure."""
    paths, structure = jax.tree_util.tree_flatten_with_path(params)
    if not paths:
        raise ValueError(f"the parameters of {name} are {params!r:.60}; they must be a pytree with at least one array")
    names = [jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "_") or "params" for path, _ in paths]
    if len(set(names)) < len(names):
        raise ValueError(f"parameters of {name} have the same name, of {', '.join(names)}; rename one")
    for key, (_, leaf) in zip(names, paths, strict=True):
        kind = getattr(leaf, "dtype", type(leaf).__name__)
        if not jax.numpy.issubdtype(np.asarray(leaf).dtype, jax.numpy.floating):
            raise ValueError(
                f"the parameter {key!r} of {name} is {kind}; parameters must be real numbers, and what is not trained "
                "belongs in the function"
            )
    return names, [np.asarray(leaf, dtype=np.float64) for _, leaf in paths], structure
