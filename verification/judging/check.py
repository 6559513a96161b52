"""The check of one form of one statement, up to its verdict and the command that repeats it.

Cases are admitted or rejected by the hypotheses. On admitted cases the form is judged, and so are its mutants (wrong
versions of its formula that the check should find violated). The results are counted and settled into one outcome. A
ladder is a case with networks of several sizes; its runs are counted one by one. The cases are drawn in steps, called
looks. A stored case is kept with a form: it breaks the form, or shows that a hypothesis is needed. A premise is a
demand of a theorem on a size, such as the width m; it often asks for more than any run has.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bounds import Form, Formula, Hypothesis, Options, Outcome, Statement
from bounds.case import NOT_COMPUTED, AnyFamily, case_of
from bounds.formula import evaluate
from bounds.listing import NO_TORCH, brought_by, failure, word_for
from ntkfl import interruption
from ntkfl.data.user_files import file_digest
from ntkfl.estimate import NotFinite
from ntkfl.trajectory import provenance
from verification.case_points import STORED
from verification.compare import Comparison, judge
from verification.facts import Confirmation, Data, Elsewhere, Fact, Standing, Unmet, Vacuous, Where
from verification.judging.confirm import confirm, necessity, refined, run_witness
from verification.judging.families import families, without_data
from verification.judging.looks import SHARES, Part, seeds_of
from verification.judging.points import Points
from verification.judging.tally import Tally
from verification.judging.way_out import Cases, changed, passes, way_out
from verification.plain_text import case_text
from verification.sentences import What
from verification.verdict import Verdict, Worst


def replay_command(statement: Statement, form: Form, options: Options) -> str:
    """The command that computes this verdict again."""
    words = [f"ntkfl verify {shlex.quote(word_for(statement))} --form {form.value} --seed {options.seed}"]
    return " ".join([*words, *option_words(options)])


def option_words(options: Options) -> list[str]:
    """The words by which the command line sets these options, without the seed."""
    given = {name.replace("_", "-"): value for name, value in asdict(options).items() if name != "seed"}
    switches = [f"--{name}" for name, value in given.items() if value is True]
    chosen = {name: value for name, value in given.items() if value is not None and not isinstance(value, bool)}
    return [f"--{name} {shlex.quote(str(value))}" for name, value in chosen.items()] + switches


# the largest width m and number T of rounds that anyone can run; steps below 1e-6 are out of reach too
REACH = {"m": 1e9, "T": 1e7}

KEPT = 32  # number of cases of a form that a verdict keeps for its picture
OPEN = (Outcome.UNTESTED, Outcome.UNRESOLVED)  # outcomes that further cases may settle
CONFIRM = 3  # number of violating cases that are kept to be confirmed; it is enough if one of them is confirmed


@dataclass(frozen=True)
class Rejection:
    """The case that is farthest from meeting a hypothesis."""

    margin: float
    value_and_limit: str
    family: int
    seed: int


@dataclass
class Check:
    """The check of one form of one statement, up to its verdict."""

    statement: Statement
    form: Form
    families: tuple[AnyFamily, ...]
    own_data: bool = False  # whether the cases are made of the user's data
    wrong: bool = True  # whether the mutants are judged too
    # share of the cases that is drawn; a verdict needs the same number of admitted cases, whatever the share is
    share: float = 1.0
    looks: int = 1  # number of looks, at growing shares of the cases, that may settle the form
    # ladders on which an earlier look settled the form, each with the share of its networks in that look
    before: Mapping[AnyFamily, float] = field(default_factory=dict)
    tally: Tally = field(init=False)
    # for each family, by name, the outcome on the family's last case
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    # the cases that meet the premise; a failure among them counts, whatever the other cases show
    in_premise: Tally = field(init=False)
    rejections: dict[str, Rejection] = field(default_factory=dict)  # for each hypothesis, by name, the worst rejection
    mutants: list[Tally] = field(default_factory=list)
    # a wrong formula, and whether its comparison is reversed
    mutated: list[tuple[Formula, bool]] = field(default_factory=list)
    violating: list[tuple[Any, Comparison]] = field(default_factory=list)
    vacuous: Vacuous | None = None  # why the sizes that the premise asks for are out of reach
    # for each violating case outside the premise, the sizes that the premise requires
    outside_premise: list[dict[str, float]] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)  # the right side divided by a bound that needs no theorem
    # devices that the training engine ran on; None: a case without the engine
    devices: set[str | None] = field(default_factory=set)
    error: str | None = None  # an exception of the statement's own code, which ends this check and no other
    doubted: bool = False  # whether a violation that would settle the form was redone and not confirmed
    # the hypotheses that the first case does not meet; if there are any, no other case is drawn
    unmet: dict[str, Unmet] = field(default_factory=dict)
    points: Points = field(init=False)  # the data of a picture
    cases_done: Counter[AnyFamily] = field(default_factory=Counter)  # number of cases so far, rejected ones included

    def __post_init__(self) -> None:
        self.points, self.tally = Points(self.statement, self.form), Tally(looks=self.looks)
        self.in_premise = Tally(looks=self.looks)
        holding = self.statement.forms[self.form].recorded is Outcome.HOLDS
        if self.wrong and holding and self.form is self.statement.mutated_form:
            formula = self.statement.forms[self.form]
            try:
                self.mutated = [(formula.mutated(m.change), m.reverse) for m in self.statement.mutants]
            except Exception as error:
                self.fail(error)
            self.mutants = [Tally() for _ in self.mutated]

    @property
    def required(self) -> int:
        """The number of admitted cases that a verdict needs."""
        return min((family.required for family in self.families), default=0)

    @property
    def drawn(self) -> dict[AnyFamily, int]:
        """The number of seeds that are drawn of each family; empty if the first case is known to be rejected."""
        return {} if self.unmet else seeds_of(self.families, self.share, self.before)

    @property
    def planned(self) -> int:
        """The number of cases that are drawn, rejected cases included."""
        return sum(seeds_of(self.families, self.share, self.before).values())

    @property
    def whole(self) -> bool:
        """Whether this look draws all cases, so that no further look draws more."""
        return self.drawn == ({} if self.unmet else seeds_of(self.families, 1.0))

    @property
    def settled_ladders(self) -> dict[AnyFamily, float]:
        """The ladders on which this look settles the form, with their shares; none while some mutant is not caught."""
        if self.error is not None or self.doubted or not {*self._of_mutants} <= {Outcome.VIOLATED}:
            return {}
        parts = [family for family in self.drawn if isinstance(family, Part)]
        return {part.whole: part.share for part in parts if self.outcomes.get(part.name, Outcome.UNTESTED) not in OPEN}

    def further(self, share: float) -> bool:
        """Prepare this check for a further look, which draws a larger share of the cases; return True.

        For a check of ladders it returns False, because a new check of a larger part of the ladders replaces this one.
        """
        if any(isinstance(family, Part) for family in self.drawn):
            return False
        self.share, self.doubted = share, False
        vars(self).pop("confirmed", None)
        return True

    @property
    def decided(self) -> bool:
        """Whether no further look is needed.

        No further look is needed if the cases settle the form and tell the form's formula from every mutant, or if no
        more cases are drawn.
        """
        if self.unmet:
            return True
        settled, _ = self.settled
        if self.error is not None or self.doubted or settled in OPEN:
            return False
        if self.share < 1 and self.tally.would_exclude is not None:
            further = sum(seeds_of(self.families, min(share for share in SHARES if share > self.share)).values())
            if self.tally.excluded_by(further) is None:  # more cases would confirm the claimed probability
                return False
        return {*self._of_mutants} <= {Outcome.VIOLATED}

    @property
    def settled(self) -> tuple[Outcome, tuple[Fact, ...]]:
        """The outcome according to the cases so far, and the facts that explain it."""
        kind = self.statement.kind
        in_premise = self.in_premise.settle(kind, 1)
        return in_premise if in_premise[0] is Outcome.VIOLATED else self.tally.settle(kind, self.required)

    def redo(self) -> None:
        """Redo a violation that would settle the form.

        While further cases follow, a violation that is not confirmed decides nothing.
        """
        try:
            if self.settled[0] is Outcome.VIOLATED:
                self.doubted = self.confirmed is not None and not self.confirmed.stands
        except Exception as error:
            interruption.check()
            self.fail(error)

    @property
    def _of_mutants(self) -> list[Outcome]:
        return [tally.settle(self.statement.kind, 1)[0] for tally in self.mutants]

    @property
    def missing(self) -> list[str]:
        """The names of families of which cases are still to be drawn; none if the drawn cases decide."""
        if self.unmet or (self.cases_done >= Counter(self.drawn) and self.decided):
            return []
        return [family.name for family in self.families if self.cases_done[family] < family.trials]

    def fail(self, error: Exception, where: str = "") -> None:
        """End this check. The verdict is unresolved, and names the exception and the case on which it was raised.

        If PyTorch is missing the verdict is untested instead.
        """
        reason = failure(error, self.statement)
        self.error = self.error or (reason if reason == NO_TORCH else reason + (where and f", on {where}"))

    def fail_on(self, label: dict[str, Any], error: Exception, weight: int = 1) -> None:
        """Count a case on which an exception was raised.

        An exception which says that the case cannot be computed leaves the case open. Any other exception is a fault of
        the statement, or of this project, and ends the check.
        """
        interruption.check()  # the error may be the effect of an interrupt
        if self.error is None:
            where = case_text(label)
            if isinstance(error, NOT_COMPUTED):
                self.tally.leave_open(where, failure(error, self.statement), weight)
            else:
                self.fail(error, where)
                self.tally.count(Outcome.UNRESOLVED, weight)

    def add(self, case: Any, label: dict[str, Any], margins: dict[int, float] | None = None) -> None:
        """Admit or reject a case, and if it is admitted, judge the form and its mutants on it.

        An exception ends this check and no other; see `fail_on`.
        """
        if self.error is not None:
            return
        weight = 1
        try:
            weight = case_of(case).n_runs
            self._add(case, label, {} if margins is None else margins)
        except Exception as error:
            self.fail_on(label, error, weight)

    def may_admit(self, case: Any) -> bool:
        """Whether a case meets every hypothesis that can be checked without a run.

        The result is also True if such a check raises an exception; `add` then meets the exception again and reports
        it. The threads that prepare cases call this method.
        """
        try:
            return all(h.least(case) >= 0 for h in self.statement.required(self.form) if h.free)
        except Exception:  # `add` meets the error again and reports it
            return True

    def _add(self, case: Any, label: dict[str, Any], known_margins: dict[int, float]) -> None:
        statement, formula = self.statement, self.statement.forms[self.form]
        self.devices.add(case_of(case).ran_on)
        margins: dict[str, float] = {}
        for hypothesis in sorted(statement.required(self.form), key=lambda hypothesis: not hypothesis.free):
            if id(hypothesis) not in known_margins:
                known_margins[id(hypothesis)] = hypothesis.least(case)
            margins[hypothesis.name] = known_margins[id(hypothesis)]
            if not margins[hypothesis.name] >= 0:
                self.tally.rejected[hypothesis.name] += 1
                self._reject(hypothesis, case, label, margins[hypothesis.name])
                return
        self.tally.admit(margins)
        measurement = statement.measured(self.form, case)
        constants = measurement[1]
        right = formula.evaluate(constants)
        comparison = judge(statement, self.form, case, known=measurement, right=right)
        comparison = refined(statement, self.form, case, comparison)
        if comparison.outcome is Outcome.UNRESOLVED and np.isinf(comparison.left.value):
            raise NotFinite(f"both sides are {comparison.left.value}, so they cannot be compared")
        weight = case_of(case).n_runs
        failure = float(formula.failure_at(constants)) if formula.failure is not None else None
        if self.vacuous is None and formula.premise:
            self.vacuous = _out_of_reach(formula.premise_at(constants))
        lacking = formula.lacking(case, constants)
        if comparison.outcome is Outcome.VIOLATED and lacking:
            # this violation shows that the premise is needed, and not that the statement fails
            self.outside_premise.append(lacking)
            return
        if formula.trivial is not None:
            self.excess.append(float((comparison.right.lo / evaluate(formula.trivial, constants).hi).min()))
        if formula.premise and not lacking:
            self.in_premise.add(comparison, {}, weight, failure)
        self.outcomes[label["cases"]] = comparison.outcome
        worse = self.tally.add(comparison, label | case_of(case).describe(), weight, failure)
        self.points.add(case, label["cases"], comparison, measurement, right, failure)
        if comparison.outcome is Outcome.VIOLATED and (worse or len(self.violating) < CONFIRM):
            self.violating = [(case, comparison), *self.violating][:CONFIRM]  # the latest case comes first
        for (mutated, reverse), tally in zip(self.mutated, self.mutants, strict=True):
            if tally.refuted(sum(family.trials for family in self.families)):
                continue  # this mutant is killed already
            try:
                wrong = judge(statement, self.form, case, formula=mutated, reverse=reverse, known=measurement)
            except NOT_COMPUTED as error:  # the error is in the mutant's formula; the case itself is counted already
                tally.leave_open(case_text(label), str(error), weight)
            else:
                # A mutant counts as violated if the measured interval excludes it, even where a second term of the
                # power law could explain the deviation.
                tally.add(replace(wrong, outcome=Outcome.VIOLATED) if wrong.explained else wrong, {}, weight, failure)

    def _reject(self, hypothesis: Hypothesis, case: Any, label: dict[str, Any], margin: float) -> None:
        worst = self.rejections.get(hypothesis.name)
        if worst is None or not worst.margin <= margin:
            family = [family.name for family in self.families].index(label["cases"])
            self.rejections[hypothesis.name] = Rejection(
                margin, hypothesis.value_and_limit(case, margin), family, label["case_seed"]
            )

    def verdict(self, options: Options, missing: Sequence[str] = (), cases: Cases | None = None) -> Verdict:
        """The verdict on the cases so far.

        A violation is confirmed, and the stored cases are run: the case that violates the form, and the cases that show
        which hypotheses are needed. An exception in these computations makes the verdict unresolved, as an exception on
        a case does. If families are missing, because the check was interrupted, no stored case is run.
        """
        if self.error is None:
            try:
                return self._verdict(options, missing, cases)
            except Exception as error:
                interruption.check()
                self.fail(error)
        return self._verdict(options, missing, cases)

    def _verdict(self, options: Options, missing: Sequence[str], cases: Cases | None) -> Verdict:
        whole = self.error is None and not missing
        verdict = self._by_cases(options, missing)
        if self.statement.forms[self.form].witness is not None and whole:
            verdict = self._with_stored_case(verdict)
        elif self.own_data and verdict.recorded is Outcome.VIOLATED:
            verdict = replace(verdict, elsewhere=Elsewhere(Where.RECORDED))
        unmet = {name: Unmet(rejection.value_and_limit) for name, rejection in self.rejections.items()}
        if verdict.outcome is Outcome.UNTESTED and whole and unmet:
            unmet |= self.way_out(options, cases)
        would_exclude = self.tally.would_exclude if verdict.outcome is Outcome.HOLDS else None
        return replace(
            verdict,
            counts=replace(verdict.counts, unmet=unmet, would_exclude=would_exclude),
            necessity=necessity(self.statement, self.form) if whole else {},
            notes=verdict.notes + self._notes(options),
            seen=self.points.case_points(KEPT) if self.points.rows else None,
        )

    def _by_cases(self, options: Options, missing: Sequence[str]) -> Verdict:
        """The verdict according to the cases of the families alone."""
        statement, form, tally = self.statement, self.form, self.tally
        outcome, reasons = self.settled
        if self.error is not None:
            outcome = Outcome.UNTESTED if self.error == NO_TORCH else Outcome.UNRESOLVED
            reasons = (Fact(What.ERROR, {"error": self.error}),)
        elif self.outside_premise and outcome is not Outcome.VIOLATED:
            outcome = Outcome.UNTESTED
            lacking = {"count": len(self.outside_premise), "sizes": self.outside_premise[0]}
            reasons = (Fact(What.BEYOND_PREMISE, lacking), *reasons)
        notes = tuple(dict.fromkeys(reasons + tally.not_computed))
        if missing:
            notes = (Fact(What.INTERRUPTED, {"families": list(missing)}), *notes)
        confirmed = self.confirmed if outcome is Outcome.VIOLATED else None
        if confirmed is not None and not confirmed.stands:
            outcome = Outcome.UNRESOLVED
            notes += (Fact(What.DOUBTED, {"how": confirmed.how}),)
        unused = options.data is not None and not self.own_data
        ratios = tally.tightness
        return Verdict(
            id=statement.id,
            form=form,
            kind=statement.kind,
            outcome=outcome,
            recorded=statement.forms[form].recorded,
            counts=tally.frozen,
            worst=Worst.of(tally.worst, tally.worst_case or {}) if tally.worst else None,
            tightness={"sharpest": max(ratios), "median": sorted(ratios)[len(ratios) // 2]} if ratios else None,
            vacuous=self.says_nothing,
            witness=None,
            confirmation=confirmed,
            mutants={m.name: settled for m, settled in zip(statement.mutants, self._of_mutants, strict=False)},
            necessity={},
            notes=notes,
            replay=replay_command(statement, form, without_data(options) if unused else options),
            error=self.error,
            complete=not missing,
            data=Data.OWN if self.own_data else Data.UNUSED if unused else Data.BUILT_IN,
            provenance=self._provenance(options),
        )

    def _with_stored_case(self, verdict: Verdict) -> Verdict:
        """The verdict after the stored case.

        A violation in the stored case decides the outcome. If the cases are made of the user's data, the violation is
        only mentioned.
        """
        stored = run_witness(self.statement, self.form)
        verdict = replace(verdict, witness=stored.witness)
        if self.own_data:
            elsewhere = Elsewhere(Where.STORED, stored.comparison.tightness)
            return replace(verdict, elsewhere=elsewhere) if stored.witness.shows else verdict
        self.points.add(stored.case, STORED, stored.comparison, stored.measurement, stored.right)
        confirmed = stored.confirmation
        if confirmed is not None and (stored.witness.shows or verdict.confirmation is None):
            verdict = replace(verdict, confirmation=confirmed)
        if not stored.witness.shows:
            return verdict
        assert confirmed is not None  # judging a stored case includes confirming its violation
        too_few = self.tally.settle(verdict.kind, self.required)[1] if verdict.outcome is Outcome.UNTESTED else ()
        return replace(
            verdict,
            outcome=Outcome.VIOLATED,
            worst=Worst.of(stored.comparison, {"cases": "the stored case"} | case_of(stored.case).describe()),
            tightness=(verdict.tightness or {}) | {"stored case": stored.comparison.tightness},
            notes=tuple(note for note in verdict.notes if note not in too_few),
        )

    def _notes(self, options: Options) -> tuple[Fact, ...]:
        """Notes on options that have no effect on the cases."""
        notes = [Fact(What.NOT_ABOUT_DATA)] if options.data is not None and not self.own_data else []
        notes += [Fact(What.ONE_CASE)] if self.unmet else []
        if options.device is not None and self.devices != {options.device}:
            partly = What.PART_ENGINE if options.device in self.devices else What.NO_ENGINE
            notes.append(Fact(partly, {"device": options.device}))
        return tuple(notes)

    @property
    def says_nothing(self) -> Vacuous | None:
        """Why the bound says nothing about possible runs, with the number that shows it.

        The result is None if the bound is informative.
        """
        if self.vacuous is not None or not self.excess or min(self.excess) < 1:
            return self.vacuous
        return Vacuous(factor=min(self.excess))

    def way_out(self, options: Options, cases: Cases | None = None) -> dict[str, Unmet]:
        """The hypothesis that rejected most cases, with options that meet it; empty if no such options were found.

        If the first case was known to be rejected, the result has all hypotheses that the first case does not meet.
        """
        if self.unmet:
            return self.unmet
        name, _ = self.tally.rejected.most_common(1)[0]
        worst = self.rejections[name]
        other = way_out(self.statement, self.form, options, list(self.rejections), worst.family, worst.seed, cases)
        if other is None:
            return {}
        whole = passes(self.statement, self.form, other, worst.family, worst.seed, cases)
        words = " ".join(option_words(changed(options, other)))
        return {name: Unmet(worst.value_and_limit, words, whole)}

    @cached_property
    def confirmed(self) -> Confirmation | None:
        """How well the best of the kept violations stands; None if there is no violation.

        The result is computed once, after all cases are judged.
        """
        confirmations = []
        for violation in self.violating:
            try:
                confirmations.append(confirm(self.statement, self.form, *violation))
            # the second computation may overflow, for example on a network of another seed
            except NOT_COMPUTED as error:
                why = Fact(What.REDOING_FAILED, {"failure": failure(error, self.statement)})
                confirmations.append(Confirmation(Standing.FALLEN, why))
            if confirmations[-1].standing is Standing.CONFIRMED:
                break
        ranks = list(Standing)
        return min(confirmations, key=lambda confirmation: ranks.index(confirmation.standing), default=None)

    def _provenance(self, options: Options) -> dict[str, Any]:
        """The origin of the verdict and, if the statement is not one of this project, the origin of the statement."""
        facts = origin(options.device if options.device in self.devices else None, first_seed=options.seed)
        facts |= data_origin(options)
        brought = brought_by(self.statement)
        return facts if brought is None else facts | {"statement": dict(brought)}


def origin(device: str | None, **seeds: Any) -> dict[str, Any]:
    """The provenance of results that the training engine computed on a device, or of results without that engine."""
    if device is None:
        return provenance(**seeds)
    from ntkfl.training.engine.devices import provenance_on, torch_device  # torch is slow to load, and seldom needed

    return provenance_on(torch_device(device), **seeds)


def data_origin(options: Options) -> dict[str, Any]:
    """The SHA-256 of the user's data file; empty for built-in data."""
    if options.data is None or not Path(options.data).suffix:
        return {}
    return {"data_sha256": file_digest(Path(options.data))}


def begun(
    statement: Statement, form: Form, options: Options, wrong: bool = True, share: float = 1.0, looks: int = 1
) -> Check:
    """A new check of one form on a share of its cases.

    If no family of cases can be made, the check has failed already.
    """
    try:
        return Check(statement, form, *families(statement, form, options), wrong, share, looks)
    except Exception as error:
        check = Check(statement, form, ())
        check.fail(error)
        return check


def _out_of_reach(needs: dict[str, float]) -> Vacuous | None:
    too_much = {name: value for name, value in needs.items() if name in REACH and value > REACH[name]}
    too_little = {name: value for name, value in needs.items() if name not in REACH and value < 1e-6}
    return Vacuous(too_much, too_little) if too_much or too_little else None
