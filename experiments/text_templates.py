"""Texts made from the templates of this package, which are for pages in Markdown and for new files of a user."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, blocks: bool = False, **fields: Any) -> str:
    """The text of a template with these fields.

    With `blocks`, lines that have only commands of the template leave no empty lines.
    """
    environment = Environment(
        loader=PackageLoader("experiments"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=blocks,
        lstrip_blocks=blocks,
    )
    return environment.get_template(f"{template}.jinja").render(**fields)
