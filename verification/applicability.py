"""Which statements apply to a user's data and setup: one case each, its hypotheses, and how much a bound says there."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bounds.ladders.rungs import WidthFamily
from bounds.options import Options
from bounds.statement import Draw, Form, Kind, Outcome, Statement
from ntkfl import interruption
from verification.compare import IDENTITIES
from verification.engine import Progress
from verification.judging.check import Check, begun
from verification.judging.way_out import Cases

ALONG_SIZES = (Kind.RATE, Kind.ORDER)


class Applies(StrEnum):
    """What was found, the most useful first."""

    YES = "yes"
    IDENTITY = "identity"  # an equality, or one of its kind: true, and no bound
    VACUOUS = "vacuous"  # it applies, and says nothing that can be run, or less than a trivial bound
    OTHER_OPTIONS = "with other options"
    NO = "no"
    FAILED = "failed"


@dataclass(frozen=True)
class Applicability:
    """One form on one case.

    Args:
        applies: what was found.
        sharpness: left/right on the case, where it applies (of an equality its relative error); near 1 the bound says
            much. margin: the smallest of the hypotheses', by name.
        why: where it does not apply, the hypothesis that is not met, with the value, the limit and what passes; why it
            is vacuous.
    """

    statement: Statement
    form: Form
    applies: Applies
    sharpness: float | None
    margins: dict[str, float]
    why: str


def applicable(
    statements: Iterable[Statement], options: Options, progress: Progress | None = None
) -> tuple[list[Applicability], int]:
    """Every form that is about the user's data and not known to fail, the most useful first; and how many are not.

    Left out, and counted: forms recorded violated, forms about other things than data, and what is not about one setup:
    rates, orders, and networks of several widths. A case is that of the options' seed; no stored case is run, so that
    this is quick.

    Args:
        statements: to be looked at.
        options: of the user: data, steps, seed.
        progress: told of each form.

    Returns: the forms, and the number of forms that are left out.

    Raises:
        ValueError: the options name no data.
    """
    if options.data is None:
        raise ValueError("there are no data; name a data set or a file")
    asked, left_out = [], 0
    for statement in statements:
        for form in statement.forms:
            known = statement.forms[form].recorded is not Outcome.VIOLATED and statement.kind not in ALONG_SIZES
            check = begun(statement, form, replace(options, trials=1), wrong=False) if known else None
            if check is not None and check.own_data and not isinstance(check.draws[0], WidthFamily):
                asked.append(check)
            else:
                left_out += 1
    cases = Cases()
    by_draw: dict[Draw, list[Check]] = {}
    for check in asked:
        by_draw.setdefault(check.draws[0], []).append(check)
    for done, (draw, checks) in enumerate(by_draw.items(), 1):
        _look(draw, checks, options.seed, cases)
        if progress is not None:
            progress(draw.name, done, len(by_draw))
        interruption.check()
    order = list(Applies)
    found = [_found(check, options, cases) for check in asked]
    return sorted(found, key=lambda one: (order.index(one.applies), -(one.sharpness or 0.0))), left_out


def _look(draw: Draw, checks: list[Check], seed: int, cases: Cases) -> None:
    label = {"cases": draw.name, "case_seed": seed}
    try:
        case: Any = cases.of(draw, seed)
    except Exception as error:
        for check in checks:
            check.fail_on(label, error)
        return
    for check in checks:
        check.add(case, label, cases.margins(draw, seed))


def _found(check: Check, options: Options, cases: Cases) -> Applicability:
    def found(applies: Applies, why: str = "", sharpness: float | None = None) -> Applicability:
        return Applicability(check.statement, check.form, applies, sharpness, dict(check.tally.margins), why)

    if check.error is not None:
        return found(Applies.FAILED, check.error)
    if check.tally.worst is None:
        reason = ", ".join(check.tally.failed.values())
        if not check.rejections:
            return found(Applies.FAILED, reason)
        name, rejection = next(iter(check.rejections.items()))
        eased = check.way_out(options, cases).get(name)
        return found(Applies.NO if eased is None else Applies.OTHER_OPTIONS, f"{name}: {eased or rejection.found}")
    sharpness = check.tally.worst.tightness
    if check.says_nothing is not None:
        return found(Applies.VACUOUS, check.says_nothing, sharpness)
    broken = "this case violates it" if check.tally.counts[Outcome.VIOLATED] else ""
    applies = Applies.IDENTITY if check.statement.kind in IDENTITIES else Applies.YES
    return found(applies, broken, sharpness)
