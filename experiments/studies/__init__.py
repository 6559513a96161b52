"""Studies: each answers, over a grid of cells, a question that a theorem or a figure of the papers raises.

A study is one module of this package with a STUDY, named as the study is (`width_scaling.py` has "width-scaling"), or a
file of the user's that has one. Importing the package imports none of them.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.studies.study import Study

HERE = Path(__file__).parent
SUFFIX = ".py"
_HAS_STUDY = re.compile(r"^STUDY\b", re.MULTILINE)


@cache
def names() -> tuple[str, ...]:
    """The names of the package's studies, read off its files."""
    files = sorted(HERE.glob(f"*{SUFFIX}"))
    return tuple(_name(path) for path in files if _HAS_STUDY.search(path.read_text(encoding="utf-8")))


def catalogue() -> dict[str, Study]:
    """The package's studies by name."""
    return {name: find(name) for name in names()}


def module_file(spec: str) -> Path:
    """The file of a study, given by its name or, for one of the user's, by its path.

    Raises:
        ValueError: there is none, with the nearest name.
    """
    if spec.endswith(SUFFIX):
        path = Path(spec).resolve()
        if not path.is_file():
            raise ValueError(f"there is no file {spec}; a study of your own is given by the path of its module")
        return path
    if spec not in names():
        from ntkfl.nearest_name import did_you_mean

        raise ValueError(
            f"there is no study {spec!r}.{did_you_mean(spec, names())} Studies are {', '.join(names())}, "
            f"or the path of a {SUFFIX} file with a STUDY"
        )
    return HERE / f"{spec.replace('-', '_')}{SUFFIX}"


@cache
def find(spec: str) -> Study:
    """The study of this name, or in the user's file of this path.

    Raises:
        ValueError: there is none, its module has no STUDY, or one of the package's is not named as its study.
    """
    from experiments.studies.study import Study

    path = module_file(spec)
    module = _loaded(path) if spec.endswith(SUFFIX) else import_module(f"{__name__}.{path.stem}")
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise ValueError(f"{path.name} has no study: its STUDY is {study!r}, not an experiments.studies.study.Study")
    if path.parent == HERE and study.name != _name(path):
        raise ValueError(f"{path.name} has the study {study.name!r}; it must be {_name(path)!r}, as the file")
    return study


def _name(path: Path) -> str:
    return path.stem.replace("_", "-")


def _loaded(path: Path):
    """The user's file as a module, under a name that clashes with none."""
    name = f"study_of_the_user_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
