"""The search itself: draw and climb with Hypothesis, go on with Nelder-Mead, shrink, confirm."""

import pkgutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, find, settings, target
from hypothesis.errors import HypothesisException, HypothesisWarning, NoSuchExample
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

import bounds
from bounds import Form, Kind, Options, Outcome, Statement
from bounds.family import AnyFamily
from ntkfl import interruption
from ntkfl.messages import number_of
from verification.compare import Comparison
from verification.facts import Confirmation, Fact
from verification.search.ascent import climb
from verification.search.scoring import Seen, look, look_as_drawn, stands
from verification.search.simpler import shrunk
from verification.sentences import What

READ, KEPT = "_get_local_constants", "CONSTANTS_CACHE"  # private in Hypothesis, which has no setting for constants


@contextmanager
def constants_of_statements() -> Iterator[None]:
    """Let Hypothesis draw the constants in the source of all statements, instead of all modules that are loaded.

    Otherwise the results of a seed would depend on what else the process has imported. Where a version of Hypothesis
    has other names for this, nothing is changed.
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


EXAMPLES, SECONDS = 400, 60.0  # examples and seconds of one form, by default; all seconds are of processor time
LADDERS = (Kind.ORDER, Kind.RATE)
OWN_CASES = 0.25  # smallest share of a family's time for its own cases
CLIMBED = 3  # best cases of a family from which Nelder-Mead starts
ALIKE = 0.02  # of the best cases, only one is kept among those whose scores differ by less
SHRINKING = 10.0  # seconds for each of the two ways of shrinking

Progress = Callable[[str], None]  # called with each stage of a search as it begins


@dataclass(frozen=True)
class Counterexample:
    """A violation that stands: the shrunk case, its sides, how it was confirmed, and what led to it.

    `after`: number of cases searched when the first violation was seen; `first`: the first violation, not shrunk.
    """

    case: Any
    seen: Comparison
    confirmation: Confirmation
    by: str
    after: int
    seconds: float
    first: Any
    frequency: tuple[int, int, float] | None = None


@dataclass(frozen=True)
class Attack:
    """The result of a search against one form; `best`: the comparison nearest to a violation.

    `unconfirmed`: violations that were seen and did not stand when redone. `failed`: cases without a value, by reason.
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
        """Whether a form recorded to hold is violated."""
        return self.counterexample is not None and self.statement.forms[self.form].recorded is not Outcome.VIOLATED

    @property
    def untested(self) -> Fact | None:
        """Why no case was admitted, so that nothing was tested; None: some case was admitted."""
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
    """Look for a counterexample to one form in all its families of cases; the stored witness is not consulted.

    Cases from a family's strategy are searched first, since they are small; then the family's own cases, as many as
    `verify` draws, and for seed 0 the same cases. A rate's own cases are ladders, which are expensive; they are
    searched only if the form has no other cases. If interrupted (Ctrl-C), the function returns the simplest violation
    so far.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        examples: number of cases drawn from the strategies of all families before shrinking, and largest number of each
            family's own cases; the same seed gives the same cases; default 400.
        seconds: processor time; no new case is begun after this time, and a search that it ends may not be repeatable;
            default 60.
        seed: seed of the search; default 0.
        shrinking: seconds for each of the two ways of shrinking a counterexample; default 10.
        options: data, sizes and steps of the families; default `Options()`.
        progress: called with each stage; default: not called.

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
                end = began + seconds * k / len(families)  # a family leaves unused time to the next
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
    """The strategies of the families, each once, with the families that have it."""
    by_strategy: dict[int, tuple[SearchStrategy, list[AnyFamily]]] = {}
    for family in families:
        strategy = family.strategy()
        by_strategy.setdefault(id(strategy), (strategy, []))[1].append(family)
    return list(by_strategy.values())


class _OutOfTime(BaseException):
    """Ends a Hypothesis run; no Exception, since Hypothesis would try to shrink its case."""


@dataclass
class Hunt:
    """A search in progress; no other object of a search is mutable."""

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
    violations: list[tuple[Any, Seen, Confirmation]] = field(default_factory=list)
    unconfirmed: list[Fact] = field(default_factory=list)
    first: tuple[int, float, str] | None = None

    def family(self, name: str, strategy: SearchStrategy, examples: int, seed: int) -> None:
        """Search one family; stops at the first violation that stands. Hypothesis shrinks a violation that it drew.

        Drawing has half of the time; the ascent has the rest.
        """
        self.progress(f"{name}: drawing cases")
        self.leaders, self.latest = [], None
        end, now = self.deadline, time.process_time()
        self.deadline = now + (end - now) / 2

        def violated(case: Any) -> bool:
            if time.process_time() > self.deadline:
                raise _OutOfTime
            seen = self.look(case, "Hypothesis")
            target(seen.score, label="distance to a violation")
            target(seen.score if seen.late is None else seen.late, label="where it is heading")
            return seen.violated

        try:
            with warnings.catch_warnings(), constants_of_statements():
                # warnings about the length of a case's repr, which nobody reads
                warnings.simplefilter("ignore", HypothesisWarning)
                find(strategy, violated, settings=_settings(examples), random=Random(seed))
        except (NoSuchExample, _OutOfTime, HypothesisException):
            pass  # the violations so far are kept in `violations`
        if self.violations:
            return
        self.deadline = end
        evaluations = max(20, examples // CLIMBED)
        starts = [(case, self._climbed) for _, case in self.leaders]
        if self.latest is not None:
            starts.insert(1, (self.latest[1], self._climbed_late))
        self.progress(f"{name}: climbing from {len(starts)} of {number_of(self.tried, 'case')}")
        for case, score in starts:
            try:
                climb(case, score, evaluations)
            except _OutOfTime:
                return

    def own_cases(self, families: list[AnyFamily], examples: int, seed: int) -> None:
        """Look at the families' own cases, one of each in turn, as `verify` does; stops at a violation that stands.

        Seed 0 begins with the cases of `verify`.
        """
        first = Random(seed).randrange(2**30) if seed else 0
        self.progress(f"{families[0].name}: cases as `verify` draws them")
        for k in range(min(examples, max(family.trials for family in families))):
            for family in families:
                if time.process_time() > self.deadline or self.violations:
                    return
                if k < family.trials:
                    self.look(family.case(first + k), f"{family.name}, seed {first + k}", look_as_drawn)

    def _climbed(self, case: Any) -> float:
        return self._on_the_way(case).score

    def _climbed_late(self, case: Any) -> float:
        seen = self._on_the_way(case)
        return seen.score if seen.late is None else seen.late

    def _on_the_way(self, case: Any) -> Seen:
        if time.process_time() > self.deadline:
            raise _OutOfTime
        seen = self.look(case, "ascent")
        if self.violations:
            raise _OutOfTime
        return seen

    def look(self, case: Any, by: str, judged: Callable[[Statement, Form, Any], Seen] | None = None) -> Seen:
        """Score a case and record it; a violation is returned only if it stands."""
        interruption.check()
        seen = (judged or look)(self.statement, self.form, case)
        searching = self.first is None  # cases that are evaluated for shrinking do not count
        if searching:
            self.tried += 1
            self.admitted += seen.comparison is not None
            self.failed.update([seen.failed] if seen.failed is not None else [])
            self.rejected.update([seen.unmet] if seen.unmet is not None else [])
        if seen.comparison is None:
            return seen
        if seen.violated:
            confirmation = stands(self.statement, self.form, case, seen)
            if not confirmation.stands:
                self.unconfirmed.append(confirmation.how)
                return Seen(min(seen.score, 0.0), seen.comparison)
            if searching:
                self.first = (self.tried, time.process_time() - self.began, by)
                self.deadline = time.process_time() + self.shrinking
            self.violations.append((case, seen, confirmation))
            return seen
        if seen.score > self.best_score:
            self.best, self.best_score = seen.comparison, seen.score
        if seen.late is not None and (self.latest is None or seen.late > self.latest[0]):
            self.latest = seen.late, case
        rivals = [(score, other) for score, other in self.leaders if abs(score - seen.score) > ALIKE]
        if len(rivals) == len(self.leaders) or seen.score > max(score for score, _ in self.leaders):
            self.leaders = sorted([*rivals, (seen.score, case)], key=lambda pair: -pair[0])[:CLIMBED]
        return seen

    def shrink(self) -> None:
        """Look for violations simpler than the last one, which is the simplest so far."""
        until = time.process_time() + self.shrinking

        def keeps(candidate: Any) -> bool:
            return self.look(candidate, "shrinking").violated

        shrunk(self.violations[-1][0], keeps, lambda: time.process_time() < until)

    def counterexample(self) -> Counterexample:
        """The last violation with its sides as confirmed."""
        assert self.first is not None
        first = self.violations[0][0]
        case, seen, confirmation = self.violations[-1]
        assert seen.comparison is not None
        after, seconds, by = self.first
        return Counterexample(case, seen.comparison, confirmation, by, after, seconds, first, seen.frequency)


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
