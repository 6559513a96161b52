"""A JAX function as a differentiable function of tensors, for autograd and torch.func's vmap, grad, jacrev and jvp."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import torch
from jax.dtypes import float0
from torch import Tensor

Arrays = tuple[jax.Array, ...]


class Call:
    """A JAX function from arrays to a tuple of arrays, on the CPU, with its derivatives and batched forms.

    Derived functions are kept, so that each is compiled once for each shape.
    """

    def __init__(self, function: Callable[..., Arrays]) -> None:
        self.function = function
        self._derived: dict[Any, Call] = {}

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The function of tensors, differentiable by torch."""
        return _Applied.apply(self, *tensors)

    @cached_property
    def compiled(self) -> Callable[..., Arrays]:
        """The function, compiled."""
        return jax.jit(self.function)

    def mapped(self, axes: tuple[int | None, ...]) -> Call:
        """The function mapped over a further axis, the first in every result; an axis None means a shared array."""
        return self._kept(("mapped", axes), lambda: jax.vmap(self.function, axes))

    def pullback(self, wanted: tuple[bool, ...]) -> Call:
        """(arrays, cotangents) -> the gradients by the `wanted` arrays, which are real."""
        count = len(wanted)

        def back(*given: jax.Array) -> Arrays:
            def of_wanted(*some: jax.Array) -> Arrays:
                rest = iter(some)
                return self.function(*(next(rest) if w else g for w, g in zip(wanted, given[:count], strict=True)))

            outputs, pull = jax.vjp(of_wanted, *(g for w, g in zip(wanted, given[:count], strict=True) if w))
            return pull(tuple(_like(c, o) for c, o in zip(given[count:], outputs, strict=True)))

        return self._kept(("pullback", wanted), lambda: back)

    def pushforward(self, moved: tuple[bool, ...]) -> Call:
        """(arrays, tangents of the `moved` arrays) -> the derivatives of all results."""
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
    """A `Call` in torch: each of its derivatives is another `Call`, so that derivatives may be nested."""

    @staticmethod
    def forward(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        for tensor in tensors:
            if tensor.device.type != "cpu":
                raise ValueError(f"a JAX function is run on the processor; its tensors are on {tensor.device}")
        with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
            arrays = call.compiled(*(jax.dlpack.from_dlpack(tensor.detach().contiguous()) for tensor in tensors))
        # The call waits for results and copies them: arguments share the tensors' memory, which is changed in place,
        # and JAX may return an argument as a result.
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
    """The cotangent as JAX needs it: arrays that are not of real numbers have a special type of cotangents."""
    real = jax.numpy.issubdtype(output.dtype, jax.numpy.inexact)
    return cotangent if real else jax.numpy.zeros(output.shape, float0)


def _no_tangent(array: jax.Array) -> Any:
    real = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
    return jax.numpy.zeros_like(array) if real else jax.numpy.zeros(array.shape, float0)
