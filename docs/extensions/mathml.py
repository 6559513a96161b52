"""Formulas of the pages as MathML, made while the pages are built, so that readers need no script and no network."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from experiments.formulas.mathml import flowing, mathml


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, which breaks or scrolls in a window that is too narrow."""
    text = node.astext()
    drawn = mathml(text, "block") if r"\begin" in text else flowing([text])
    writer.body.append(f'<div class="math-block">{drawn}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
