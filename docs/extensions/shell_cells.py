"""A cell `!ntkfl ...` of a notebook is shown as the shell command that a reader types."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class ShellCells(SphinxTransform):
    """Removes the `!`, and highlights the cell as a shell command."""

    default_priority = 400

    def apply(self, **_: object) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if text.startswith("!"):
                block["language"] = "shell"
                block.children = [nodes.Text(text.removeprefix("!"))]
                block.rawsource = text.removeprefix("!")


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the transform."""
    app.add_transform(ShellCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
