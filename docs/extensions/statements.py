"""Directives that list the statements, and a page for each statement, which is written before Sphinx collects the
pages.

The directives are `statement-table [PAPER]`, `statement-page ID`, `findings-by-nature`, `evidence-by-kind` and
`symbol-table`. The ID is the whole id of a statement.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from statement_pictures import address, figure
from tables import code, html, link, table

from bounds import Form, Kind, Statement
from bounds.evidence import MEANING as EVIDENCE, Evidence, evidence, evidence_text, strongest
from bounds.papers import own, slug
from bounds.symbols import GLOSSARY
from experiments.formulas import mathml
from experiments.formulas.prose import prose
from verification.findings.findings_page import MEANING
from verification.verdict_page import read_from

PAGE = """---
orphan: true
---
```{{statement-page}} {id}
```
"""


class StatementTable(SphinxDirective):
    """Writes a row for every statement, or for the statements of one paper, with id and title, the outcome of each
    form, and the source.
    """

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        root, paper = _root(self.env.docname), "".join(self.arguments)
        rows = [
            [
                [*([_old_address(s)] if paper else []), link(label(s.id), s.id)],
                [nodes.Text(s.title)],
                [nodes.Text(s.kind.value)],
                [nodes.Text(", ".join(_settled(s, form) for form in s.forms))],
                _with_links(s.source.label, root),
            ]
            for s in own().values()
            if s.id.startswith(f"{paper}/" if paper else "")
        ]
        return [table(("statement", "title", "kind", "forms", "source"), rows)]


class StatementPage(SphinxDirective):
    """Writes the page of one statement, with links to its neighbours."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        identifier = self.arguments[0]
        return [self._section(own()[identifier])]

    def _section(self, statement: Statement) -> nodes.section:
        root = _root(self.env.docname)
        section = nodes.section("", nodes.title("", f"{statement.id}: {statement.title}"), names=[label(statement.id)])
        self.state.document.note_explicit_target(section, section)
        section.insert(1, _index_entries(statement.id, section["ids"][0]))
        section += nodes.paragraph("", "", *_with_links(f"{_kind(statement)}; {statement.source}", root))
        for form in statement.forms:
            section += self._form(statement, form)
        section += figure(self.env.app, statement, root)
        facts = [("left side", [nodes.Text(prose(statement.says_left))])]
        facts += [(f"needs {h.name}", [nodes.Text(prose(h.says))]) for h in statement.hypotheses]
        if statement.note:
            facts.append(("note", [nodes.Text(prose(statement.note))]))
        if statement.uses:
            links = [node for i in statement.uses for node in (nodes.Text("; "), _titled(i))]
            facts.append(("rests on", links[1:]))
        used_by = [s.id for s in own().values() if statement.id in s.uses]
        if used_by:
            links = [node for i in used_by for node in (nodes.Text("; "), _titled(i))]
            facts.append(("used by", links[1:]))
        facts.append(("check it", [code(f"ntkfl verify {statement.id}")]))
        section += _definitions(facts)
        section += nodes.paragraph("", "", *_neighbours(statement.id))
        return section

    def _form(self, statement: Statement, form: Form) -> list[nodes.Node]:
        claim = statement.forms[form]
        shown = [html(f'<div class="math-block">{line}</div>') for line in mathml.claims(statement, form)]
        facts = [("read from", [nodes.Text(prose(read_from(statement, form)))])]
        facts.append(("evidence", _with_links(evidence_text(statement, form), _root(self.env.docname))))
        facts += [(f"needs {h.name}", [nodes.Text(prose(h.says))]) for h in claim.hypotheses]
        if (failure := mathml.failure(claim)) is not None:
            facts.append(("may fail", [nodes.Text("with probability at most "), html(failure)]))
        if claim.note:
            facts.append(("note", [nodes.Text(prose(claim.note))]))
        head = nodes.paragraph("", "", nodes.strong("", _settled(statement, form)))
        return [head, *shown, _definitions(facts)]


class FindingsByNature(SphinxDirective):
    """Lists the forms that do not hold as printed by the nature of the difference, the most serious first."""

    def run(self) -> list[nodes.Node]:
        forms = [(s.id, form, s.forms[form].nature) for s in own().values() for form in s.forms]
        items = []
        for nature, meaning in MEANING.items():
            those = [(i, form) for i, form, n in forms if n is nature]
            rows = [nodes.paragraph("", "", _form_link(i, form), _title(i)) for i, form in those]
            listed = nodes.bullet_list("", *(nodes.list_item("", row) for row in rows))
            items.append((f"{nature.value}: {len(those)}", [nodes.paragraph("", meaning), listed]))
        return [_definition_list(items)]


class EvidenceByKind(SphinxDirective):
    """Writes a row for each kind of evidence.

    The row has the number of forms that have evidence of this kind. It also has the number of the forms whose strongest
    evidence is of this kind, and these forms.
    """

    def run(self) -> list[nodes.Node]:
        forms = [(statement, form) for statement in own().values() for form in statement.forms]
        rows = []
        for kind in Evidence:
            have = sum(kind in evidence(statement, form) for statement, form in forms)
            best = [(statement.id, form) for statement, form in forms if strongest(statement, form) == kind]
            links = [node for i, form in best for node in (nodes.Text(", "), _form_link(i, form))]
            shown = links[1:] if kind is not Evidence.SAMPLED else [nodes.Text("all others")]
            counts = [[nodes.Text(str(have))], [nodes.Text(str(len(best)))]]
            rows.append([[nodes.Text(kind.value)], [nodes.Text(EVIDENCE[kind])], *counts, shown])
        none = sum(not evidence(statement, form) for statement, form in forms)
        content = nodes.paragraph(
            "", f"Of {len(forms)} forms {none} have no evidence at all: recorded open or untested."
        )
        return [table(("evidence", "what it means", "forms", "as their strongest", "which"), rows), content]


