"""A first look, in seconds, at a user's data: the most informative statements are checked on a few cases each."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bounds import Options, Outcome, Statement
from ntkfl import interruption
from ntkfl.messages import refusing
from verification.applicability import Applicability, Applies, about_data, looked_at
from verification.compare import IDENTITIES
from verification.engine import Progress, run_cases
from verification.judging.check import Check, begun, option_words
from verification.judging.way_out import changed

CASES, MOST = 5, 10  # cases for each statement, and largest number of statements that are checked
COSTLY = "certified"  # the hypothesis of statements about certificates, which take minutes for hundreds of rows
DEEP = "deep/"  # statements about networks of any depth, which load torch and train
TELLING = 1e-3  # smallest left/right of an informative bound


@refusing({"met": "it is admitted", "ran": "it is drawn"})
@dataclass(frozen=True)
class Checked:
    """One statement on a few cases of a user's data.

    Args:
        looked: the result of one case.
        outcome: the outcome of the cases.
        admitted: number of admitted cases.
        drawn: number of drawn cases.
        sharpest: the largest left/right of the cases; for an equality the largest relative error.
    """

    looked: Applicability
    outcome: Outcome
    admitted: int
    drawn: int
    sharpest: float


@refusing({"missed": "it is blocked_forms"})
@dataclass(frozen=True)
class FirstLook:
    """The results of all statements about a user's data.

    Args:
        checked: the most informative statements, on a few cases each.
        looked: the forms, each judged on one case.
        left_out: number of forms that are known to fail, that are not about one setup, or that are about certificates
            or deep networks.
        identities: number of forms about data that are equalities and were not judged, since there were enough bounds.
    """

    checked: tuple[Checked, ...]
    looked: tuple[Applicability, ...]
    left_out: int
    identities: int

    @property
    def easiest(self) -> tuple[str, tuple[Statement, ...]]:
        """The change of options that makes the largest number of further statements testable, and these statements.

        If no change makes a further statement testable, the results are empty. The change never includes steps, since
        each statement finds its own step.
        """
        having = {looked.statement.id for looked in self.looked if looked.plan.unmet is None}
        by_change: dict[str, dict[str, Statement]] = {}
        for looked in self.looked:
            plan, statement = looked.plan, looked.statement
            if plan.passing and statement.id not in having:
                assert plan.other is not None
                other = replace(changed(plan.options, plan.other), eta_local=None)
                by_change.setdefault(" ".join(option_words(other)), {})[statement.id] = statement
        if not by_change:
            return "", ()
        change, members = max(by_change.items(), key=lambda pair: len(pair[1]))
        return change, tuple(members.values())

    @property
    def blocked_forms(self) -> Counter[str]:
        """For each hypothesis, the number of forms that cannot be tested because of it.

        The first case does not meet the hypothesis, and no options were found with which a case would pass.
        """
        return Counter(
            looked.plan.unmet.name
            for looked in self.looked
            if looked.plan.unmet is not None and not looked.plan.passing
        )

    def count(self, applies: Applies) -> int:
        """The number of forms with this result.

        Args:
            applies: the result.
        """
        return sum(looked.applies is applies for looked in self.looked)


def first_look(
    statements: Iterable[Statement], options: Options, progress: Progress | None = None, cases: int = CASES
) -> FirstLook:
    """Judge every statement about the data on one case, and check the most informative ones on a few cases.

    If a form's hypotheses do not allow the step of the options, the form is checked with a smaller step. The result
    with the sharpest bound comes first. Identities are judged only if there are too few informative bounds. Each
    statement is checked in its most informative form. If hypotheses reject some of the cases, the next statement takes
    this statement's place. Statements about certificates and about deep networks are left out.

    Args:
        statements: statements to judge.
        options: the user's options: data, sizes, steps, seed.
        progress: a function that is called with each family of cases; default None.
        cases: cases of each checked statement; default 5.

    Raises:
        ValueError: the options name no data. TooLittleMemory: a case is too large for this machine.
    """
    every = list(statements)
    quick = [
        statement
        for statement in every
        if not statement.id.startswith(DEEP)
        and all(COSTLY != hypothesis.name for form in statement.forms for hypothesis in statement.required(form))
    ]
    forms, left_out = about_data(quick, options)
    left_out += sum(len(statement.forms) for statement in every) - sum(len(statement.forms) for statement in quick)
    exact = [form for form in forms if form[0].kind in IDENTITIES]
    looked = looked_at([form for form in forms if form not in exact], options, progress, auto_step=True)
    checked = _most_telling(looked, cases, MOST)
    if len(checked) == MOST:
        return FirstLook(tuple(checked), tuple(looked), left_out, len(exact))
    identities = looked_at(exact, options, progress, auto_step=True)
    checked += _most_telling(identities, cases, MOST - len(checked))
    return FirstLook(tuple(checked), (*looked, *identities), left_out, 0)


def _most_telling(looked: Iterable[Applicability], cases: int, most: int) -> list[Checked]:
    """The most informative statements, each in its sharpest form and on a few cases.

    Only tested forms are kept; the sharpest comes first.
    """
    best: dict[str, Applicability] = {}
    for form in looked:
        if form.applies is Applies.IDENTITY or (form.applies is Applies.YES and (form.sharpness or 0.0) >= TELLING):
            best.setdefault(form.statement.id, form)
    waiting = list(best.values())
    checked: list[Checked] = []
    while waiting and len(checked) < most:
        interruption.check()
        count = most - len(checked)
        tested = (verdict for verdict in _checked(waiting[:count], cases) if verdict.outcome is not Outcome.UNTESTED)
        checked += tested
        waiting = waiting[count:]
    return sorted(checked, key=lambda form: -math.inf if math.isnan(form.sharpest) else form.sharpest, reverse=True)


def _checked(forms: Sequence[Applicability], cases: int) -> list[Checked]:
    """The results of forms on a few cases each; forms with equal families and options share their cases."""
    begun_forms = []
    for form in forms:
        options = replace(form.plan.options, trials=cases)
        check = begun(form.statement, form.form, options, wrong=False)
        check.families = check.families[:1]
        begun_forms.append((form, check, options))
    run_cases([check for _, check, _ in begun_forms], forms[0].plan.options.seed)
    return [_settled(*begun_form) for begun_form in begun_forms]


def _settled(form: Applicability, check: Check, options: Options) -> Checked:
    outcome, _ = check.tally.settle(form.statement.kind, min(check.planned, check.required))
    if outcome is Outcome.VIOLATED:
        outcome = check.verdict(options).outcome  # whether a violation is confirmed is known only from the verdict
    return Checked(form, outcome, check.tally.trials, check.planned, max(check.tally.tightness, default=float("nan")))
