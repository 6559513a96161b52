"""Modules found by name: in a folder of this project, in a user's .py file, or announced by an installed package."""

import hashlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SUFFIX = ".py"
PREFIX = "file_of_the_user_"  # a file is loaded as a module whose name is this prefix and the name of the file


class ExtensionError(ValueError):
    """A module from a user's file or from an installed package cannot be used; the message says where and why."""


@dataclass(frozen=True, eq=False)
class Extension:
    """A module from a user's file or from an installed package."""

    module: ModuleType
    name: str  # the name by which the file was given, or the name of the package
    source: bytes | None = None  # the bytes of the file that were executed; None for a package
    version: str | None = None  # the version of the package; None for a file

    @property
    def provenance(self) -> Mapping[str, str]:
        """The file with its SHA-256, or the package with its version."""
        if self.source is not None:
            return {"file": self.name, "sha256": _sha256(self.source)}
        return {"package": self.name, "version": str(self.version), "module": self.module.__name__}


_files: dict[Path, Extension] = {}


def is_file(spec: str) -> bool:
    """Whether `spec` names a file, and not an entry of a catalogue."""
    return spec.endswith(SUFFIX)


def require_outside(folder: Path, what: str, spec: str, again: str) -> None:
    """Refuse to run a file that someone else may have put into a folder.

    A file is refused if it lies in the folder, or if its path in the folder's records is relative, because a stranger
    may have made the folder.

    For the message, `what` is the record that names the file, such as "study". `again` is what the user should repeat
    after moving the file.

    Raises:
        ValueError: the file lies in the folder, or its path is relative.
    """
    file = Path(spec)
    if is_file(spec) and (not file.is_absolute() or file.resolve().is_relative_to(folder.resolve())):
        raise ValueError(
            f"{folder} says that its {what} is in {spec}; only a file outside it, named by a full path, is run. "
            f"If you trust the file, move it and {again} again"
        )


def from_file(spec: str | os.PathLike[str]) -> Extension:
    """The module in a file; the file is executed again only if its content has changed.

    Raises:
        ExtensionError: there is no such file, or the file fails; the message names the line.
    """
    return from_source(spec, _read(spec))


def digest(spec: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, which is not executed.

    Raises:
        ExtensionError: there is no such file.
    """
    return _sha256(_read(spec))


def from_source(spec: str | os.PathLike[str], source: bytes) -> Extension:
    """The module as `from_file` returns it, from the given content of the file."""
    path, name = Path(spec).resolve(), os.fspath(spec)
    known = _files.get(path)
    if known is None or known.source != source:
        known = Extension(_executed(path, name, source), name, source)
    _files[path] = replace(known, name=name)
    return _files[path]


def modules_of(package: str) -> Iterator[ModuleType]:
    """Yields the modules in a package's folder, sorted by name.

    A new file in the folder is found; nothing else has to be edited.
    """
    for info in pkgutil.iter_modules(import_module(package).__path__):
        yield import_module(f"{package}.{info.name}")


class LeftOut(UserWarning):
    """A module that a package announces cannot be used.

    `every` means that Python shows the warning for every such module, not only for the first.
    """

    every = True


def announced(group: str, check: Callable[[Extension, Sequence[Extension]], object]) -> tuple[Extension, ...]:
    """All modules that installed packages announce in a group; a module that fails is left out, with a warning."""
    extensions: list[Extension] = []
    for point in entry_points(group=group):
        try:
            extension = from_package(point)
            check(extension, extensions)
        except ExtensionError as error:
            warnings.warn(f"{error}; it is left out", LeftOut, stacklevel=2)
        else:
            extensions.append(extension)
    return tuple(extensions)


def from_package(point: EntryPoint) -> Extension:
    """The module that an entry point names.

    Raises:
        ExtensionError: the entry point cannot be imported, or names no module.
    """
    package = point.dist.name if point.dist else "an installed package"
    announcement = f"{package} announces {point.value} as {point.group}"
    try:
        module = point.load()
    except Exception as error:
        raise ExtensionError(f"{announcement}, and that fails: {type(error).__name__}: {error}") from error
    if not isinstance(module, ModuleType):
        raise ExtensionError(f"{announcement}; that is a {type(module).__name__}, and must be a module")
    return Extension(module, package, version=point.dist.version if point.dist else None)


def _read(spec: str | os.PathLike[str]) -> bytes:
    try:
        return Path(spec).read_bytes()
    except OSError as error:
        raise ExtensionError(
            f"{os.fspath(spec)} cannot be read: {error.strerror}; name a {SUFFIX} file that is there"
        ) from None


def _sha256(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def _executed(path: Path, name: str, source: bytes) -> ModuleType:
    """Execute the file and return it as a module.

    No bytecode is written or read, so that exactly the source that was read is run.
    """
    called = PREFIX + path.stem
    spec = spec_from_file_location(called, path)
    assert spec is not None, "a file that ends in .py has a loader"
    module, before = module_from_spec(spec), sys.modules.get(called)
    sys.modules[called] = module  # dataclasses look up their module in this table
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[called]
        if before is not None:
            sys.modules[called] = before
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExtensionError(f"{name}{_where(error, path)}: {type(error).__name__}: {reason}") from error
    return module


def last_frame(error: BaseException, lies: Callable[[Path], bool]) -> traceback.FrameSummary | None:
    """The innermost frame in the error's traceback with a file for which `lies` is true; None if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame for frame in reversed(frames) if lies(Path(frame.filename))), None)


def _where(error: BaseException, path: Path) -> str:
    """The innermost line of the file in the error's traceback, as ", line 7, `...`"; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    frame = last_frame(error, lambda file: file == path)
    return f", line {frame.lineno}, `{frame.line}`" if frame is not None else ""
