"""On the page of findings, formulas in plain text are replaced by MathML, and reasons, evidence and commands are folded
away.
"""

from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from tables import html

from bounds import Form, Outcome, Statement
from bounds.papers import own
from experiments.formulas import mathml

PAGE = "findings"
SHOWN = ("for a reader",)  # these items of the list of a finding stay visible below the formulas


def fold(app: Sphinx, document: nodes.document) -> None:
    """Rewrite the list below the heading of each finding; the heading begins with the statement's id and the form."""
    if app.env.docname != PAGE:
        return
    for listed in document.findall(nodes.definition_list):
        listed["classes"].append("ids")  # the links in this class are ids, which are not broken at a hyphen
    for section in list(document.findall(nodes.section)):
        lists = [node for node in section.children if isinstance(node, nodes.bullet_list)]
        if lists and (known := _finding(section.next_node(nodes.title).astext())):
            lists[0].replace_self(_folded(lists[0], *known))


def _finding(title: str) -> tuple[Statement, Form] | None:
    """The statement and form of a heading: "fl-ntk/B.12, stated: Movement of the global weights"."""
    identifier, _, rest = title.partition(", ")
    form = rest.partition(":")[0]
    return (own()[identifier], Form(form)) if identifier in own() and form in own()[identifier].forms else None


def _folded(items: nodes.bullet_list, statement: Statement, form: Form) -> list[nodes.Node]:
    names = {item.next_node(nodes.strong).astext(): item for item in items.children}
    first = next(iter(names))
    shown = [nodes.paragraph("", "", nodes.strong("", first)), *formulas(statement, form)]
    holding = statement.mutated_form
    if holding is not form and statement.forms[holding].recorded is Outcome.HOLDS:
        shown += [nodes.paragraph("", "", nodes.strong("", f"holds ({holding.value})")), *formulas(statement, holding)]
    seen = [item for name, item in names.items() if name in SHOWN]
    rest = [item for name, item in names.items() if name not in (first, "holds", *SHOWN)]
    folded = [html("<details><summary>Left side, reasons, evidence, replay</summary>")]
    folded += [nodes.bullet_list("", *rest), html("</details>")]
    return [*shown, *([nodes.bullet_list("", *seen)] if seen else []), *folded]


def formulas(statement: Statement, form: Form) -> Iterator[nodes.Node]:
    """The claim of a form, with each part in a block of its own, and the probability with which the claim may fail."""
    for line in mathml.claims(statement, form):
        yield html(f'<div class="math-block">{line}</div>')
    if (failure := mathml.failure(statement.forms[form])) is not None:
        yield nodes.paragraph("", "", nodes.Text("except with probability at most "), html(failure))


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx call `fold` when it reads a page."""
    app.connect("doctree-read", fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
