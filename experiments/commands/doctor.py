"""`ntkfl doctor`: what is installed on this machine, and what each missing thing would add."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import as_json, reserved
from experiments.console.tables import is_piped, on_screen, print_lines

if TYPE_CHECKING:
    from experiments.environment import Item

BROKEN = 1
MISSING = "-"
GROUPS = ("needed", "optional", "devices", "data", "plugins")
TITLES = {"plugins": "what other packages bring"}  # groups whose title is not their name
NAMES = 22  # width of the column of names; the text beside a longer name is moved
NOT_LOADED = (
    "jax and torch were not loaded: `ntkfl doctor --load` imports what is installed of them and names the devices"
)


def doctor(
    json_file: Annotated[Path | None, typer.Option("--json", help="write what is found as JSON to this file")] = None,
    load: Annotated[bool, "import jax and torch too, which takes seconds, and name their devices"] = False,
) -> None:
    """Say what is installed and found here: packages, devices, data; what a missing thing would add, and how to get it.

    Nothing is downloaded or changed; without --load neither jax nor torch is imported. Exit status: 0; 1 when something
    that is needed is missing or broken.
    """
    from experiments.environment import examined

    with reserved(json_file) as (write,):
        items = examined(load)
        broken = [item for item in items if item.blocks]
        typer.echo("\n".join(_lines(items)))
        if write:
            write(as_json({"works": not broken, "items": [asdict(item) for item in items]}))
    if broken:
        print_lines("", f"missing or broken: {', '.join(item.name for item in broken)}")
        raise typer.Exit(BROKEN)
    print_lines("", "everything that is needed is there", *([] if load else [NOT_LOADED]))


def _lines(items: "tuple[Item, ...]") -> list[str]:
    """Each group with its title and a line for each item; below a missing item, the command that installs it."""
    width = max(len(item.name) for item in items) + 2
    width = width if is_piped() else min(width, NAMES)
    indent = " " * (width + 2)
    lines: list[str] = []
    for group in GROUPS:
        chosen = [item for item in items if item.group == group]
        lines += [TITLES.get(group, group)] if chosen else []
        for item in chosen:
            here = MISSING if item.found is None else item.found
            description = "; ".join(filter(None, (here, item.fault, item.adds)))
            lines += on_screen(f"  {f'{item.name}  ':<{width}}{description}", indent)
            if item.get and (item.found is None or item.fault):
                lines += on_screen(f"{indent}{item.get}", f"{indent}    ", end=" \\")  # pasted lines are one command
            if item.get and item.then and item.found is None:
                lines += on_screen(f"{indent}{item.then}", indent)
    return lines
