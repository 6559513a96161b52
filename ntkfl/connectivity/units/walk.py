"""Finds which entries of a network's weights may be permuted together, by following axes through one run.

Axes are united if their entries must be permuted together, and held if their entries must stay in their places. RULES
has the operations of torch that can be followed, each with its rule. A rule looks at one call, unites and holds the
axes of the tensors among the arguments, and returns the axes of the first result. A rule is sound if the same
permutation of united entries of all arguments permutes the result in the same way. If all rules are sound, any
permutation of units that are not held leaves the network's function unchanged.

An axis is made of atoms. For example, if a view joins two axes, the new axis has the atoms of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(eq=False)
class Atom:
    """A part of an axis, with `size` entries.

    In all axes that have this atom its entries are permuted in the same way.
    """

    size: int
    held: str = ""  # the reason why its entries must stay in their places; "" if they may be permuted
    joined: Atom | None = None  # the atom with which this atom is united
    parts: tuple[Atom, ...] = ()  # the atoms into which this atom is split; the product of their sizes is `size`


# entries are numbered in row-major order, the last atom fastest; an axis of size 1 has no atoms
Axis = tuple[Atom, ...]


def axis(size: int, held: str = "") -> Axis:
    """A new axis, which is not united with any other axis."""
    return (Atom(size, held),) if size != 1 else ()


def resolved(atoms: Iterable[Atom]) -> Axis:
    """The same axis, given by atoms that are neither joined to another atom nor split into parts."""
    whole_atoms: list[Atom] = []
    for atom in atoms:
        while atom.joined is not None:
            atom = atom.joined
        whole_atoms += resolved(atom.parts) if atom.parts else [atom]
    return tuple(whole_atoms)


def length(atoms: Axis) -> int:
    """The number of entries of the axis."""
    return prod(atom.size for atom in atoms)


def hold(atoms: Iterable[Atom], why: str) -> None:
    """Mark the entries of the axis as held in their places, for the reason `why`."""
    for atom in resolved(atoms):
        atom.held = atom.held or why


def unite(first: Axis, second: Axis) -> None:
    """Unite two axes of the same length: their entries must be permuted together.

    If an axis is a product of atoms, this is done atom by atom. If the atoms of the two axes do not fit each other,
    both axes are held.
    """
    one, other = resolved(first), resolved(second)
    while one and other:
        a, b = one[0], other[0]
        if a.size == b.size:
            if a is not b:
                b.joined, a.held = a, a.held or b.held
            one, other = resolved(one[1:]), resolved(other[1:])
        elif not (_divides(a, b.size) or _divides(b, a.size)):
            hold(one + other, "its parts are counted in two ways that do not fit each other")
            return
        else:
            one, other = resolved(one), resolved(other)


def regrouped(atoms: Iterable[Atom], sizes: Sequence[int]) -> list[Axis]:
    """The axes of a tensor after `view`: the same atoms in the same order, as axes of the new sizes.

    If a new axis would cut an atom into parts that are no factors of its size, all axes are held.
    """
    rest, axes = resolved(atoms), []
    whole = rest
    for size in sizes:
        taken: Axis = ()
        while (missing := size // length(taken)) > 1:
            if size % length(taken) or not (missing % rest[0].size == 0 or _divides(rest[0], missing)):
                hold(whole, "it is reshaped into axes that cut it")
                return [axis(size_of_part, "its entries come from axes that were cut") for size_of_part in sizes]
            rest = resolved(rest)
            taken, rest = (*taken, rest[0]), rest[1:]
        axes.append(taken)
    return axes


def _divides(atom: Atom, leading: int) -> bool:
    """Split the atom into two atoms, the first of size `leading`, if this divides its size. Returns whether it does."""
    if leading < 2 or leading >= atom.size or atom.size % leading:
        return False
    atom.parts = Atom(leading, atom.held), Atom(atom.size // leading, atom.held)
    return True


PLACE = "the image's pixels have places"


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of an operation: its arguments by name, and the axes of the tensors among them."""

    arguments: Mapping[str, Any]
    tensors: Sequence[Tensor]  # all tensors among the arguments, including those in lists
    axes_of: Callable[[Tensor], list[Axis]]  # a tensor -> its axes
    sizes: tuple[int, ...]  # sizes of the first result

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def axes(self, name: str) -> list[Axis]:
        """The axes of the argument of this name, a tensor; [] if the argument is None."""
        tensor = self.arguments[name]
        return [] if tensor is None else self.axes_of(tensor)

    def dims(self, ndim: int) -> list[int]:
        """The dimensions that the argument `dim` names, counted from 0; all dimensions if it names none."""
        given = self.arguments.get("dim")
        given = [given] if isinstance(given, int) else given
        return sorted(dim % ndim for dim in given) if given else list(range(ndim))


