"""Tests of the known variants of methods, such as a missing weight.

Every variant changes its method's results on the cases, and no two variants have the same results.
"""

from itertools import combinations

import numpy as np
import pytest

from ntkfl.conformance import Variant, cases, methods, split_loops, variants_of
from ntkfl.conformance.comparing import allowed
from ntkfl.conformance.variants import catalogue, followed

# The states of the clients are compared as well, because some variants change nothing else.
OF_CLIENTS = ("client_models", "client_heads")
each_method = pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.slow) if m in split_loops.LOOPS else m for m in methods()]
)


def path(case, changed):
    """Returns the values of the plain loop with these variants after every round, (rounds, P).

    The values are infinite from the round on in which the loop fails.
    """
    kept = list(followed(case, *changed))
    names = (*case.results, *(name for name in OF_CLIENTS if name in kept[0]))
    numbers = [np.concatenate([state[name].ravel() for name in names]) for state in kept]
    full = np.full((case.rounds, len(numbers[0])), np.inf)
    full[: len(numbers)] = numbers
    return full


def apart(first, second, case, precision):
    """Says whether two results differ on the case by more than the precision of either allows."""
    with np.errstate(invalid="ignore"):
        return not (np.abs(first - second).max(axis=1) <= 2 * allowed(case, precision)).all()


@pytest.mark.quick_rows(2)
@each_method
def test_every_two_variants_and_the_method_are_held_apart(method):
    every = {"": (), **{variant.name: (variant,) for variant in variants_of(method)}}
    assert len(every) > 6
    alike = {(*pair, precision) for pair in combinations(every, 2) for precision in ("float64", "float32")}
    # The largest case comes first, because most variants differ on it.
    for kit in sorted(cases([method]), key=lambda kit: -kit.case.start.size):
        paths = {name: path(kit.case, every[name]) for name in {name for *pair, _ in alike for name in pair}}
        alike = {(a, b, precision) for a, b, precision in alike if not apart(paths[a], paths[b], kit, precision)}
    assert not alike, f"no case of {method} tells these apart: give it other options too, in OPTIONS of kit_cases.py"


def test_names_tell_the_variants_of_a_method_apart():
    for method in methods():
        names = [variant.name for variant in variants_of(method)]
        assert len(set(names)) == len(names)


def test_every_variant_is_one_line_for_another_in_a_plain_loop():
    assert len(catalogue()) > 100
    for variant in catalogue():
        assert any(variant.concerns(method) for method in methods())
        assert len(variant.changes) <= 2 and variant.says
        for old, new in variant.changes:
            assert old != new and "\n" not in old + new and old.strip() == old


@pytest.mark.parametrize(
    "changes, message",
    [
        ((("w = w + 1", "pass"),), r"has the line 'w = w \+ 1' 0 times; it must have it once"),
        (
            (("clients = case.cohort(t)", "pass"),),
            r"has the line 'clients = case.cohort\(t\)' 2 times; it must have it once",
        ),
        ((("v = momentum * v + d", "v = d"), ("v = momentum * v + d", "v = v")), "a line is changed twice: v = "),
    ],
)
def test_a_change_of_no_line_or_of_several_is_refused(changes, message):
    (case, *_) = cases(["fedavg"])
    with pytest.raises(ValueError, match=message):
        next(followed(case.case, Variant("wrong", "", changes)))
