"""WordPiece: text as the tokens of an uncased BERT vocabulary (Devlin et al. 2019)."""

import string
import unicodedata
from dataclasses import dataclass
from pathlib import Path

CLASS, SEPARATOR, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
LONGEST_WORD = 100  # characters; longer words are unknown
IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


@dataclass(frozen=True, eq=False)
class WordPiece:
    """A vocabulary: the number of each token."""

    number: dict[str, int]

    def encode(self, first: str, second: str | None, longest: int) -> list[int]:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], cut to `longest` tokens at the ends of the longer."""
        parts = [self.tokens(text) for text in (first, second) if text is not None]
        while sum(map(len, parts)) + 1 + len(parts) > longest:
            max(reversed(parts), key=len).pop()  # of two equally long ones the second
        result = [self.number[CLASS]]
        for part in parts:
            result += [*part, self.number[SEPARATOR]]
        return result

    def tokens(self, text: str) -> list[int]:
        """The numbers of the tokens of a text, without special tokens."""
        return [token for word in _words(text) for token in self._pieces(word)]

    def _pieces(self, word: str) -> list[int]:
        """The longest known beginnings, one after the other; the word is unknown where there is none."""
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
    """The vocabulary of a vocab.txt: one token a line, numbered from 0.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8, or without [PAD] as 0 and [UNK], [CLS], [SEP].
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
    """Words and punctuation marks in lower case, without accents; an ideograph is a word."""
    kept = (" " if c.isspace() else c for c in text if not _dropped(c))
    spaced = "".join(f" {c} " if any(low <= ord(c) <= high for low, high in IDEOGRAPHS) else c for c in kept)
    plain = (c for c in unicodedata.normalize("NFD", spaced) if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if _punctuation(c) else c for c in "".join(plain).lower()).split()


def _dropped(c: str) -> bool:
    return c == "\ufffd" or (c not in "\t\n\r" and unicodedata.category(c).startswith("C"))


def _punctuation(c: str) -> bool:
    return c in string.punctuation or unicodedata.category(c).startswith("P")
