"""The directive `command-help`, which shows every command of `ntkfl` and of its groups with the text of `--help`."""

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from experiments.command_line import app as command_line

WIDTH = 88  # the width of the page's column in characters


class CommandHelp(SphinxDirective):
    """Writes a section for each command."""

    def run(self) -> list[nodes.Node]:
        return [self._section(name, text) for name, text in _helps("ntkfl", typer.main.get_command(command_line))]

    def _section(self, name: str, text: str) -> nodes.section:
        section = nodes.section("", nodes.title("", name), names=[f"command {name}"])
        self.state.document.note_explicit_target(section, section)
        section += nodes.literal_block(text, text, language="text")
        return section


def _helps(name: str, command: Any) -> Iterator[tuple[str, str]]:
    context = command.context_class(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    yield name, command.get_help(context)
    for child, inner in getattr(command, "commands", {}).items():
        yield from _helps(f"{name} {child}", inner)


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
