"""The search for a counterexample.

Hypothesis draws cases and improves them. Nelder-Mead goes on from the best cases. A violation is shrunk and confirmed.
A form is one version of a statement: as printed, as proved, repaired or new. The search climbs one number, the score,
which says how near a case comes to violating the form. The score is above 0 if the form is violated. Some claims may
fail with a stated probability. For such a claim the weights are drawn anew many times, and the networks with these
weights are called fresh.
"""

import pkgutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, find, settings, target
from hypothesis.errors import HypothesisException, HypothesisWarning, NoSuchExample
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

import bounds
from bounds import Form, Hypothesis, Kind, Options, Outcome, Statement
from bounds.case import AnyFamily, case_of
from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.threads import one_blas_thread
from ntkfl.messages import number_of, refusing
from verification.compare import Comparison, judge
from verification.facts import Confirmation, Fact, Standing
from verification.intervals import lower_limit
from verification.judging.confirm import can_be_redone, confirm
from verification.search.ascent import climb, shrunk
from verification.sentences import What

NO_VALUE = (ArithmeticError, ValueError, np.linalg.LinAlgError)  # exceptions that mean that a case has no value
UNMET = -100.0  # scores of admitted cases are above this number, scores of other cases below it
HIGHEST = 50.0
# the round to which a trend is extrapolated, and the largest score that the extrapolation may give
FAR_ROUND, FARTHEST = 256, 1000.0
# a case is given up after GLANCE networks if its score is below NEARLY
GLANCE, NEARLY = 4, np.log(0.5)
# numbers of networks that are tried, one after the other, until it is clear whether the claim fails too often
FURTHER_NETWORKS = (16, 100, 400)
# numbers of fresh networks that are tried, one after the other, until they confirm a violation
CONFIRMING, CONFIRMING_SEED = (50, 250, 700), 1_000_000
# if a side of the claim is sampled, the sides must differ by this many times the sum of their errors, since some of
# hundreds of intervals miss the exact value by chance
SAMPLED_MARGIN = 5
# level of the test after each number of networks in CONFIRMING, so that all tests together err with probability 5e-7 at
# most
CONFIRMING_LEVEL = 1 - 5e-7 / len(CONFIRMING)


@dataclass(frozen=True)
class CaseResult:
    """The result of judging one case in a search.

    `score` is larger if the case is nearer to a violation. `far_score` is the score of the last round, extrapolated by
    its trend to round 256. The extrapolation helps with a bound that fails only in late rounds. Such a bound may be
    near to failing in the first rounds, and far from failing after the first rounds and before the late rounds.
    `comparison` is None if a hypothesis is not met (`unmet`) or a side has no value (`failed`). `violated` is the
    outcome in float64. `allowed` is the probability with which the claim may fail. `frequency` is for a claim that may
    fail: the number of failures, the number of networks, and the allowed probability.
    """

    score: float
    comparison: Comparison | None = None
    violated: bool = False
    allowed: float = 0.0
    unmet: str | None = None
    failed: str | None = None
    frequency: tuple[int, int, float] | None = None
    far_score: float | None = None


def judged_case(statement: Statement, form: Form, case: Any) -> CaseResult:
    """Judge a form on a case, and on fresh networks if the claim may fail.

    A case that is a run is computed in float64.
    """
    with undisturbed():
        try:
            if statement.forms[form].failure is not None:
                return _frequency(statement, form, case)
            return _single(statement, form, case_of(case).plain())
        except NO_VALUE as error:
            return CaseResult(2 * UNMET, failed=str(error))


def judged_as_drawn(statement: Statement, form: Form, case: Any) -> CaseResult:
    """Judge a form on a case of a family as `verify` does.

    If the form fails and its claim allows failures, fresh networks decide. The cases of a family have the same shapes,
    so that their runs are compiled once.
    """
    with undisturbed(compiled=True):
        try:
            result = _single(statement, form, case)
        except NO_VALUE as error:
            return CaseResult(2 * UNMET, failed=str(error))
    may_fail = statement.forms[form].failure is not None
    return judged_case(statement, form, case) if result.violated and may_fail else result


