"""The data of a study as an axis of its grid.

A value of the axis is a data set of the library, or a user's file together with a hash of its content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from experiments.studies.answers import joined
from experiments.studies.chart import Chart
from experiments.studies.study import Answer, Axis, Cells, Study
from ntkfl import Problem, gram
from ntkfl.data import BUILT_IN, named
from ntkfl.data.user_files import file_digest

DATA = "data"
# mark between the path of a file and the hash of its content; a file with another content has other cells
MARK = "#sha256:"


def on_data(study: Study, default: str, sizes: str) -> Study:
    """The study with a new first axis that names the data.

    Answers and charts are made separately for each data set.

    `sizes` says how many samples the default data have.
    """
    says = f"{', '.join(BUILT_IN)}, or a .csv or .npz file of yours, all of it, each row divided by its norm"
    axis = Axis(DATA, (default,), says, read=data_name)
    charts = study.charts
    return replace(
        study,
        axes=(axis, *study.axes),
        summarise=lambda cells: _answers(study.summarise, cells, default),
        charts=None if charts is None else lambda cells: _charts(charts, cells, default, sizes),
    )


def data_name(word: str) -> str:
    """The value of the axis for a data set's name, or for a file, whose path gets the hash of its content.

    Raises:
        ValueError, OSError: as `ntkfl.data.named`; or rows make the kernel singular.
    """
    if word in BUILT_IN:
        return word
    gram.require_positive(named(word, unit=True).x)
    path = Path(word).resolve()
    return f"{path}{MARK}{file_digest(path)}"


def data_of(name: str, seed: int) -> Problem:
    """The data of a cell.

    The seed chooses the samples of a built-in data set, and how data are split among clients.

    Raises:
        ValueError: the file has changed since its hash was taken.
    """
    path, mark, digest = name.partition(MARK)
    if mark and file_digest(Path(path)) != digest:
        raise ValueError(f"{path} holds something else than when this cell was planned; run the study again")
    return named(path, seed=seed, unit=True)


def shown(name: str) -> str:
    """The name of a data set in answers and captions; for a file, its name and the beginning of its hash."""
    path, mark, digest = name.partition(MARK)
    return f"{Path(path).name} (sha256 {digest[:8]})" if mark else name


def _answers(summarise: Callable[[Cells], Iterable[Answer]], cells: Cells, default: str) -> Iterator[Answer]:
    for name in map(str, cells[DATA].to_numpy()):
        for answer in summarise(cells.sel({DATA: name})):
            yield answer if name == default else replace(answer, note=joined(f"data: {shown(name)}", answer.note))


def _charts(charts: Callable[[Cells], Iterable[Chart]], cells: Cells, default: str, sizes: str) -> Iterator[Chart]:
    for name in map(str, cells[DATA].to_numpy()):
        label = re.sub(r"\W+", "-", shown(name).lower()).strip("-")
        for chart in charts(cells.sel({DATA: name})):
            own = chart.name if name == default else f"{chart.name}-{label}"
            about = f"{name}, {sizes}" if name == default else shown(name)
            yield replace(chart, name=own, caption=f"{chart.caption} Data: {about}.")
