"""Which statements apply to a user's data and setup, and how sharp their bounds are.

Each form of a statement (as stated in a paper, as proved, ...) is judged on one case, which is made of the user's data.
A family makes cases of one kind, one from each seed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from bounds import Form, Kind, Options, Outcome, Statement
from bounds.case import AnyFamily
from bounds.ladders.rungs import WidthFamily
from ntkfl import interruption
from verification.compare import IDENTITIES
from verification.engine import Progress
from verification.judging.case_memory import require_case
from verification.judging.check import Check, begun
from verification.judging.way_out import Cases
from verification.planning import Plan, planned
from verification.sentences import sizes_text
from verification.verdict_page import vacuous_text

ALONG_SIZES = (Kind.RATE, Kind.ORDER)
AboutData = tuple[Statement, Form, AnyFamily]  # a statement, one of its forms, and that form's first family


class Applies(StrEnum):
    """The answer for a form on the user's data, the most useful answer first."""

    YES = "yes"
    # the form applies; it is an equality, a definition or an existence statement, and so no bound
    IDENTITY = "identity"
    # the form applies, but its bound says nothing about possible runs, or less than a trivial bound says
    VACUOUS = "vacuous"
    OTHER_OPTIONS = "with other options"
    NO = "no"
    FAILED = "failed"


@dataclass(frozen=True)
class Applicability:
    """Whether one form applies to one case.

    Args:
        plan: the plan by which the form was checked.
        applies: the answer.
        sharpness: left side / right side of the claim on the case, if the form applies; for an equality the relative
            error. A bound is sharp if this number is near 1.
        margins: the smallest margin of each hypothesis, by its name.
        why: if the form does not apply, the hypothesis that is not met, with its value, its limit and a value that
            would pass. If the bound is vacuous, the reason. If the computation failed, the error.
    """

    plan: Plan
    applies: Applies
    sharpness: float | None
    margins: dict[str, float]
    why: str

    @property
    def statement(self) -> Statement:
        """The statement that was checked."""
        return self.plan.statement

    @property
    def form(self) -> Form:
        """The form that was checked."""
        return self.plan.form


def applicable(
    statements: Iterable[Statement], options: Options, progress: Progress | None = None, auto_step: bool = False
) -> tuple[list[Applicability], int]:
    """The forms about the user's data that are not known to fail, and the number of other forms.

    Each form is judged on the case of the options' seed. To be quick, no stored case is run. (A stored case is kept
    with a form because it breaks the form.) The other forms are counted and not judged. The other forms are forms that
    are recorded as violated, forms that are not about data, and forms about more than one setup (rates, orders,
    networks of several widths).

    Args:
        statements: statements to check.
        options: the user's options: data, steps, seed.
        progress: a function that is called with each form; default None.
        auto_step: give a form a step of its own, if a change of the step alone meets its hypotheses.

    Returns: the forms, the most useful first, and the number of forms that are left out.

    Raises:
        ValueError: the options name no data. TooLittleMemory: a case is too large for this machine.
    """
    forms, left_out = about_data(statements, options)
    return looked_at(forms, options, progress, auto_step), left_out


def about_data(statements: Iterable[Statement], options: Options) -> tuple[list[AboutData], int]:
    """The forms that `applicable` judges, and the number of other forms.

    Args:
        statements: statements to check.
        options: the user's options: data, steps, seed.

    Returns: the forms that are judged, each with its statement and the first of its families of cases; and the number
        of other forms.

    Raises:
        ValueError: the options name no data. TooLittleMemory: a case is too large for this machine.
    """
    if options.data is None:
        raise ValueError("there are no data; name a data set or a file")
    forms: list[AboutData] = []
    others = 0
    for statement in statements:
        for form in statement.forms:
            judged = statement.forms[form].recorded is not Outcome.VIOLATED and statement.kind not in ALONG_SIZES
            check = begun(statement, form, replace(options, trials=1), wrong=False) if judged else None
            if check is not None and check.own_data and not isinstance(check.families[0], WidthFamily):
                forms.append((statement, form, check.families[0]))
            else:
                others += 1
    for family in dict.fromkeys(family for _, _, family in forms):
        require_case(family, options.seed)
    return forms, others


def looked_at(
    forms: Iterable[AboutData], options: Options, progress: Progress | None = None, auto_step: bool = False
) -> list[Applicability]:
    """The result of one case for each form, the most useful first.

    Args:
        forms: as `about_data` returns them; forms with the same family of cases share one case.
        options: the user's options: data, steps, seed.
        progress: a function that is called with each family; default None.
        auto_step: give a form a step of its own, if a change of the step alone meets its hypotheses.
    """
    by_family: dict[AnyFamily, list[tuple[Statement, Form]]] = {}
    for statement, form, family in forms:
        by_family.setdefault(family, []).append((statement, form))
    cases, answers = Cases(), []
    for done, (family, members) in enumerate(by_family.items(), 1):
        answers += [_looked(statement, form, options, cases, auto_step) for statement, form in members]
        if progress is not None:
            progress(family.name, done, len(by_family))
        interruption.check()
    order = list(Applies)
    return sorted(answers, key=lambda answer: (order.index(answer.applies), -(answer.sharpness or 0.0)))


def _looked(statement: Statement, form: Form, options: Options, cases: Cases, auto_step: bool) -> Applicability:
    """The result of one case for a form.

    A plan says with which step the form is checked on the data, or why the form cannot be checked. If the form cannot
    be checked, the result has the plan's reason. Otherwise both sides are judged on the case.
    """
    once = replace(options, trials=1)
    check = begun(statement, form, once, wrong=False)
    label = {"cases": check.families[0].name, "case_seed": options.seed}
    plan = Plan(statement, form, once)
    try:
        plan = planned(statement, form, once, cases, auto_step)
        if plan.unmet is not None:
            applies = Applies.NO if plan.other is None else Applies.OTHER_OPTIONS
            return Applicability(plan, applies, None, {}, plan.why)
        if plan.options != once:
            check = begun(statement, form, plan.options, wrong=False)
        check.add(cases.of(plan.family, options.seed), label, cases.margins(plan.family, options.seed))
    except Exception as error:
        check.fail_on(label, error)
    return _judged(plan, check)


def _judged(plan: Plan, check: Check) -> Applicability:
    def answer(applies: Applies, why: str = "", sharpness: float | None = None) -> Applicability:
        return Applicability(plan, applies, sharpness, dict(check.tally.margins), why)

    if check.error is not None:
        return answer(Applies.FAILED, check.error)
    if check.outside_premise:
        return answer(Applies.NO, f"its premise asks for {sizes_text(check.outside_premise[0])}")
    if check.tally.worst is None:
        rejected = [f"{name}: {rejection.value_and_limit}" for name, rejection in check.rejections.items()]
        return (
            answer(Applies.NO, rejected[0])
            if rejected
            else answer(Applies.FAILED, ", ".join(check.tally.failed.values()))
        )
    sharpness = check.tally.worst.tightness
    if check.says_nothing is not None:
        return answer(Applies.VACUOUS, vacuous_text(check.says_nothing), sharpness)
    broken = "this case violates it" if check.tally.counts[Outcome.VIOLATED] else ""
    applies = Applies.IDENTITY if check.statement.kind in IDENTITIES else Applies.YES
    return answer(applies, broken, sharpness)