def stands(statement: Statement, form: Form, case: Any, result: CaseResult) -> Confirmation:
    """How well a violation stands, and how this was found.

    If the claim may fail with a probability, it must fail too often on many fresh networks too. Any other violation is
    computed again by `confirm`: in ball arithmetic, in extended precision or on other networks. There is one exception:
    if a side is sampled and the sides differ by less than SAMPLED_MARGIN times the sum of their errors, the violation
    does not stand.
    """
    comparison = result.comparison
    assert comparison is not None
    with undisturbed():
        if result.frequency is not None:
            return _fails_again(statement, form, case)
        sampled = max(comparison.left.rigour, comparison.right.rigour) is Rigour.SAMPLED
        if sampled and comparison.errors_apart < SAMPLED_MARGIN:
            how = {"apart": float(comparison.errors_apart), "asked": SAMPLED_MARGIN}
            return Confirmation(Standing.FALLEN, Fact(What.SAMPLED_APART, how))
        return confirm(statement, form, case_of(case).plain(), comparison)


def _fails_again(statement: Statement, form: Form, case: Any) -> Confirmation:
    """Whether the claim also fails too often on fresh networks, and on which share of them it fails.

    The first of the networks that fail is judged again at higher precision if that is possible, since the failure may
    be due to rounding.
    """
    failures, count, looked, allowed, surely = 0, 0, 0, 0.0, False
    for networks in CONFIRMING:
        again = _count(statement, form, case, networks, CONFIRMING_SEED + looked)
        failures, count, looked = failures + again[0], count + again[1], looked + networks
        allowed = max(allowed, again[2])
        surely = lower_limit(failures, count, CONFIRMING_LEVEL) > allowed
        if surely or failures <= allowed * count:
            break
    counted = {"failures": failures, "networks": count, "allowed": allowed}
    if not surely or not can_be_redone(case):
        return Confirmation(Standing.CONFIRMED if surely else Standing.FALLEN, Fact(What.FRESH_NETWORKS, counted))
    for seed in range(CONFIRMING_SEED, CONFIRMING_SEED + looked):
        fresh = case_of(case_of(case).redrawn(seed)).plain()
        result = _single(statement, form, fresh)
        if result.violated and result.comparison is not None:
            confirmation = confirm(statement, form, fresh, result.comparison)
            return Confirmation(confirmation.standing, Fact(What.FRESH_NETWORKS, counted | {"again": confirmation.how}))
    return Confirmation(Standing.FALLEN, Fact(What.FRESH_NETWORKS, counted | {"again": ""}))


@contextmanager
def undisturbed(compiled: bool = False) -> Iterator[None]:
    """A context without warnings of large steps, and without compiling, since each shape of a case is run once.

    Linear algebra has one thread, because the matrices are small, and threads would cost more time than they save.
    """
    import jax

    with (
        warnings.catch_warnings(action="ignore", category=UserWarning),
        np.errstate(all="ignore"),
        jax.disable_jit(not compiled),
        one_blas_thread(),
    ):
        yield


def _single(statement: Statement, form: Form, case: Any) -> CaseResult:
    lacking = [(h.name, _shortfall(h, case)) for h in statement.required(form)]
    unmet = [name for name, missing in lacking if missing > 0]
    if unmet:
        return CaseResult(UNMET - sum(missing for _, missing in lacking), unmet=unmet[0])
    known = left, constants = statement.measured(form, case)
    formula, far_score = statement.forms[form], None
    beyond = formula.lacking(case, constants)
    if beyond:
        return CaseResult(UNMET - len(beyond), unmet=f"its premise on {' and '.join(beyond)}")
    comparison = judge(statement, form, case, known=known)
    allowed = 0.0 if formula.failure is None else formula.failure_at(constants)
    if statement.kind in (Kind.UPPER, Kind.PROBABILITY):
        far_score = _far_score(left, formula.evaluate(constants))
    return CaseResult(
        _score(statement.kind, comparison),
        comparison,
        comparison.outcome is Outcome.VIOLATED,
        allowed,
        far_score=far_score,
    )


def _far_score(left: tuple[Estimate, ...], right: tuple[Estimate, ...]) -> float | None:
    """The logarithm of left/right, extrapolated by its trend to round 256.

    Each part that has several entries gives log(left/right), extrapolated from its last two entries. The largest of
    these is returned; None if there is none.
    """
    headings = []
    for part, bound in zip(left, right, strict=True):
        if part.value.ndim == 1 and len(part.value) > 1 and part.value.shape == bound.value.shape:
            with np.errstate(all="ignore"):  # the ratio has no trend if a side is 0
                before, last = (np.log(part.value[k] / bound.value[k]) for k in (-2, -1))
                headings.append(last + (last - before) * max(0, FAR_ROUND - len(part.value)))
    best = max((float(heading) for heading in headings if np.isfinite(heading)), default=None)
    return None if best is None else float(np.clip(best, -FARTHEST, FARTHEST))


