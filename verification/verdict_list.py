"""Reports made from verdicts: a page, a table, Markdown, JSON and a line of totals. All show the same outcomes."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bounds import Kind, Nature, Outcome, catalogue
from bounds.vocabulary import UNCHARGED
from verification.facts import Data, Standing
from verification.intervals import percent
from verification.tables import markdown_row
from verification.verdict import NOT_REFUTED, NOT_RUN, Verdict
from verification.verdict_page import as_text, elsewhere_text, headline, measured_ratio, ratio_text, result_text

ORDER = (Outcome.VIOLATED, Outcome.UNRESOLVED, Outcome.UNTESTED, Outcome.TOUCHES, Outcome.HOLDS)
STYLE = {Outcome.VIOLATED: "red", Outcome.UNRESOLVED: "yellow", Outcome.UNTESTED: "yellow"}
COLUMNS = ("outcome", "statement", "form", "trials", "tightness", "mutants", "title", "remark")
OPEN_VIOLATED = "violated, recorded open"
SCREEN = 80  # number of columns of a terminal
NUMBERS = ("trials", "tightness", "mutants")
READ_AS: dict[Nature | None, str] = {Nature.SCAN: "as a scan reads", Nature.REPORTED: "as reported"}


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, sorted. Verdicts that differ from the record come first. Within both groups the verdicts are sorted
    by their outcomes.

    The outcomes have this order: violated, unresolved, untested, touches, not refuted, holds. Among the violated forms,
    the forms that are known only from a scan or a report come last. Verdicts of equal rank keep the given order.

    Args:
        verdicts: verdicts as `verify` returns them.
    """

    def rank(verdict: Verdict) -> tuple[bool, int, bool, bool]:
        uncharged = verdict.outcome is Outcome.VIOLATED and _nature(verdict) in UNCHARGED
        return not verdict.contradicts_record, ORDER.index(verdict.outcome), uncharged, verdict.would_exclude is None

    return sorted(verdicts, key=rank)


def table(verdicts: Iterable[Verdict]) -> Table:
    """A table with two lines for each verdict, the worst verdict first, in 80 columns.

    The first line has the outcome and numbers, the second line the title and remarks.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    ordered = worst_first(verdicts)
    rows = [COLUMNS, *map(_cells, ordered)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 2)]
    widths[1] -= max(0, sum(widths) + len(widths) - 1 - SCREEN)  # a longer id leaves less room for its form
    result = Table.grid()
    sides = ["rjust" if name in NUMBERS else "ljust" for name in COLUMNS]
    for place, (*cells, title, remark) in enumerate(rows):
        padded = [getattr(cell, side)(width) for cell, side, width in zip(cells, sides, widths, strict=False)]
        padded[1:3] = [f"{padded[1]} {cells[2]}".ljust(widths[1] + 1 + widths[2])]
        line = Text(" ".join(padded).rstrip())
        if place:
            verdict = ordered[place - 1]
            line.stylize("bold red" if verdict.contradicts_record else STYLE.get(verdict.outcome, ""), 0, widths[0])
        else:
            line.stylize("bold")
        result.add_row(line)
        if place and (title or remark):
            result.add_row(Padding(Text("; ".join(filter(None, (title, remark)))), (0, 0, 0, widths[0] + 1)))
    return result


def news_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """The verdicts that differ from the record or refute an open form, each with the command that replays it.

    If there are no such verdicts, the result is one line which says that nothing is new. There is one exception: the
    result is empty if, in addition, some verdict is on the user's own data or on the user's own statement.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    new = [v for v in verdicts if v.contradicts_record] + [v for v in verdicts if v.refutes_open]
    if new:
        return [line for verdict in new for line in (headline(verdict), f"  {verdict.replay}")]
    if any(verdict.own_data or "statement" in verdict.provenance for verdict in verdicts):
        return []
    known = sum(verdict.outcome is Outcome.VIOLATED for verdict in verdicts)
    rest = f"; {known} known {'failure is' if known == 1 else 'failures are'} as recorded" if known else ""
    return [f"nothing differs from what is recorded{rest}"]


