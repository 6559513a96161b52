"""Which code measures: a hash over the source text that a cell's numbers depend on, and the versions of libraries."""

from __future__ import annotations

import ast
import hashlib
import platform
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.studies import SUFFIX, module_file

ROOT = Path(__file__).parents[2]
PACKAGES = ("ntkfl", "bounds", "verification")
WITHOUT_NUMBERS = tuple(f"experiments.studies.{name}" for name in ("study", "chart", "answers"))
MEASURING = ("experiments.studies.measuring", "experiments.studies.one_thread")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib", "torch", "sympy", "python-flint")


class OtherCode(RuntimeError):
    """A worker's code is not that of the run."""


@cache
def version_of(spec: str) -> str:
    """The version of the code behind a study, in hexadecimal; read once a process.

    It covers `ntkfl`, `bounds`, `verification`, the study's own module, what measures its cells, all that these import
    of `experiments` or of the user's, directly or not, and the libraries that compute. It does not cover files that a
    study reads, or modules that it loads by other means than an import.
    """
    found = hashlib.sha256(_of_the_packages())
    for name, path in sorted(_modules(module_file(spec)).items()):
        found.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def placed(spec: str) -> str:
    """The same study wherever the process stands: the user's file by its absolute path."""
    return str(module_file(spec)) if spec.endswith(SUFFIX) else spec


def require(spec: str, wanted: str) -> None:
    """Nothing, if this process has that version of the code.

    Raises:
        OtherCode: it has another.
    """
    here = version_of(spec)
    if here != wanted:
        raise OtherCode(
            f"a worker on {platform.node()} has version {here[:12]} of the code behind {spec}; the run has "
            f"{wanted[:12]}. Give it the same checkout, Python and packages, and start it anew"
        )


@cache
def _of_the_packages() -> bytes:
    found = hashlib.sha256(platform.python_version().encode())
    for name in LIBRARIES:
        try:
            found.update(f"{name} {version(name)}\0".encode())
        except PackageNotFoundError:
            found.update(f"{name} -\0".encode())
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.digest()


def _modules(start: Path) -> dict[str, Path]:
    """A study's file (under no name), those that measure any study's cells, and all that they import, by name."""
    found: dict[str, Path] = {}
    seen, left = set(MEASURING), [("", start), *(each for module in MEASURING for each in _files(module))]
    while left:
        name, path = left.pop()
        if name not in found:
            found[name] = path
            new = set(_imports(name, path)) - seen
            seen |= new
            left.extend(each for module in new for each in _files(module))
    return found


def _imports(name: str, path: Path) -> Iterator[str]:
    """Names of modules that a module imports, with names of what it takes from them, which may be modules too."""
    if path.suffix != SUFFIX:
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """Name and file of a module and of the packages that it is in; none of libraries, which go by their versions."""
    parts = module.split(".")
    if parts[0] in PACKAGES:
        return
    places = [ROOT, *map(Path, sys.path)]
    for last in range(1, len(parts) + 1):
        name = ".".join(parts[:last])
        file, places = _found(parts[last - 1], places)
        if file is None and last == 1 and not places:
            file, places = _found_by_a_hook(name)
        if file is not None and parts[0] != "experiments" and _of_a_library(file):
            return
        if file is not None and name not in WITHOUT_NUMBERS:
            yield name, file


def _found(name: str, places: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """The file of a module in the first of these folders that has it, and the folders of what is in it."""
    for place in places if name else ():
        if (package := place / name / "__init__.py").is_file():
            return package, [package.parent]
        for suffix in (*EXTENSION_SUFFIXES, SUFFIX):
            if (file := place / f"{name}{suffix}").is_file():
                return file, []
    return None, [place / name for place in places if name and (place / name).is_dir()]


def _found_by_a_hook(name: str) -> tuple[Path | None, list[Path]]:
    """The same of a module that lies in no folder: some editable installations."""
    specs = (finder.find_spec(name, None) for finder in sys.meta_path if name)
    spec = next((spec for spec in specs if spec and spec.has_location and spec.origin), None)
    if spec is None or spec.origin is None:
        return None, []
    return Path(spec.origin), [Path(place) for place in spec.submodule_search_locations or ()]


def _of_a_library(file: Path) -> bool:
    """Whether it is the interpreter's, or was installed from a package."""
    parts = {"site-packages", "dist-packages"} & set(file.parts)
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return bool(parts) or any(file.is_relative_to(place) for place in standard if place)
