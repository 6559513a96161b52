"""The tasks of GLUE (Wang et al. 2019) that FedGuCci uses, from their published .tsv files."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ntkfl.training.datasets.samples import OnDemand, Samples, folder_of
from ntkfl.training.datasets.wordpiece import WordPiece, read_vocabulary

LONGEST = 128  # tokens of a sample, unless another size is asked for
HIGHEST_SCORE = 5.0  # of STS-B, the only task with real labels


class Task(NamedTuple):
    """Where a task keeps what: its folder, the columns of the sentences and of the label, the names of the classes.

    `columns` names all columns of a file that has no header; classes are () for scores.
    """

    folder: str
    sentences: tuple[str, ...]
    label: str
    classes: tuple[str, ...] = ("0", "1")
    columns: tuple[str, ...] = ()


TASKS = {
    "cola": Task("CoLA", ("sentence",), "label", columns=("source", "label", "mark", "sentence")),
    "sst-2": Task("SST-2", ("sentence",), "label"),
    "mrpc": Task("MRPC", ("#1 String", "#2 String"), "Quality"),
    "sts-b": Task("STS-B", ("sentence1", "sentence2"), "score", ()),
    "qnli": Task("QNLI", ("question", "sentence"), "label", ("entailment", "not_entailment")),
    "rte": Task("RTE", ("sentence1", "sentence2"), "label", ("entailment", "not_entailment")),
}


def glue(path: Path | None, size: int | None, name: str) -> Samples:
    """train.tsv, and dev.tsv as the test set (the labels of the published test sets are secret).

    A vocab.txt in the folder is the vocabulary, else that of the packaged MiniLM. `size` is the most tokens of a
    sample, 128 by default.

    Raises:
        FileNotFoundError: no path, a file or the vocabulary is missing.
        ValueError: a line with too few columns, or a label that is not of the task; with file and line.
    """
    from ntkfl.training.models.encoder import packaged_folder  # here because only text needs it

    task, longest = TASKS[name], size or LONGEST
    if longest < 8:
        raise ValueError(f"{name} is asked for with {longest} tokens a sample; there must be at least 8")
    advice = f"it must be the folder {task.folder} of GLUE, with train.tsv and dev.tsv"
    folder = folder_of(name, path, task.folder, ("train.tsv", "dev.tsv"), advice)
    own = folder / "vocab.txt"
    vocabulary = read_vocabulary(own if own.is_file() else packaged_folder() / "vocab.txt")
    (texts, y), (texts_test, y_test) = (_read(folder / f"{part}.tsv", task) for part in ("train", "dev"))
    x, x_test = (_tokens(chosen, vocabulary, longest) for chosen in (texts, texts_test))
    return Samples("tokens", x, y, x_test, y_test, classes=len(task.classes) or None)


def _tokens(texts: Sequence[tuple[str, ...]], vocabulary: WordPiece, longest: int) -> OnDemand:
    """Sentences or pairs as tokens (k, t), padded with 0."""

    def tokens(number: int) -> list[int]:
        first, *second = texts[number]
        numbers = vocabulary.encode(first, second[0] if second else None, longest)
        return numbers + [0] * (longest - len(numbers))

    return OnDemand(len(texts), (longest,), int, tokens)


def _read(file: Path, task: Task) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Sentences and labels of a file; quotation marks mean nothing in it."""
    try:
        lines = file.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: byte {error.object[error.start]:#04x}") from error
    columns = task.columns or tuple(lines[0].rstrip("\r").split("\t"))
    missing = [name for name in (*task.sentences, task.label) if name not in columns]
    if missing:
        raise ValueError(f"{file}, line 1: there is no column {missing[0]!r} among {', '.join(columns)}")
    places = [columns.index(name) for name in task.sentences]
    texts, labels = [], []
    for number, line in enumerate(lines, start=1):
        if number == 1 and not task.columns:
            continue
        cells = line.rstrip("\r").split("\t")
        if len(cells) != len(columns):
            raise ValueError(
                f"{file}, line {number}: {len(cells)} columns; it must be {len(columns)}, separated by tabs"
            )
        texts.append(tuple(cells[place] for place in places))
        labels.append(_label(f"{file}, line {number}", cells[columns.index(task.label)], task.classes))
    if not texts:
        raise ValueError(f"{file} has no samples")
    return texts, np.array(labels)


def _label(where: str, text: str, classes: tuple[str, ...]) -> float:
    """The class's number, or the score."""
    if classes:
        if text not in classes:
            raise ValueError(f"{where}: the label {text!r} is not one of {', '.join(classes)}")
        return classes.index(text)
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST_SCORE:
        raise ValueError(f"{where}: the score {text!r} is not a number from 0 to {HIGHEST_SCORE:g}")
    return score


DATA = {name: partial(glue, name=name) for name in TASKS}
