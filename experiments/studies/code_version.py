"""Which code measures: a hash over the source text that a cell's numbers depend on, and the versions of libraries."""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.studies import module_file

ROOT = Path(__file__).parents[2]
PACKAGES = ("ntkfl", "bounds", "verification")
WITHOUT_NUMBERS = tuple(f"experiments/studies/{name}.py" for name in ("study", "chart", "answers"))
LIBRARIES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib", "torch", "sympy", "python-flint")


class OtherCode(RuntimeError):
    """A worker's code is not that of the run."""


@cache
def version_of(spec: str) -> str:
    """The version of the code behind a study, in hexadecimal; read once a process.

    It covers `ntkfl`, `bounds`, `verification`, the study's own module with what that imports of `experiments`, and
    the libraries that compute.
    """
    found = hashlib.sha256(_of_the_packages())
    for path in _imported(module_file(spec)):
        found.update(path.read_bytes() + b"\0")
    return found.hexdigest()


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


def _imported(start: Path) -> list[Path]:
    """The module, then those of `experiments` that it imports, directly or not, in an order that no path decides."""
    seen: set[Path] = set()
    left = [start]
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left.extend(_imports(path))
    return [start, *sorted(seen - {start})]


def _imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            file = f"{module.replace('.', '/')}.py"
            if module.startswith("experiments.") and file not in WITHOUT_NUMBERS and (ROOT / file).is_file():
                yield ROOT / file