class SymbolTable(SphinxDirective):
    """Writes the glossary.

    A row has a symbol as the papers print it, its spelling in formulas, its name in this package, and its meaning.
    """

    def run(self) -> list[nodes.Node]:
        rows = [
            [[html(mathml.inline(symbol))], [code(str(symbol))], [code(name)], [nodes.Text(prose(meaning))]]
            for symbol, (name, meaning) in GLOSSARY.items()
        ]
        return [table(("symbol", "in formulas", "our name", "meaning"), rows)]


def label(identifier: str) -> str:
    """The label of a statement's section: fl-ntk/B.12 -> fl-ntk-b-12."""
    return slug(identifier).replace("_", "-")


def write_pages(app: Sphinx) -> None:
    """Write a page for each statement into the folder of its paper, which git ignores, and remove all other pages."""
    folder = Path(app.srcdir) / "statements"
    pages = {folder / f"{address(identifier)}.md": PAGE.format(id=identifier) for identifier in own()}
    for page in set(folder.glob("*/*.md")) - pages.keys():
        page.unlink()
    for page, text in pages.items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")


def _root(document: str) -> str:
    """The relative path from a page to the root of the site."""
    return "../" * document.count("/")


def _with_links(source: str, root: str) -> list[nodes.Node]:
    """The text of a source with links to those pages of proofs and findings that the text names."""
    parts = re.split(r"(docs/proofs/\w+\.md#[\w-]+|FINDINGS\.md#[\w.-]+)", source)
    pages = [part.removeprefix("docs/").replace("FINDINGS", "findings").replace(".md", ".html") for part in parts]
    return [
        nodes.reference("", "", *_breakable(part), refuri=f"{root}{page}", internal=True) if k % 2 else nodes.Text(part)
        for k, (part, page) in enumerate(zip(parts, pages, strict=True))
    ]


def _breakable(path: str) -> list[nodes.Node]:
    """A path in which lines may be broken after each punctuation mark."""
    parts = re.split(r"(?<=[/_#])", path)
    return [node for part in parts for node in (html("<wbr>"), nodes.Text(part))][1:]


def _old_address(statement: Statement) -> nodes.raw:
    """The anchor that a statement had on the former page of its paper.

    With this anchor old links still find the statement's row.
    """
    return html(f'<a id="{label(statement.id)}"></a>')


def _titled(identifier: str) -> nodes.Node:
    return link(label(identifier), f"{identifier} {own()[identifier].title}")


def _neighbours(identifier: str) -> list[nodes.Node]:
    """Links to the statements before and after this one, and to all of its paper."""
    paper = identifier.partition("/")[0]
    ids = [i for i in own() if i.startswith(f"{paper}/")]
    place = ids.index(identifier)
    parts: list[nodes.Node] = []
    for word, beside in (("before it: ", ids[place - 1 : place]), ("after it: ", ids[place + 1 : place + 2])):
        parts += [nodes.Text(word), _titled(beside[0]), nodes.Text("; ")] if beside else []
    up = nodes.reference("", f"all of {paper}", refuri=f"../{paper}.html", internal=True)
    return [*parts, up]


def _index_entries(identifier: str, target: str) -> addnodes.index:
    """The words by which the search box and the index find a statement: its id, and its label without the paper."""
    words = (identifier, identifier.partition("/")[2])
    return addnodes.index(entries=[("single", word, target, "main", None) for word in words])


def _form_link(identifier: str, form: Form) -> nodes.Node:
    return link(label(identifier), identifier + ("" if form is Form.STATED else f" ({form.value})"))


def _title(identifier: str) -> nodes.Text:
    return nodes.Text(f" {prose(own()[identifier].title)}")


def _settled(statement: Statement, form: Form) -> str:
    nature = statement.forms[form].nature
    return f"{form.value}: {statement.forms[form].recorded.value}" + (f" ({nature.value})" if nature else "")


def _kind(statement: Statement) -> str:
    return statement.kind.value + (" bound" if statement.kind in (Kind.UPPER, Kind.LOWER, Kind.TWO_SIDED) else "")


def _definitions(facts: list[tuple[str, list[nodes.Node]]]) -> nodes.definition_list:
    return _definition_list([(name, [nodes.paragraph("", "", *content)]) for name, content in facts])


def _definition_list(facts: list[tuple[str, list[nodes.Node]]]) -> nodes.definition_list:
    items = [
        nodes.definition_list_item("", nodes.term("", name), nodes.definition("", *blocks)) for name, blocks in facts
    ]
    return nodes.definition_list("", *items, classes=["facts"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the directives."""
    app.add_directive("statement-table", StatementTable)
    app.add_directive("statement-page", StatementPage)
    app.add_directive("findings-by-nature", FindingsByNature)
    app.add_directive("evidence-by-kind", EvidenceByKind)
    app.add_directive("symbol-table", SymbolTable)
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