Rule = Callable[[_Call, list[Axis]], list[Axis]]  # (call, a copy of the first tensor's axes) -> the result's axes


def pointwise(call: _Call, _: list[Axis]) -> list[Axis]:
    """The rule for operations entry by entry, with broadcasting."""
    result: list[Axis] = [() for _ in call.sizes]
    for tensor in call.tensors:
        _broadcast(call.axes_of(tensor), result)
    return result


def _broadcast(axes: Sequence[Axis], result: list[Axis]) -> None:
    for place, atoms in enumerate(axes, len(result) - len(axes)):
        if atoms and result[place]:
            unite(atoms, result[place])
        result[place] = result[place] or atoms


def _view(call: _Call, axes: list[Axis]) -> list[Axis]:
    return regrouped([atom for atoms in axes for atom in atoms], call.sizes)


def _transposed(call: _Call, axes: list[Axis]) -> list[Axis]:
    if "dims" in call.arguments:
        return [axes[dim] for dim in call["dims"]]
    if "dim0" in call.arguments:
        one, other = call["dim0"] % len(axes), call["dim1"] % len(axes)
        axes[one], axes[other] = axes[other], axes[one]
        return axes
    return axes[::-1]


def _unsqueezed(call: _Call, axes: list[Axis]) -> list[Axis]:
    axes.insert(call["dim"] % (len(axes) + 1), ())
    return axes


def _squeezed(call: _Call, axes: list[Axis]) -> list[Axis]:
    dims = call.dims(len(axes))
    return [atoms for dim, atoms in enumerate(axes) if dim not in dims or length(atoms) > 1]


def _expanded(call: _Call, axes: list[Axis]) -> list[Axis]:
    axes = [()] * (len(call.sizes) - len(axes)) + axes
    return [atoms or axis(size) for atoms, size in zip(axes, call.sizes, strict=True)]


def _repeated(call: _Call, axes: list[Axis]) -> list[Axis]:
    times = call["repeats"]
    axes = [()] * (len(times) - len(axes)) + axes
    return [axis(count) + atoms for count, atoms in zip(times, axes, strict=True)]


def _reduced(call: _Call, axes: list[Axis]) -> list[Axis]:
    dims = call.dims(len(axes))
    if call.arguments.get("keepdim"):
        return [() if dim in dims else atoms for dim, atoms in enumerate(axes)]
    return [atoms for dim, atoms in enumerate(axes) if dim not in dims]


def _product(first: str, second: str) -> Rule:
    """The rule for products of matrices, vectors and batches of matrices.

    `first` and `second` are the names of the two factors. If `first` is not "self", the argument "self" is a summand.
    """

    def rule(call: _Call, axes: list[Axis]) -> list[Axis]:
        a, b = call.axes(first), call.axes(second)
        batch: list[Axis] = []
        if len(a) == 3:
            unite(a[0], b[0])
            batch, a, b = a[:1], a[1:], b[1:]
        unite(a[-1], b[0])
        result = [*batch, *a[:-1], *b[1:]]
        if first != "self":
            _broadcast(axes, result)
        return result

    return rule


