"""Names of a package that are imported from their modules when they are first used."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose file imports its names under `if TYPE_CHECKING:` only.

    The imports are read from the file, so that one list serves the type checker and the first use.
    """
    blocks = [node for node in ast.parse(Path(file).read_text()).body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    modules = {name.name: str(line.module) for line in imports for name in line.names}

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = modules[name]
        return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    return attribute, lambda: sorted(modules)
