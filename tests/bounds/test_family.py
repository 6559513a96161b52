"""Tests of families of cases.

Equal families share their cases, seeds are counted, and functions may change whole families.
"""

from dataclasses import replace

import pytest
from hypothesis import find, strategies as st
from number_cases import Number

from bounds import Family, Form, Options, get
from bounds.case import changed


def number(least, seed):
    return Number(least + seed)


def numbers(least):
    return st.integers(least, least + 9).map(Number)


def doubled(case):
    return Number(2 * case.value)


def family(least=5, **chosen):
    return Family("numbers", number, numbers, (least,), **chosen)


def test_equal_families_are_one_key_and_give_the_same_strategy():
    assert family() == family() and hash(family()) == hash(family()) and family(6) != family()
    assert family().strategy() is family().strategy() and family(6).strategy() is not family().strategy()
    assert family().case(3) == Number(8)
    one = st.just(Number(1))
    assert Family("one", number, one).strategy() is one


@pytest.mark.parametrize("trials, required", [(1, 5), (20, 5), (21, 20), (200, 20)])
def test_a_verdict_needs_twenty_cases_or_five_where_few_are_run(trials, required):
    assert family(trials=trials).required == required
    assert family(trials=trials, needs=2).required == 2


def test_the_user_may_ask_for_more_or_fewer_seeds_within_what_a_family_allows():
    assert family(trials=40).with_trials(None) == family(trials=40)
    assert family(trials=40).with_trials(7).trials == 7 and family(trials=40).with_trials(7).required == 5
    assert [family(trials=6, most=6).with_trials(n).trials for n in (2, 60)] == [2, 6]
    assert family(trials=1, fixed=True).with_trials(60).trials == 1


def test_every_case_of_a_changed_family_is_changed():
    derived = changed(family(trials=33), "twice", doubled)
    assert (derived.name, derived.trials, derived.required) == ("twice", 33, 20)
    assert derived.case(3) == Number(16) and derived == changed(family(trials=33), "twice", doubled)
    assert find(derived.strategy(), lambda case: True) == Number(10)


def test_a_changed_family_needs_as_many_cases_as_the_rule_says_of_the_seeds_that_are_asked_for():
    few = changed(family(trials=10), "twice", doubled)
    assert few.required == 5 and few.with_trials(300).required == 20
    counted = changed(family(trials=10, needs=3), "twice", doubled)
    assert counted.required == counted.with_trials(300).required == 3


def test_a_statement_takes_families_or_a_function_of_the_options():
    statement = get("fl-ntk/A.1")
    as_values = replace(statement, families=(family(trials=50),))
    assert as_values.families_of(Form.REPAIRED, Options(trials=9)) == (family(trials=9),)
    assert as_values.families(Options(trials=9)) == as_values.families_of(Form.STATED, Options(trials=9))
    with_claim = replace(statement.repaired, families=(family(6, fixed=True),))
    assert replace(as_values, repaired=with_claim).families_of(Form.REPAIRED, Options(trials=9)) == (
        family(6, fixed=True),
    )


@pytest.mark.parametrize("families", [family(), (Number(1),), None])
def test_other_draws_are_refused_with_what_would_be_right(families):
    with pytest.raises(
        TypeError, match=r"families of fl-ntk/A.1 is .*; it must be a function of the options, or a tuple"
    ):
        replace(get("fl-ntk/A.1"), families=families)


def test_other_draws_of_a_form_are_refused_too():
    statement = get("fl-ntk/A.1")
    repaired = replace(statement.repaired, families=(Number(1),))
    with pytest.raises(TypeError, match=r"families of the repaired form of fl-ntk/A.1 is .*; it must be a function of"):
        replace(statement, repaired=repaired)


def test_mutants_that_are_no_tuple_are_refused():
    mutant = get("fl-ntk/A.1").mutants[0]
    with pytest.raises(TypeError, match=r"mutants of fl-ntk/A.1 .*; it must be a tuple of them, as in \(MUTANT,\)"):
        replace(get("fl-ntk/A.1"), mutants=mutant)
