"""The sentences of the facts that a verdict notes, that confirm a violation, or that a search ends with."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from ntkfl.messages import number_of
from verification.intervals import percent


class What(StrEnum):
    """What a fact is about; its values are the arguments of its sentence."""

    TEXT = "text"  # a sentence in a file of an older version
    # why an outcome is what it is
    ERROR = "error"
    INTERRUPTED = "interrupted"
    TOO_FEW = "too few"
    NOT_COMPUTED = "not computed"
    UNRESOLVED = "unresolved"
    TOO_UNSURE = "too unsure"
    FAILURES = "failures"
    UNDECIDED = "undecided"
    NOT_REFUTED = "not refuted"
    BEYOND_PREMISE = "beyond premise"
    DOUBTED = "doubted"
    # options without effect
    NOT_ABOUT_DATA = "not about data"
    ONE_CASE = "one case"
    NO_ENGINE = "no engine"
    PART_ENGINE = "part engine"
    # how a violation was redone
    OTHER_NETWORKS = "other networks"
    FLOAT64_ONLY = "float64 only"
    OPEN_AT = "open at"
    BALLS = "balls"
    NOT_REDONE = "not redone"
    RUN_IN = "run in"
    RUN_APART = "run apart"
    UNMET_IN = "unmet in"
    PRECISIONS = "precisions"
    REDOING_FAILED = "redoing failed"
    SAMPLED_APART = "sampled apart"
    FRESH_NETWORKS = "fresh networks"
    # how a search after the cases ended
    NO_COUNTEREXAMPLE = "no counterexample"
    NONE_ADMITTED = "none admitted"
    COUNTEREXAMPLE = "counterexample"
    UNCONFIRMED = "unconfirmed"
    SEARCH_FAILED = "search failed"
    SEARCH_INTERRUPTED = "search interrupted"


def _too_few(admitted: int, required: int, hypothesis: str | None, rejected: int) -> str:
    mostly = "" if hypothesis is None else f"; hypothesis {hypothesis!r} rejected {rejected}"
    return f"{number_of(admitted, 'admitted case')} of {required} required{mostly}"


def _not_computed(count: int, trials: int, first: Sequence[str]) -> str:
    return f"{count} of {number_of(trials, 'trial')} could not be computed: {'; '.join(first)}"


def _not_refuted(trials: int, allowed: float, limit: float) -> str:
    sentence = f"not refuted in {trials} trials (allowed probability {allowed:.2g})"
    return f"{sentence}: they would have excluded {percent(limit)} or more"


def _beyond_premise(count: int, sizes: dict[str, float]) -> str:
    broken = f"{count} of its cases break the conclusion, but lack what it asks for ({sizes_text(sizes)})"
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


SENTENCES: dict[What, Callable[..., str]] = {
    What.TEXT: "{text}".format,
    What.ERROR: "{error}".format,
    What.INTERRUPTED: lambda families: f"interrupted: the cases of {', '.join(families)} were not all run",
    What.TOO_FEW: _too_few,
    What.NOT_COMPUTED: _not_computed,
    What.UNRESOLVED: "{unresolved} of {trials} trials unresolved".format,
    What.TOO_UNSURE: "{unresolved} of {trials} trials unresolved: the errors are too large".format,
    What.FAILURES: "{failures} failures in {trials} trials; allowed probability {allowed:.3g}".format,
    What.UNDECIDED: "{failures} failures in {trials} trials do not decide {allowed:.3g}".format,
    What.NOT_REFUTED: _not_refuted,
    What.BEYOND_PREMISE: _beyond_premise,
    What.DOUBTED: "a violation was seen and not confirmed: {how}".format,
    What.NOT_ABOUT_DATA: "checked on cases of its own: it is not about data, and those given were not used".format,
    What.ONE_CASE: "its first case alone was looked at, since that does not meet a hypothesis".format,
    What.NO_ENGINE: (
        "not about runs of the default families: nothing of it was computed on {device}, which was asked for"
    ).format,
    What.PART_ENGINE: (
        "only the runs of the default families were computed on {device}; its other cases were not"
    ).format,
    What.OTHER_NETWORKS: _other_networks,
    What.FLOAT64_ONLY: "seen in float64 only: {why}".format,
    What.OPEN_AT: "{computed} do not decide it".format,
    What.BALLS: "both sides are balls".format,
    What.NOT_REDONE: "nothing redid it; sides known by: {left}; {right}".format,
    What.RUN_IN: "run in {computed}".format,
    What.RUN_APART: "run in {computed}; sides known by: {left}; {right}; {apart:.2g} errors apart".format,
    What.UNMET_IN: lambda computed, unmet: f"in {computed} the case does not meet {', '.join(unmet)}",
    What.PRECISIONS: "float64 and {computed} differ by {difference:.1e}, margin {margin:.3g}".format,
    What.REDOING_FAILED: "redoing it {failure}".format,
    What.SAMPLED_APART: "sampled sides {apart:.2g} intervals apart, where a search asks for {asked}".format,
    What.FRESH_NETWORKS: _fresh_networks,
    What.NO_COUNTEREXAMPLE: _no_counterexample,
    What.NONE_ADMITTED: _none_admitted,
    What.COUNTEREXAMPLE: _counterexample,
    What.UNCONFIRMED: _unconfirmed,
    What.SEARCH_FAILED: "the search for a counterexample {failure}".format,
    What.SEARCH_INTERRUPTED: "the search for a counterexample was interrupted".format,
}
