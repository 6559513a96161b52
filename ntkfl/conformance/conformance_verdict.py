"""The verdict on an implementation's answers: whether the answers agree with the method, with a known variant of the
method, or with neither.

A plain loop is the reference implementation of a method: a few lines of Python that train one client after the other.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, groupby
from pathlib import Path

import numpy as np

from ntkfl import interruption
from ntkfl.conformance import split_loops, variants
from ntkfl.conformance.comparing import Difference, allowed, first_difference, rounds_allowed
from ntkfl.conformance.kit import LIMIT, AdapterError, Answer, Peer, answers
from ntkfl.conformance.kit_cases import KitCase, Trajectory, cases
from ntkfl.conformance.variants import Variant

Answered = Sequence[tuple[KitCase, Trajectory]]  # cases of one method, with the values that were returned


def explanations(answered: Answered) -> tuple[tuple[Variant, ...], ...]:
    """The variants that agree with every answer; if no variant does, the pairs of variants that agree with every
    answer.

    Pairs are tried only for methods whose plain loop needs only numpy.
    """
    # the smallest cases come first, since they exclude most candidates in the shortest time
    answered = sorted(answered, key=lambda answer: (answer[0].case.start.size, len(answer[0].case.x)))
    method = answered[0][0].case.method
    known = variants.of(method)
    if single := tuple(_agreeing(((variant,) for variant in known), answered)):
        return single
    if method in split_loops.LOOPS:  # plain loops with torch's autograd are too slow to try all pairs
        return ()
    return tuple(_agreeing(_pairs(known, answered), answered))


def explained_in_part(answered: Answered) -> dict[Variant, int]:
    """For each variant, the number of cases whose answer differs from the reference and agrees with the variant.

    The largest number comes first.
    """
    known, counts = variants.of(answered[0][0].case.method), dict[Variant, int]()
    for case, values in answered:
        if _differs(case, values):
            for (variant,) in _agreeing(((variant,) for variant in known), [(case, values)]):
                counts[variant] = counts.get(variant, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _pairs(known: Sequence[Variant], answered: Answered) -> Iterator[tuple[Variant, Variant]]:
    """The pairs of variants that may explain the first case that differs.

    In such a pair both variants change the values of this case, or one of them explains the answer by itself.
    """
    case, values = next(answer for answer in answered if _differs(*answer))
    active = [variant for variant in known if not _agrees(case, case.expected, (variant,))]
    settling = [variant for variant in active if _agrees(case, values, (variant,))]
    for pair in combinations(known, 2):
        changed = [old for variant in pair for old, _ in variant.changes]
        both, either = all(variant in active for variant in pair), any(variant in settling for variant in pair)
        if len(set(changed)) == len(changed) and (both or either):
            yield pair


def _differs(case: KitCase, values: Trajectory) -> bool:
    return first_difference(values, case.expected, allowed(case, _precision(values))) is not None


def _agreeing(candidates: Iterable[tuple[Variant, ...]], answered: Answered) -> Iterator[tuple[Variant, ...]]:
    for changed in candidates:
        interruption.check()
        if all(_agrees(case, values, changed) for case, values in answered):
            yield changed


def _agrees(case: KitCase, values: Trajectory, changed: tuple[Variant, ...]) -> bool:
    """Whether the plain loop with these changes agrees with the answer. The loop is ended at the first disagreement.

    In float32 the allowed error is computed from the variant's own loop, since a variant may amplify rounding errors
    more than the method does.
    """
    rounds, precision = 0, _precision(values)
    for kept, most in rounds_allowed(lambda case: variants.followed(case, *changed), case.case, values, precision):
        if not all(np.abs(values[name][rounds] - kept[name]).max() <= most for name in values):
            return False
        rounds += 1
    return rounds == case.case.rounds


def _precision(values: Trajectory) -> str:
    return next(iter(values.values())).dtype.name


class Agreement(StrEnum):
    """Whether the answer to a case agrees with the reference; or whether all answers for a method agree with their
    references.
    """

    EQUAL = "equal"
    DIFFERS = "differs"
    FAILED = "failed"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one case.

    `precision` is the answer's dtype, float64 or float32, or "" if there is no answer. `remark` says in words why an
    answer failed or was left out.
    """

    case: str
    outcome: Agreement
    precision: str = ""
    difference: Difference | None = None
    remark: str = ""
    limit: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class MethodVerdict:
    """The verdict on a method: the verdicts on its cases, and the variants that explain answers which differ.

    Args:
        outcome: the worst outcome of its cases.
        explained: the variants, or pairs of variants, that agree with every answer; () if no known variant does.
        in_part: if no variant explains all answers, the variants that explain some of them, each with the number of
            these answers.
    """

    method: str
    outcome: Agreement
    cases: tuple[CaseVerdict, ...]
    explained: tuple[tuple[Variant, ...], ...] = ()
    in_part: tuple[tuple[Variant, int], ...] = ()

    def counts(self) -> dict[Agreement, int]:
        """The number of cases with each outcome."""
        return {outcome: sum(case.outcome is outcome for case in self.cases) for outcome in Agreement}


