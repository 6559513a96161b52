"""Counts of the trials of one form, which are settled into one outcome."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bounds import Kind, Outcome
from verification.compare import Comparison, rank
from verification.facts import Counts, Fact
from verification.intervals import LOWER, UPPER, lower_limit, upper_limit
from verification.sentences import What

UNRESOLVED_SHARE = 0.05


@dataclass
class Tally:
    """The cases counted so far. It changes with every case; `frozen` returns the counts as a value."""

    counts: Counter = field(default_factory=Counter)
    rejected: Counter = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)  # for each case that could not be computed, the reason
    tightness: list[float] = field(default_factory=list)
    worst: Comparison | None = None
    worst_case: dict[str, Any] | None = None
    # for each hypothesis, the smallest margin of the admitted cases
    margins: dict[str, float] = field(default_factory=dict)
    failures_allowed: list[float] = field(default_factory=list)
    # number of sample sizes at which the form may be settled; for each confidence limit, the probability that it is
    # wrong by chance is divided among these sample sizes
    looks: int = 1
    weight: int = 0  # number of admitted cases, where each run of a ladder counts as a case

    def add(self, comparison: Comparison, case: dict[str, Any], weight: int, failure: float | None) -> bool:
        """Count one admitted case, and return whether it is the worst so far.

        A ladder, which has networks of several sizes, has the weight of all its runs. `failure` is the probability with
        which this case may fail, if the claim allows a failure.
        """
        self.count(comparison.outcome, weight)
        self.tightness.append(comparison.tightness)
        if failure is not None:
            self.failures_allowed.append(failure)
        worse = self.worst is None or rank(comparison) > rank(self.worst)
        if worse:
            self.worst, self.worst_case = comparison, case
        return worse

    def admit(self, margins: dict[str, float]) -> None:
        """Keep the smallest margin of each hypothesis.

        The margin says how far the admitted cases are from failing the hypothesis.
        """
        for name, margin in margins.items():
            self.margins[name] = min(margin, self.margins.get(name, margin))

    def count(self, outcome: Outcome, weight: int) -> None:
        """Count an admitted case with its outcome."""
        self.counts[outcome] += 1
        self.weight += weight

    def leave_open(self, case: str, reason: str, weight: int) -> None:
        """Count an admitted case that could not be computed."""
        self.count(Outcome.UNRESOLVED, weight)
        self.failed[case] = reason

    @property
    def trials(self) -> int:
        """The number of admitted cases."""
        return sum(self.counts.values())

    @property
    def frozen(self) -> Counts:
        """The counts, for a verdict."""
        return Counts(
            holds=self.counts[Outcome.HOLDS],
            touches=self.counts[Outcome.TOUCHES],
            unresolved=self.counts[Outcome.UNRESOLVED],
            violated=self.counts[Outcome.VIOLATED],
            rejected=dict(self.rejected),
            not_computed=dict(self.failed),
            margins=dict(self.margins),
        )

    def settle(self, kind: Kind, required: int) -> tuple[Outcome, tuple[Fact, ...]]:
        """The one outcome, and the facts that explain it. A counterexample decides, however few cases there are.

        At least one admitted case is required, even if `required` is 0. A claim does not hold if a case could not be
        computed, since that case may break the claim.
        """
        required = max(required, 1)
        violated, unresolved = self.counts[Outcome.VIOLATED], self.counts[Outcome.UNRESOLVED]
        if self.refuted(self.trials):
            allowed = self.failures_allowed
            return Outcome.VIOLATED, self._failures(violated, max(allowed)) if allowed else ()
        if self.weight < required:
            hypothesis, rejected = self.rejected.most_common(1)[0] if self.rejected else (None, 0)
            few = {"admitted": self.weight, "required": required, "hypothesis": hypothesis, "rejected": rejected}
            return Outcome.UNTESTED, (Fact(What.TOO_FEW, few),)
        if self.failures_allowed:
            return self._settle_probability(violated + unresolved)
        if self.failed:
            return Outcome.UNRESOLVED, self.not_computed
        share = {"unresolved": unresolved, "trials": self.trials}
        if unresolved > UNRESOLVED_SHARE * self.trials:
            if self.worst is not None and self.worst.explained:
                return Outcome.UNRESOLVED, (Fact(What.UNRESOLVED, share), Fact(What.SECOND_TERM))
            return Outcome.UNRESOLVED, (Fact(What.TOO_UNSURE, share),)
        notes = (Fact(What.UNRESOLVED, share),) if unresolved else ()
        return (Outcome.TOUCHES if self.counts[Outcome.TOUCHES] else Outcome.HOLDS), notes

    @property
    def not_computed(self) -> tuple[Fact, ...]:
        """How many cases could not be computed, and for each kind of error the first such case."""
        first: dict[str, str] = {}
        for case, reason in self.failed.items():
            first.setdefault(reason.partition(":")[0], f"{case} {reason}")
        counted = {"count": len(self.failed), "trials": self.trials, "first": list(first.values())}
        return (Fact(What.NOT_COMPUTED, counted),) if first else ()

    @property
    def would_exclude(self) -> float | None:
        """The smallest failure probability that the trials exclude.

        The result is None unless this probability is larger than the probability that the claim allows.
        """
        return self.excluded_by(self.trials)

    def excluded_by(self, trials: int) -> float | None:
        """The value of `would_exclude` after this many trials, if none of the further trials fails."""
        if not self.failures_allowed:
            return None
        failures = self.counts[Outcome.VIOLATED] + self.counts[Outcome.UNRESOLVED]
        limit = upper_limit(failures, trials, 1 - UPPER / self.looks)
        return limit if limit > min(self.failures_allowed) else None

    def refuted(self, trials: int) -> bool:
        """Whether the failures so far refute the form, even if there are `trials` trials in all and no further trial
        fails.
        """
        violated = self.counts[Outcome.VIOLATED]
        if not self.failures_allowed:
            return violated > 0
        return lower_limit(violated, trials, 1 - LOWER / self.looks) > max(self.failures_allowed)

    def _failures(self, failures: int, allowed: float, what: What = What.FAILURES) -> tuple[Fact, ...]:
        return (Fact(what, {"failures": failures, "trials": self.trials, "allowed": allowed}),)

    def _settle_probability(self, failures: int) -> tuple[Outcome, tuple[Fact, ...]]:
        least, limit = min(self.failures_allowed), self.would_exclude
        if limit is None:
            return Outcome.HOLDS, self._failures(failures, least)
        if failures == 0:
            return Outcome.HOLDS, (Fact(What.NOT_REFUTED, {"trials": self.trials, "allowed": least, "limit": limit}),)
        return Outcome.UNRESOLVED, self._failures(failures, least, What.UNDECIDED)
