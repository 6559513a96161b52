"""Whether a page prints today what is stored on it."""

import re

import pytest

NUMBER = re.compile(r"(?<![\w±])-?\d+\.?\d*(?:e[+-]?\d+)?")
ERROR = re.compile(r"± \S+")
# lines with versions of Python and of the libraries
VERSIONS = re.compile(r"^  run with .*\n(?: {13}.*\n)*", flags=re.MULTILINE)
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")  # dates differ from day to day
SPACE = re.compile(r"[ -]+")  # columns are as wide as their numbers
NOISE = 0.02  # rounding differs between machines


def assert_same(printed: str, shown: str, noise: float | None = NOISE) -> None:
    """Words agree exactly, numbers to relative `noise` (None: any number); errors and dates must only be present."""
    printed, shown = (DATE.sub("DATE", ERROR.sub("±", VERSIONS.sub("", text).strip())) for text in (printed, shown))
    words, expected = (SPACE.sub(" ", NUMBER.sub("#", text)) for text in (printed, shown))
    assert words == expected
    if noise is None:
        return
    ours, theirs = ([float(x) for x in NUMBER.findall(text)] for text in (printed, shown))
    assert ours == pytest.approx(theirs, rel=noise, abs=1e-12)
