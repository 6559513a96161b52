"""Labels and owners as users write them: as numbers, or as names of classes and of clients."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np

# pandas reads these as missing values; "Nan", written like a name, is a name
MISSING = frozenset(("", *"#N/A #NA -NaN -nan <NA> N/A NA NULL NaN None n/a nan null".split()))
YES_OR_NO = frozenset(["yes", "no", "y", "n", "true", "false", "t", "f"])
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
WHOLE = re.compile(r"[+-]?\d+")
SAID = 10  # most names of classes that a note lists

Where = Callable[[int], str]  # the place in the file of the word with this number, for messages


def labels_of(words: Sequence[str], where: Where) -> tuple[np.ndarray, str]:
    """Labels (n,), and a sentence about names of classes: in alphabetical order they become -1 and 1, or 0, 1, 2, ...

    Raises:
        ValueError: numbers beside words, missing names, all names different, or only one name; the message has the
            place.
    """
    if not _are_names(words, where, is_class):
        return np.array([number(word, where(k)) for k, word in enumerate(words)]), ""
    names, places = np.unique(np.array(words), return_inverse=True)
    if len(names) == len(words) > 2:
        raise ValueError(f"{where(0)}: {words[0]!r}, and all other labels, are different words: they name no classes")
    if len(names) == 1:
        raise ValueError(
            f"{where(0)}: {words[0]!r} is the label of every sample; a class needs another one beside it, or give "
            "numbers as labels"
        )
    values = np.array([-1, 1]) if len(names) == 2 else np.arange(len(names))
    shown = [f"{name} = {value}" for name, value in zip(names[:SAID], values, strict=False)]
    return values[places].astype(float), ", ".join(shown + ["..."] * (len(names) > SAID))


def owners_of(words: Sequence[str], where: Where) -> np.ndarray:
    """The client of each sample, (n,): a number from 0, or a name; names are numbered in the order in which they occur.

    Raises:
        ValueError: numbers beside words, missing owners, or owners that are yes and no; the message has the place.
    """
    if _are_names(words, where, _is_client):
        numbers = {name: client for client, name in enumerate(dict.fromkeys(words))}
        if YES_OR_NO.issuperset(name.lower() for name in numbers):
            raise ValueError(
                f"{where(0)}: the owners are {' and '.join(numbers)}, which name no clients; if these are a feature, "
                "rename it and write 1 and 0"
            )
        return np.array([numbers[word] for word in words])
    return np.array([_client(word, where(k)) for k, word in enumerate(words)], int)


def number(word: str, where: str) -> float:
    """A finite number.

    Raises:
        ValueError: the word is no finite number, or a whole number that no float64 equals; the message has the place.
    """
    value = _finite(word, where)
    if WHOLE.fullmatch(word) and value != Decimal(word):
        raise ValueError(
            f"{where}: no float64 equals the whole number {word}; all up to 2^53 are exact: subtract a constant, or "
            f"write {value!r} if that will do"
        )
    return value


def _finite(word: str, where: str) -> float:
    value = _value(word) if "_" not in word else math.nan  # Python alone reads 1_000 as a number
    if not math.isfinite(value):
        raise ValueError(f"{where}: {word!r} is not a finite number{_instead(word)}")
    return value


def _instead(word: str) -> str:
    """The right entry in place of a word that is no finite number, if the word shows it."""
    if word in MISSING:
        return ", it stands for a missing value; fill it in, or leave the sample out"
    return "; write decimals with a point" if "," in word and _is_number(word.replace(",", ".")) else ""


def _client(word: str, where: str) -> int:
    value = _finite(word, where)
    if not (value.is_integer() and 0 <= value < 2**53):
        raise ValueError(f"{where}: {word!r} is not a client number 0, 1, 2, ...")
    return int(value)


def _are_names(words: Sequence[str], where: Where, is_name: Callable[[str], bool]) -> bool:
    """Whether all words are names.

    Raises:
        ValueError: names beside missing values.
    """
    named = [is_name(word) for word in words]
    if not any(named):
        return False
    for place, word in enumerate(words):
        if word in MISSING:
            raise ValueError(
                f"{where(place)}: {word!r} stands for a missing value, beside names such as "
                f"{words[named.index(True)]!r}; give the name, or if this is one, spell it otherwise"
            )
    return all(named)


def is_class(word: str) -> bool:
    """Whether a word has a letter in it; 1,5 has none."""
    return _is_client(word) and any(c.isalpha() for c in word) and not _is_number(word.replace(",", "."))


def _is_client(word: str) -> bool:
    return word not in MISSING and not _is_number(word) and not DATE.match(word)


def _is_number(word: str) -> bool:
    return not math.isnan(_value(word))


def _value(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan
