"""Which known variant an implementation is, or which two at once: those that agree with every answer."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from ntkfl import interruption
from ntkfl.conformance import split_loops, variants
from ntkfl.conformance.catalogue import KitCase, Trajectory
from ntkfl.conformance.comparing import allowed, first_difference, rounds_allowed
from ntkfl.conformance.variants import Variant

Answered = Sequence[tuple[KitCase, Trajectory]]  # of one method


def explanations(answered: Answered) -> tuple[tuple[Variant, ...], ...]:
    """The variants that agree with every answer; where there is none, the pairs of them that do (plain numpy only)."""
    # the cases with the fewest numbers first: most candidates are excluded there
    answered = sorted(answered, key=lambda answer: (answer[0].case.start.size, len(answer[0].case.x)))
    method = answered[0][0].case.method
    known = variants.of(method)
    if single := tuple(_agreeing(((variant,) for variant in known), answered)):
        return single
    if method in split_loops.LOOPS:  # autograd is too slow for all pairs
        return ()
    return tuple(_agreeing(_pairs(known, answered), answered))


def explained_in_part(answered: Answered) -> dict[Variant, int]:
    """Of how many of the cases that differ each variant agrees with the answer, taken by themselves; most first."""
    known, counts = variants.of(answered[0][0].case.method), dict[Variant, int]()
    for case, values in answered:
        if _differs(case, values):
            for (variant,) in _agreeing(((variant,) for variant in known), [(case, values)]):
                counts[variant] = counts.get(variant, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _pairs(known: Sequence[Variant], answered: Answered) -> Iterator[tuple[Variant, Variant]]:
    """The pairs that may explain the first case that differs: both change it, or one alone explains it."""
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
    """Whether the plain loop with these changes agrees with the answer; it is run until it does not.

    A variant may amplify rounding more than the method does: in float32 it is allowed what it loses itself.
    """
    rounds, precision = 0, _precision(values)
    for kept, most in rounds_allowed(lambda case: variants.followed(case, *changed), case.case, values, precision):
        if not all(np.abs(values[name][rounds] - kept[name]).max() <= most for name in values):
            return False
        rounds += 1
    return rounds == case.case.rounds


def _precision(values: Trajectory) -> str:
    return next(iter(values.values())).dtype.name