@dataclass(frozen=True)
class Conformance:
    """The verdicts on all methods, and the adapter's environment."""

    adapter: str
    methods: tuple[MethodVerdict, ...]
    peer: Peer = field(default_factory=Peer)

    @property
    def conforms(self) -> bool:
        """Whether some method is equal, and no method differs or failed."""
        outcomes = {method.outcome for method in self.methods}
        return Agreement.EQUAL in outcomes and outcomes <= {Agreement.EQUAL, Agreement.LEFT_OUT}


def conformance(
    adapter: str | Path,
    methods: Collection[str] | None = None,
    python: str = sys.executable,
    limit: float = LIMIT,
    seen: Callable[[MethodVerdict], None] = lambda verdict: None,
) -> Conformance:
    """Run an adapter on the cases of the kit, in an interpreter of its own, and return a verdict on each method.

    Args:
        adapter: a Python file with a function `run(case)`, which yields, or returns in a list, a dictionary of the
            model's tensors after every round. If it raises a `NotImplementedError`, the case is left out. A case is a
            `ConformanceCase`.
        methods: names of methods; None: all.
        python: the Python interpreter that runs the adapter and must have numpy; default the running interpreter.
        limit: seconds for each case; default 60.
        seen: a function that is called with each method's verdict as soon as it is known; default None.

    Raises:
        ValueError: a method is unknown; the adapter or the interpreter does not exist or cannot be loaded; the limit is
            not positive.
    """
    if not limit > 0:
        raise ValueError(f"the limit is {limit:g} s; it must be positive")
    for path, what in ((Path(adapter), "adapter"), (Path(python), "interpreter")):
        if not path.is_file():
            raise AdapterError(f"the {what} is {str(path)!r}; there is no such file")
    chosen, peer, verdicts = cases(methods), Peer(), []
    answered = zip(chosen, answers(Path(adapter), chosen, python, limit, peer), strict=True)
    for _, of_method in groupby(answered, key=lambda answer: answer[0].case.method):
        verdicts.append(judged(list(of_method)))
        seen(verdicts[-1])
    return Conformance(Path(adapter).name, tuple(verdicts), peer)


def judged(answered: Sequence[tuple[KitCase, Answer]]) -> MethodVerdict:
    """The verdict on a method, from its cases and the answers to them.

    Args:
        answered: the cases of one method, each with its answer.
    """
    verdicts = tuple(_case_verdict(case, answer) for case, answer in answered)
    outcome = max((verdict.outcome for verdict in verdicts), key=_WORST.index)
    explained: tuple[tuple[Variant, ...], ...] = ()
    in_part: tuple[tuple[Variant, int], ...] = ()
    if any(verdict.outcome is Agreement.DIFFERS for verdict in verdicts):
        pairs = zip(answered, verdicts, strict=True)
        there = [(case, answer.values) for (case, answer), verdict in pairs if verdict.outcome in _TOLD]
        explained = explanations(there)
        in_part = () if explained else tuple(explained_in_part(there).items())
    return MethodVerdict(answered[0][0].case.method, outcome, verdicts, explained, in_part)


_TOLD = (Agreement.EQUAL, Agreement.DIFFERS)  # outcomes of cases that have values of every round
# the worst is last; a difference is worse than a failure, since it says more about the implementation
_WORST = (Agreement.LEFT_OUT, Agreement.EQUAL, Agreement.FAILED, Agreement.DIFFERS)


def _case_verdict(case: KitCase, answer: Answer) -> CaseVerdict:
    name, limit, seconds = case.case.name, case.case.document["limit"], answer.seconds
    if not answer.values:
        outcome, remark = (Agreement.LEFT_OUT, answer.left_out) if answer.left_out else (Agreement.FAILED, answer.fault)
        return CaseVerdict(name, outcome, remark=remark, limit=limit, seconds=seconds)
    precision = _precision(answer.values)
    difference = first_difference(answer.values, case.expected, allowed(case, precision))
    if difference and difference.name in answer.one_memory:
        remark = (
            f"run returned a list in which {difference.name!r} is the same memory in every round, with the values of "
            "the last; yield the rounds, or copy the arrays of each"
        )
        return CaseVerdict(name, Agreement.FAILED, remark=remark, limit=limit, seconds=seconds)
    outcome = Agreement.DIFFERS if difference else Agreement.EQUAL
    return CaseVerdict(name, outcome, precision, difference, limit=limit, seconds=seconds)
