"""The full page of one verdict: the answer on the first line, and below it everything on which the answer rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy as sp

from bounds import Form, Kind, Outcome, Provenance, Statement, catalogue
from bounds.symbols import GLOSSARY
from verification.facts import Needed, Standing, Unmet, Vacuous, Where, Witness
from verification.intervals import percent
from verification.lines import LABEL, entry, nature_text, wrapped
from verification.plain_text import case_text, claim_lines

if TYPE_CHECKING:
    from verification.verdict import Side, Verdict

MEASURE = dict.fromkeys((Kind.EQUALITY, Kind.DEFINITION, Kind.EXISTENCE), "|difference|/scale")
MEASURE[Kind.RATE] = "distance in half-widths"
KILLED = Outcome.VIOLATED.value

NEEDED = {
    Needed.YES: "needed: without it a stored case violates the claim",
    Needed.NOT_SHOWN: "the stored case does not show it",
    Needed.NO_CASE: "no case found that needs it",
}
FAILS = {
    Where.STORED: "stored case",
    Where.RECORDED: "built-in cases, as recorded",
    Where.SEARCH: "found by a search",
}
FORM_MEANING = {
    Form.STATED: "as printed",
    Form.PROVED: "what the argument given for it yields",
    Form.REPAIRED: "repaired so that it holds",
    Form.NEW: "found here, in no paper",
}
READ = {
    Provenance.TEXT: "a text",
    Provenance.SCAN: "a scan that a machine read",
    Provenance.REPORTED: "a report, not the text",
    Provenance.OURS: "this project",
}


def as_text(verdict: Verdict, statement: Statement | None = None, width: int = 100) -> str:
    """The page of one verdict as plain text, without colour codes.

    Args:
        verdict: the verdict to show.
        statement: the statement, which gives the claim and its source. Default: the statement of the catalogue with the
            verdict's id. If there is none, the page lacks claim and source.
        width: columns; longer lines are wrapped between words; default 100.
    """
    statement = catalogue().get(verdict.id) if statement is None else statement
    lines, redone = wrapped(headline(verdict), width), verdict.confirmation
    entries = [("form", [_form(verdict, statement)])]
    if statement is not None:
        entries += [
            ("statement", [statement.title]),
            ("claim", claim_lines(statement, verdict.form)),
            ("left is", [statement.says_left]),
            ("source", [str(statement.source), statement.note]),
            ("read from", [read_from(statement, verdict.form)]),
            ("uses", [", ".join(statement.uses)]),
        ]
    entries += [
        ("", [""]),
        ("cases", counts_lines(verdict)),
        ("margins", [_margins(verdict)]),
        ("left", _side(verdict.lhs)),
        ("right", _side(verdict.rhs)),
        ("tightness", tightness_lines(verdict)),
        ("worst case", [case_text(verdict.worst.case if verdict.worst else {})]),
        ("witness", [witness_text(verdict.witness) if verdict.witness else ""]),
        ("search", [str(verdict.search or "")]),
        (redone.standing if redone is not None and redone.stands else "redone", [confirmation_text(verdict)]),
        ("", [""]),
        ("mutants", mutants_lines(verdict)),
        ("needed?", [f"{name}: {needed_text(needed)}" for name, needed in verdict.necessity.items()]),
        ("vacuous", [vacuous_text(verdict.vacuous)]),
        ("notes", [f"[{number}] {note}" for number, note in enumerate(notes_lines(verdict, statement), 1)]),
        ("", [""]),
        ("run with", [run_with(verdict)]),
    ]
    for label, content in entries:
        lines += entry(label, content, width) if label else [""]
    lines.append("  replay".ljust(LABEL) + " " + verdict.replay)  # not wrapped, since the command is meant to be copied
    return "\n".join(lines)


def notes_lines(verdict: Verdict, statement: Statement | None) -> list[str]:
    """The notes of a verdict, followed by the statement's note on this form.

    A note that occurs twice is given once, since verdicts of older versions contain the statement's note.
    """
    claim = statement.forms.get(verdict.form) if statement is not None else None
    own = [claim.note] if claim is not None and claim.note else []
    return list(dict.fromkeys([*map(str, verdict.notes), *own]))


def headline(verdict: Verdict) -> str:
    """The answer in one sentence."""
    differs = verdict.contradicts_record and verdict.recorded is not Outcome.OPEN
    record = f" (DIFFERS from what is recorded: {verdict.recorded.value})" if differs else ""
    record = " (recorded open: nobody has settled it)" if verdict.refutes_open else record
    whose = " on your data" if verdict.own_data else ""
    elsewhere = f"; fails elsewhere: {elsewhere_text(verdict)}" if verdict.elsewhere else ""
    line = f"{verdict.word.upper()}{whose}: {result_text(verdict)}{elsewhere}{record}"
    return f"{verdict.id} ({verdict.form.value})  {line}"


def amount(value: float, error: float) -> str:
    """A number with all digits that its error allows, so that rounding hides no margin."""
    if error == 0:
        return f"{value:.17g}"
    half = f"{error:.2g}" if 1e-3 <= error < 1e4 else f"{error:.1e}"  # writes 0.75 instead of 7.5e-01
    return f"{value:.{_digits(value, error)}g} ± {half}"


def ratio_text(ratio: float, digits: int = 4) -> str:
    """A ratio with `digits` digits. If they show 1 for a ratio other than 1, its distance from 1 is shown instead."""
    text = f"{ratio:.{digits}g}"
    return text if text != "1" or ratio == 1 else f"1{ratio - 1:+.1e}"


def measured_ratio(kind: Kind, ratio: float) -> str:
    """The ratio of the two sides with three digits, and the name that it has for this kind of claim."""
    return f"{MEASURE.get(kind, 'left/right')} {ratio_text(ratio, 3)}"


def witness_text(witness: Witness) -> str:
    """A sentence on the result of the stored case."""
    ratio = f"left/right {witness.ratio:.4g}"
    if witness.unmet:
        return f"the stored case does not meet {', '.join(witness.unmet)}"
    if witness.outcome is not Outcome.VIOLATED:
        return f"the stored case does not violate it ({witness.outcome.value}, {ratio})"
    return f"the stored case violates it, {ratio}" if witness.shows else f"not confirmed: {witness.fallen}"


def needed_text(needed: Needed) -> str:
    """A sentence that says whether a stored case shows that a hypothesis is needed."""
    return NEEDED[needed]


def unmet_text(unmet: Unmet) -> str:
    """How a rejected case misses a hypothesis, and the options that would meet the hypothesis."""
    eased = f": {unmet.options} {'passes' if unmet.passes else 'meets it'}" if unmet.options else ""
    return unmet.found + eased


def confirmation_text(verdict: Verdict) -> str:
    """How a violation was computed a second time; empty if there is no violation."""
    return str(verdict.confirmation.how) if verdict.confirmation else ""


def vacuous_text(vacuous: Vacuous | None) -> str:
    """Why a bound says nothing about possible runs, with the number that shows it.

    The text is empty if the bound is informative.
    """
    if vacuous is None:
        return ""
    if vacuous.factor is not None:
        return f"a bound that holds without it is smaller in every case, by a factor of {vacuous.factor:.2g} at least"
    sizes = [f"{name} >= {value:.2g}" for name, value in vacuous.at_least.items()]
    sizes += [f"{name} <= {value:.2g}" for name, value in vacuous.at_most.items()]
    return f"its own premise asks for {', '.join(sizes)}"


def elsewhere_text(verdict: Verdict) -> str:
    """For a form that holds on the user's data, the known cases on which it fails; empty if there are none."""
    place = verdict.elsewhere
    if place is None:
        return ""
    return FAILS[place.where] + ("" if place.ratio is None else f", {measured_ratio(verdict.kind, place.ratio)}")


