"""Which entries of a network's weights may be permuted together: the network runs once, and its axes are followed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from ntkfl.connectivity.units.operations import (
    PRODUCTS,
    RULES,
    Atom,
    Axis,
    Call,
    axis,
    hold,
    length,
    pointwise,
    resolved,
    unite,
)

Function = Callable[[dict[str, Tensor], Any], Tensor]


class Factor(NamedTuple):
    """Part of an axis: its size, and the number of the group that permutes it; None if no group does."""

    size: int
    group: int | None


class Read(NamedTuple):
    """A layer's input: its values, the factors of all its axes in order, and the place of its gradient."""

    values: Tensor
    factors: tuple[Factor, ...]
    edge: GradientEdge | None = None


@dataclass(frozen=True)
class Units:
    """The hidden units of a network in groups, each of which may be permuted without changing its function.

    Args:
        names: for each group, the first weight that it moves.
        sizes: the size of each group.
        factors: for every weight the factors of all its axes, in order. A weight that is reshaped to the sizes of its
            factors has its own axis for each group.
        held: weights whose first axis stays in its place without being the network's output, with the reason.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    factors: Mapping[str, tuple[Factor, ...]]
    held: Mapping[str, str]


class Followed(NamedTuple):
    """A tensor's axes (None: no rule gives them), whether it depends on the inputs, the last weight used for it."""

    axes: list[Axis] | None
    of_input: bool
    after: str


def units_of(
    function: Function, weights: Mapping[str, Tensor], x: Any, tied: Sequence[Sequence[str]] = ()
) -> tuple[Units, list[Read]]:
    """Run the function once, and follow the axes of weights and inputs through its operations.

    The axes of inputs and outputs stay in their places, and so do those of constants. In a group of convolutions, or of
    channels that are normalised together, channels are permuted alike in each group.

    Args:
        function: (weights, x) -> outputs, of torch's operations.
        weights: all weights that the function reads, by name.
        x: inputs, at least one sample.
        tied: names of weights that are to stay equal; default none.

    Returns:
        The units, and for each layer the factors of its inputs, where these depend on x.

    Raises:
        ValueError: an operation through which axes cannot be followed, with the weights before it.
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
# operations for whose arguments only the shape counts
CONSTANTS = ("empty_like", "zeros_like", "ones_like", "full_like")
COPIES = ("detach", "alias", "clone")  # operations on any tensor, also on one whose axes are not known
CONSTANT = "an operation combines it with a constant"


class _Walk(TorchDispatchMode):
    """Follows the axes of tensors through every operation that is run under it."""

    def __init__(self, weights: Mapping[str, Tensor], x: Any) -> None:
        super().__init__()
        self.followed: Any = WeakTensorKeyDictionary()
        self.reads: list[tuple[Tensor, list[Axis], GradientEdge | None]] = []
        for name, value in weights.items():
            self.followed[value] = Followed([axis(size) for size in value.shape], False, name)
        if isinstance(x, Tensor):
            self.followed[x] = Followed([axis(size, INPUT) for size in x.shape], True, "")

    def axes_of(self, tensor: Tensor) -> list[Axis]:
        """The axes of a tensor; the axes of a tensor that comes from neither weights nor inputs are held."""
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
        axes = rule(Call(arguments, given, self.axes_of, tuple(tensors[0].shape)), self.axes_of(given[0]))
        of_input = any(operand.of_input for operand in known)
        listed = func._schema.returns[0].type.kind() == "ListType"
        for place, tensor in enumerate(tensors):
            fitting = _fitting(axes, tensor) if listed or not place else None
            self.followed[tensor] = Followed(fitting, of_input, after)
        return result

    def _read(self, operands: Sequence[Tensor]) -> None:
        """Keep the operand that depends on the inputs, if the other operand is independent of them."""
        moving = [operand for operand in operands if operand in self.followed and self.followed[operand].of_input]
        if len(moving) == 1:
            (read,) = moving
            edge = None if read.grad_fn is None else GradientEdge(read.grad_fn, read.output_nr)
            self.reads.append((read.detach().clone(), self.axes_of(read), edge))


def _arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation, by name, with defaults."""
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
    """The axes, where their lengths are the tensor's sizes; a shorter axis is held, since it is a part of a split."""
    return [
        atoms if length(atoms) == size else axis(size, "it is a part of a split")
        for atoms, size in zip(axes, tensor.shape, strict=True)
    ]


def _factors(axes: Any, numbers: Mapping[Atom, int]) -> tuple[Factor, ...]:
    return tuple(Factor(atom.size, numbers.get(atom)) for atoms in axes for atom in atoms)
