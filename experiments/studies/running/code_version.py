"""The version of the code: a hash of all files that may change the numbers of cells, and of library versions."""

import ast
import hashlib
import platform
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from experiments.studies import SUFFIX, module_file, modules_of_studies

ROOT = Path(__file__).parents[3]
PACKAGES = ("ntkfl", "bounds", "verification", "experiments")
WITHOUT_NUMBERS = (  # parts of `experiments` that do not change the numbers of cells
    *("commands", "console", "report", "formulas", "pictures", "benchmarks", "miniatures"),
    *(f"studies/{name}.py" for name in ("study", "chart", "drawing", "answers", "series", "default_charts")),
)
LIBRARIES = "numpy scipy scikit-learn numba jax jaxlib torch sympy python-flint dp-accounting pillow".split()


class OtherCode(RuntimeError):
    """A worker has another version of the code than the run."""


@cache
def version_of(spec: str) -> str:
    """The version of the code of a study, in hexadecimal.

    The files are read once in each process.

    The version depends on the project's four packages, except other studies and modules that do not change numbers. It
    depends on the study's own module, on every module of the user that this module imports, directly or not, and on the
    versions of the numerical libraries. It does not depend on files that a study reads, or on modules that it loads by
    other means than an import.
    """
    digest = hashlib.sha256(_of_the_packages())
    for name, path in sorted(_modules(module_file(spec))):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def placed(spec: str) -> str:
    """A name of the study that is valid in every working folder; for a user's file, the name is the absolute path."""
    return str(module_file(spec)) if spec.endswith(SUFFIX) else spec


def require(spec: str, wanted: str) -> None:
    """Raise an error unless this process has the wanted version of the code.

    Raises:
        OtherCode: this process has another version.
    """
    here = version_of(spec)
    if here != wanted:
        raise OtherCode(
            f"a worker on {platform.node()} has version {here[:12]} of the code behind {spec}; the run has "
            f"{wanted[:12]}. Give it the same checkout, Python and packages, and start it anew"
        )


@cache
def _of_the_packages() -> bytes:
    digest = hashlib.sha256(platform.python_version().encode())
    for name in LIBRARIES:
        try:
            digest.update(f"{name} {version(name)}\0".encode())
        except PackageNotFoundError:
            digest.update(f"{name} -\0".encode())
    for path in _files_of_the_packages():
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def _files_of_the_packages() -> list[Path]:
    without = {ROOT / "experiments" / part for part in WITHOUT_NUMBERS} | set(modules_of_studies())
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob(f"*{SUFFIX}")))
    return [path for path in files if without.isdisjoint((path, *path.parents))]


def _modules(start: Path) -> set[tuple[str, Path]]:
    """Pairs of a name and a file, for a study's own file and for the user's files that it imports.

    The study's own file has an empty name; an imported file has the name of the import.
    """
    modules, left, seen = {("", start)}, [start], {*PACKAGES}
    while left:
        new = _imported(left.pop()) - seen
        seen |= new
        files = [(name, path) for name in new for path in _files(name)]
        modules.update(files)
        left += [path for _, path in files if path.suffix == SUFFIX]
    return modules


def _imported(file: Path) -> set[str]:
    """The names of the packages, and of the modules outside packages, that a file imports."""
    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names}


def _files(name: str) -> Iterator[Path]:
    """The files of a module or package.

    Files of the interpreter and of libraries are left out, since these have versions.
    """
    spec = find_spec(name)
    if spec is None:
        return
    for folder in map(Path, spec.submodule_search_locations or ()):
        if not _of_a_library(folder):
            yield from folder.rglob(f"*{SUFFIX}")
    if spec.has_location and spec.origin and not _of_a_library(Path(spec.origin)):
        yield Path(spec.origin)


def _of_a_library(path: Path) -> bool:
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(map(path.is_relative_to, standard))
