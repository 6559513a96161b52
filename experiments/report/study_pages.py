"""A page for each study, with its question, its answers, its figures with their data, and how it was run."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from bounds.papers import slug
from experiments.report.outcomes import Shown, shown
from experiments.studies.chart import COLUMNS, Chart, table
from experiments.studies.study import SEED, Answer, Axis, counted
from verification.verdict_page import amount, ratio_text

if TYPE_CHECKING:
    import xarray

    from experiments.studies.grid import Grid

ENLARGED = 1.6  # pixels on a page for each point of a figure, since sizes made for print are small on a screen
SHOWN = 16  # the largest number of values of an axis that are listed


@dataclass(frozen=True)
class AnswerRow:
    """An answer as the page shows it."""

    claim: str
    source: str
    theory: str
    measured: str
    note: str
    shown: Shown


@dataclass(frozen=True)
class Figure:
    """A picture with its caption and its data.

    `image` and `table` are the paths of the picture and of the data in the report.
    """

    name: str
    caption: str
    alt: str
    image: str
    table: str
    width: int
    height: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class StudyPage:
    """The page of a study.

    `path` is the path of the page, `summary` summarises the answers, and `files` are the files of the figures.
    """

    name: str
    path: str
    question: str
    source: str
    summary: str
    cells: int
    missing: int
    answers: Sequence[AnswerRow]
    figures: Sequence[Figure]
    provenance: Sequence[tuple[str, str]]
    replay: str
    files: Mapping[str, bytes]


def study_page(path: Path) -> StudyPage:
    """The page of the study in a folder that `ntkfl study run` filled.

    Raises:
        ValueError: the folder is not a study's, or has no results. OSError: the folder cannot be read.
    """
    from experiments.studies.default_charts import charts_of
    from experiments.studies.study_folder import StudyFolder

    grid, cells = StudyFolder(path).measured()
    study = grid.study
    figures, files = _figures(study.name, charts_of(study, cells))
    answers = study.answers(cells)
    rows = sorted(map(_answer, answers), key=lambda answer: answer.shown.rank)
    surprises = sum(answer.shown.differs is not None for answer in rows)
    return StudyPage(
        study.name,
        f"{_folder(study.name)}.html",
        study.question,
        study.source,
        counted(answer.outcome for answer in answers) + (f"; {surprises} not as recorded." if surprises else "."),
        int(cells.attrs["cells"]),
        int(cells.attrs["missing"]),
        rows,
        figures,
        _provenance(grid, cells),
        _replay(grid),
        files,
    )


def _folder(name: str) -> str:
    return f"studies/{slug(name).replace('_', '-')}"


def _answer(answer: Answer) -> AnswerRow:
    measured = ""
    if answer.measured is not None:  # with the digits that the error justifies, or six digits without an error
        value, error = float(answer.measured.value), float(answer.measured.error)
        measured = amount(value, error) if error else ratio_text(value, 6)
    outcome = shown(answer.outcome, answer.recorded if answer.surprises else None)
    return AnswerRow(answer.claim, answer.source, _number(answer.theory), measured, answer.note, outcome)


def _figures(study: str, charts: Sequence[Chart]) -> tuple[list[Figure], dict[str, bytes]]:
    from experiments.pictures import themed
    from experiments.studies.drawing import save

    figures: list[Figure] = []
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as drawn:
        for chart in charts:
            stem = f"{_folder(study)}/{slug(chart.name).replace('_', '-')}"
            paths = {path.suffix: path for path in save(chart, Path(drawn))}
            files |= {f"{stem}.svg": themed(paths[".svg"].read_bytes()), f"{stem}.csv": paths[".csv"].read_bytes()}
            box = ElementTree.parse(paths[".svg"]).getroot().attrib["viewBox"].split()
            width, height = (round(float(points) * ENLARGED) for points in box[2:])
            rows = [[_number(cell) for cell in row] for row in table(chart)]
            figures.append(
                Figure(chart.name, chart.caption, chart.alt, f"{stem}.svg", f"{stem}.csv", width, height, COLUMNS, rows)
            )
    return figures, files


def _provenance(grid: Grid, cells: xarray.Dataset) -> list[tuple[str, str]]:
    run: dict[str, Any] = json.loads(cells.attrs["provenance"])
    versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
    machine = ", ".join(str(run[name]) for name in ("machine", "device", "dtype") if name in run)
    units = {axis: "" if axis.unit == "1" else f", {axis.unit}" for axis in grid.axes}
    axes = [(axis.name, f"{_values(axis)} ({axis.says}{unit})") for axis, unit in units.items()]
    done = int(cells.attrs["cells"]) - int(cells.attrs["missing"])
    return [
        *axes,
        ("cells", f"{done} of {cells.attrs['cells']}"),
        ("version of the code", str(cells.attrs["version"])),
        ("versions", versions),
        ("machine", machine),
    ]


def _values(axis: Axis) -> str:
    shown = [_number(value) for value in axis.values]
    return ", ".join(shown if len(shown) <= SHOWN else [*shown[: SHOWN - 1], "...", shown[-1]])


def _replay(grid: Grid) -> str:
    words = ["ntkfl study run", Path(grid.spec).name]
    for chosen, default in zip(grid.axes, grid.study.axes, strict=True):
        if chosen.values != default.values:
            values = str(len(chosen.values)) if chosen.name == SEED else ",".join(map(str, chosen.values))
            words += [f"--{chosen.flag.replace('_', '-')}", values]
    return " ".join([*words, "--out DIR"])


def _number(value: float | int | str | None) -> str:
    """The number to six digits as text; an empty text for NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