def _digits(value: float, error: float) -> int:
    ratio = abs(value) / error
    return max(2, min(17, len(f"{ratio:.0f}") + 1)) if 0 < ratio < 1e17 else 17 if ratio else 2


def result_text(verdict: Verdict) -> str:
    """A sentence on what was found, without the outcome itself."""
    if verdict.outcome in (Outcome.UNTESTED, Outcome.UNRESOLVED):
        first_note = str(next(iter(verdict.notes), ""))
        reason = next((unmet_text(unmet) for unmet in verdict.counts.unmet.values() if unmet.passes), "")
        if verdict.outcome is Outcome.UNTESTED and reason:
            return f"{first_note}: {reason}"
        return first_note if first_note else f"{verdict.counts.unresolved} of {verdict.trials} trials undecided"
    if verdict.outcome is Outcome.VIOLATED:
        return _violation(verdict)
    if verdict.counts.violated:
        return f"{verdict.counts.violated} of {verdict.trials} trials exceed the bound, as often as it allows"
    touching = f"; {verdict.counts.touches} meet the bound to within their error" if verdict.counts.touches else ""
    if verdict.would_exclude is not None:
        untested = f"; they would have excluded a failure probability of {percent(verdict.would_exclude)} or more"
        touching += f"{untested}, the claim allows less"
    if verdict.counts.not_computed:
        touching += f"; {len(verdict.counts.not_computed)} could not be computed, which count as failures"
    return f"no violation in {verdict.trials} trials{touching}"


def _violation(verdict: Verdict) -> str:
    if verdict.lhs is None or verdict.rhs is None:
        return f"{verdict.counts.violated} of {verdict.trials} trials"
    left, right = verdict.lhs, verdict.rhs
    between = "≠" if verdict.kind is Kind.EQUALITY else ">" if left.value > right.value else "<"
    digits = next((d for d in range(4, 17) if f"{left.value:.{d}g}" != f"{right.value:.{d}g}"), 17)
    sides = f"left {left.value:.{digits}g} {between} right {right.value:.{digits}g}"
    redone = verdict.confirmation
    seen = redone is not None and redone.standing is Standing.SEEN
    only = ", seen but not confirmed: no second computation exists" if seen else ""
    if verdict.broken_by_search:
        return f"broken by search, {sides}; {verdict.counts.violated} of {verdict.trials} trials violate it{only}"
    by_witness = " and so does the stored case" if verdict.counts.violated else "; the stored case does"
    stored = by_witness if verdict.witness and not verdict.own_data else ""
    return f"{sides}; {verdict.counts.violated} of {verdict.trials} trials violate it{stored}{only}"


