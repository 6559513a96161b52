"""Stored cases: the witness of a form that is violated, and the cases that show a hypothesis to be needed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from bounds import Form, Outcome, Statement
from ntkfl.estimate import Estimate
from verification.compare import Comparison, judge
from verification.facts import Confirmation, Needed, Witness
from verification.judging.confirm import confirm
from verification.judging.points import Known


@dataclass(frozen=True)
class Shown:
    """The result of a stored case: the facts, how the violation was confirmed, the comparison and its sides."""

    witness: Witness
    confirmation: Confirmation | None
    seen: Comparison
    case: Any
    known: Known
    right: tuple[Estimate, ...]


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Stored cases break hypotheses on purpose, stability among them, so the user is not warned about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@expected_warnings()
def run_witness(statement: Statement, form: Form) -> Shown:
    """Judge the stored case of a form recorded violated, hypotheses first, and confirm its violation."""
    witness = statement.forms[form].witness
    assert witness is not None, "asked only of a form that has one"
    return judged_as_stored(statement, form, witness())


@expected_warnings()
def judged_as_stored(statement: Statement, form: Form, case: Any) -> Shown:
    """Judge a case as a stored case is judged, hypotheses first; the case may come from a file."""
    unmet = [h.name for h in statement.required(form) if not h.met(case)]
    known = statement.measured(form, case)
    right = statement.forms[form].evaluate(known[1])
    seen = judge(statement, form, case, known=known, right=right)
    witness = Witness(seen.tightness, seen.outcome, tuple(unmet))
    confirmed = confirm(statement, form, case, seen) if witness.shows else None
    if confirmed is not None and not confirmed.stands:
        witness = replace(witness, fallen=confirmed.how)
    return Shown(witness, confirmed, seen, case, known, right)


@expected_warnings()
def necessity(statement: Statement, form: Form) -> dict[str, Needed]:
    """For each hypothesis of a form recorded to hold, whether a stored case shows that it is needed."""
    needs: dict[str, Needed] = {}
    if statement.forms[form].recorded is not Outcome.HOLDS:
        return needs  # for a form that fails anyway no hypothesis is needed
    for hypothesis in statement.required(form):
        build = statement.necessity.get(hypothesis.name)
        if build is None:
            needs[hypothesis.name] = Needed.NO_CASE
            continue
        case = build()
        others = [h.name for h in statement.required(form) if h is not hypothesis and not h.met(case)]
        breaks = judge(statement, form, case).outcome is Outcome.VIOLATED
        needed = breaks and not others and not hypothesis.met(case)
        needs[hypothesis.name] = Needed.YES if needed else Needed.NOT_SHOWN
    return needs
