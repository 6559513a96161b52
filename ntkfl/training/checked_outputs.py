"""Checks that a network is differentiable and that samples of a batch do not affect each other's outputs.

Training and kernels assume both.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ntkfl.training.tree import Params

# allowed difference between a sample's outputs alone and beside another sample, relative to the largest output;
# taking float32 sums in another order makes a far smaller difference
ALIKE = 1e-4
# words in torch.func's errors if a network uses `if` or .item() on computed numbers
LOOKS_AT_NUMBERS = "data-dependent control flow", ".item()"
POINTS = 8  # a network whose derivatives are all 0 is also evaluated at this number of random values of its parameters


def checked_outputs(name: str, outputs: Callable[[Params, Tensor], Tensor], params: Params, x: Tensor) -> Tensor:
    """Returns outputs(params, x), after checks of the network on the first two samples.

    A warning names the parameters on which no output depends: they have no derivative, and are not trained.

    Raises:
        ValueError: the network fails on x; its outputs are not of shape (n,) or (n, C); equal calls give different
            outputs; a sample's outputs depend on other samples; the network changes its inputs or parameters; or it has
            no derivative in any parameter.
    """
    if not len(x):
        raise ValueError(f"x has shape {tuple(x.shape)}; {name} needs at least one sample")
    trial = x[[0, min(1, len(x) - 1)]]
    own = {key: value.detach().clone().requires_grad_() for key, value in params.items()}
    given = trial.clone()
    with torch.enable_grad():
        first = _called(name, outputs, own, given)
    if not torch.equal(given, trial):
        raise ValueError(
            f"{name} changes its inputs in place, as x -= 0.5 or an in-place ReLU on them does; write x = x - 0.5, or "
            "begin with x = x.clone()"
        )
    changed = [key for key, value in own.items() if not torch.equal(value.nan_to_num(), params[key].nan_to_num())]
    if changed:
        raise ValueError(
            f"{name} changes its parameter {changed[0]!r} while it computes outputs; it must be a function of them: "
            "compute with a changed copy"
        )
    if not isinstance(first, Tensor) or first.ndim not in (1, 2) or len(first) != 2 or not first.numel():
        one = "" if isinstance(first, Tensor) else "one tensor "
        raise ValueError(f"{name} gives {_kind(first)} for 2 samples; its outputs must be {one}of shape (2,) or (2, C)")
    with torch.no_grad():
        if not torch.equal(first.nan_to_num(), _called(name, outputs, own, trial).nan_to_num()):
            raise ValueError(
                f"{name} gives other outputs when it is called again with the same parameters and inputs; it must be a "
                "function of them: leave out dropout and other noise, or call eval() on the module"
            )
        alone = torch.cat([_called(name, outputs, own, row[None]).reshape(1, *first.shape[1:]) for row in trial])
        # the comparison is False if an output is not finite
        if (first - alone).abs().max() > ALIKE * first.abs().max():
            raise ValueError(
                f"{name} gives a sample different outputs alone and beside another sample; each sample must be treated "
                "by itself: use GroupNorm or LayerNorm for a norm over the batch, and no other operation over the batch"
            )
    gradients = _gradients(first, own)
    without = [key for key, gradient in gradients.items() if gradient is None]
    if len(without) == len(own) or (_flat(gradients) and _steps(name, outputs, params, trial)):
        raise ValueError(
            f"{name} has no derivative in any of its parameters ({', '.join(params)}); compute outputs by "
            "differentiable operations, without detach, item, sign, round or stop_gradient"
        )
    if without:
        warnings.warn(f"no output of {name} depends on {', '.join(without)}: not trained", UserWarning, stacklevel=3)
    return _called(name, outputs, params, x)


def _gradients(outputs: Tensor, params: Params) -> dict[str, Tensor | None]:
    """The gradients of a weighted sum of all outputs.

    An unweighted sum of softmax outputs would be constant, so that its gradients would be 0.
    """
    if not outputs.requires_grad:
        return dict.fromkeys(params)
    weights = torch.cos(1 + torch.arange(outputs.numel(), device=outputs.device)).to(outputs.dtype)
    gradients = torch.autograd.grad(outputs.flatten() @ weights, list(params.values()), allow_unused=True)
    return dict(zip(params, gradients, strict=True))


def _flat(gradients: dict[str, Tensor | None]) -> bool:
    return all(gradient is None or not gradient.any() for gradient in gradients.values())


def _steps(name: str, outputs: Callable[[Params, Tensor], Tensor], params: Params, x: Tensor) -> bool:
    """Whether outputs change with the parameters although all derivatives are 0.

    For a step function the answer is yes. If derivatives are 0 because all neurons are dead ReLUs, the answer is no.
    """
    generator, values = torch.Generator().manual_seed(0), []
    for scale in (0.0,) + (1.0,) * POINTS:
        moved = {
            key: (value.detach() + scale * torch.randn(value.shape, generator=generator).to(value)).requires_grad_()
            for key, value in params.items()
        }
        with torch.enable_grad():
            at_moved = _called(name, outputs, moved, x)
        if _flat(_gradients(at_moved, moved)):
            values.append(at_moved.detach())
    return any(not torch.equal(value.nan_to_num(), values[0].nan_to_num()) for value in values)


def _kind(outputs: Any) -> str:
    """Describes what a network returned in place of outputs."""
    if isinstance(outputs, Tensor):
        return str(tuple(outputs.shape))
    kind = f"a {type(outputs).__name__}"
    if isinstance(outputs, Mapping):
        return f"{kind} of {', '.join(map(str, outputs))}"
    return f"{kind} of {len(outputs)}" if isinstance(outputs, tuple | list) else kind


def _called(name: str, outputs: Callable[[Params, Tensor], Tensor], params: Params, x: Tensor) -> Tensor:
    try:
        return outputs(params, x)
    except MemoryError:
        raise
    except Exception as error:  # the user's code may raise any kind of exception
        dtype, text = str(x.dtype).removeprefix("torch."), reason_of(error)
        kind = f"{dtype} inputs of shape {tuple(x.shape)}"
        more = ""
        if isinstance(error, TypeError) and "positional argument" in text:
            more = "; it is called with the inputs alone: give every other argument a default"
        elif "traced array" in text:  # JAX's error for code that branches on computed numbers
            more = "; it must not look at numbers that it computes: jax.numpy.where in place of if"
        elif "dtype" in text and "loat" in text:
            more = f"; it must compute in the type of its inputs, {dtype}: constants of dtype=x.dtype, no .float()"
        raise ValueError(f"{name} fails on {kind}: {text}{more}") from error


def reason_of(error: Exception) -> str:
    """The first line of an error that foreign code has raised."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
