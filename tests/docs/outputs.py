"""Compares what a page prints today with what is stored on the page."""

import re

import pytest

NUMBER = re.compile(r"(?<![\w±])-?\d+\.?\d*(?:e[+-]?\d+)?")
ERROR = re.compile(r"± \S+")
# Lines with the versions of Python and of the libraries match this.
VERSIONS = re.compile(r"^  run with .*\n(?: {13}.*\n)*", flags=re.MULTILINE)
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")  # Dates differ from day to day.
SPACE = re.compile(r"[ -]+")  # Columns are as wide as their numbers, so spaces differ.
NOISE = 0.02  # the relative difference that is allowed, since rounding differs between machines


def assert_same(printed: str, shown: str, noise: float | None = NOISE) -> None:
    """Asserts that words agree exactly and numbers up to the relative difference `noise`; None allows any number.

    Error terms (±) and dates must only be present.
    """
    printed, shown = (DATE.sub("DATE", ERROR.sub("±", VERSIONS.sub("", text).strip())) for text in (printed, shown))
    words, expected = (SPACE.sub(" ", NUMBER.sub("#", text)) for text in (printed, shown))
    assert words == expected
    if noise is None:
        return
    ours, theirs = ([float(x) for x in NUMBER.findall(text)] for text in (printed, shown))
    assert ours == pytest.approx(theirs, rel=noise, abs=1e-12)
