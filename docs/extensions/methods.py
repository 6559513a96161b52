"""The directive `method-table`, a table of every federated method with a description and its options with their
defaults.
"""

import inspect

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import code, table

from ntkfl.training.methods import catalogue


class MethodTable(SphinxDirective):
    """Writes a row for each method, in the order of their names."""

    def run(self) -> list[nodes.Node]:
        rows = [
            [
                [code(name)],
                [nodes.Text(inspect.getdoc(module).splitlines()[0])],
                [nodes.Text(", ".join(_options(module.method)))],
            ]
            for name, module in sorted(catalogue().items())
        ]
        return [table(("method", "what it is", "options"), rows)]


def _options(method) -> list[str]:
    parameters = inspect.signature(method).parameters.values()
    return [f"{option.name}={option.default}" for option in parameters if option.kind is option.KEYWORD_ONLY]


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the directive."""
    app.add_directive("method-table", MethodTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