def _convolution(call: _Call, x: list[Axis]) -> list[Axis]:
    """The rule for convolutions. If a convolution has groups, all groups get the same permutation of their channels."""
    weight, groups = call.axes("weight"), axis(call["groups"])
    for atoms in (*x[2:], *weight[2:]):
        hold(atoms, PLACE)
    unite(weight[0], groups + axis(length(weight[0]) // call["groups"]))
    inputs, outputs = groups + weight[1], weight[0]
    if call["transposed"]:
        inputs, outputs = outputs, inputs
    unite(x[1], inputs)
    for bias in call.axes("bias"):
        unite(bias, outputs)
    return [x[0], outputs, *(axis(size, PLACE) for size in call.sizes[2:])]


def _pooled(dims: int) -> Rule:
    """The rule for pooling over the last dimensions, whose entries stay in their places."""

    def rule(call: _Call, axes: list[Axis]) -> list[Axis]:
        for atoms in axes[-dims:]:
            hold(atoms, PLACE)
        return axes[:-dims] + [axis(size, PLACE) for size in call.sizes[-dims:]]

    return rule


def _layer_norm(call: _Call, axes: list[Axis]) -> list[Axis]:
    for name in ("weight", "bias"):
        _broadcast(call.axes(name), list(axes))
    return axes


def _channel_norm(call: _Call, axes: list[Axis]) -> list[Axis]:
    """The rule for batch norm and group norm.

    A channel's weight, bias and running averages are permuted with it. All groups of a group norm get the same
    permutation of their channels.
    """
    if "group" in call.arguments:
        unite(axes[1], axis(call["group"]) + axis(length(axes[1]) // call["group"]))
    for tensor in call.tensors[1:]:
        unite(call.axes_of(tensor)[0], axes[1])
    return axes


def _cut(call: _Call, axes: list[Axis]) -> list[Axis]:
    """The rule for slice and select, which choose entries by their place."""
    dim = call["dim"] % len(axes)
    if "index" in call.arguments:
        hold(axes[dim], "one of its entries is selected by its place")
        return axes[:dim] + axes[dim + 1 :]
    if call.sizes[dim] != length(axes[dim]):
        hold(axes[dim], "it is sliced")
        axes[dim] = axis(call.sizes[dim], "it is a slice")
    return axes


def _split(call: _Call, axes: list[Axis]) -> list[Axis]:
    """The rule for splits. If all parts have the same size, they all get the same permutation of their entries."""
    dim = call["dim"] % len(axes)
    part, whole = call.sizes[dim], length(axes[dim])
    if call["split_size"] == part and whole % part == 0:
        own = axis(part)
        unite(axes[dim], axis(whole // part, "it counts the parts of a split") + own)
    else:
        hold(axes[dim], "it is split into parts of several sizes")
        own = axis(part, "it is a part of a split")
    axes[dim] = own
    return axes


def _joined(call: _Call, _: list[Axis]) -> list[Axis]:
    dim = call.arguments.get("dim", 0) % len(call.sizes)
    result: list[Axis] = [() for _ in call.sizes]
    for tensor in call["tensors"]:
        axes = call.axes_of(tensor)
        hold(axes[dim], "it is joined with others")
        axes[dim] = ()
        _broadcast(axes, result)
    result[dim] = axis(call.sizes[dim], "it consists of several joined axes")
    return result


def _padded(call: _Call, axes: list[Axis]) -> list[Axis]:
    pad = call["pad"]
    for place in range(len(pad) // 2):
        dim = len(axes) - 1 - place
        if any(pad[2 * place : 2 * place + 2]):
            hold(axes[dim], "it is padded")
            axes[dim] = axis(call.sizes[dim], "it is padded")
    return axes


def _embedded(call: _Call, weight: list[Axis]) -> list[Axis]:
    hold(weight[0], "its entries are looked up by their place")
    return [*call.axes("indices"), weight[1]]


ENTRYWISE = (
    *("lift_fresh", "_to_copy", "copy_", "zero_", "fill_"),
    *("_prelu_kernel", "hardswish", "hardswish_", "hardtanh_"),
)
POOLS = {
    1: ("max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "upsample_nearest1d", "upsample_linear1d"),
    2: (
        *("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"),
        *("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d"),
    ),
    3: ("max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d"),
}
REDUCTIONS = ("mean", "sum", "amax", "amin", "var", "std", "logsumexp", "linalg_vector_norm", "prod")
PRODUCTS = {
    "mm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "baddbmm": ("batch1", "batch2"),
    "convolution": ("input", "weight"),  # listed for the names of its factors; its rule is `_convolution`
}
RULES: dict[str, Rule] = {
    **dict.fromkeys(ENTRYWISE, pointwise),
    **dict.fromkeys(("_softmax", "_log_softmax"), lambda call, axes: axes),
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias", "reshape"), _view),
    **dict.fromkeys(("t", "transpose", "permute"), _transposed),
    **dict.fromkeys(REDUCTIONS, _reduced),
    **{name: _product(*names) for name, names in PRODUCTS.items()},
    **dict.fromkeys(("native_batch_norm", "native_group_norm", "cudnn_batch_norm"), _channel_norm),
    **dict.fromkeys(("slice", "select"), _cut),
    **{name: _pooled(dims) for dims, names in POOLS.items() for name in names},
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "expand": _expanded,
    "repeat": _repeated,
    "convolution": _convolution,
    "native_layer_norm": _layer_norm,
    "cat": _joined,
    "split": _split,
    "constant_pad_nd": _padded,
    "embedding": _embedded,
}


Function = Callable[[dict[str, Tensor], Any], Tensor]


class Factor(NamedTuple):
    """An axis or a part of an axis: its size, and the number of the group of units along it, or None."""

    size: int
    group: int | None


class Read(NamedTuple):
    """The input of a layer: its values, the factors of all its axes in order, and the graph edge of its gradient."""

    values: Tensor
    factors: tuple[Factor, ...]
    edge: GradientEdge | None = None


@dataclass(frozen=True)
class Units:
    """The hidden units of a network in groups. Each group may be permuted without changing the network's function.

    Args:
        names: for each group, the name of the first weight that has its units.
        sizes: the size of each group.
        factors: for every weight the factors of all its axes, in order. If a weight is reshaped to the sizes of its
            factors, each factor is an axis.
        held: weights whose first axis is held, with the reason. Weights whose first axis is held because it belongs to
            the network's outputs or inputs are left out.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    factors: Mapping[str, tuple[Factor, ...]]
    held: Mapping[str, str]


class Followed(NamedTuple):
    """A tensor's axes (None if no rule gives them), whether it depends on the inputs, and the last weight before it."""

    axes: list[Axis] | None
    of_input: bool
    after: str


def units_of(
    function: Function, weights: Mapping[str, Tensor], x: Any, tied: Sequence[Sequence[str]] = ()
) -> tuple[Units, list[Read]]:
    """The groups of units of a function. They are found in one run, which follows the axes of weights and inputs.

    The axes of inputs, outputs and constants are held. In a grouped convolution or a group norm, all groups get the
    same permutation of their channels.

    Args:
        function: (weights, x) -> outputs, computed by operations of torch.
        weights: all weights that the function uses, by name.
        x: the inputs of at least one sample.
        tied: lists of names of weights that must stay equal to each other; default none.

    Returns:
        The units, and for each layer whose input depends on x this input with its factors.

    Raises:
        ValueError: the axes cannot be followed through an operation; the message names it and the last weight before
            it.
    """
    walk = _Walk(weights, x)
    for names in tied:
        for other in names[1:]:
            for pair in zip(*(walk.followed[weights[name]].axes for name in (names[0], other)), strict=True):
                unite(*pair)
    with torch.no_grad(), walk:
        outputs = function(dict(weights), x)
    if not isinstance(outputs, Tensor):
        raise ValueError(f"the network's output is a {type(outputs).__name__}; it must be one tensor")
    for own_atoms in walk.axes_of(outputs):
        hold(own_atoms, OUTPUT)
    groups: dict[Atom, str] = {}
    held = {}
    weighed = {
        name: [resolved(own_atoms) for own_atoms in walk.followed[value].axes] for name, value in weights.items()
    }
    for name, axes in weighed.items():
        for atoms in axes:
            for place, atom in enumerate(atoms):
                if not atom.held:
                    groups.setdefault(atom, name if len(atoms) == 1 else f"{name}, part {place}")
        if axes and axes[0] and all(atom.held not in ("", OUTPUT, INPUT) for atom in axes[0]):
            held[name] = axes[0][0].held
    numbers = {atom: number for number, atom in enumerate(groups)}
    return (
        Units(
            tuple(groups.values()),
            tuple(atom.size for atom in groups),
            {name: _factors(axes, numbers) for name, axes in weighed.items()},
            held,
        ),
        [Read(value, _factors(map(resolved, axes), numbers), edge) for value, axes, edge in walk.reads],
    )


OUTPUT, INPUT = "it is the network's output", "it is the network's input"
# operations that use only the shape of their argument
CONSTANTS = ("empty_like", "zeros_like", "ones_like", "full_like")
COPIES = ("detach", "alias", "clone")  # operations that are allowed on any tensor, even if its axes are not known
CONSTANT = "an operation combines it with a constant"


class _Walk(TorchDispatchMode):
    """A context that follows the axes of tensors through every operation of torch that runs within it."""

    def __init__(self, weights: Mapping[str, Tensor], x: Any) -> None:
        super().__init__()
        self.followed: Any = WeakTensorKeyDictionary()
        self.reads: list[tuple[Tensor, list[Axis], GradientEdge | None]] = []
        for name, value in weights.items():
            self.followed[value] = Followed([axis(size) for size in value.shape], False, name)
        if isinstance(x, Tensor):
            self.followed[x] = Followed([axis(size, INPUT) for size in x.shape], True, "")

    def axes_of(self, tensor: Tensor) -> list[Axis]:
        """The axes of a tensor. If it comes from neither weights nor inputs, its axes are held."""
        if tensor not in self.followed:
            return [axis(size, CONSTANT) for size in tensor.shape]
        known = self.followed[tensor]
        if known.axes is None:
            raise ValueError(
                f"the units cannot be followed through the further results of an operation{_where(known.after)}"
            )
        return list(known.axes)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        arguments = _arguments(func, args, kwargs)
        given = [tensor for value in arguments.values() for tensor in _tensors(value)]
        known = [self.followed[tensor] for tensor in given if tensor in self.followed]
        tensors = _tensors(result)
        after = next((operand.after for operand in reversed(known) if operand.after), "")
        seeded, name = torch.Tag.nondeterministic_seeded in func.tags, func.overloadpacket.__name__
        if not seeded and (not known or name.startswith("new_") or name in CONSTANTS):
            return result
        if name in COPIES:
            self.followed[result] = known[0]
            return result
        rule = RULES.get(name) or (pointwise if torch.Tag.pointwise in func.tags else None)
        if rule is None or seeded or func._overloadname == "dtype" or not tensors:
            why = ", which draws random numbers" if seeded else ""
            raise ValueError(f"the units cannot be followed through the operation {name}{_where(after)}{why}")
        if name in PRODUCTS:
            self._read([arguments[argument] for argument in PRODUCTS[name]])
        axes = rule(_Call(arguments, given, self.axes_of, tuple(tensors[0].shape)), self.axes_of(given[0]))
        of_input = any(operand.of_input for operand in known)
        listed = func._schema.returns[0].type.kind() == "ListType"
        for place, tensor in enumerate(tensors):
            fitting = _fitting(axes, tensor) if listed or not place else None
            self.followed[tensor] = Followed(fitting, of_input, after)
        return result

    def _read(self, operands: Sequence[Tensor]) -> None:
        """Store the operand that depends on the inputs, if the other operand does not."""
        moving = [operand for operand in operands if operand in self.followed and self.followed[operand].of_input]
        if len(moving) == 1:
            (read,) = moving
            edge = None if read.grad_fn is None else GradientEdge(read.grad_fn, read.output_nr)
            self.reads.append((read.detach().clone(), self.axes_of(read), edge))


def _arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation by name, including defaults."""
    declared = func._schema.arguments
    defaults = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    given = defaults | dict(zip((argument.name for argument in declared), args, strict=False)) | dict(kwargs)
    return {argument.name: given[argument.name] for argument in declared if argument.name in given}


def _tensors(value: Any) -> list[Tensor]:
    values = value if isinstance(value, list | tuple) else [value]
    return [tensor for tensor in values if isinstance(tensor, Tensor)]


def _where(after: str) -> str:
    return f", applied to results of {after!r}" if after else ""


def _fitting(axes: Sequence[Axis], tensor: Tensor) -> list[Axis]:
    """The axes if their lengths are the sizes of the tensor. An axis of another length is replaced by a held axis.

    The last part of a split may be shorter than the other parts, and so have such an axis.
    """
    return [
        atoms if length(atoms) == size else axis(size, "it is a part of a split")
        for atoms, size in zip(axes, tensor.shape, strict=True)
    ]


def _factors(axes: Any, numbers: Mapping[Atom, int]) -> tuple[Factor, ...]:
    return tuple(Factor(atom.size, numbers.get(atom)) for atoms in axes for atom in atoms)
