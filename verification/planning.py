"""Plans that are made before any verdict.

A plan says with which step a form is checked on a user's data, or why the form cannot be checked.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from bounds import Form, Hypothesis, Options, Statement
from bounds.case import AnyFamily
from bounds.ladders.rungs import WidthFamily
from ntkfl import interruption
from ntkfl.messages import refusing
from verification.engine import Progress, chosen_forms, verdicts_of_claims
from verification.facts import Unmet
from verification.judging.check import Check, begun, option_words
from verification.judging.families import families
from verification.judging.looks import shares
from verification.judging.way_out import Cases, changed, free_first, passes, way_out
from verification.verdict import Verdict
from verification.verdict_page import unmet_text


@refusing({"found": "it is value_and_limit", "missed": "it is unmet_value"})
@dataclass(frozen=True)
class Plan:
    """The plan for one form on a user's data, according to its first case.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: the user's options, with another step for this form if `planned` had to find such a step.
        unmet: the hypothesis that the first case does not meet. None if the form can be tested.
        value_and_limit: the value and the limit of that hypothesis.
        other: the user's options, changed so that the hypothesis is met. None if no such options were found.
        passing: whether all hypotheses are met with `other`.
    """

    statement: Statement
    form: Form
    options: Options
    unmet: Hypothesis | None = None
    value_and_limit: str = ""
    other: Options | None = None
    passing: bool = False

    @property
    def family(self) -> AnyFamily:
        """The first family of cases, with the options of this plan."""
        return families(self.statement, self.form, self.options)[0][0]

    @property
    def change(self) -> str:
        """The options to change so that the hypothesis is met, in the form in which the command line takes them."""
        return "" if self.other is None else " ".join(option_words(changed(self.options, self.other)))

    @property
    def why(self) -> str:
        """Why the form cannot be tested, and with which options it could be; empty if it can be tested."""
        if self.unmet is None:
            return ""
        return f"{self.unmet.name}: {unmet_text(self.unmet_value)}"

    @property
    def unmet_value(self) -> Unmet:
        """The value that the hypothesis has on the first case, and the value that it asks for."""
        return Unmet(self.value_and_limit, self.change, self.passing)


def planned(
    statement: Statement, form: Form, options: Options, cases: Cases | None = None, auto_step: bool = False
) -> Plan:
    """The plan for one form that is about the user's data.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: the user's options.
        cases: cases and margins that are shared with other plans; default none.
        auto_step: take another step if a change of the step alone can meet the hypotheses; the width is not changed.

    Raises:
        ValueError, OSError: the data cannot be loaded.
    """
    cases, seed = cases or Cases(), options.seed
    family = families(statement, form, options)[0][0]
    case = cases.of(family, seed)
    for unmet in free_first(statement.required(form)):
        if cases.met(unmet, family, seed):
            continue
        margin = cases.margins(family, seed).get(id(unmet))
        if margin is None:  # the margin could not be computed; the error is reported when the case is judged
            break
        value_and_limit = unmet.value_and_limit(case, margin)
        other = way_out(statement, form, options, [unmet.name], 0, seed, cases, widen=not auto_step)
        passing = other is not None and passes(statement, form, other, 0, seed, cases)
        if auto_step and passing and other is not None and other == replace(options, eta_local=other.eta_local):
            return Plan(statement, form, other)
        return Plan(statement, form, options, unmet, value_and_limit, other, passing)
    return Plan(statement, form, options)


def plans_on_data(
    statements: Iterable[Statement],
    forms: Iterable[Form] | None,
    options: Options,
    auto_step: bool,
    progress: Progress | None = None,
) -> tuple[list[Plan], int]:
    """The plan of every form that is about the user's data, and the number of other forms.

    Networks of several widths are not trained for a plan. A form about such networks is planned with the user's
    options.

    Args:
        statements: the statements to check.
        forms: the only forms to plan; None: all forms.
        options: the user's options: data, sizes, steps, seed.
        auto_step: as in `planned`.
        progress: a function that is called with each form; default None.

    Returns: the plans, and the number of forms that are not about data.
    """
    plans, cases = [], Cases()
    asked = chosen_forms(statements, forms)
    about = [pair for pair in asked if begun(*pair, replace(options, trials=1), wrong=False).own_data]
    for done, (statement, form) in enumerate(about, 1):
        plan = Plan(statement, form, options)
        if not isinstance(plan.family, WidthFamily):
            with suppress(ArithmeticError, ValueError):  # an error of the case is reported by the form's verdict
                plan = planned(statement, form, options, cases, auto_step)
        plans.append(plan)
        if progress is not None:
            progress(statement.id, done, len(about))
        interruption.check()
    return plans, len(asked) - len(about)


def verify_planned(plans: Sequence[Plan], progress: Progress | None = None) -> list[Verdict]:
    """Verdicts of planned forms, each with the options of its plan. A form whose first case is rejected is untested.

    Args:
        plans: plans whose options have the same seed.
        progress: a function that is called with the family, the number of cases done and the number of all cases;
            default none.
    """
    if not plans:
        return []
    options, cases = plans[0].options, Cases()
    claims = [(partial(_begun, plan, cases), plan.options) for plan in plans]
    return verdicts_of_claims(claims, shares(options), options.seed, progress)


def _begun(plan: Plan, cases: Cases, share: float, looks: int) -> Check:
    check = begun(plan.statement, plan.form, plan.options, share=share, looks=looks)
    if plan.unmet is not None:
        family, seed = check.families[0], plan.options.seed
        label = {"cases": family.name, "case_seed": seed}
        check.add(cases.of(family, seed), label, cases.margins(family, seed))
        check.unmet = {plan.unmet.name: plan.unmet_value}
    return check
