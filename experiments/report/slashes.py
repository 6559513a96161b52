"""Fractions within fractions, exponents, roots and parentheses, written on one line where they are short."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from experiments.report.mathml_element import COEFFICIENT, element, mark, row, width

DEEP, SHALLOW = (16, 9), (6, 4)  # largest widths above and below the line, in characters
RAISED = ("msup", "msubsup", "msub")


def slashed(node: Element, limits: tuple[int, int] = (0, 0)) -> Element:
    """The same formula with its inner fractions on one line: the deeper, the longer they may be."""
    if node.tag == "mfrac":
        return _fraction(node, limits)
    inner = max(limits, SHALLOW) if node.tag == "msqrt" or _enclosed(node) else limits
    children = [slashed(child, max(inner, DEEP) if i and node.tag in RAISED else inner) for i, child in enumerate(node)]
    return element(node.tag, *children, text=node.text or "", **node.attrib)


def _fraction(node: Element, limits: tuple[int, int]) -> Element:
    above, below = (slashed(child, DEEP) for child in node)
    if node.attrib == COEFFICIENT or width(above) > limits[0] or width(below) > limits[1]:
        return element("mfrac", above, below, **node.attrib)
    if above.tag == "mrow" and any(child.tag == "mo" and child.text in ("+", "−") for child in above):
        above = _parenthesised(above)
    if len(below) > 1 and below.tag == "mrow" and not _enclosed(below):
        below = _parenthesised(below)
    return row(above, element("mo", text="/", lspace="0", rspace="0", stretchy="false"), below)


def _enclosed(node: Element) -> bool:
    return node.tag == "mrow" and len(node) > 1 and node[0].get("fence") == "true"


def _parenthesised(node: Element) -> Element:
    return row(mark("("), node, mark(")"))