def _shortfall(hypothesis: Hypothesis, case: Any) -> float:
    """By how much a case misses a hypothesis, mapped to (0, 1]; 0 if the hypothesis is met."""
    margin = hypothesis.margin(case)
    lowest = float(np.min((margin if isinstance(margin, Estimate) else Estimate.exact(margin)).lo, initial=np.inf))
    return 0.0 if lowest >= 0 else -lowest / (1 - lowest) if np.isfinite(lowest) else 1.0


def _score(kind: Kind, comparison: Comparison) -> float:
    if kind in (Kind.ORDER, Kind.RATE):  # the score is how far the claimed exponent is outside the interval
        gap = float(comparison.left.value - comparison.right.value)
        return (abs(gap) if kind is Kind.RATE else gap) - float(comparison.left.error)
    if comparison.left.value == 0 == comparison.right.value:
        return -HIGHEST  # if both sides are 0 the claim holds with equality, and the search should not go on from here
    with np.errstate(divide="ignore"):
        score = float(np.clip(np.log(comparison.tightness), -HIGHEST, HIGHEST))
    if comparison.outcome is Outcome.VIOLATED:
        return score
    return min(score, 0.0)  # the right side may be 0, and is known only up to its error


def _frequency(statement: Statement, form: Form, case: Any) -> CaseResult:
    """The judgement by the share of fresh networks on which the claim fails.

    More networks are drawn if that share is not clearly below the allowed share. The score is the log ratio that only
    the allowed share of the networks exceeds.
    """
    failures, count, allowed, ratios, worst, unmet, far_score = _count(statement, form, case, GLANCE, 1)
    if worst is None:
        return unmet
    for more in FURTHER_NETWORKS:
        far = max(ratios) < np.exp(NEARLY) if count <= GLANCE else failures <= allowed * count
        if far or lower_limit(failures, count) > allowed:
            break
        again = _count(statement, form, case, more, 1 + count)
        failures, count, allowed = failures + again[0], count + again[1], max(allowed, again[2])
        ratios = ratios + again[3]
    quantile = sorted(ratios)[max(0, int(np.ceil((1 - min(allowed, 1)) * len(ratios))) - 1)]
    violated = lower_limit(failures, count) > allowed
    score = float(np.clip(np.log(max(quantile, 1e-300)), -HIGHEST, HIGHEST))
    return CaseResult(score, worst, violated, frequency=(failures, count, allowed), far_score=far_score)


def _count(statement: Statement, form: Form, case: Any, networks: int, first: int) -> tuple:
    """Judge a form on fresh networks, and count the failures.

    The result has the number of failures, the number of admitted networks, the largest probability allowed, the ratios,
    the worst comparison, the judgement of the rejected network that is nearest to meeting the form's hypotheses, and
    the largest `far_score`.
    """
    far_score: float | None = None
    failures, allowed, worst, unmet = 0, 0.0, None, CaseResult(3 * UNMET, unmet="none")
    ratios: list[float] = []
    for seed in range(first, first + networks):
        fresh = case_of(case_of(case).redrawn(seed)).plain()
        result = _single(statement, form, fresh)
        if result.comparison is None:
            unmet = max(unmet, result, key=lambda redrawn: redrawn.score)
            if seed == first + 4 and not ratios:
                break  # if the first five networks have no value, the others are not tried
            continue
        failures += result.violated
        ratios.append(result.comparison.tightness)
        far_score = (
            result.far_score if far_score is None or result.far_score is None else max(far_score, result.far_score)
        )
        allowed = max(allowed, result.allowed)
        if worst is None or result.comparison.tightness > worst.tightness:
            worst = result.comparison
    return failures, len(ratios), allowed, ratios, worst, unmet, far_score


# private names in Hypothesis, which has no setting for constants
READ, KEPT = "_get_local_constants", "CONSTANTS_CACHE"


