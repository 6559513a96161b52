"""One form of one statement on its way to a verdict: cases admitted, judged, counted, and settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bounds.brought import brought_by, failure
from bounds.formula import Formula, evaluate
from bounds.options import Options
from bounds.statement import Draw, Form, Outcome, Statement
from ntkfl.trajectory import provenance
from verification.compare import Comparison, judge
from verification.confirm import confirm, refined
from verification.replaying import brings_own_data, replay_command
from verification.stored_cases import necessity, run_witness
from verification.tally import Tally
from verification.verdict import Side, Verdict

REACH = {"m": 1e9, "T": 1e7}  # largest width and number of rounds that anyone can run; a smallest step is below 1e-6

NO_ENGINE = "not about runs of the default families: nothing of it was computed on {device}, which was asked for"
PART_ENGINE = "only the runs of the default families were computed on {device}; its other cases were not"
OWN_DATA = "checked on cases of its own: it is not about data, and those given were not used"
CONFIRM = 3  # violating cases that are kept to be confirmed; one that stands is enough


@dataclass
class Check:
    """One form of one statement on its way to a verdict."""

    statement: Statement
    form: Form
    draws: tuple[Draw, ...]
    tally: Tally = field(default_factory=Tally)
    mutants: list[Tally] = field(default_factory=list)
    mutated: list[tuple[Formula, bool]] = field(default_factory=list)  # and whether its comparison is reversed
    violating: list[tuple[Any, Comparison]] = field(default_factory=list)
    vacuous: str | None = None
    excess: list[float] = field(default_factory=list)  # right side over a bound that holds without the theorem
    devices: set[str | None] = field(default_factory=set)  # of the training engine; None: a case that did without it
    error: str | None = None  # an exception of the statement's own code: it ends this check and no other

    def __post_init__(self) -> None:
        if self.form is self.statement.mutated_form and self.statement.recorded[self.form] is Outcome.HOLDS:
            formula = self.statement.forms[self.form]
            try:
                self.mutated = [(formula.mutated(m.change), m.reverse) for m in self.statement.mutants]
            except Exception as error:
                self.fail(error)
            self.mutants = [Tally() for _ in self.mutated]

    @property
    def required(self) -> int:
        """Admitted cases a verdict needs."""
        return min((draw.required for draw in self.draws), default=0)

    @property
    def planned(self) -> int:
        """Cases drawn, of which some may be rejected."""
        return sum(draw.trials for draw in self.draws)

    def fail(self, error: Exception) -> None:
        """End this check: its verdict is unresolved and names the exception."""
        self.error = self.error or failure(error, self.statement)

    def add(self, case: Any, label: dict[str, Any], margins: dict[int, float] | None = None) -> None:
        """Admit or reject a case; judge the form and its mutants on it.

        margins: of this case, by the id of the hypothesis, as far as other checks have found them; this one adds to it.

        A case on which a side has no finite value is unresolved; any other exception ends the check at this case.
        Neither may take the other statements down.
        """
        if self.error is not None:
            return
        weight = getattr(case, "n_runs", 1)
        try:
            self._add(case, label, {} if margins is None else margins)
        except ArithmeticError as error:
            self.tally.leave_open(str(error), weight)
        except Exception as error:
            self.fail(error)
            self.tally.leave_open(str(self.error), weight)

    def _add(self, case: Any, label: dict[str, Any], known_margins: dict[int, float]) -> None:
        statement, formula = self.statement, self.statement.forms[self.form]
        self.devices.add(getattr(case, "device", None))
        margins: dict[str, float] = {}
        for hypothesis in statement.required(self.form):
            if id(hypothesis) not in known_margins:
                known_margins[id(hypothesis)] = hypothesis.least(case)
            margins[hypothesis.name] = known_margins[id(hypothesis)]
            if not margins[hypothesis.name] >= 0:
                self.tally.rejected[hypothesis.name] += 1
                return
        self.tally.admit(margins)
        known = statement.measured(self.form, case)
        constants = known[1]
        seen = judge(statement, self.form, case, known=known)
        seen = refined(statement, self.form, case, seen)
        weight = getattr(case, "n_runs", 1)
        failure = float(formula.failure_at(constants)) if formula.failure is not None else None
        if self.vacuous is None and formula.premise:
            self.vacuous = _out_of_reach(formula.premise_at(constants))
        if formula.trivial is not None:
            self.excess.append(float((seen.right.lo / evaluate(formula.trivial, constants).hi).min()))
        worse = self.tally.add(seen, label | case.describe(), weight, failure)
        if seen.outcome is Outcome.VIOLATED and (worse or len(self.violating) < CONFIRM):
            self.violating = [(case, seen), *self.violating][:CONFIRM]  # the latest or worst first
        for (mutated, reverse), tally in zip(self.mutated, self.mutants, strict=True):
            if tally.refuted(self.planned):
                continue  # killed already
            try:
                wrong = judge(statement, self.form, case, formula=mutated, reverse=reverse, known=known)
            except ArithmeticError as error:  # the mutant's doing: the case itself is counted already
                tally.leave_open(str(error), weight)
            else:
                tally.add(wrong, {}, weight, failure)

    def verdict(self, options: Options, notes: tuple[str, ...] = ()) -> Verdict:
        """Settle what was counted; confirm a violation; run the witness and the necessity cases.

        An exception on the way makes the verdict unresolved, as one on a case does.
        """
        if self.error is None:
            try:
                return self._verdict(options, notes)
            except Exception as error:
                self.fail(error)
        return self._verdict(options, notes)

    def _verdict(self, options: Options, notes: tuple[str, ...]) -> Verdict:
        statement, form, tally = self.statement, self.form, self.tally
        outcome, said = tally.settle(statement.kind, self.required)
        if self.error is not None:
            outcome, said = Outcome.UNRESOLVED, (self.error,)
        notes += said + tuple(f"{count} cases not evaluated: {reason}" for reason, count in tally.failed.items())
        confirmation, witness = None, None
        if outcome is Outcome.VIOLATED and self.violating:
            for violation in self.violating:
                confirmed = confirm(statement, form, *violation)
                if confirmed.confirmed:
                    break
            confirmation = confirmed.how
            if not confirmed.confirmed:
                outcome = Outcome.UNRESOLVED
                notes += (f"a violation was seen and not confirmed: {confirmed.how}",)
        lhs, rhs = (tally.worst.left, tally.worst.right) if tally.worst else (None, None)
        worst_case, tightness = tally.worst_case, _tightness(tally.tightness)
        if form in statement.witness and self.error is None:
            shown = run_witness(statement, form)
            witness, confirmation = shown.text, shown.confirmation or confirmation
            if shown.violated:
                outcome, lhs, rhs = Outcome.VIOLATED, shown.seen.left, shown.seen.right
                worst_case = {"cases": "the stored case"} | shown.case.describe()
                tightness = (tightness or {}) | {"stored case": shown.seen.tightness}
                notes = tuple(note for note in notes if "required" not in note)
        dead = [mutant_tally.settle(statement.kind, 1)[0] for mutant_tally in self.mutants]
        source_note = statement.forms[form].note
        if brings_own_data(statement, form, options):
            notes += (OWN_DATA,)
        if options.device is not None and self.devices != {options.device}:
            partly = PART_ENGINE if options.device in self.devices else NO_ENGINE
            notes += (partly.format(device=options.device),)
        needed = necessity(statement, form) if self.error is None else {}
        return Verdict(
            id=statement.id,
            form=form,
            kind=statement.kind,
            outcome=outcome,
            recorded=statement.recorded[form],
            trials=tally.trials,
            holds=tally.counts[Outcome.HOLDS],
            touches=tally.counts[Outcome.TOUCHES],
            unresolved=tally.counts[Outcome.UNRESOLVED],
            violated=tally.counts[Outcome.VIOLATED],
            rejected=dict(tally.rejected),
            margins=dict(tally.margins),
            lhs=_side(lhs),
            rhs=_side(rhs),
            tightness=tightness,
            worst_case=worst_case,
            vacuous=self.vacuous or _above_trivial(self.excess),
            witness=witness,
            confirmation=confirmation,
            mutants_killed=sum(found is Outcome.VIOLATED for found in dead),
            mutants_total=len(dead),
            mutants={m.name: found.value for m, found in zip(statement.mutants, dead, strict=False)},
            necessity=needed,
            notes=notes + ((source_note,) if source_note else ()),
            replay=replay_command(statement, form, options),
            error=self.error,
            provenance=self._provenance(options),
        )

    def _provenance(self, options: Options) -> dict[str, Any]:
        """Where the verdict is from, and the statement too where that is not this project's."""
        found = origin(options.device if options.device in self.devices else None, first_seed=options.seed)
        brought = brought_by(self.statement)
        return found if brought is None else found | {"statement": dict(brought)}


