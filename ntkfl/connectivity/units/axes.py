"""Axes of tensors as products of atoms; atoms whose entries must be permuted alike are joined to one atom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod


@dataclass(eq=False)
class Atom:
    """Part of an axis, `size` entries long, whose entries are permuted together wherever it stands."""

    size: int
    held: str = ""  # the reason why its entries must stay in their places; "" where they may be permuted
    joined: Atom | None = None  # the atom to which this atom is joined
    parts: tuple[Atom, ...] = ()  # the atoms whose product this atom is


Axis = tuple[Atom, ...]  # row-major, the last atom fastest; an axis of size 1 has none


def axis(size: int, held: str = "") -> Axis:
    """A new axis, which moves with no other axis."""
    return (Atom(size, held),) if size != 1 else ()


def resolved(atoms: Iterable[Atom]) -> Axis:
    """The same axis in atoms that are neither joined nor split."""
    whole_atoms: list[Atom] = []
    for atom in atoms:
        while atom.joined is not None:
            atom = atom.joined
        whole_atoms += resolved(atom.parts) if atom.parts else [atom]
    return tuple(whole_atoms)


def length(atoms: Axis) -> int:
    """How many entries the axis has."""
    return prod(atom.size for atom in atoms)


def hold(atoms: Iterable[Atom], why: str) -> None:
    """Keep the entries of the axis in their places."""
    for atom in resolved(atoms):
        atom.held = atom.held or why


def unite(first: Axis, second: Axis) -> None:
    """Let the entries of two axes of one length move together, in parts where one of them is a product.

    Where the parts of the two axes do not fit each other, both axes are held.
    """
    one, other = resolved(first), resolved(second)
    while one and other:
        a, b = one[0], other[0]
        if a.size == b.size:
            if a is not b:
                b.joined, a.held = a, a.held or b.held
            one, other = resolved(one[1:]), resolved(other[1:])
        elif not (_split(a, b.size) or _split(b, a.size)):
            hold(one + other, "its parts are counted in two ways that do not fit each other")
            return
        else:
            one, other = resolved(one), resolved(other)


def regrouped(atoms: Iterable[Atom], sizes: Sequence[int]) -> list[Axis]:
    """The atoms of a tensor's axes, in order, as axes of other sizes with the same product: what `view` does.

    Where a new axis would cut an atom into parts that are no factors of its size, all axes are held.
    """
    rest, axes = resolved(atoms), []
    whole = rest
    for size in sizes:
        taken: Axis = ()
        while (missing := size // length(taken)) > 1:
            if size % length(taken) or not (missing % rest[0].size == 0 or _split(rest[0], missing)):
                hold(whole, "it is reshaped into axes that cut it")
                return [axis(size_of_part, "its entries come from axes that were cut") for size_of_part in sizes]
            rest = resolved(rest)
            taken, rest = (*taken, rest[0]), rest[1:]
        axes.append(taken)
    return axes


def _split(atom: Atom, leading: int) -> bool:
    """Make the atom a product whose first factor has this size, where there is one."""
    if leading < 2 or leading >= atom.size or atom.size % leading:
        return False
    atom.parts = Atom(leading, atom.held), Atom(atom.size // leading, atom.held)
    return True