def symbols(statement: Statement, form: Form | None = None) -> list[tuple[tuple[Any, ...], str]]:
    """The symbols of a form, or of all forms, with their meanings, sorted by name.

    Symbols without meanings come last, together in one row.
    """
    used: set[Any] = set()
    for formula in statement.forms.values() if form is None else [statement.forms[form]]:
        premises = [side for pair in (formula.premise or {}).items() for side in pair]
        for expression in (*formula.parts, formula.lower, formula.failure, *premises):
            if expression is not None:
                used |= sp.sympify(expression).free_symbols
    meanings = {symbol: meaning for symbol, (_, meaning) in GLOSSARY.items()} | dict(statement.symbols)
    known = [((s,), meanings[s]) for s in sorted(used & meanings.keys(), key=_name)]
    own = tuple(sorted(used - meanings.keys(), key=_name))
    return known + ([(own, "of this statement alone; see its note and its file")] if own else [])


def _name(symbol: Any) -> tuple[str, str]:
    return symbol.name.lower(), symbol.name


def _form(verdict: Verdict, statement: Statement | None) -> str:
    nature = nature_text(statement.forms[verdict.form]) if statement is not None else ""
    recorded = "; ".join(filter(None, [verdict.recorded.value, nature]))
    return f"{verdict.form.value} ({FORM_MEANING[verdict.form]}), {verdict.kind.value}, recorded: {recorded}"


def read_from(statement: Statement, form: Form) -> str:
    """The kind of source from which the printed characters of a form were read, and how sure the reading is."""
    return "; ".join(filter(None, (READ[statement.provenance(form)], statement.forms[form].reading)))


def counts_lines(verdict: Verdict) -> list[str]:
    """How the drawn cases add up, in lines."""
    counts = verdict.counts
    rejected = sum(counts.rejected.values())
    by_name = [
        f"{name} rejected {count}" + (f": {unmet_text(counts.unmet[name])}" if name in counts.unmet else "")
        for name, count in counts.rejected.items()
    ]
    outcomes = f"{counts.holds} holds + {counts.touches} touches + {counts.unresolved} unresolved"
    return [
        f"{rejected + counts.trials} drawn = {rejected} rejected + {counts.trials} trials",
        *by_name,
        f"{counts.trials} trials = {outcomes} + {counts.violated} violated",
    ]


def _margins(verdict: Verdict) -> str:
    margins = ", ".join(f"{name} {margin:.3g}" for name, margin in verdict.counts.margins.items())
    return f"smallest of the admitted cases, by hypothesis: {margins}" if margins else ""


def _side(side: Side | None) -> list[str]:
    return [] if side is None else [f"{amount(side.value, side.error)} ({side.method})"]


def tightness_lines(verdict: Verdict) -> list[str]:
    """The ratios of the two sides, after the name of what they measure."""
    measure = {
        Kind.EQUALITY: "|left - right| / scale",
        Kind.RATE: "distance from the claim in half-widths",
    }.get(verdict.kind, "left / right")
    ratios = verdict.tightness
    return (
        [f"{measure}: " + ", ".join(f"{name} {ratio_text(ratio)}" for name, ratio in ratios.items())] if ratios else []
    )


def mutants_lines(verdict: Verdict) -> list[str]:
    """Which wrong formulas (mutants) were told from the right formula, and which were not."""
    if not verdict.mutants_total:
        return ["none is run on this form"]
    if not verdict.trials:
        return [f"no case to run the {verdict.mutants_total} on"]
    killed = [name for name, fate in verdict.mutants.items() if fate == KILLED]
    lines = [
        f"{verdict.mutants_killed} of {verdict.mutants_total} killed" + (": " + ", ".join(killed) if killed else "")
    ]
    survivors = [f"{name} ({fate})" for name, fate in verdict.mutants.items() if fate != KILLED]
    remark = "not killed on these data" if verdict.own_data else "WEAKLY TESTED, survived"
    return lines + ([f"{remark}: {', '.join(survivors)}"] if survivors else [])


def run_with(verdict: Verdict) -> str:
    """The versions and the machine with which the verdict was found."""
    facts = verdict.provenance
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    machine = [str(facts[name]) for name in ("dtype", "device") if name in facts]
    brought = facts.get("statement", {})
    whose = [f"{name} {text[:12]}" if name == "sha256" else text for name, text in brought.items() if name != "module"]
    return ", ".join([*([versions] if versions else []), *machine, *([" ".join(whose)] if whose else [])])
