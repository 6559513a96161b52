"""The layers of a JAX function f(params, x), which are found from the operations of its jaxpr (JAX's form of a traced
function).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ntkfl.problem import finite_array
from ntkfl.smooth_networks.float_network import FloatNetwork
from ntkfl.smooth_networks.layers import ACTIVATIONS, IDENTITY, Layer, Smooth

# numbers of samples for which the function is traced; the layers must be the same for all of them
SAMPLES = 1, 2, 3, 1000
# allowed difference between outputs and gradients of the function and of the layers, relative to the largest of them
CLOSE = 1e-8
ADVICE = (
    "read are x @ W and x @ W.T, biases, tanh, sin, erf, sigmoid, silu, gelu(approximate=False) and maximum(., 0), "
    "residual sums and products with numbers"
)
INLINED = "jit", "pjit", "closed_call", "copy", "copy_p"
# an operation and its arguments, which are numbers, trees, or BASE (the output of the layers before)
Tree = tuple[Any, ...]
BASE: Tree = ("base",)


@dataclass(frozen=True, eq=False)
class _Parameter:
    """A number times a parameter, which may be transposed."""

    name: str
    value: np.ndarray
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class _Hidden:
    """The outputs of some layers (the data, if there are no layers), and an operation on each entry of the outputs."""

    layers: tuple[Layer, ...]
    tree: Tree = BASE


def jax_layers(
    function: Callable[..., Any], params: Any, features: int, probes: np.ndarray | None = None
) -> tuple[Layer, ...]:
    """The layers of f(params, x), x of shape (n, features); all parameters are trained.

    A division by a number is treated as a product with the float64 nearest to its inverse. Outputs and gradients of the
    layers are compared with the function's outputs and gradients at some inputs, at these parameters and at other
    parameters nearby. Other parameters are needed because a readout of zeros would hide all layers before it. If the
    function has other layers for numbers of samples that are not tried, this difference is not detected.

    Raises:
        ValueError: an operation that such layers do not have (the message names it); or the comparison fails.
    """
    import jax

    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        leaves, tree = jax.tree_util.tree_flatten_with_path(params)
        if not leaves:
            raise ValueError("params have no array; give the function's parameters")
        named = {_name(path): finite_array(f"the parameter {_name(path)!r}", value) for path, value in leaves}
        exact = jax.tree_util.tree_unflatten(tree, list(named.values()))
        x = np.random.default_rng(0).standard_normal((3, features)) if probes is None else probes
        rng = np.random.default_rng(1)
        nearby = {name: value + 0.1 * _size(value) * rng.standard_normal(value.shape) for name, value in named.items()}
        read = []
        for n in SAMPLES:
            try:
                closed = jax.make_jaxpr(function)(exact, np.zeros((n, features)))
            except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
                reason = str(error).splitlines()[0]
                raise ValueError(
                    f"the function cannot be read at params and x of shape ({n}, {features}): {reason}"
                ) from error
            read.append(_Reader(n, features, named).layers(closed))
        if any([_identity(layer) for layer in other] != [_identity(layer) for layer in read[0]] for other in read):
            raise ValueError("the function has other layers for another number of samples")
        _require_same(function, exact, read[0], x)
        moved = jax.tree_util.tree_unflatten(tree, list(nearby.values()))
        _require_same(function, moved, _Reader(n, features, nearby).layers(closed), x)
    return read[0]


def _size(value: np.ndarray) -> float:
    """The root mean square of the entries, or, for a parameter of zeros, of the entries of a random matrix."""
    size = float(np.sqrt((value**2).mean()))
    return size or max(value.shape, default=1) ** -0.5


def _name(path: Any) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path)


def _identity(layer: Layer) -> tuple[Any, ...]:
    return layer.name, layer.scale, layer.bias_scale, layer.activation.name, layer.opens, layer.closes


def _require_same(function: Callable[..., Any], params: Any, layers: tuple[Layer, ...], x: np.ndarray) -> None:
    """Compare the outputs of the function and of the layers, the products of their gradients, and the absolute values
    of the entries of each gradient, sorted.
    """
    import jax
    import jax.numpy as jnp

    network = FloatNetwork(layers)
    f, j = network.jacobian(network.start(), x)
    own = np.asarray(function(params, x), float).reshape(-1)
    gradients = jax.tree_util.tree_leaves(jax.jacrev(lambda p: jnp.reshape(function(p, x), -1))(params))
    flat = np.concatenate([np.asarray(part, float).reshape(len(own), -1) for part in gradients], axis=1)
    for what, mine, its in (
        ("outputs", f, own),
        ("products of gradients", j @ j.T, flat @ flat.T),
        ("gradients", np.sort(np.abs(j), axis=1), np.sort(np.abs(flat), axis=1)[:, -j.shape[1] :]),
    ):
        if mine.shape != its.shape or not np.abs(mine - its).max() <= CLOSE * max(np.abs(its).max(), 1e-300):
            raise ValueError(f"the {what} of the function are not those of the layers read from it")


class _Reader:
    """Reads the layers from one jaxpr."""

    def __init__(self, n: int, features: int, named: Mapping[str, np.ndarray]) -> None:
        self.n, self.features, self.named = n, features, named
        self.used: set[str] = set()

    def layers(self, closed: Any) -> tuple[Layer, ...]:
        """The layers of the whole function."""
        given = [*(_Parameter(name, value) for name, value in self.named.items()), _Hidden(())]
        outputs = self.run(closed.jaxpr, closed.consts, given)
        if len(outputs) != 1 or not isinstance(outputs[0], _Hidden) or not outputs[0].layers:
            raise ValueError(f"the function does not give the outputs of layers of its parameters; {ADVICE}")
        layers, factor = self.settled(outputs[0])
        if factor != 1:
            raise ValueError(f"the function multiplies the outputs of layer {layers[-1].name}; {ADVICE}")
        for layer in layers:
            numbers = [layer.scale] + ([] if layer.bias is None else [layer.bias_scale])
            if not all(0 < number < np.inf for number in numbers):
                raise ValueError(f"the function multiplies layer {layer.name} with {numbers}; numbers must be positive")
        unused = set(self.named) - self.used
        if unused:
            raise ValueError(f"params have {', '.join(sorted(unused))}, which the function does not use")
        return layers

    def run(self, jaxpr: Any, consts: Any, given: list[Any]) -> list[Any]:
        """The outputs of a jaxpr for these inputs."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))
        for equation in jaxpr.eqns:
            values = [known[v] if not hasattr(v, "val") else v.val for v in equation.invars]
            known |= dict(zip(equation.outvars, self.apply(equation, values), strict=True))
        return [known[v] if not hasattr(v, "val") else v.val for v in jaxpr.outvars]

    def apply(self, equation: Any, values: list[Any]) -> list[Any]:
        """The result of one operation."""
        name, params = equation.primitive.name, equation.params
        if name in INLINED:
            if "jaxpr" not in params:
                return values
            return self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, values)
        if not any(isinstance(value, _Hidden | _Parameter) for value in values):
            return _computed(equation, values)
        result = self.of(name, params, values, equation.outvars[0].aval)
        if result is None:
            raise ValueError(f"the function has the operation {name}{self.after(values)}; {ADVICE}")
        return [result]

    def after(self, values: list[Any]) -> str:
        """The place of an operation, in words for a message."""
        last = [value.layers[-1].name for value in values if isinstance(value, _Hidden) and value.layers]
        return f" after layer {last[0]}" if last else ""

    def of(self, name: str, params: Mapping[str, Any], values: list[Any], aval: Any) -> Any:
        """The result of an operation on layers and parameters; None if the operation is unknown."""
        first, second = [*values, None][:2]
        if name == "dot_general" and params["dimension_numbers"][1] == ((), ()):
            return self.product(params["dimension_numbers"][0], first, second)
        if isinstance(first, _Parameter) and (len(values) == 1 or _number(second) is not None):
            return _changed(name, params, first, _number(second))
        if isinstance(second, _Parameter) and name == "mul" and _number(first) is not None:
            return replace(second, scale=second.scale * float(_number(first) or 0.0))
        if (
            name in ("add", "add_any")
            and isinstance(first, _Hidden | _Parameter)
            and isinstance(second, _Hidden | _Parameter)
        ):
            return self.total(first, second)
        if (
            isinstance(first, _Hidden)
            and name in ("squeeze", "reshape", "broadcast_in_dim")
            and _same_numbers(first, aval, self.n)
        ):
            return first
        if name == "convert_element_type" and isinstance(first, _Hidden) and str(params["new_dtype"]) == "float64":
            return first
        return self.pointwise(name, params, values)

    def product(self, contracted: Any, first: Any, second: Any) -> _Hidden | None:
        """x @ W."""
        if not isinstance(first, _Hidden) or not isinstance(second, _Parameter) or second.value.ndim > 2:
            return None
        (left,), (right,) = contracted
        if left != 1 or (second.value.ndim == 1 and right != 0):
            return None
        weight = second.value[None] if second.value.ndim == 1 else (second.value.T if right == 0 else second.value)
        layers, factor = self.settled(first)
        self.take(second.name)
        layer = Layer(second.name, np.ascontiguousarray(weight), None, second.scale * factor, 0.0, IDENTITY, True)
        return _Hidden((*layers, layer))

    def take(self, name: str) -> None:
        """Refuse a parameter that is used twice."""
        if name in self.used:
            raise ValueError(f"the parameter {name!r} is used twice; layers must have their own")
        self.used.add(name)

    def total(self, first: Any, second: Any) -> _Hidden | None:
        """The sum of a layer's outputs and a bias, or of the outputs of two layers (a residual sum)."""
        if isinstance(second, _Hidden) and isinstance(first, _Parameter):
            first, second = second, first
        if not isinstance(first, _Hidden):
            return None
        if isinstance(second, _Parameter):
            layers, factor = self.settled(first)
            last = layers[-1] if layers else None
            bias = second.value.reshape(-1)
            if last is None or last.bias is not None or last.activation is not IDENTITY or last.closes or factor != 1:
                return None
            if bias.shape != (len(last.weight),) or second.value.shape[-1:] != bias.shape:
                return None
            self.take(second.name)
            return _Hidden((*layers[:-1], replace(last, bias=bias, bias_scale=second.scale)))
        if first.layers == second.layers:
            return self.pointwise("add", {}, [first, second])
        (short, one), (long, other) = sorted((self.settled(first), self.settled(second)), key=lambda end: len(end[0]))
        begins = [layer.name for layer in short] == [layer.name for layer in long[: len(short)]]
        if not begins or len(short) == len(long) or (one, other) != (1, 1):
            return None
        inner = replace(long[len(short)], opens=long[len(short)].opens + 1)
        block = [*long[: len(short)], inner, *long[len(short) + 1 :]]
        if [_identity(layer) for layer in short] != [_identity(layer) for layer in long[: len(short)]]:
            return None
        return _Hidden((*block[:-1], replace(block[-1], closes=block[-1].closes + 1)))

    def pointwise(self, name: str, params: Mapping[str, Any], values: list[Any]) -> _Hidden | None:
        """An operation on each number of one layer's outputs."""
        hidden = [value for value in values if isinstance(value, _Hidden)]
        numbers = [_number(value) for value in values if not isinstance(value, _Hidden)]
        if not hidden or None in numbers or any(value.layers != hidden[0].layers for value in hidden):
            return None
        parts = tuple(value.tree if isinstance(value, _Hidden) else _number(value) for value in values)
        options = tuple(sorted((key, str(value)) for key, value in params.items() if value is not None))
        return _Hidden(hidden[0].layers, (name, options, *parts))

    def settled(self, hidden: _Hidden) -> tuple[tuple[Layer, ...], float]:
        """The layers, with the operations on their outputs written as activations, and a remaining factor on these
        outputs.
        """
        layers, (tree, factor) = hidden.layers, _peeled(hidden.tree)
        if tree != BASE:
            phi, inside = _activation(tree)
            if phi is None:
                raise ValueError(
                    f"the function has the operation {_stranger(tree)}{self.after([hidden])}, which is none of those "
                    f"of its activations; {ADVICE}"
                )
            if not layers or layers[-1].activation is not IDENTITY or layers[-1].closes:
                size = len(layers[-1].weight) if layers else self.features
                name = f"{phi.name} after {layers[-1].name}" if layers else phi.name
                layers = (*layers, Layer(name, np.eye(size), None, inside, 0.0, phi, False, stands_in=True))
            else:
                last = layers[-1]
                scaled = replace(last, scale=last.scale * inside, bias_scale=last.bias_scale * inside, activation=phi)
                layers = (*layers[:-1], scaled)
        elif factor != 1 and layers and layers[-1].activation is IDENTITY and not layers[-1].closes:
            last = layers[-1]
            layers = (*layers[:-1], replace(last, scale=last.scale * factor, bias_scale=last.bias_scale * factor))
            factor = 1.0
        return layers, factor


