"""How the packages of this project are imported.

Names are loaded when they are first used. A user's folder that has the name of one of our packages is refused.
"""

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

NO_TORCH = "it needs PyTorch, which is not installed (pip install 'ntkfl[train]')"


@contextmanager
def naming_the_extra(what: str) -> Iterator[None]:
    """A block of imports; if PyTorch is missing, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise ModuleNotFoundError(f"{what}: {NO_TORCH}", name="torch") from None


def lazy_names(package: str, file: str, **old: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and `__dir__` of a package that loads its names when they are first used.

    The package's file imports these names under `if TYPE_CHECKING:` only. The imports are read from the file, so that
    the type checker and the loading share one list. `old` has old names, as in `old_names`.
    """
    blocks = [node for node in ast.parse(Path(file).read_text()).body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    modules = {name.name: str(line.module) for line in imports for name in line.names}
    missing = old_names(package, **old)

    def attribute(name: str) -> Any:
        if name not in modules:
            missing(name)
        home = modules[name]
        with naming_the_extra(f"{package}.{name}"):
            return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    return attribute, lambda: sorted(modules)


def old_names(module: str, **old: str) -> Callable[[str], NoReturn]:
    """Returns a `__getattr__` for a module. If an old name is used, the error gives the new name."""

    def missing(name: str) -> NoReturn:
        if name in old:
            raise ImportError(f"{module} has no {name}; it is {old[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing


class MovedModules(MetaPathFinder):
    """A finder of modules, to be asked last: importing a module that was moved raises an error that says where it is
    now.
    """

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = moved

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in self.moved:
            raise ImportError(f"there is no {fullname}; it is {self.moved[fullname]}", name=fullname)


def refuse_other_folders(*packages: str) -> None:
    """Raise an ImportError if a folder of the user is imported in place of one of our packages; the error names the
    folder.
    """
    for package in packages:
        if message := _other_folder(package):
            raise ImportError(message)


def warn_of_other_folders(*packages: str) -> None:
    """Warn of a user's folder that hides a package of ours, if this process may not need that package."""
    for package in packages:
        if message := _other_folder(package):
            warnings.warn(message, stacklevel=3)


def _other_folder(package: str) -> str:
    """A message that another folder than ours is imported under this name; empty if ours is imported."""
    ours = Path(__file__).parents[1] / package
    spec = find_spec(package)
    places = [] if spec is None else [Path(place).resolve() for place in spec.submodule_search_locations or []]
    if spec is None or ours.resolve() in places:
        return ""
    theirs = places[0] if places else spec.origin
    return (
        f"{theirs} is imported as {package!r}, the name of a package of ntkfl ({ours}): rename it, or take the "
        "folder that it is in from sys.path, where a script's own folder and those of PYTHONPATH come first"
    )
