"""`ntkfl doctor`: what is installed on this machine, and what each missing package or device would be used for."""

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
TITLES = {"plugins": "what other packages bring"}  # the titles of groups whose title differs from their name
NAMES = 22  # width of the column of names; beside a longer name the text begins farther right
NOT_LOADED = (
    "jax and torch were not loaded: `ntkfl doctor --load` imports what is installed of them and names the devices"
)


def doctor(
    json_file: Annotated[Path | None, typer.Option("--json", help="write what is found as JSON to this file")] = None,
    load: Annotated[bool, "import jax and torch too, which takes seconds, and name their devices"] = False,
) -> None:
    """Say which packages, devices and data this machine has, what each missing one would add, and how to get it.

    Nothing is downloaded or changed. Without --load neither jax nor torch is imported. Exit status: 0 if everything
    that is needed works, 1 if something that is needed is missing or broken.
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
    """The lines to print: for each group its title and a line for each item.

    Below a missing item is the command that installs it.
    """
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
                # the backslash makes the lines one command when they are pasted
                lines += on_screen(f"{indent}{item.get}", f"{indent}    ", end=" \\")
            if item.get and item.then and item.found is None:
                lines += on_screen(f"{indent}{item.then}", indent)
    return lines
