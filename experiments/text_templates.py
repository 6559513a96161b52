"""Texts from the templates of this package: pages in Markdown, and first files of a user's own."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, blocks: bool = False, **fields: Any) -> str:
    """The text of a template with these fields; `blocks` removes lines that have only commands of the template."""
    environment = Environment(
        loader=PackageLoader("experiments"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=blocks,
        lstrip_blocks=blocks,
    )
    return environment.get_template(f"{template}.jinja").render(**fields)
