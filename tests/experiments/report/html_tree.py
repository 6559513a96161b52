"""A strict reader of HTML: it makes a tree of a page's elements, each of which must be closed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "input", "br", "wbr", "hr"}


@dataclass
class Node:
    """An element: its name, its attributes and its content, which consists of elements and texts."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list[Node | str] = field(default_factory=list)

    def all(self, *tags: str) -> Iterator[Node]:
        """Yields the elements below this one in page order; if names are given, only elements of these names."""
        for part in self.content:
            if isinstance(part, Node):
                if not tags or part.tag in tags:
                    yield part
                yield from part.all(*tags)

    def text(self) -> str:
        """Returns the element's whole text."""
        return "".join(part if isinstance(part, str) else part.text() for part in self.content)


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        node = Node(tag, {name: value or "" for name, value in attributes})
        self.open[-1].content.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].content.append(data)


def tree(page: bytes) -> Node:
    """Returns the page's elements below one root without a name."""
    builder = _Builder()
    builder.feed(page.decode())
    builder.close()
    assert builder.open == [builder.root], f"not closed: {[node.tag for node in builder.open]}"
    return builder.root
