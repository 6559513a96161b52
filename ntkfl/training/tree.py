"""Nested dicts of tensors: parameters, optimizer states, states of clients and of the server between rounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

# the type is a string, since methods are imported without PyTorch, which only training needs
Tensor: TypeAlias = "torch.Tensor"
Tree = dict[str, Any]  # values are tensors or again such dicts; keys contain no "/"
Params = dict[str, Tensor]


def tree_map(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """The tree of a function's values at the tensors of `tree`.

    The function also gets the tensors at the same places of `others`.

    Args:
        function: a function of one tensor of each tree; it returns a tensor.
        tree: the tree whose structure the result has.
        others: trees that have at least the keys of `tree`.
    """
    return {
        key: tree_map(function, value, *(other[key] for other in others))
        if isinstance(value, dict)
        else function(value, *(other[key] for other in others))
        for key, value in tree.items()
    }


def zeros_like(tree: Tree) -> Tree:
    """A tree of the same structure, with a tensor of zeros in place of each tensor of `tree`."""
    from torch import zeros_like

    return tree_map(zeros_like, tree)


def row_of(tree: Tree, row: int) -> Tree:
    """The tree of one row of every tensor."""
    return tree_map(lambda rows: rows[row], tree)


def stacked(trees: Sequence[Tree]) -> Tree:
    """Several trees of one structure as a single tree, whose tensors have a row for each tree.

    `row_of` is the inverse.
    """
    from torch import stack

    return tree_map(lambda *rows: stack(rows), *trees)


def newest_first(newest: Tree, rows: Tree) -> Tree:
    """The tree with `newest` as row 0, before the other rows."""
    from torch import cat

    return tree_map(lambda row, others: cat([row[None], others]), newest, rows)


def one_a_row(values: Tensor, like: Tensor) -> Tensor:
    """The values (rows,), reshaped to multiply the rows of `like`."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def flatten(tree: Tree, prefix: str = "") -> dict[str, Tensor]:
    """The tensors by their paths, such as "server/model/head.weight". Empty dicts are left out."""
    flat: dict[str, Tensor] = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        flat |= flatten(value, path + "/") if isinstance(value, dict) else {path: value}
    return flat


def unflatten(flat: Mapping[str, Tensor]) -> Tree:
    """The inverse of `flatten`."""
    tree: Tree = {}
    for path, tensor in flat.items():
        *folders, name = path.split("/")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = tensor
    return tree


def leaves(tree: Tree) -> list[Tensor]:
    """All tensors, in the order in which the keys were inserted."""
    return list(flatten(tree).values())