def origin(device: str | None, **seeds: Any) -> dict[str, Any]:
    """The provenance of what the training engine computed on a device, or of what did without it."""
    if device is None:
        return provenance(**seeds)
    from ntkfl.training.devices import provenance_on, torch_device  # torch is slow to load, and seldom needed

    return provenance_on(torch_device(device), **seeds)


def begun(statement: Statement, form: Form, options: Options) -> Check:
    """The check of one form, without a case so far; already failed where its families of cases cannot be made."""
    try:
        return Check(statement, form, statement.families(form, options))
    except Exception as error:
        check = Check(statement, form, ())
        check.fail(error)
        return check


def _out_of_reach(needs: dict[str, float]) -> str | None:
    too_much = [f"{name} >= {value:.2g}" for name, value in needs.items() if name in REACH and value > REACH[name]]
    too_little = [f"{name} <= {value:.2g}" for name, value in needs.items() if name not in REACH and value < 1e-6]
    return f"its own premise asks for {', '.join(too_much + too_little)}" if too_much or too_little else None


def _above_trivial(excess: list[float]) -> str | None:
    if not excess or min(excess) < 1:
        return None
    return f"a bound that holds without it is smaller in every case, by a factor of {min(excess):.2g} at least"


def _side(estimate) -> Side | None:
    return None if estimate is None else Side(float(estimate.value), float(estimate.error), estimate.method)


def _tightness(ratios: list[float]) -> dict[str, float] | None:
    return {"sharpest": max(ratios), "median": sorted(ratios)[len(ratios) // 2]} if ratios else None
