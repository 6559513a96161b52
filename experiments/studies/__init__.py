"""Studies, each of which answers a question about a theorem or a figure of the papers.

A study measures the same quantities for all combinations of some values, such as widths and seeds. The values of one
kind are an axis, all combinations are the grid, and the measurement at one combination is a cell.

A study is a module with a STUDY. The module may be in the package `questions`, where `width_scaling.py` has the study
"width-scaling". It may be a module that an installed package announces as an entry point of the group `ntkfl.studies`,
under the study's name. Or it is a user's file. Importing this package imports no study.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names

if TYPE_CHECKING:
    from experiments.studies import answers as answers
    from experiments.studies.study import Axis as Axis, Quantity as Quantity, Study as Study, seeds as seeds

# `__dir__` is not replaced here, so that dir() lists the functions below; the pages of reference need these names
__getattr__ = lazy_names(__name__, __file__)[0]

HERE = Path(__file__).parent / "questions"
SUFFIX = ".py"
GROUP = "ntkfl.studies"


@cache
def names() -> tuple[str, ...]:
    """The names of all studies, those of this package and those that installed packages announce."""
    return (*_own(), *_announced())


def catalogue() -> dict[str, Study]:
    """The studies by name.

    A study of an installed package that cannot be used is left out, with a warning.
    """
    from ntkfl.extensions import ExtensionError

    studies: dict[str, Study] = {}
    for name in names():
        try:
            studies[name] = find(name)
        except ExtensionError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=2)
    return studies


def module_file(spec: str) -> Path:
    """The file of a study, which is given by its name, or by its path if it is a user's study.

    Args:
        spec: name of a study, or path of a file of yours.

    Raises:
        ValueError, ExtensionError: as `find`.
    """
    return Path(str(_module(spec).__file__))


@cache
def find(spec: str) -> Study:
    """The study of this name, or in the user's file at this path.

    Args:
        spec: name of a study, or path of a file of yours.

    Raises:
        ValueError: no study has this name, its module has no STUDY, or the STUDY has another name than its module.
        ExtensionError: a kind of ValueError: the user's file, or a module that a package announces, raises an error.
    """
    from experiments.studies.study import Study
    from ntkfl.extensions import ExtensionError

    module = _module(spec)
    path = Path(str(module.__file__))
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise ExtensionError(
            f"{path.name} has no study: its STUDY is {study!r}, not an experiments.studies.study.Study"
        )
    if not spec.endswith(SUFFIX) and study.name != spec:
        raise ExtensionError(f"{path.name} has the study {study.name!r}; it must be {spec!r}, as it is announced")
    return study


def _module(spec: str) -> ModuleType:
    from ntkfl.extensions import from_file, from_package, is_file
    from ntkfl.messages import did_you_mean

    if is_file(spec):
        return from_file(spec).module
    if spec in _own():
        return import_module(f"{__name__}.{HERE.name}.{spec.replace('-', '_')}")
    if spec in _announced():
        return from_package(_announced()[spec]).module
    raise ValueError(
        f"there is no study {spec!r}.{did_you_mean(spec, names())} Studies are {', '.join(names())}, "
        f"or the path of a {SUFFIX} file with a STUDY"
    )


def modules_of_studies() -> list[Path]:
    """The files of the studies in `questions`."""
    return sorted(HERE.glob(f"[!_]*{SUFFIX}"))


@cache
def _own() -> tuple[str, ...]:
    return tuple(path.stem.replace("_", "-") for path in modules_of_studies())


@cache
def _announced() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _own()}
