"""False alarms of the verifier.

Forms that are recorded to hold are judged on fresh cases, and it is counted how often the verifier calls them violated.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bounds import Form, Kind, Options, Outcome, Statement
from verification.engine import Progress, verify_all
from verification.intervals import upper_limit
from verification.mutation.matrix import only_form, true_forms
from verification.verdict import Verdict

FRESH = 1_000_000  # each batch's seeds start at a multiple of this number, far from the seeds of any other run
# largest number of batches, since statements with only a few fixed cases would never come to the wanted number of runs
BATCHES = 20


@dataclass(frozen=True)
class FormRuns:
    """The results of one true form on fresh cases.

    The results are the number of runs that were judged, and how many of these runs were called violated or left open. A
    run is one judged case. For a claim with a failure probability, or a claim about a whole ladder of sizes, a run is
    the verdict on a batch of cases. `uncounted`: judged cases that are not counted as runs, because they could not be
    evaluated, or because their description equals that of an earlier case, which happens in families that are not
    random. `errors`: batches that an exception ended. `where`: the command that replays each violation or error.
    """

    id: str
    form: Form
    runs: int = 0
    violated: int = 0
    unresolved: int = 0
    uncounted: int = 0
    errors: int = 0
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class FalseAlarms:
    """All runs of all true forms.

    `at_most` is the largest probability of a false alarm that is consistent with the runs.
    """

    forms: tuple[FormRuns, ...]
    first_seeds: tuple[int, ...]

    def total(self, name: str) -> int:
        """The sum of a field of FormRuns over the forms.

        Args:
            name: the name of a field of `FormRuns`.
        """
        return sum(getattr(form, name) for form in self.forms)

    @property
    def at_most(self) -> float:
        """The exact upper limit (binomial, 97.5% one-sided) of the probability that a run is called violated."""
        return upper_limit(self.total("violated"), self.total("runs"))


@dataclass
class _Described:
    """A function that returns a statement's constants on a case, and notes the description of the case in `cases`."""

    constants: Callable[[Any], Mapping[Any, Any]]
    cases: set[str] = field(default_factory=set)

    def __call__(self, case: Any) -> Mapping[Any, Any]:
        constants = self.constants(case)
        self.cases.add(repr(sorted(case.describe().items())))
        return constants


def false_alarms(
    statements: Iterable[Statement], options: Options, runs: int = 10_000, progress: Progress | None = None
) -> FalseAlarms:
    """Judge true forms on fresh batches of cases until there are enough runs; each batch has the default size.

    Forms of which a whole batch counts as a single run are left out of later batches, unless no other forms remain. No
    batch follows an interrupted batch.

    Args:
        statements: the statements. Of each statement, the forms that are recorded to hold are judged.
        options: options of the cases; the seeds of all batches follow from its seed.
        runs: the smallest number of judged runs over all forms; there are fewer if BATCHES batches do not suffice.
        progress: a function that is called with the family, the number of cases of the batch that are done and the
            number of all its cases; default none.
    """
    chosen = true_forms(statements)
    described = {(s.id, form): _Described(s.constants) for s, form in chosen}
    variants = [only_form(s, form, mutants=(), constants=described[s.id, form]) for s, form in chosen]
    counts = {key: FormRuns(*key) for key in described}
    ladders = (Kind.RATE, Kind.ORDER)
    by_batch = {(s.id, form) for s, form in chosen if s.kind in ladders or s.forms[form].failure is not None}
    seeds: list[int] = []
    stopped = False
    while not stopped and sum(form.runs for form in counts.values()) < runs and len(seeds) < BATCHES:
        batch = replace(options, seed=options.seed + FRESH * (len(seeds) + 1))
        seeds.append(batch.seed)
        verdicts = verify_all(variants, batch, progress=progress)
        for verdict in verdicts:
            key = verdict.id, verdict.form
            counts[key] = _counted(counts[key], verdict, key in by_batch, len(described[key].cases))
        stopped = len(verdicts) < len(variants) or not all(verdict.complete for verdict in verdicts)
        variants = [s for s in variants if (s.id, next(iter(s.forms))) not in by_batch] or variants
    return FalseAlarms(tuple(counts.values()), tuple(seeds))


def _counted(before: FormRuns, verdict: Verdict, by_batch: bool, different: int) -> FormRuns:
    """The counts after a batch; `different` is the number of cases with different descriptions over all batches."""
    if by_batch:
        runs, uncounted = int(verdict.outcome is not Outcome.UNTESTED), 0
        violated, unresolved = (int(verdict.outcome is outcome) for outcome in (Outcome.VIOLATED, Outcome.UNRESOLVED))
    else:
        runs = different - before.runs
        violated, unresolved, uncounted = verdict.counts.violated, verdict.counts.unresolved, verdict.trials - runs
    failed = verdict.error is not None
    return replace(
        before,
        runs=before.runs + runs,
        violated=before.violated + violated,
        unresolved=before.unresolved + unresolved,
        uncounted=before.uncounted + uncounted,
        errors=before.errors + failed,
        where=before.where + ((verdict.replay,) if violated or failed else ()),
    )
