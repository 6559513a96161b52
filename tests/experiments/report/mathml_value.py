"""A reader of MathML: it computes the value of a formula on a page from the values of the symbols."""

import math
from collections.abc import Mapping
from functools import reduce
from xml.etree.ElementTree import Element, tostring

import numpy as np

FUNCTIONS = {"log": math.log, "exp": math.exp, "erf": math.erf, "max": max, "min": min, "tr": np.trace}
FUNCTIONS |= {"asin": math.asin, "acos": math.acos}


class Unreadable(Exception):
    """The formula can be read in two ways, or cannot be read at all."""


def look(element: Element) -> str:
    """Returns the element's markup, by which symbols are recognised."""
    return tostring(element, encoding="unicode")


def value(node: Element, known: Mapping[str, object]) -> object:
    """Returns the value of an element.

    `known` maps each symbol's markup (`look`) to its value, a number or a matrix.
    """
    return _Reader(_pieces(node, known), known).whole()


def _pieces(node: Element, known: Mapping[str, object]) -> list[Element]:
    """Returns the pieces of a row and of the rows inside it; a symbol, or a fraction on one line, is one piece."""
    if node.tag in ("mrow", "math"):
        whole = look(node) in known or _slash(node) is not None
        return [node] if whole else [piece for child in node for piece in _pieces(child, known)]
    return [] if node.tag == "mspace" else [node]


def _slash(node: Element) -> int | None:
    return next((i for i, child in enumerate(node) if child.tag == "mo" and child.text == "/"), None)


def _function(node: Element) -> bool:
    return node.tag in ("mtext", "mo") and node.text in FUNCTIONS


class _Reader:
    def __init__(self, pieces: list[Element], known: Mapping[str, object]):
        self.pieces, self.known, self.at, self.bars = pieces, known, 0, 0

    def whole(self) -> object:
        total = self.sum()
        if self.at < len(self.pieces):
            raise Unreadable(f"what does {look(self.pieces[self.at])} belong to?")
        return total

    def sign(self, *texts: str) -> str | None:
        piece = self.pieces[self.at] if self.at < len(self.pieces) else None
        if piece is None or piece.tag != "mo" or piece.text not in texts:
            return None
        self.at += 1
        return piece.text

    def sum(self) -> object:
        total = -self.product() if self.sign("−") else self.product()
        while sign := self.sign("+", "−"):
            total = total + self.product() if sign == "+" else total - self.product()
        return total

    def product(self) -> object:
        factors = [self.factor()]
        while self.at < len(self.pieces) and (self.sign("·") or not self.ends()):
            before = self.pieces[self.at - 1]
            if before.tag == "mrow" and _slash(before) is not None:
                raise Unreadable(f"is {look(self.pieces[self.at])} above or below the line of {look(before)}?")
            factors.append(self.factor())
        return reduce(_times, factors)

    def ends(self) -> bool:
        piece = self.pieces[self.at]
        return piece.tag == "mo" and piece.text not in ("(" if self.bars else "(|") and not _function(piece)

    def factor(self) -> object:
        piece = self.pieces[self.at]
        base = piece[0] if piece.tag == "msup" else piece
        if piece.tag == "mo" and look(piece) not in self.known and not _function(piece):
            return self.enclosed()
        if _function(base):
            self.at += 1
            image = FUNCTIONS[base.text](*self.arguments())
            return image ** value(piece[1], self.known) if piece.tag == "msup" else image
        if piece.tag == "msup" and base.tag == "mrow":  # This is a power of an expression in parentheses.
            self.at += 1
            return _raised(value(base, self.known), piece[1], self.known)
        self.at += 1
        return self.atom(piece)

    def enclosed(self) -> object:
        if self.sign("("):
            inner, close = self.sum(), ")"
        elif self.sign("|"):
            self.bars += 1
            inner, close = abs(self.sum()), "|"
            self.bars -= 1
        else:
            raise Unreadable(f"nothing begins with {look(self.pieces[self.at])}")
        if not self.sign(close):
            raise Unreadable(f"{close} is missing")
        return inner

    def arguments(self) -> list[object]:
        if not self.sign("("):
            raise Unreadable("a function without parentheses")
        values = [self.sum()]
        while self.sign(","):
            values.append(self.sum())
        if not self.sign(")"):
            raise Unreadable(") is missing")
        return values

    def atom(self, piece: Element) -> object:
        if look(piece) in self.known:
            return self.known[look(piece)]
        if piece.tag == "mn":
            return float(piece.text)
        if piece.tag == "mi" and piece.text == "π":
            return math.pi
        if piece.tag == "mfrac":
            return value(piece[0], self.known) / value(piece[1], self.known)
        if piece.tag == "msqrt":
            return math.sqrt(value(piece[0], self.known))
        if piece.tag == "mrow":
            return self.fraction(piece)
        if piece.tag == "msup":
            return _raised(value(piece[0], self.known), piece[1], self.known)
        if piece.tag == "msubsup":
            base = Element("msub")
            base.extend(piece[:2])
            return _raised(self.atom(base), piece[2], self.known)
        raise Unreadable(f"what is {look(piece)}?")

    def fraction(self, piece: Element) -> object:
        above, below = piece[: _slash(piece)], piece[_slash(piece) + 1 :]
        if len(below) != 1 or (below[0].tag == "mrow" and below[0][0].text not in ("(", "|")):
            raise Unreadable(f"what is below the line of {look(piece)}?")
        pieces = [part for child in above for part in _pieces(child, self.known)]
        depth = 0
        for i, part in enumerate(pieces):
            depth += {"(": 1, ")": -1}.get(part.text or "", 0) if part.tag == "mo" else 0
            if i and depth == 0 and part.tag == "mo" and part.text in ("+", "−"):
                raise Unreadable(f"what is above the line of {look(piece)}?")
        return _Reader(pieces, self.known).whole() / value(below[0], self.known)


def _raised(base: object, upper: Element, known: Mapping[str, object]) -> object:
    marks = "".join(upper.itertext())
    if marks == "⊤":
        return base.T
    if marks == "−⊤":
        return np.linalg.inv(base).T
    power = value(upper, known)
    return np.linalg.matrix_power(base, round(power)) if isinstance(base, np.ndarray) else base**power


def _times(left: object, right: object) -> object:
    both = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
    product = left @ right if both else left * right
    return float(product[0, 0]) if both and product.shape == (1, 1) else product
