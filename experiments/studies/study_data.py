"""The data of a study as an axis of its grid: a set of the library, or a user's file, identified by its content."""

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
MARK = "#sha256:"  # mark between a file's path and its hash: other contents are other cells


def on_data(study: Study, default: str, sizes: str) -> Study:
    """The study on the data that a new first axis names; answers and charts are made for each data set alone.

    `sizes` says how many samples of the default data there are.
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
    """A data set's name, or a file's path with the hash of its content.

    Raises:
        ValueError, OSError: as `ntkfl.data.named`; rows that make the kernel singular.
    """
    if word in BUILT_IN:
        return word
    gram.require_positive(named(word, unit=True).x)
    path = Path(word).resolve()
    return f"{path}{MARK}{file_digest(path)}"


def data_of(name: str, seed: int) -> Problem:
    """The data of a cell; the seed draws from a built-in set, and splits a set or a file among clients.

    Raises:
        ValueError: the file has changed since it was named.
    """
    path, mark, digest = name.partition(MARK)
    if mark and file_digest(Path(path)) != digest:
        raise ValueError(f"{path} holds something else than when this cell was planned; run the study again")
    return named(path, seed=seed, unit=True)


def shown(name: str) -> str:
    """A data set's name in answers and captions: for a file its name, and the beginning of its hash."""
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
