"""Networks to train: a user's torch module or JAX function, or a network of any depth whose kernel has a limit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ntkfl import extensions
from ntkfl.gram.finite_width import in_float64
from ntkfl.problem import Problem, Setup
from ntkfl.trajectory import Trajectory

if TYPE_CHECKING:
    from ntkfl.training.model import Model
    from ntkfl.training.models.wide_networks import WideNetwork

FORMS = "network = ntkfl.network(...), module = a torch module, or apply and params of a JAX function"


def network(given: Any, params: Any = None, *, name: str | None = None) -> Model:
    """Returns a `ntkfl.training.Model` of any network, for training by every method and for `gram.empirical`.

    A torch module is copied and converted to float64. Seed 0 gives the module's present parameters. For another seed,
    every part of the module that has parameters must have `reset_parameters`. Parameters with `requires_grad` False are
    not trained. Buffers are constants, so batch norm and dropout are accepted in eval mode, and refused in training
    mode.

    A JAX function is `apply(params, x)`. Its parameters, any pytree of real arrays, are converted to float64. `params`
    may also be a function from seeds to parameters. JAX computes the network on the processor.

    Outputs are (b,) or (b, C) for a batch of b samples. Outputs (b, 1) count as (b,), so that they fit labels (n,).
    `Model.checked_outputs` tests the network's behaviour when the network is first given data.

    Args:
        given: a torch module, a JAX function, or a `Model`, which is returned unchanged.
        params: the parameters of a JAX function; default none.
        name: the network's name in reports; default: the name of its class or function.

    Raises:
        ValueError: `given` is no network, has no parameters, or has integer parameters; a torch module in training mode
            with batch norm, dropout or another part that is a pure function in eval mode only.
    """
    import torch

    from ntkfl.training.model import Model
    from ntkfl.training.own_network import from_function, from_module

    called = str(name or getattr(given, "__name__", type(given).__name__))
    if isinstance(given, Model | torch.nn.Module) and params is not None:
        raise ValueError(f"params are given beside {called}, which has its own; leave them out")
    if isinstance(given, Model):
        return given
    if isinstance(given, torch.nn.Module):
        return from_module(given, called)
    if isinstance(given, type) or not callable(given):
        kind = f"the class {called}: make an instance" if isinstance(given, type) else f"a {type(given).__name__}"
        raise ValueError(f"the network is {kind}; it must be a torch module or a JAX function apply(params, x)")
    if params is None:
        raise ValueError(f"{called} has no params; a JAX function apply(params, x) needs a pytree of arrays beside it")
    return from_function(given, params, called)


def from_file(path: str | os.PathLike[str]) -> Model:
    """The network that a Python file defines.

    The file must define one of three names: `network`, a Model; `module`, a torch module; or `apply`, a JAX function,
    together with `params`. The file is executed with torch's seed 0, so that the parameters that the file draws are the
    same each time.

    Args:
        path: the Python file.

    Raises:
        ExtensionError: there is no such file, it fails, or it defines none or several of these names.
        ValueError: as `network`.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        content = vars(extensions.from_file(path).module)
    spec = os.fspath(path)
    defined = [key for key in ("network", "module", "apply") if content.get(key, network) is not network]
    if len(defined) != 1:
        names = " and ".join(defined) or "none of them"
        raise extensions.ExtensionError(f"{spec} defines {names}; it must define one: {FORMS}")
    (key,) = defined
    if key == "apply":
        return network(content["apply"], content.get("params"), name=spec)
    return network(content[key], name=None if key == "network" else spec)


def wide(spec: str) -> WideNetwork:
    """A network of any depth whose kernel has a limit, by its name, such as "fc:3:relu", "conv:3:relu",
    "fc:5:erf:bias=0.1".

    Its `model(shape, width)` is the network to train, and its `kernel(x, z)` is the limit.

    Args:
        spec: KIND:DEPTH:ACTIVATION and options after colons.

    Raises:
        ValueError: an unknown name, or a name that includes a width, since `model` takes the width.

    Example:
        >>> from ntkfl.networks import wide
        >>> wide("fc:3:relu").depth
        3
    """
    from ntkfl.training.models.wide_networks import WideNetwork

    wide_network, width = WideNetwork.named(spec)
    if width is not None:
        raise ValueError(f"the network {spec!r} names a width, which is given elsewhere: leave it out")
    return wide_network


def simulate_network(
    problem: Problem,
    setup: Setup,
    network: Model,
    params: Mapping[str, Any] | None = None,
    *,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    momentum: float = 0.0,
    keep: Iterable[int] = (),
    linearised: bool = False,
    device: str = "cpu",
) -> Trajectory:
    """Train all parameters of any network by any method, on full batches and sums of losses.

    This function runs the method in the way in which `simulate` runs Algorithm 1.

    Args:
        problem: data; labels (n,) or (n, C) as the network's outputs, where (n, 1) counts as (n,).
        setup: steps on sums (docs/glossary.md#steps), rounds, and the seed of the start.
        network: a network from `ntkfl.network`, or the model of a `wide` network.
        params: tensors or arrays to start from, by name; default: the network's own at `setup.seed`.
        method: any method that trains on real labels, linear or not; default "fl-ntk".
        options: options of the method, as in `kernel_regime`; default the method's own.
        momentum: momentum of the clients, in [0, 1), default 0.
        keep: rounds t in 0..T whose parameters are kept in the trajectory's `weights`, by name; default none.
        linearised: whether the linear model f(theta_0, x) + J(theta_0, x) (theta - theta_0) is trained. This training
            is exactly the kernel regime of `gram.empirical`.
        device: cpu, cuda or cuda:NUMBER; a JAX function's network is run on the processor only; default cpu.

    Raises:
        ValueError: outputs of another shape than the labels; an unknown method or option; a device that is not there.
        FloatingPointError: the run overflowed; the message names the round.
    """
    from ntkfl.training.engine_trajectory import network_trajectory
    from ntkfl.training.methods import build, with_eta_global
    from ntkfl.training.objectives import HalfSquares
    from ntkfl.training.optimizers import SGD

    return network_trajectory(
        problem,
        setup,
        network,
        None if params is None else in_float64(params, device),
        device=device,
        method=build(method, HalfSquares("sum"), **with_eta_global(method, options or {}, setup.eta_global)),
        keep=keep,
        linearised=linearised,
        optimizer=SGD(momentum),
    )
