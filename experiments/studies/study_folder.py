"""The folder of a study: the grid (study.json), cells, results (results.nc) and answers (answers.json)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.grid import Grid
from experiments.studies.running.cell_store import CellStore, write_json
from experiments.studies.running.code_version import placed, version_of
from experiments.studies.study import Answer
from ntkfl.extensions import require_outside
from verification.json_values import strict_json

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class StudyFolder:
    """The folder of one study; several grids of the study may share the folder and its cells."""

    path: Path

    @property
    def store(self) -> CellStore:
        """The cells of the folder."""
        return CellStore(self.path)

    @property
    def results(self) -> Path:
        """The path of the NetCDF file with the results of the last complete run."""
        return self.path / "results.nc"

    @property
    def charts(self) -> Path:
        """The path of the folder of pictures."""
        return self.path / "charts"

    @property
    def name(self) -> str:
        """The study's name.

        Raises:
            ValueError: the folder is not a study's.
        """
        return self._read()["study"]

    def sources(self) -> list[str]:
        """The sources of the study's answers, each once; empty if there are no answers yet.

        Raises:
            ValueError: as `name`, or the file of answers is damaged.
        """
        self._read()
        if not self._answers.exists():
            return []
        try:
            answers = json.loads(self._answers.read_text(encoding="utf-8"))["answers"]
            return list(dict.fromkeys(answer["source"] for answer in answers))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._answers} is damaged ({error}); run the study again") from None

    def begin(self, grid: Grid) -> None:
        """Make or open the folder for this grid.

        Args:
            grid: the study and its cells.

        Raises:
            ValueError: the folder is another study's. OSError: the folder cannot be written.
        """
        there = self._read() if self._grid.exists() else None
        if there and there["study"] != grid.study.name:
            raise ValueError(f"{self.path} is of the study {there['study']!r}; name a new folder for {grid.study.name}")
        axes = {axis.name: list(axis.values) for axis in grid.axes}
        about = {"study": grid.study.name, "spec": placed(grid.spec), "version": version_of(grid.spec), "axes": axes}
        if there != about:
            write_json(self._grid, about)

    def measured(self) -> tuple[Grid, xarray.Dataset]:
        """The grid and the results of the last complete run.

        A later run that is not finished may have another grid.

        Returns: the grid, and the results.

        Raises:
            ValueError: as `grid_of`, or there are no results yet. OSError: the results are damaged.
        """
        from experiments.studies.results import grid_of, read

        if not self.results.exists():
            self._read()
            raise ValueError(f"{self.path} has no results yet; `ntkfl study status {self.path}` says how far it is")
        cells = read(self.results)
        require_outside(self.path, "study", str(cells.attrs.get("spec", "")), "run the study")
        return grid_of(cells), cells

    def grid(self) -> Grid:
        """The grid of the last run, whether it is complete or not.

        Raises:
            ValueError: no study was run in this folder, or the study has other axes now.
        """
        there = self._read()
        require_outside(self.path, "study", there["spec"], "run the study")
        whole = Grid(there["spec"], ())
        if [axis.name for axis in whole.study.axes] != list(there["axes"]):
            raise ValueError(
                f"{self.path} has the axes {', '.join(there['axes'])}; the study has others now: run it again"
            )
        return replace(
            whole, axes=tuple(replace(axis, values=tuple(there["axes"][axis.name])) for axis in whole.study.axes)
        )

    def forget_answers(self) -> None:
        """Remove the answers, until new ones are written.

        Raises:
            OSError: the folder cannot be written.
        """
        self._answers.unlink(missing_ok=True)

    @property
    def version(self) -> str:
        """The version of the code in the last run."""
        return self._read()["version"]

    def write_answers(self, grid: Grid, answers: Sequence[Answer]) -> None:
        """Write the answers as JSON, in which numbers that are not finite are strings.

        Args:
            grid: the study and its cells.
            answers: the answers of `Study.answers`.

        Raises:
            OSError: the file cannot be written.
        """
        study = grid.study
        content = {
            "study": study.name,
            "question": study.question,
            "source": study.source,
            "version": version_of(grid.spec),
            "answers": [_as_json(answer) for answer in answers],
        }
        write_json(self._answers, strict_json(content))

    @property
    def _answers(self) -> Path:
        return self.path / "answers.json"

    @property
    def _grid(self) -> Path:
        return self.path / "study.json"

    def _read(self) -> dict:
        try:
            there = json.loads(self._grid.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{self.path} is no study's folder: it has no {self._grid.name}") from None
        except ValueError as error:
            raise ValueError(f"{self._grid} is damaged ({error}); remove it and run the study again") from None
        fields = {"study", "spec", "version", "axes"}
        if not isinstance(there, dict) or there.keys() != fields:
            raise ValueError(f"{self._grid} is no study's: it must have {', '.join(sorted(fields))}")
        axes = there["axes"]
        for name in sorted(fields - {"axes"}):
            if not isinstance(there[name], str):
                raise ValueError(f"{self._grid} has {there[name]!r} as its {name}, which must be a text")
        if not isinstance(axes, dict) or not all(isinstance(values, list) for values in axes.values()):
            raise ValueError(f"{self._grid} has {axes!r} as its axes, which must be a list of values by name")
        return there


def _as_json(answer: Answer) -> dict:
    estimate, measured = answer.measured, None
    if estimate is not None:
        measured = {"value": estimate.value.tolist(), "error": estimate.error.tolist(), "method": estimate.method}
    return {**vars(answer), "measured": measured}
