"""How a form is checked on a user's data: with which step, or why it cannot be, known before any verdict."""

from dataclasses import dataclass, replace

from bounds.hypothesis import Hypothesis
from bounds.options import Options
from bounds.statement import AnyFamily, Form, Statement
from verification.facts import Unmet
from verification.judging.families import families
from verification.judging.replaying import option_words
from verification.judging.way_out import Cases, changed, free_first, passes, way_out
from verification.verdict_page import unmet_text


@dataclass(frozen=True)
class Plan:
    """One form on a user's data, as far as its first case tells.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: the user's; with a step of this form's own where `planned` was told to find one.
        unmet: the hypothesis that the first case does not meet; None: it can be tested.
        found: the value and the limit of that hypothesis.
        other: the user's options, changed so that the hypothesis is met; None: none were found.
        passing: whether all hypotheses are met with these.
    """

    statement: Statement
    form: Form
    options: Options
    unmet: Hypothesis | None = None
    found: str = ""
    other: Options | None = None
    passing: bool = False

    @property
    def family(self) -> AnyFamily:
        """The first family of cases, with the options of this plan."""
        return families(self.statement, self.form, self.options)[0][0]

    @property
    def change(self) -> str:
        """What of the options is to be changed so that the hypothesis is met, as the command line takes it."""
        return "" if self.other is None else " ".join(option_words(changed(self.options, self.other)))

    @property
    def why(self) -> str:
        """Why it cannot be tested, and what would do; nothing where it can."""
        if self.unmet is None:
            return ""
        return f"{self.unmet.name}: {unmet_text(Unmet(self.found, self.change, self.passing))}"


def planned(
    statement: Statement, form: Form, options: Options, cases: Cases | None = None, auto_step: bool = False
) -> Plan:
    """The plan of one form that is about the user's data.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: the user's.
        cases: shared with other plans.
        auto_step: take another step where that alone meets the hypotheses; no other width is looked for.

    Raises:
        ValueError, OSError: the data cannot be had.
    """
    cases, seed = cases or Cases(), options.seed
    family = families(statement, form, options)[0][0]
    case = cases.of(family, seed)
    for unmet in free_first(statement.required(form)):
        if cases.met(unmet, family, seed):
            continue
        known = cases.margins(family, seed).get(id(unmet))
        if known is None:  # it cannot be computed: whoever judges the case meets the error
            break
        rejection = unmet.found(case, known)
        other = way_out(statement, form, options, [unmet.name], 0, seed, cases, widen=not auto_step)
        passing = other is not None and passes(statement, form, other, 0, seed, cases)
        if auto_step and passing and other is not None and other == replace(options, eta_local=other.eta_local):
            return Plan(statement, form, other)
        return Plan(statement, form, options, unmet, rejection, other, passing)
    return Plan(statement, form, options)
