"""The measurements after every round, as rows of a CSV file. The headers of its columns have units."""

import csv
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, get_type_hints

import numpy as np

NAN = float("nan")
ROWS = "metrics"  # a checkpoint has the digest of the rows under this name


@dataclass(frozen=True)
class Row:
    """The measurements of a round; row 0 is before training. NaN means not requested, or not defined for these data.

    Args:
        round: number of rounds done.
        rate: the local learning rate of the round.
        test_loss: mean loss of the global model on the test samples.
        train_loss: mean loss of the global model on the training samples.
        test_accuracy: accuracy of the global model on the test samples.
        client_accuracy: mean test accuracy of the cohort's models after local training.
        personal_accuracy: mean, over the clients that have taken part so far, of the test accuracy of a client's
            predictions with its own state (in FedRoD, a personal head). Test samples are weighted by the client's
            number of samples of their class.
        cohort: number of clients that took part.
        local_steps: number of steps of all clients together.
        drift: mean over the cohort of |w_i - w|^2, with the client's model w_i after local training and the broadcast
            model w.
        seconds: duration of the round without evaluation.
    """

    round: Annotated[int, "number"]
    rate: Annotated[float, "local"] = NAN
    test_loss: Annotated[float, "{loss} per sample"] = NAN
    test_accuracy: Annotated[float, "share"] = NAN
    train_loss: Annotated[float, "{loss} per sample"] = NAN
    client_accuracy: Annotated[float, "mean share over cohort"] = NAN
    personal_accuracy: Annotated[float, "mean share over clients"] = NAN
    cohort: Annotated[int, "clients"] = 0
    local_steps: Annotated[int, "sum over cohort"] = 0
    drift: Annotated[float, "mean squared norm"] = NAN
    seconds: Annotated[float, "s"] = 0.0


UNITS = {name: hint.__metadata__[0] for name, hint in get_type_hints(Row, include_extras=True).items()}
NATS, HALF_SQUARES = "nats", "half squares"


def write_rows(path: Path, loss: str, rows: Sequence[Row]) -> None:
    """Write a CSV file of these rows. An earlier file is replaced in one step, so there is always a complete file.

    Args:
        path: the file.
        loss: the unit of the losses.
        rows: the first rows of the file.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header(loss), *map(_cells, rows)])
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def append_row(path: Path, row: Row) -> None:
    """Append a row; the row is in the file when the function returns.

    Args:
        path: the file.
        row: the measurements after a round.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        with path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(_cells(row))
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from error


def header(loss: str) -> list[str]:
    """The labels of the columns: "name [unit]".

    Args:
        loss: the unit of the losses.
    """
    return [f"{name} [{unit.format(loss=loss)}]" for name, unit in UNITS.items()]


def read_rows(path: Path, loss: str, last: int) -> list[Row]:
    """The rows of rounds 0..last. Lines after these rows are not read, so that the last line may be incomplete.

    Args:
        path: the CSV file.
        loss: the name of the loss, which is in the header.
        last: round of the last row, from 0.

    Raises:
        OSError: no such file. ValueError: the header is not `header(loss)`; a row is missing, or has cells that are not
            numbers.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing, and the checkpoint beside it is of round {last}: put it back, or begin another run"
        )
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        if next(lines, None) != header(loss):
            raise ValueError(f"{path} is no metrics file of this run: its first line is not {','.join(header(loss))!r}")
        rows: list[Row] = []
        for cells in lines:
            if len(rows) > last:
                break
            rows.append(_row(cells, path, len(rows)))
    if len(rows) <= last:
        raise ValueError(f"{path} ends with round {len(rows) - 1}; the checkpoint is of round {last}")
    return rows


def rows_digest(rows: Sequence[Row]) -> str:
    """SHA-256 of the rows' text in the file, with 0 in place of all durations.

    Durations differ between runs of the same seed.

    Args:
        rows: the rows of rounds 0, 1, ...
    """
    lines = [",".join(_cells(replace(row, seconds=0.0))) for row in rows]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def columns(rows: Sequence[Row]) -> Mapping[str, np.ndarray]:
    """For each field of `Row`, by its name, an array (rows,) with an entry for each row.

    Args:
        rows: the rows of rounds 0, 1, ...
    """
    return {field.name: np.array([getattr(row, field.name) for row in rows]) for field in fields(Row)}


def _cells(row: Row) -> list[str]:
    return [repr(value) for value in astuple(row)]


def _row(cells: list[str], path: Path, number: int) -> Row:
    kinds = list(get_type_hints(Row).values())  # int or float
    try:
        row = Row(*[kind(cell) for kind, cell in zip(kinds, cells, strict=True)])
    except ValueError:
        raise ValueError(
            f"{path}: the row of round {number} is {','.join(cells)!r}, not {len(kinds)} numbers"
        ) from None
    if row.round != number:
        raise ValueError(f"{path} has round {row.round} where round {number} belongs")
    return row
