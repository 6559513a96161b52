"""Elements of MathML Core, and how wide they are drawn."""

from __future__ import annotations

from xml.etree.ElementTree import Element

COEFFICIENT = {"class": "coefficient"}  # of a fraction in front of factors, which must stay one


def element(tag: str, *children: Element, text: str = "", **attributes: str) -> Element:
    """An element of MathML."""
    made = Element(tag, attributes)
    made.text = text or None
    made.extend(children)
    return made


def row(*children: Element) -> Element:
    """Elements side by side; one alone is itself."""
    return children[0] if len(children) == 1 else element("mrow", *children)


def mark(text: str) -> Element:
    """A parenthesis or a bar that grows with what it encloses."""
    return element("mo", text=text, stretchy="true", fence="true")


def width(node: Element) -> float:
    """How wide an element is drawn, in characters, roughly."""
    parts = [width(child) for child in node]
    if node.tag in ("mfrac", "mtable"):
        return max(parts)
    if node.tag in ("msub", "msup", "msubsup"):
        return parts[0] + 0.7 * max(parts[1:])
    relation = 2 if node.tag == "mo" and node.text in ("+", "−", "=", "≤", "≥") else 0
    return sum(parts) + len(node.text or "") + relation + (node.tag == "msqrt")