def _number(value: Any) -> float | None:
    """The value as a number; None if it is not a number."""
    if isinstance(value, _Hidden | _Parameter) or value is None:
        return None
    array = np.asarray(value)
    return float(array) if array.shape == () and array.dtype.kind in "fiu" else None


def _computed(equation: Any, values: list[Any]) -> list[Any]:
    """The result of an operation on numbers alone."""
    results = equation.primitive.bind(*values, **equation.params)
    return list(results) if equation.primitive.multiple_results else [results]


def _changed(name: str, params: Mapping[str, Any], of: _Parameter, number: float | None) -> _Parameter | None:
    """A parameter that is transposed, multiplied or spread over samples; None for another operation."""
    if name == "transpose" and of.value.ndim == 2 and tuple(params["permutation"]) == (1, 0):
        return replace(of, value=of.value.T)
    if name in ("mul", "div") and number is not None and (number or name == "mul"):
        return replace(of, scale=of.scale * number if name == "mul" else of.scale / number)
    if name == "broadcast_in_dim" and of.value.ndim == 1 and tuple(params["broadcast_dimensions"]) == (1,):
        return replace(of, value=of.value[None])
    if name == "broadcast_in_dim" and of.value.ndim == 1 and tuple(params["shape"]) == (len(of.value), 1):
        return replace(of, value=of.value[:, None])
    if name == "broadcast_in_dim" and of.value.ndim == 0:
        return replace(of, value=of.value.reshape(1))
    return None


