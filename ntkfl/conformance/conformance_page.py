"""Writes the verdicts on an implementation as text, Markdown and JSON."""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from ntkfl.conformance.conformance_verdict import Agreement, CaseVerdict, Conformance, MethodVerdict
from ntkfl.conformance.variants import Variant
from ntkfl.messages import number_of
from ntkfl.version import VERSION

COLUMNS = ("method", "verdict", "cases", "what it does", "first difference")
NAMED = 3  # the largest number of explanations that are written out
FAIR = (
    "Found on these cases. A variant is not always a fault, since another paper, or another reading of the same paper, "
    "may define the method so."
)


def as_json(result: Conformance) -> dict[str, Any]:
    """The whole result, as JSON types.

    Args:
        result: the verdicts on an implementation.
    """
    return {
        "ntkfl": VERSION,
        "date": _today(),
        "adapter": result.adapter,
        **asdict(result.peer),
        "conforms": result.conforms,
        "methods": [
            asdict(method)
            | {"in_part": [{"variant": asdict(variant), "cases": count} for variant, count in method.in_part]}
            for method in result.methods
        ],
    }


def from_json(content: Mapping[str, Any]) -> Conformance:
    """The verdicts from the JSON that `as_json` wrote.

    Args:
        content: the JSON, as `as_json` returns it.

    Raises:
        KeyError, TypeError, ValueError: `as_json` did not write this content.
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


def as_text(result: Conformance) -> str:
    """The verdicts as text. Each method has a line; below it come its first difference and its failed cases.

    Args:
        result: the verdicts on an implementation.
    """
    width = max(len(verdict.method) for verdict in result.methods)
    lines = [line for method in result.methods for line in method_lines(method, width)]
    return "\n".join([*lines, "", summary(result)])


def method_lines(verdict: MethodVerdict, width: int = 0) -> Iterator[str]:
    """The lines of one method.

    Args:
        verdict: the verdict on a method.
        width: number of characters to which names are padded, default 0.
    """
    yield f"{verdict.method:<{width}}  {verdict.outcome.value:<8}  {_counted(verdict)}"
    for text in _explained(verdict):
        yield f"{'':<{width}}  {text}"
    for case in _first_differing(verdict):
        yield f"{'':<{width}}  first: {_where(case)}"
    for case in verdict.cases:
        if case.outcome is Agreement.FAILED:
            yield f"{'':<{width}}  {case.case}: {case.remark}"


def summary(result: Conformance) -> str:
    """A line with the number of methods for each verdict.

    Args:
        result: the verdicts on an implementation.
    """
    return f"{number_of(len(result.methods), 'method')}: {_tally(verdict.outcome for verdict in result.methods)}"


def as_markdown(result: Conformance) -> str:
    """The verdicts in Markdown: a table of the methods, with versions, the date and a badge.

    Args:
        result: the verdicts on an implementation.
    """
    versions = ", ".join(f"{name} {version}" for name, version in result.peer.packages.items())
    rows, left_out = table(result)
    lines = [
        f"# {result.adapter}",
        "",
        badge(result),
        "",
        f"{summary(result)}. {versions + '; ' if versions else ''}ntkfl {VERSION}, {_today()}. {FAIR}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if left_out:
        lines += ["", f"Left out: {', '.join(left_out)}."]
    return "\n".join([*lines, ""])


def table(result: Conformance) -> tuple[list[tuple[str, ...]], list[str]]:
    """The rows of the table for the methods that were tried, and the names of the methods that were left out.

    Args:
        result: the verdicts on an implementation.

    Returns: the rows, with the columns COLUMNS, and the names of the methods that the adapter leaves out.
    """
    rows: list[tuple[str, ...]] = []
    for verdict in (method for method in result.methods if method.outcome is not Agreement.LEFT_OUT):
        says = "; ".join(_explained(verdict)) or "; ".join(dict.fromkeys(c.remark for c in verdict.cases if c.remark))
        first = "; ".join(map(_where, _first_differing(verdict)))
        rows.append((verdict.method, verdict.outcome.value, _counted(verdict), says, first))
    return rows, [verdict.method for verdict in result.methods if verdict.outcome is Agreement.LEFT_OUT]


def badge(result: Conformance) -> str:
    """A line of Markdown with a badge that shows how many of the methods tried are equal to the reference.

    Args:
        result: the verdicts on an implementation.
    """
    tried = [method for method in result.methods if method.outcome is not Agreement.LEFT_OUT]
    equal = sum(verdict.outcome is Agreement.EQUAL for verdict in tried)
    summary = f"{equal} of {len(tried)} methods equal"
    colour = "brightgreen" if result.conforms else "orange" if equal else "red"
    label, message = (quote(text.replace("-", "--"), safe="") for text in ("ntkfl conform", summary))
    return f"![ntkfl conform: {summary}](https://img.shields.io/badge/{label}-{message}-{colour})"


def described(together: tuple[Variant, ...]) -> str:
    """The names of the variants, each followed by the variant's change in words.

    Args:
        together: the variants, in the order in which they apply.
    """
    return ", and ".join(f"{variant.name}: {variant.says}" for variant in together)


def _explained(verdict: MethodVerdict) -> list[str]:
    if not any(case.outcome is Agreement.DIFFERS for case in verdict.cases):
        return []
    if not verdict.explained:
        differing = verdict.counts()[Agreement.DIFFERS]
        some = [
            f"in {count} of {differing} cases {described((variant,))}" for variant, count in verdict.in_part[:NAMED]
        ]
        return ["; ".join(["no known variant in all cases", *some] if some else ["no known variant"])]
    named = [described(together) for together in verdict.explained[:NAMED]]
    more = len(verdict.explained) - len(named)
    return [" -- or ".join(named) + (f" -- or {more} more" if more else "")]


def _first_differing(verdict: MethodVerdict) -> list[CaseVerdict]:
    return [case for case in verdict.cases if case.difference][:1]


def _where(case: CaseVerdict) -> str:
    there = case.difference
    assert there is not None
    limit = f" ({case.limit})" if case.limit else ""
    return f"{case.case}, round {there.round}, {there.name}, off by {there.size:.2g}{limit}"


def _counted(verdict: MethodVerdict) -> str:
    precisions = sorted({case.precision for case in verdict.cases if case.precision} - {"float64"})
    tally = _tally(case.outcome for case in verdict.cases)
    return tally + (f" ({', '.join(precisions)})" if precisions else "")


def _tally(outcomes: Iterable[Agreement]) -> str:
    """The number of methods or cases with each verdict: "2 equal, 1 differs"."""
    counts = Counter(outcomes)
    words = {outcome: outcome.value for outcome in Agreement}
    words[Agreement.DIFFERS] = "differ" if counts[Agreement.DIFFERS] > 1 else "differs"
    return ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome])


def _today() -> str:
    return datetime.date.today().isoformat()
