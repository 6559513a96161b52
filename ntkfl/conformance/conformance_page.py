"""What an implementation was found to be, as text, Markdown and JSON."""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from ntkfl.conformance.variants import Variant
from ntkfl.conformance.verdict import CaseVerdict, Conformance, MethodVerdict, Outcome
from ntkfl.messages import number_of
from ntkfl.version import VERSION

COLUMNS = ("method", "verdict", "cases", "what it does", "first difference")
NAMED = 3  # explanations that are written out
FAIR = (
    "Found on these cases. A variant is no fault by itself: another paper, or another reading of the same one, may ask "
    "for it."
)


def as_json(found: Conformance) -> dict[str, Any]:
    """Everything, as JSON types.

    Args:
        found: what was found of an implementation.
    """
    return {
        "ntkfl": VERSION,
        "date": _today(),
        "adapter": found.adapter,
        **asdict(found.peer),
        "conforms": found.conforms,
        "methods": [
            asdict(method)
            | {"in_part": [{"variant": asdict(variant), "cases": count} for variant, count in method.in_part]}
            for method in found.methods
        ],
    }


def from_json(content: Mapping[str, Any]) -> Conformance:
    """What `as_json` wrote.

    Args:
        content: JSON of `as_json`.

    Raises:
        KeyError, TypeError, ValueError: it did not write this.
    """
    methods = [
        method | {"in_part": [(part["variant"], part["cases"]) for part in method["in_part"]]}
        for method in content["methods"]
    ]
    peer = {"packages": content["packages"], "runs_with": content["runs_with"]}
    given = {"adapter": content["adapter"], "methods": methods, "peer": peer}
    try:
        return TypeAdapter(Conformance).validate_python(given)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None


def as_text(found: Conformance) -> str:
    """A line a method, under it the first difference and a line for every case that failed; then the sum.

    Args:
        found: what was found of an implementation.
    """
    width = max(len(one.method) for one in found.methods)
    lines = [line for method in found.methods for line in method_lines(method, width)]
    return "\n".join([*lines, "", summary(found)])


def method_lines(one: MethodVerdict, width: int = 0) -> Iterator[str]:
    """The lines of one method.

    Args:
        one: the verdict on a method.
        width: columns that names are filled up to, default 0.
    """
    yield f"{one.method:<{width}}  {one.outcome.value:<8}  {_counted(one)}"
    for text in _explained(one):
        yield f"{'':<{width}}  {text}"
    for case in _first_differing(one):
        yield f"{'':<{width}}  first: {_where(case)}"
    for case in one.cases:
        if case.outcome is Outcome.FAILED:
            yield f"{'':<{width}}  {case.case}: {case.remark}"


def summary(found: Conformance) -> str:
    """One line: how many methods are what.

    Args:
        found: what was found of an implementation.
    """
    return f"{number_of(len(found.methods), 'method')}: {_tally(one.outcome for one in found.methods)}"


def as_markdown(found: Conformance) -> str:
    """A table of the methods, with versions, the date and a badge.

    Args:
        found: what was found of an implementation.
    """
    versions = ", ".join(f"{name} {version}" for name, version in found.peer.packages.items())
    rows, left_out = table(found)
    lines = [
        f"# {found.adapter}",
        "",
        badge(found),
        "",
        f"{summary(found)}. {versions + '; ' if versions else ''}ntkfl {VERSION}, {_today()}. {FAIR}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if left_out:
        lines += ["", f"Left out: {', '.join(left_out)}."]
    return "\n".join([*lines, ""])


def table(found: Conformance) -> tuple[list[tuple[str, ...]], list[str]]:
    """A row of COLUMNS for every method that was tried, and the names of those that were left out.

    Args:
        found: what was found of an implementation.

    Returns: the rows, and the names of the methods that the adapter leaves out.
    """
    rows: list[tuple[str, ...]] = []
    for one in (method for method in found.methods if method.outcome is not Outcome.LEFT_OUT):
        says = "; ".join(_explained(one)) or "; ".join(dict.fromkeys(c.remark for c in one.cases if c.remark))
        first = "; ".join(map(_where, _first_differing(one)))
        rows.append((one.method, one.outcome.value, _counted(one), says, first))
    return rows, [one.method for one in found.methods if one.outcome is Outcome.LEFT_OUT]


def badge(found: Conformance) -> str:
    """A line of Markdown that shows how many of the methods tried are equal to the reference.

    Args:
        found: what was found of an implementation.
    """
    tried = [method for method in found.methods if method.outcome is not Outcome.LEFT_OUT]
    equal = sum(one.outcome is Outcome.EQUAL for one in tried)
    said = f"{equal} of {len(tried)} methods equal"
    colour = "brightgreen" if found.conforms else "orange" if equal else "red"
    label, message = (quote(text.replace("-", "--"), safe="") for text in ("ntkfl conform", said))
    return f"![ntkfl conform: {said}](https://img.shields.io/badge/{label}-{message}-{colour})"


def described(together: tuple[Variant, ...]) -> str:
    """The name of a variant and what is done, of several one after the other.

    Args:
        together: the variants, in the order in which they apply.
    """
    return ", and ".join(f"{variant.name}: {variant.says}" for variant in together)


def _explained(one: MethodVerdict) -> list[str]:
    if not any(case.outcome is Outcome.DIFFERS for case in one.cases):
        return []
    if not one.explained:
        differing = one.counts()[Outcome.DIFFERS]
        some = [f"in {count} of {differing} cases {described((variant,))}" for variant, count in one.in_part[:NAMED]]
        return ["; ".join(["no known variant in all cases", *some] if some else ["no known variant"])]
    found = [described(together) for together in one.explained[:NAMED]]
    more = len(one.explained) - len(found)
    return [" -- or ".join(found) + (f" -- or {more} more" if more else "")]


def _first_differing(one: MethodVerdict) -> list[CaseVerdict]:
    return [case for case in one.cases if case.difference][:1]


def _where(case: CaseVerdict) -> str:
    there = case.difference
    assert there is not None
    limit = f" ({case.limit})" if case.limit else ""
    return f"{case.case}, round {there.round}, {there.name}, off by {there.size:.2g}{limit}"


def _counted(one: MethodVerdict) -> str:
    precisions = sorted({case.precision for case in one.cases if case.precision} - {"float64"})
    said = _tally(case.outcome for case in one.cases)
    return said + (f" ({', '.join(precisions)})" if precisions else "")


def _tally(outcomes: Iterable[Outcome]) -> str:
    """How many there are of each: "2 equal, 1 differs"."""
    counts = Counter(outcomes)
    words = {outcome: outcome.value for outcome in Outcome}
    words[Outcome.DIFFERS] = "differ" if counts[Outcome.DIFFERS] > 1 else "differs"
    return ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome])


def _today() -> str:
    return datetime.date.today().isoformat()