def totals(verdicts: Sequence[Verdict]) -> str:
    """One line that says how many verdicts have each outcome, and how many differ from what is recorded.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    by_outcome = Counter(verdict.outcome for verdict in verdicts)
    violated = [verdict for verdict in verdicts if verdict.outcome is Outcome.VIOLATED]
    open_ones = sum(verdict.refutes_open for verdict in violated)
    against = sum(verdict.contradicts_record for verdict in violated)
    not_run = sum(verdict.not_run for verdict in verdicts)
    untried = sum(verdict.would_exclude is not None for verdict in verdicts)
    recorded = Counter(_nature(v) for v in violated if not (v.refutes_open or v.contradicts_record))
    uncharged = [
        (recorded[Nature.SCAN], "violated as a scan reads"),
        (recorded[Nature.REPORTED], "violated as reported"),
    ]
    counts = [
        (by_outcome[Outcome.HOLDS] - untried, "hold"),
        (untried, NOT_REFUTED),
        (by_outcome[Outcome.TOUCHES], "touch"),
        (by_outcome[Outcome.UNTESTED] - not_run, "untested"),
        (not_run, NOT_RUN),
        (by_outcome[Outcome.UNRESOLVED], "unresolved"),
        (recorded.total() - sum(count for count, _ in uncharged), "violated as recorded"),
        *uncharged,
        (open_ones, OPEN_VIOLATED),
        (against, "violated against the record"),
    ]
    counted = ", ".join(f"{count} {word}" for count, word in counts if count) or "none finished"
    differ = sum(verdict.contradicts_record for verdict in verdicts)
    noun = "verdict" if len(verdicts) == 1 else "verdicts"
    verb = "differs" if differ == 1 else "differ"
    failed = sum(verdict.error is not None for verdict in verdicts) - not_run
    own_data = any(verdict.data is not Data.BUILT_IN for verdict in verdicts)
    measure = "violate what is recorded to hold" if own_data else f"{verb} from what is recorded"
    elsewhere = sum(verdict.fails_elsewhere for verdict in verdicts)
    measure += f"; {elsewhere} {'fails' if elsewhere == 1 else 'fail'} elsewhere" if elsewhere else ""
    ended = f"; {failed} ended by an error" if failed else ""
    return f"{len(verdicts)} {noun}: {counted}; {differ - failed * own_data} {measure}{ended}"


def untested_lines(verdicts: Iterable[Verdict]) -> list[str]:
    """Why forms are untested and what to do about it, in one line for each reason; the most frequent reason comes last.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    reasons = Counter(
        (verdict.word, result_text(verdict))
        for verdict in verdicts
        if verdict.outcome is Outcome.UNTESTED and (verdict.error is None or verdict.not_run)
    )
    return [f"{word} ({count}): {reason}" for (word, reason), count in reversed(reasons.most_common())]


def as_markdown(verdicts: Sequence[Verdict]) -> str:
    """A page in Markdown: the totals, the table, and the page of every verdict, the worst verdict first.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    rows = worst_first(verdicts)
    lines = ["# Verdicts", "", escaped(totals(verdicts)) + ".", "", *markdown_table(rows)]
    for verdict in rows:
        lines += [
            "",
            f"## {escaped(verdict.id)}, {verdict.form.value}",
            "",
            _fenced(as_text(verdict)),
        ]
    return "\n".join(lines) + "\n"


def markdown_table(verdicts: Iterable[Verdict]) -> list[str]:
    """The rows of `table` as lines of Markdown, in the given order of the verdicts.

    Args:
        verdicts: verdicts as `verify` returns them.
    """
    lines = [markdown_row(COLUMNS), markdown_row(["---:" if name in NUMBERS else "---" for name in COLUMNS])]
    return lines + [markdown_row(map(escaped, _cells(verdict))) for verdict in verdicts]


def as_json(verdicts: Iterable[Verdict], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of strict JSON, {"provenance": ..., "verdicts": [...]}.

    Numbers that are not finite are strings.

    Args:
        verdicts: verdicts as `verify` returns them.
        provenance: versions, machine and date of the run.
    """
    return {"provenance": dict(provenance), "verdicts": [verdict.to_json() for verdict in verdicts]}