@contextmanager
def constants_of_statements() -> Iterator[None]:
    """Let Hypothesis draw the constants in the source of all statements.

    By itself, Hypothesis draws the constants in all modules that are loaded. In this block it draws only constants of
    statements, because otherwise the results of a seed would depend on what else the process has imported. If a version
    of Hypothesis uses other names for this, nothing is changed.
    """
    if not (hasattr(providers, READ) and hasattr(providers, KEPT)):
        yield
        return
    before, constants = {name: getattr(providers, name) for name in (READ, KEPT)}, _constants()
    setattr(providers, READ, lambda: constants)
    setattr(providers, KEPT, type(before[KEPT])(1024))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(providers, name, value)


@cache
def _constants() -> Any:
    constants = providers.Constants()
    for module in pkgutil.walk_packages(bounds.__path__, f"{bounds.__name__}."):
        import_module(module.name)
        constants |= providers.constants_from_module(sys.modules[module.name])
    return constants


# default number of examples and of seconds for one form; all seconds are of processor time
EXAMPLES, SECONDS = 400, 60.0
LADDERS = (Kind.ORDER, Kind.RATE)
OWN_CASES = 0.25  # smallest share of a family's time that is kept for its own cases
CLIMBED = 3  # number of best cases of a family from which Nelder-Mead starts
ALIKE = 0.02  # of cases whose scores differ by less than this, only one is kept among the best cases
SHRINKING = 10.0  # seconds for each of the two ways of shrinking

Progress = Callable[[str], None]  # a function that is called with each stage of a search when the stage begins


@refusing({"seen": "it is comparison", "by": "it is found_by", "after": "it is cases_searched"})
@dataclass(frozen=True)
class Counterexample:
    """A violation that stands: the shrunk case, its two sides, how it was confirmed, and how it was found.

    `cases_searched` is the number of cases that were searched when the first violation was seen. `first` is the case of
    the first violation, before it was shrunk.
    """

    case: Any
    comparison: Comparison
    confirmation: Confirmation
    found_by: str
    cases_searched: int
    seconds: float
    first: Any
    frequency: tuple[int, int, float] | None = None


@dataclass(frozen=True)
class Attack:
    """The result of a search against one form.

    `best` is the comparison nearest to a violation. `unconfirmed` has the violations that were seen and did not stand
    when they were computed again. `failed` counts the cases without a value, by reason.
    """

    statement: Statement
    form: Form
    families: tuple[str, ...]
    tried: int
    admitted: int
    rejected: dict[str, int]
    failed: dict[str, int]
    best: Comparison | None
    counterexample: Counterexample | None
    unconfirmed: tuple[Fact, ...]
    seconds: float
    interrupted: bool = False

    @property
    def contradicts_record(self) -> bool:
        """Whether a violation was found although the form is not recorded as violated."""
        return self.counterexample is not None and self.statement.forms[self.form].recorded is not Outcome.VIOLATED

    @property
    def untested(self) -> Fact | None:
        """Why no case was admitted, so that nothing was tested; None if some case was admitted."""
        if self.admitted:
            return None
        name, count = max(self.rejected.items(), key=lambda pair: pair[1], default=(None, 0))
        return Fact(What.NONE_ADMITTED, {"tried": self.tried, "hypothesis": name, "rejected": count})

    @property
    def missed(self) -> bool:
        """Whether no violation was found although the form is recorded violated."""
        return self.counterexample is None and self.statement.forms[self.form].recorded is Outcome.VIOLATED