def _same_numbers(hidden: _Hidden, aval: Any, n: int) -> bool:
    """Whether the outputs keep their shape, or have one column and lose only that axis."""
    width = len(hidden.layers[-1].weight) if hidden.layers else 0
    return tuple(aval.shape) == (n, width) or (width == 1 and tuple(aval.shape) == (n,))


def _peeled(tree: Tree) -> tuple[Tree, float]:
    """A tree without the numbers that multiply or divide the whole tree, and the product of these numbers."""
    if len(tree) == 4 and tree[0] in ("mul", "div"):
        for inner, number in ((tree[2], tree[3]), (tree[3], tree[2]))[: 2 if tree[0] == "mul" else 1]:
            if isinstance(number, float) and isinstance(inner, tuple) and (number or tree[0] == "mul"):
                rest, factor = _peeled(inner)
                return rest, factor * (number if tree[0] == "mul" else 1 / number)
    return tree, 1.0


def _activation(tree: Tree) -> tuple[Smooth | None, float]:
    """The activation with this tree, and the number that multiplies its argument."""
    for base, number in ((BASE, 1.0), *_scaled_bases(tree)):
        for name, known in _references().items():
            if _with_base(known, base) == tree:
                return ACTIVATIONS[name], number
    return None, 1.0


def _stranger(tree: Tree) -> str:
    """The first operation of a tree, in the order of computation, that occurs in no known activation, or else the last
    operation.
    """
    known = {operation for reference in _references().values() for operation in _operations(reference)}
    return next((operation for operation in _operations(tree) if operation not in known), tree[0])