def escaped(text: str) -> str:
    """The text with escapes, so that Markdown shows it unchanged, also in a cell of a table.

    Args:
        text: any text.
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(str(text).split()))


def _nature(verdict: Verdict) -> Nature | None:
    """The recorded nature of the difference between a form and what holds.

    The result is None if there is no difference, or if the statement is not known here.
    """
    statement = catalogue().get(verdict.id)
    claim = statement.forms.get(verdict.form) if statement is not None else None
    return claim.nature if claim is not None else None


def _cells(verdict: Verdict) -> list[str]:
    ratios = verdict.tightness or {}
    sharpest = ratio_text(ratios["sharpest"], 3) if "sharpest" in ratios else "-"
    mutants = f"{verdict.mutants_killed}/{verdict.mutants_total}" if verdict.mutants_total else "-"
    rejected = sum(verdict.counts.rejected.values())
    remarks = [
        f"DIFFERS: recorded {verdict.recorded.value}" if verdict.contradicts_record else "",
        _known(verdict),
        _decided_by(verdict) if verdict.outcome is Outcome.VIOLATED else "",
        "recorded open" if verdict.refutes_open else "",
        f"would exclude {percent(verdict.would_exclude)}" if verdict.would_exclude is not None else "",
        _only_seen(verdict),
        "FAILED" if verdict.error is not None and not verdict.not_run else "",
        _not_computed(verdict),
        f"exponent ± {verdict.lhs.error:.2g}" if verdict.kind is Kind.RATE and verdict.lhs else "",
        "vacuous" if verdict.vacuous else "",
        "weakly tested" if verdict.weakly_tested else "",
        f"fails elsewhere: {elsewhere_text(verdict)}" if verdict.elsewhere else "",
        f"{rejected} rejected" if rejected else "",
    ]
    remark = ", ".join(filter(None, remarks))
    statement = catalogue().get(verdict.id)
    title = "" if statement is None else statement.title
    return [verdict.word, verdict.id, verdict.form.value, str(verdict.trials), sharpest, mutants, title, remark]


def _known(verdict: Verdict) -> str:
    """The remark on a violation that is recorded. The remark says from what kind of source the form was read."""
    if verdict.outcome is not Outcome.VIOLATED or verdict.contradicts_record or verdict.refutes_open:
        return ""
    return READ_AS.get(_nature(verdict), "as recorded")


def _not_computed(verdict: Verdict) -> str:
    """How many cases could not be computed, by the kinds of errors.

    If all cases could be computed, and the form holds or touches its bound, the text says how many cases are
    unresolved.
    """
    if verdict.counts.not_computed:
        kinds = dict.fromkeys(reason.partition(":")[0] for reason in verdict.counts.not_computed.values())
        return f"{len(verdict.counts.not_computed)} not computed: {', '.join(kinds).replace('failed with ', '')}"
    held = verdict.outcome in (Outcome.HOLDS, Outcome.TOUCHES)
    return f"{verdict.counts.unresolved} unresolved" if held and verdict.counts.unresolved else ""


def _only_seen(verdict: Verdict) -> str:
    """The remark on a violation that was not computed a second time.

    Such a violation decides nothing if only a search saw it.
    """
    if verdict.confirmation is None or verdict.confirmation.standing is not Standing.SEEN:
        return ""
    return "seen, not confirmed" if verdict.outcome is Outcome.VIOLATED else "a search saw a violation, not confirmed"


def _decided_by(verdict: Verdict) -> str:
    """What violates a claim that no drawn case violates, and by how much: a search, or the stored case.

    The text is empty if a drawn case violates the claim.
    """
    if verdict.broken_by_search:
        return f"broken by search, {measured_ratio(verdict.kind, (verdict.tightness or {})['search'])}"
    if verdict.counts.violated:
        return ""
    ratio = (verdict.tightness or {}).get("stored case")
    return "stored case" if ratio is None else f"stored case, {measured_ratio(verdict.kind, ratio)}"


def _fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
