"""The file that replays a counterexample. The file is readable JSON with exact numbers, and a changed file is
refused.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from bounds import Form, Outcome, Statement, catalogue, get
from bounds.listing import brought_by
from ntkfl.messages import refusing
from ntkfl.trajectory import provenance
from verification.facts import Fact, Standing
from verification.judging.confirm import StoredResult, judged_as_stored, run_witness
from verification.search.case_codec import decode, encode
from verification.search.hunt import CaseResult, Counterexample, judged_case, stands
from verification.search.plain_case import in_words
from verification.sentences import What
from verification.verdict_page import witness_text


def stored_counterexample(statement: Statement, form: Form) -> Counterexample:
    """A form's stored case as a counterexample, which `written` can keep in a file.

    Args:
        statement: the claim.
        form: one of the statement's forms.

    Raises:
        ValueError: the form has no stored case, or its stored case does not violate it.
    """
    if statement.forms[form].witness is None:
        raise ValueError(f"{statement.id} {form.value} has no stored case; it needs a witness")
    stored = run_witness(statement, form)
    if stored.confirmation is None or not stored.witness.shows:
        raise ValueError(
            f"{statement.id} {form.value}: {witness_text(stored.witness)}; a replay file needs a violation"
        )
    return Counterexample(stored.case, stored.comparison, stored.confirmation, "the stored case", 0, 0.0, stored.case)


def judged_if_stored(statement: Statement, form: Form, case: Any) -> StoredResult | None:
    """The result of judging a case as `verify` judges the stored case.

    None if the case is not equal to the stored case.
    """
    witness = statement.forms[form].witness
    try:
        if witness is None or encode(witness()) != encode(case):
            return None
    except TypeError:  # the stored case does not consist of plain data
        return None
    return judged_as_stored(statement, form, case)


FORMAT = "ntkfl counterexample 1"


@dataclass(frozen=True)
class Replay:
    """The content of a replay file: a statement, a form, a case, and the two sides (left, right) on the case."""

    statement: Statement
    form: Form
    case: Any
    sides: tuple[float, float]


@refusing({"seen": "it is result"})
@dataclass(frozen=True)
class Rejudged:
    """The result of judging a file's case again.

    It has the comparison, how well the violation stands, and whether the sides equal the sides in the file.
    """

    result: CaseResult
    standing: Standing
    how: str
    same_sides: bool

    @property
    def stands(self) -> bool:
        """Whether the violation was confirmed, or was seen where no second computation was possible."""
        return self.standing is not Standing.FALLEN

    @property
    def confirmed(self) -> bool:
        """Whether the violation was confirmed."""
        return self.standing is Standing.CONFIRMED


def written(statement: Statement, form: Form, counterexample: Counterexample) -> str:
    """The text of a replay file. A case that does not consist of plain data raises a TypeError.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        counterexample: the case, and how it was confirmed.
    """
    body = {
        "format": FORMAT,
        "statement": statement.id,
        "form": form.value,
        "in words": in_words(counterexample.case),
        "left": float(counterexample.comparison.left.value).hex(),
        "right": float(counterexample.comparison.right.value).hex(),
        "confirmation": str(counterexample.confirmation.how),
        "case": encode(counterexample.case),
    }
    if brought := brought_by(statement):
        body["statement of"] = dict(brought)
    whole = body | {"digest": _digest(body), "provenance": provenance()}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def read(text: str) -> Replay:
    """The counterexample in a file.

    Args:
        text: text of a replay file.

    Raises:
        ValueError: the text is no JSON, has another format, lacks entries, has a digest that does not fit, or has an
            impossible case.
        KeyError: the statement is unknown. It may be a statement of a user's file; no replay file can cause a user's
            file to be executed.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not a replay file: no JSON at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("this is not a replay file: its lists are too deep") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        format_given = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"this is not a replay file: its format is {format_given!r}, it must be {FORMAT!r}")
    missing = [name for name in ("statement", "form", "left", "right", "case", "digest") if name not in content]
    if missing:
        raise ValueError(f"the replay file has no {', '.join(missing)}: it is incomplete")
    for name in ("statement", "form"):
        if not isinstance(content[name], str):
            raise ValueError(f"the replay file's {name} is {content[name]!r:.40}; it must be a text")
    body = {name: value for name, value in content.items() if name not in ("digest", "provenance")}
    if _digest(body) != content["digest"]:
        raise ValueError(
            f"the replay file was changed after it was written: its digest is {str(content['digest'])[:12]}..., its "
            f"content has {_digest(body)[:12]}...; replay the file as `ntkfl attack` wrote it"
        )
    origin = content.get("statement of")
    file = origin.get("file") if isinstance(origin, dict) else None
    if content["statement"] not in catalogue() and file:
        raise KeyError(f"{content['statement']} is a statement of {file}; name it: ntkfl attack {file} --replay FILE")
    statement = get(content["statement"])
    forms = [form.value for form in statement.forms]
    if content["form"] not in forms:
        raise ValueError(f"{statement.id} has no form {content['form']!r}; it has: {', '.join(forms)}")
    try:
        case = decode(content["case"])
        sides = float.fromhex(content["left"]), float.fromhex(content["right"])
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"the replay file's case is refused: {error}") from None
    return Replay(statement, Form(content["form"]), case, sides)


def rejudge(replay: Replay) -> Rejudged:
    """Judge the case of a file again, and confirm a violation by a second computation.

    A case that is the form's stored case is judged as `verify` judges it.

    Args:
        replay: the content that `read` returned.
    """
    if (stored := judged_if_stored(replay.statement, replay.form, replay.case)) is not None:
        return _of_stored(replay, stored)
    result = judged_case(replay.statement, replay.form, replay.case)
    if result.comparison is None:
        why = f"the case does not meet {result.unmet}" if result.unmet else f"it has no value: {result.failed}"
        return Rejudged(result, Standing.FALLEN, why, False)
    same = replay.sides == (float(result.comparison.left.value), float(result.comparison.right.value))
    if not result.violated:
        return Rejudged(result, Standing.FALLEN, _not_violated(result), same)
    confirmation = stands(replay.statement, replay.form, replay.case, result)
    return Rejudged(result, confirmation.standing, str(confirmation.how), same)


def _not_violated(result: CaseResult) -> str:
    """What is known of a case that does not violate the claim."""
    comparison = result.comparison
    if result.frequency is not None or comparison is None or comparison.outcome is not Outcome.UNRESOLVED:
        return "it holds"
    return str(Fact(What.SECOND_TERM)) if comparison.explained else "the errors of its sides leave it open"


def _of_stored(replay: Replay, stored: StoredResult) -> Rejudged:
    same = replay.sides == (float(stored.comparison.left.value), float(stored.comparison.right.value))
    result = CaseResult(0.0, stored.comparison, stored.comparison.outcome is Outcome.VIOLATED)
    if stored.confirmation is None:
        return Rejudged(result, Standing.FALLEN, witness_text(stored.witness), same)
    return Rejudged(result, stored.confirmation.standing, str(stored.confirmation.how), same)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