def _operations(tree: Any) -> Iterator[str]:
    """The operations of a tree, arguments first."""
    if isinstance(tree, tuple) and tree != BASE:
        for part in tree[2:]:
            yield from _operations(part)
        yield tree[0]


def _scaled_bases(tree: Any) -> list[tuple[Tree, float]]:
    """All products of BASE with a number that occur in a tree."""
    if not isinstance(tree, tuple) or tree == BASE or not tree:
        return []
    peeled, number = _peeled(tree)
    here = [(tree, number)] if peeled == BASE else []
    return here + [base for part in tree[2:] for base in _scaled_bases(part)]


def _with_base(tree: Any, base: Tree) -> Any:
    if tree == BASE:
        return base
    return (*tree[:2], *(_with_base(part, base) for part in tree[2:])) if isinstance(tree, tuple) else tree


@cache
def _references() -> dict[str, Tree]:
    """The trees of the known activations, as the installed JAX computes them."""
    import jax
    import jax.numpy as jnp

    functions = {
        "tanh": jnp.tanh,
        "sin": jnp.sin,
        "erf": jax.scipy.special.erf,
        "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu,
        "gelu": lambda z: jax.nn.gelu(z, approximate=False),
        "relu": lambda z: jnp.maximum(z, 0),
    }
    trees = {}
    for name, function in functions.items():
        with jax.enable_x64(True):
            closed = jax.make_jaxpr(function)(np.zeros((2, 3)))
        (hidden,) = _Reader(2, 3, {}).run(closed.jaxpr, closed.consts, [_Hidden(())])
        trees[name] = hidden.tree
    return trees
