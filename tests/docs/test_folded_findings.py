"""Tests of the page of findings: formulas are drawn, and parts of a finding are hidden until a reader unfolds them.

No text is lost.
"""

from docutils import nodes
from folded_findings import _finding, _folded

from bounds import Form
from bounds.papers import own


def said(name: str, text: str) -> nodes.list_item:
    return nodes.list_item("", nodes.paragraph("", "", nodes.strong("", name), nodes.Text(f": {text}")))


def test_headings_of_findings_are_told_from_others():
    assert _finding("fl-ntk/B.12, stated: Movement of the global weights") == (own()["fl-ntk/B.12"], Form.STATED)
    assert _finding("Missing hypothesis") is None and _finding("fl-ntk/B.12, new: no such form") is None


def test_a_finding_shows_formulas_and_what_a_reader_needs_and_folds_the_rest():
    names = ("printed", "holds", "why", "for a reader", "evidence", "replay")
    items = nodes.bullet_list("", *(said(name, f"text of {name}") for name in names))
    nodes_of_item = _folded(items, own()["fl-ntk/B.12"], Form.STATED)
    drawn = [node.astext() for node in nodes_of_item if isinstance(node, nodes.raw)]
    # Two formulas are drawn: the formula as printed, and the formula that holds.
    assert sum("<math" in text for text in drawn) == 2
    opened = next(n for n, node in enumerate(nodes_of_item) if "<details>" in node.astext())
    assert "</details>" in nodes_of_item[-1].astext()
    before, after = (
        " ".join(node.astext() for node in part) for part in (nodes_of_item[:opened], nodes_of_item[opened:])
    )
    assert "text of for a reader" in before and "text of printed" not in before + after
    assert [f"text of {name}" in after for name in ("why", "evidence", "replay")] == [True] * 3
