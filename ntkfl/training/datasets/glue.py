"""The tasks of GLUE (Wang et al. 2019) that FedGuCci uses, read from the published .tsv files as WordPiece tokens."""

import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ntkfl.training.datasets.samples import OnDemand, Samples, folder_of

CLASS, SEPARATOR, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
LONGEST = 128  # default of the largest number of tokens of a sample
HIGHEST_SCORE = 5.0  # largest score of STS-B, the only task with real labels
LONGEST_WORD = 100  # characters; a longer word becomes the token [UNK]
IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


@dataclass(frozen=True, eq=False)
class WordPiece:
    """The vocabulary of an uncased BERT (Devlin et al. 2019), which gives each token its number."""

    number: dict[str, int]

    def encode(self, first: str, second: str | None, longest: int) -> list[int]:
        """The numbers of the tokens: [CLS], the tokens of `first`, [SEP] and, if given, the tokens of `second`, [SEP].

        As long as there are more than `longest` tokens, the longer of the two texts loses its last token.
        """
        parts = [self.tokens(text) for text in (first, second) if text is not None]
        while sum(map(len, parts)) + 1 + len(parts) > longest:
            max(reversed(parts), key=len).pop()  # if both texts are equally long, the second loses a token
        result = [self.number[CLASS]]
        for part in parts:
            result += [*part, self.number[SEPARATOR]]
        return result

    def tokens(self, text: str) -> list[int]:
        """The numbers of the tokens of a text, without special tokens."""
        return [token for word in _words(text) for token in self._pieces(word)]

    def _pieces(self, word: str) -> list[int]:
        """The numbers of a word's pieces.

        The next piece is always the longest prefix of the rest of the word, among the prefixes in the vocabulary. If
        the vocabulary has none of the prefixes, the whole word becomes [UNK].
        """
        unknown, pieces, start = [self.number[UNKNOWN]], [], 0
        if len(word) > LONGEST_WORD:
            return unknown
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.number:
                    break
            else:
                return unknown
            pieces.append(self.number[piece])
            start = end
        return pieces


def read_vocabulary(file: Path) -> WordPiece:
    """The vocabulary in a file vocab.txt. Each line has one token; lines are numbered from 0.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is not UTF-8, its token 0 is not [PAD], or it lacks [UNK], [CLS] or [SEP].
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file; it is the vocabulary of the encoder, a token a line")
    try:
        number = {token: at for at, token in enumerate(file.read_text(encoding="utf-8").split("\n")) if token}
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: byte {error.object[error.start]:#04x}") from error
    missing = [token for token in (UNKNOWN, CLASS, SEPARATOR) if token not in number]
    if missing or number.get("[PAD]") != 0:
        raise ValueError(f"{file} is no vocabulary of BERT: [PAD] must be its first line, and it lacks {missing}")
    return WordPiece(number)


def _words(text: str) -> list[str]:
    """The words and punctuation marks of a text, in lower case, without accents. Each ideograph is a word by itself."""
    kept = (" " if c.isspace() else c for c in text if not _dropped(c))
    spaced = "".join(f" {c} " if any(low <= ord(c) <= high for low, high in IDEOGRAPHS) else c for c in kept)
    plain = (c for c in unicodedata.normalize("NFD", spaced) if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if _punctuation(c) else c for c in "".join(plain).lower()).split()


def _dropped(c: str) -> bool:
    return c == "\ufffd" or (c not in "\t\n\r" and unicodedata.category(c).startswith("C"))


def _punctuation(c: str) -> bool:
    return c in string.punctuation or unicodedata.category(c).startswith("P")


class Task(NamedTuple):
    """The folder of a task, its columns of sentences and of the label, and the names of its classes.

    `columns` names all columns of a file that has no header. `classes` is () if labels are scores.
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
    """The samples of a task: train.tsv is for training, dev.tsv for tests, since GLUE's own test labels are secret.

    The vocabulary is the file vocab.txt in the folder; without such a file it is the vocabulary of the packaged MiniLM.
    `size` is the largest number of tokens of a sample, 128 by default.

    Raises:
        FileNotFoundError: no path is given, or a file or the vocabulary is missing.
        ValueError: a line has a wrong number of columns, or the task does not have such a label; the message has file
            and line.
    """
    from ntkfl.training.models.encoder import packaged_folder  # imported here, since only text needs it

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
    """Sentences, or pairs of sentences, as numbers of tokens (k, t), padded with 0."""

    def tokens(number: int) -> list[int]:
        first, *second = texts[number]
        numbers = vocabulary.encode(first, second[0] if second else None, longest)
        return numbers + [0] * (longest - len(numbers))

    return OnDemand(len(texts), (longest,), int, tokens)


def _read(file: Path, task: Task) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """The sentences and labels of a file. Quotation marks have no special meaning."""
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
    """The number of the class that the text names; if the task has scores, the text as a number."""
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
