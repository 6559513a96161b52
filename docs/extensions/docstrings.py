"""Docstrings are plain text with `code` in single backticks, so characters that reStructuredText would treat as markup
are escaped.

The lines of an example, from `Example:` to the next blank line, are code and stay as they are.
"""

import re

from sphinx.application import Sphinx

CODE = re.compile(r"(`[^`]+`)")
MARKUP = re.compile(r"[*|_\\]")
DEFAULT = re.compile(r"<(?:[^<>]|<[^<>]*>)*>")


def escaped(line: str) -> str:
    """One line of plain text as reStructuredText."""
    parts = CODE.split(line)
    return "".join(
        f"`{part}`" if number % 2 else MARKUP.sub(lambda match: "\\" + match[0], part)
        for number, part in enumerate(parts)
    )


def escape(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Escape a docstring before Sphinx's extension napoleon reads its sections; the words that napoleon looks for have
    no markup.
    """
    in_example = False
    for number, line in enumerate(lines):
        in_example = line == "Example:" or (in_example and line != "")
        if not in_example:
            lines[number] = escaped(line)
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # without this comment napoleon takes the text before the first colon for a type


def readable(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """The signature with `...` for a default such as <factory>, so that Sphinx can parse it and link its types."""
    return (signature and DEFAULT.sub("...", signature)), result


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx call these functions before those of napoleon, whose priority is the default, 500."""
    app.connect("autodoc-process-docstring", escape, priority=400)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
