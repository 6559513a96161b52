"""The sentences in which verdicts state their facts.

The facts are notes, confirmations of violations, and the ends of searches.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from ntkfl.messages import number_of
from verification.intervals import percent


def _too_few(admitted: int, required: int, hypothesis: str | None, rejected: int) -> str:
    mostly = "" if hypothesis is None else f"; hypothesis {hypothesis!r} rejected {rejected}"
    return f"{number_of(admitted, 'admitted case')} of {required} required{mostly}"


def _not_computed(count: int, trials: int, first: Sequence[str]) -> str:
    return f"{count} of {number_of(trials, 'trial')} could not be computed: {'; '.join(first)}"


def _not_refuted(trials: int, allowed: float, limit: float) -> str:
    sentence = f"not refuted in {trials} trials (allowed probability {allowed:.2g})"
    return f"{sentence}: they would have excluded {percent(limit)} or more"


def _beyond_premise(count: int, sizes: dict[str, float]) -> str:
    broken = f"{count} of its cases break the conclusion, but lack what the premise asks for ({sizes_text(sizes)})"
    return f"{broken}: nothing is said of the statement"


def sizes_text(sizes: dict[str, float]) -> str:
    """The sizes that a premise asks for."""
    return ", ".join(f"{symbol} of the order {value:.2g}" for symbol, value in sizes.items())


def _other_networks(agree: bool, value: float, error: float) -> str:
    return f"other networks {'agree' if agree else 'do not agree'}: {_side(value, error)}"


def _fresh_networks(failures: int, networks: int, allowed: float, again: Any = None) -> str:
    sentence = (
        f"{failures} of {networks} fresh networks fail; allowed probability {allowed:.3g}; exact binomial interval"
    )
    return (
        sentence if again is None else f"{sentence}; {f'one of them: {again}' if again else 'none of them fails again'}"
    )


def _no_counterexample(examples: int, seconds: float, uncounted: Sequence[Any]) -> str:
    sentence = f"no counterexample among at most {examples} cases of the strategies and {seconds:g} s"
    return "; ".join([sentence, *(f"not counted: {why}" for why in uncounted)])


def _none_admitted(tried: int, hypothesis: str | None = None, rejected: int = 0) -> str:
    mostly = "had a value" if hypothesis is None else f"was admitted; hypothesis {hypothesis!r} rejected {rejected}"
    return f"none of {tried} cases {mostly}"


def _counterexample(case: Sequence[str], command: str, what: str = "a counterexample") -> str:
    return f"{what}: {'; '.join(case)}. `{command}` writes a file that replays it"


def _unconfirmed(left: Sequence[float], right: Sequence[float], case: Sequence[str], command: str) -> str:
    seen = _counterexample(case, command, "a violation that was not confirmed")
    return f"left {_side(*left)}, right {_side(*right)} in {seen}"


def _side(value: float, error: float) -> str:
    return f"{value:.6g}" + (f" ± {error:.1e}" if error else "")


class What(StrEnum):
    """What a fact is about, with the function that makes its sentence from the fact's values."""

    sentence: Callable[..., str]

    def __new__(cls, word: str, sentence: Callable[..., str]) -> "What":
        what = str.__new__(cls, word)
        what._value_, what.sentence = word, sentence
        return what

    TEXT = "text", "{text}".format  # a sentence in a file of an older version
    # facts that say why an outcome is what it is
    ERROR = "error", "{error}".format
    INTERRUPTED = "interrupted", lambda families: f"interrupted: the cases of {', '.join(families)} were not all run"
    TOO_FEW = "too few", _too_few
    NOT_COMPUTED = "not computed", _not_computed
    UNRESOLVED = "unresolved", "{unresolved} of {trials} trials unresolved".format
    TOO_UNSURE = "too unsure", "{unresolved} of {trials} trials unresolved: the errors are too large".format
    SECOND_TERM = "second term", "noise and a term of the next order could explain the measured power".format
    FAILURES = "failures", "{failures} failures in {trials} trials; allowed probability {allowed:.3g}".format
    UNDECIDED = "undecided", "{failures} failures in {trials} trials do not decide {allowed:.3g}".format
    NOT_REFUTED = "not refuted", _not_refuted
    BEYOND_PREMISE = "beyond premise", _beyond_premise
    DOUBTED = "doubted", "a violation was seen and not confirmed: {how}".format
    # facts about options that have no effect
    NOT_ABOUT_DATA = (
        "not about data",
        "checked on cases of its own: it is not about data, and the given data were not used".format,
    )
    ONE_CASE = "one case", "only its first case was looked at, since this case does not meet a hypothesis".format
    NO_ENGINE = (
        "no engine",
        ("not about runs of the default families: nothing of it was computed on {device}, which was asked for").format,
    )
    PART_ENGINE = (
        "part engine",
        ("only the runs of the default families were computed on {device}; its other cases were not").format,
    )
    # facts that say how a violation was computed a second time
    OTHER_NETWORKS = "other networks", _other_networks
    FLOAT64_ONLY = "float64 only", "seen in float64 only: {why}".format
    OPEN_AT = "open at", "{computed} do not decide it".format
    BALLS = "balls", "ball arithmetic encloses both sides".format
    NOT_REDONE = "not redone", "no second computation exists; the sides come from: {left}; {right}".format
    RUN_IN = "run in", "computed again in {computed}".format
    RUN_APART = (
        "run apart",
        "computed again in {computed}; the sides come from: {left}; {right}; {apart:.2g} errors apart".format,
    )
    UNMET_IN = "unmet in", lambda computed, unmet: f"in {computed} the case does not meet {', '.join(unmet)}"
    PRECISIONS = "precisions", "float64 and {computed} differ by {difference:.1e}, margin {margin:.3g}".format
    REDOING_FAILED = "redoing failed", "the second computation {failure}".format
    SAMPLED_APART = "sampled apart", "sampled sides {apart:.2g} intervals apart, where a search asks for {asked}".format
    FRESH_NETWORKS = "fresh networks", _fresh_networks
    # facts that say how a search after the cases ended
    NO_COUNTEREXAMPLE = "no counterexample", _no_counterexample
    NONE_ADMITTED = "none admitted", _none_admitted
    COUNTEREXAMPLE = "counterexample", _counterexample
    UNCONFIRMED = "unconfirmed", _unconfirmed
    SEARCH_FAILED = "search failed", "the search for a counterexample {failure}".format
    SEARCH_INTERRUPTED = "search interrupted", "the search for a counterexample was interrupted".format