def attack(
    statement: Statement,
    form: Form,
    *,
    examples: int = EXAMPLES,
    seconds: float = SECONDS,
    seed: int = 0,
    shrinking: float = SHRINKING,
    options: Options | None = None,
    progress: Progress = lambda stage: None,
) -> Attack:
    """Look for a counterexample to one form in all its families of cases. The form's stored case, which is kept with
    the form, is not used.

    Cases from a family's Hypothesis strategy are searched first, since they are small. The family's own cases come
    after these cases. As many own cases are taken as `verify` draws, but at most `examples`. With seed 0 the own cases
    are cases of `verify`. For a rate or an O(.) claim the own cases are ladders, which have networks of several sizes
    and are expensive; they are searched only if no other case was admitted. If interrupted (Ctrl-C), the function
    returns the simplest violation so far.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        examples: number of cases that are drawn from the strategies of all families before shrinking, and largest
            number of each family's own cases; default 400. The same seed gives the same cases.
        seconds: processor time, after which no new case is begun; default 60. A search that this limit ends may not be
            repeatable.
        seed: seed of the search; default 0.
        shrinking: seconds for each of the two ways of shrinking a counterexample; default 10.
        options: data, sizes and steps of the families; default `Options()`.
        progress: a function that is called with each stage; default none.

    Raises:
        ValueError: a form that the statement does not have or that has no families, or a budget that is not positive.
    """
    if form not in statement.forms:
        has = ", ".join(known_form.value for known_form in statement.forms)
        raise ValueError(f"{statement.id} has no form {form.value!r}; it has: {has}")
    if not (examples >= 1 and seconds > 0):
        raise ValueError(f"the budget is {examples} cases in {seconds:g} seconds; both must be positive")
    families = _by_strategy(statement.families_of(form, options or Options()))
    if not families:
        raise ValueError(
            f"{statement.id} draws no families of cases for its {form.value} form; a search needs one or more"
        )
    began = time.process_time()
    hunt = Hunt(statement, form, began, shrinking, progress)
    share = max(1, examples // len(families))
    interrupted = False
    try:
        with interruption.released():
            for k, (strategy, sharing) in enumerate(families, 1):
                end = began + seconds * k / len(families)  # time that a family does not use is left for the next family
                hunt.deadline = end - OWN_CASES * (end - time.process_time())
                hunt.family(sharing[0].name, strategy, share, seed)
                hunt.deadline = end
                if not hunt.violations and (statement.kind not in LADDERS or not hunt.admitted):
                    hunt.own_cases(sharing, examples, seed)
                if hunt.violations:
                    break
            if hunt.violations:
                progress(f"a violation stands after {number_of(hunt.tried, 'case')}: shrinking it")
                hunt.shrink()
    except KeyboardInterrupt:
        interruption.taken()
        interrupted = True
    counterexample = hunt.counterexample() if hunt.violations else None
    return Attack(
        statement,
        form,
        tuple(sharing[0].name for _, sharing in families),
        hunt.tried,
        hunt.admitted,
        dict(hunt.rejected),
        dict(hunt.failed),
        hunt.best,
        counterexample,
        tuple(dict.fromkeys(hunt.unconfirmed)),
        time.process_time() - hunt.began,
        interrupted,
    )


def _by_strategy(families: tuple[AnyFamily, ...]) -> list[tuple[SearchStrategy, list[AnyFamily]]]:
    """The strategies of the families, each strategy with the families that use the strategy."""
    by_strategy: dict[int, tuple[SearchStrategy, list[AnyFamily]]] = {}
    for family in families:
        strategy = family.strategy()
        by_strategy.setdefault(id(strategy), (strategy, []))[1].append(family)
    return list(by_strategy.values())


class _OutOfTime(BaseException):
    """Ends a run of Hypothesis. It is no Exception, because Hypothesis would try to shrink the case of an Exception."""


@dataclass
class Hunt:
    """A search in progress, which changes with every case that is judged."""

    statement: Statement
    form: Form
    deadline: float
    shrinking: float
    progress: Progress
    began: float = field(default_factory=time.process_time)
    tried: int = 0
    admitted: int = 0
    rejected: Counter = field(default_factory=Counter)
    failed: Counter = field(default_factory=Counter)
    leaders: list[tuple[float, Any]] = field(default_factory=list)
    latest: tuple[float, Any] | None = None
    best: Comparison | None = None
    best_score: float = -float("inf")
    violations: list[tuple[Any, CaseResult, Confirmation]] = field(default_factory=list)
    unconfirmed: list[Fact] = field(default_factory=list)
    first: tuple[int, float, str] | None = None

    def family(self, name: str, strategy: SearchStrategy, examples: int, seed: int) -> None:
        """Search one family of cases, up to the first violation that stands.

        Hypothesis shrinks a violation that it drew. Drawing has half of the time, and the ascent has the rest.
        """
        self.progress(f"{name}: drawing cases")
        self.leaders, self.latest = [], None
        end, now = self.deadline, time.process_time()
        self.deadline = now + (end - now) / 2

        def violated(case: Any) -> bool:
            if time.process_time() > self.deadline:
                raise _OutOfTime
            result = self.judged(case, "Hypothesis")
            target(result.score, label="distance to a violation")
            target(result.score if result.far_score is None else result.far_score, label="where it is heading")
            return result.violated

        # each of these exceptions only ends the drawing; violations that were found before are in `violations`
        ends = suppress(NoSuchExample, _OutOfTime, HypothesisException)
        # The warnings are about the length of a case's repr, which nobody reads.
        quiet = warnings.catch_warnings(action="ignore", category=HypothesisWarning)
        with ends, quiet, constants_of_statements():
            find(strategy, violated, settings=_settings(examples), random=Random(seed))
        if self.violations:
            return
        self.deadline = end
        evaluations = max(20, examples // CLIMBED)
        starts = [(case, self._climbed) for _, case in self.leaders]
        if self.latest is not None:
            starts.insert(1, (self.latest[1], self._climbed_far))
        self.progress(f"{name}: climbing from {len(starts)} of {number_of(self.tried, 'case')}")
        for case, score in starts:
            try:
                climb(case, score, evaluations)
            except _OutOfTime:
                return

    def own_cases(self, families: list[AnyFamily], examples: int, seed: int) -> None:
        """Judge the families' own cases as `verify` does, taking one case of each family in turn.

        The function stops at a violation that stands. With seed 0 the cases begin with the cases of `verify`.
        """
        first = Random(seed).randrange(2**30) if seed else 0
        self.progress(f"{families[0].name}: cases as `verify` draws them")
        for k in range(min(examples, max(family.trials for family in families))):
            for family in families:
                if time.process_time() > self.deadline or self.violations:
                    return
                if k < family.trials:
                    self.judged(family.case(first + k), f"{family.name}, seed {first + k}", judged_as_drawn)

    def _climbed(self, case: Any) -> float:
        return self._on_the_way(case).score

    def _climbed_far(self, case: Any) -> float:
        result = self._on_the_way(case)
        return result.score if result.far_score is None else result.far_score

    def _on_the_way(self, case: Any) -> CaseResult:
        if time.process_time() > self.deadline:
            raise _OutOfTime
        result = self.judged(case, "ascent")
        if self.violations:
            raise _OutOfTime
        return result

    def judged(
        self, case: Any, found_by: str, judge_by: Callable[[Statement, Form, Any], CaseResult] | None = None
    ) -> CaseResult:
        """Judge a case and record its score. A violation is returned only if it stands."""
        interruption.check()
        result = (judge_by or judged_case)(self.statement, self.form, case)
        searching = self.first is None  # cases that are evaluated for shrinking are not counted
        if searching:
            self.tried += 1
            self.admitted += result.comparison is not None
            self.failed.update([result.failed] if result.failed is not None else [])
            self.rejected.update([result.unmet] if result.unmet is not None else [])
        if result.comparison is None:
            return result
        if result.violated:
            confirmation = stands(self.statement, self.form, case, result)
            if not confirmation.stands:
                self.unconfirmed.append(confirmation.how)
                return CaseResult(min(result.score, 0.0), result.comparison)
            if searching:
                self.first = (self.tried, time.process_time() - self.began, found_by)
                self.deadline = time.process_time() + self.shrinking
            self.violations.append((case, result, confirmation))
            return result
        if result.score > self.best_score:
            self.best, self.best_score = result.comparison, result.score
        if result.far_score is not None and (self.latest is None or result.far_score > self.latest[0]):
            self.latest = result.far_score, case
        rivals = [(score, other) for score, other in self.leaders if abs(score - result.score) > ALIKE]
        if len(rivals) == len(self.leaders) or result.score > max(score for score, _ in self.leaders):
            self.leaders = sorted([*rivals, (result.score, case)], key=lambda pair: -pair[0])[:CLIMBED]
        return result

    def shrink(self) -> None:
        """Look for violations that are simpler than the last violation, which is the simplest so far."""
        until = time.process_time() + self.shrinking

        def keeps(candidate: Any) -> bool:
            return self.judged(candidate, "shrinking").violated

        shrunk(self.violations[-1][0], keeps, lambda: time.process_time() < until)

    def counterexample(self) -> Counterexample:
        """The last violation, with its sides as they were confirmed."""
        assert self.first is not None
        first = self.violations[0][0]
        case, result, confirmation = self.violations[-1]
        assert result.comparison is not None
        cases_searched, seconds, found_by = self.first
        return Counterexample(
            case, result.comparison, confirmation, found_by, cases_searched, seconds, first, result.frequency
        )


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
