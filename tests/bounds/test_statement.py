"""Tests of what a statement refuses: each message tells the author what would be right."""

from dataclasses import fields, replace
from importlib import import_module

import numpy as np
import pytest

from bounds import Claim, Form, Formula, Hypothesis, Kind, Statement, get
from bounds.fl_ntk.cases.drawn_memory import drawn_memory
from bounds.fl_ntk.cases.random_round import random_round
from bounds.fl_ntk.drawn_memory import noise as noise_of_mean
from bounds.fl_ntk.outer_steps import noise
from ntkfl.estimate import Estimate

SOUND = get("fl-ntk/A.2")


def test_a_form_that_is_no_claim_is_refused():
    expression = SOUND.forms[Form.STATED].parts[0]
    for form in (expression, Formula(expression)):
        with pytest.raises(TypeError, match=r"the stated form of fl-ntk/A.2 is .*; it must be a Claim: Claim\("):
            replace(SOUND, stated=form)


def test_a_lower_end_that_would_not_be_checked_is_refused():
    """An upper bound with a lower end is refused, because it would be judged without the lower end."""
    with pytest.raises(
        ValueError, match=r"stated form of fl-ntk/A.2 is upper, and its lower is 1; kind=Kind.TWO_SIDED"
    ):
        replace(SOUND, stated=Claim(2, lower=1), kind=Kind.UPPER)
    assert replace(SOUND, stated=Claim(2, lower=1), kind=Kind.TWO_SIDED).stated.lower == 1
    with pytest.raises(ValueError, match=r"stated form of fl-ntk/A.2 is two-sided, and its lower is None; kind="):
        replace(SOUND, stated=Claim(2), kind=Kind.TWO_SIDED)


def test_a_statement_without_a_kind_is_refused_since_no_kind_is_the_default():
    """No kind is the default, because a lower bound, an equality or a rate would then be judged as an upper bound."""
    given = {f.name: getattr(SOUND, f.name) for f in fields(SOUND) if f.name != "kind"}
    with pytest.raises(TypeError, match=r"Statement has no kind: give kind=Kind.UPPER for an upper bound, Kind.LOWER"):
        Statement(**given)
    with pytest.raises(TypeError, match=r"kind of fl-ntk/A.2 is 'rate'; it must be a Kind, such as Kind.UPPER"):
        Statement(**given, kind="rate")


def test_a_statement_without_forms_and_the_former_argument_for_them_are_refused():
    with pytest.raises(TypeError, match=r"fl-ntk/A.2 has no form; give stated=Claim\("):
        SOUND.with_forms({})
    with pytest.raises(TypeError, match=r"Statement has no forms: a form is an argument of its own, such as stated="):
        replace(SOUND, forms=SOUND.forms)


@pytest.mark.parametrize("name", ["constants", "measure", "families"])
def test_what_must_be_a_function_is_refused_otherwise(name):
    of = "the options" if name == "families" else "a case"
    with pytest.raises(TypeError, match=rf"{name} of fl-ntk/A.2 is \(\); it must be a function of {of}"):
        replace(SOUND, **{name: ()})


@pytest.mark.parametrize("measured", [1.5, (Estimate.exact(1.0), 1.5)])
def test_a_left_side_without_an_error_is_refused(measured):
    statement = replace(SOUND, measure=lambda case: measured)
    with pytest.raises(TypeError, match=r"fl-ntk/A.2 measures a float; it must be an Estimate, .*Estimate.exact"):
        statement.left(Form.STATED, None)


@pytest.mark.parametrize("answer", [True, False, np.bool_(False), np.array([True, False])])
def test_a_hypothesis_that_answers_yes_or_no_is_refused_since_no_would_be_met(answer):
    with pytest.raises(TypeError, match=r"the hypothesis small gives .*; it must give a margin, at least 0 where"):
        Hypothesis("small", "x <= 1", lambda case: answer).met(None)


@pytest.mark.parametrize(
    ("margin", "met"), [(0, True), (-1, False), (np.array([1.0, -1.0]), False), (Estimate(0.5, 1.0, "ball"), False)]
)
def test_a_hypothesis_is_met_when_every_margin_surely_is_at_least_0(margin, met):
    assert Hypothesis("small", "x <= 1", lambda case: margin).met(None) is met


def test_a_hypothesis_of_every_part_is_as_good_as_its_worst_part():
    positive = Hypothesis("positive", "x > 0", lambda x: x).of_every("number", lambda case: case)
    assert positive.says == "in every number: x > 0" and positive.name == "positive"
    assert positive.least((3.0, 1.0, 2.0)) == 1.0 and positive.met((1.0, 0.0))
    assert not positive.met((3.0, -1.0))
    unknown = Hypothesis("known", "x is", lambda x: Estimate(x, np.inf, "unknown"))
    assert not unknown.of_every("number", lambda case: case).met((1.0, 2.0))


@pytest.mark.parametrize("make", [lambda: Claim(0, draws=()), lambda: Statement("tests/T", draws=())])
def test_the_old_name_of_families_is_refused(make):
    with pytest.raises(TypeError, match=r"(Claim|Statement) has no draws: .* its families="):
        make()
    with pytest.raises(AttributeError, match=r"Statement has no asked: families_of\(form, options\)"):
        _ = get("fl-ntk/B.12").asked


@pytest.mark.parametrize("module, kind", [("initial_network", "initial_network"), ("federated_run", "federated")])
def test_the_old_name_of_a_function_of_families_is_refused(module, kind):
    with pytest.raises(ImportError, match=f"has no {kind}_draws; it is {kind}_families"):
        getattr(import_module(f"bounds.{module}"), f"{kind}_draws")


@pytest.mark.parametrize("momentum", [0.6, 0.0])
@pytest.mark.parametrize("name", ["server-momentum", "outer-nesterov", "drawn-memory"])
def test_a_round_without_noise_is_evaluated_and_a_negative_standard_deviation_refused(name, momentum):
    if name == "drawn-memory":
        given = {"reach": 0.9, "server": 1.2, "pull": 0.7, "noise": 0.0, "first": 2}
        case, sigma = drawn_memory(seed=4, cohort=2, steps=2, **given), noise_of_mean
    else:
        given = {"reach": 0.8, "server": 1.3, "momentum": 0.6, "noise": 0.0, "nesterov": name == "outer-nesterov"}
        case, sigma = random_round(4, 2, 1 if name == "outer-nesterov" else None, 1, **given), noise
        case = replace(case, momentum=momentum)  # With momentum 0 the server keeps nothing from earlier rounds.
    statement = get(f"fl-ntk/{name}")
    left, constants = statement.measured(Form.NEW, case)
    right = statement.evaluate(constants)  # A noise of 0 was once refused.
    for measured, claimed in zip(left, right, strict=True):
        off = np.abs(np.asarray(measured.value) - np.asarray(claimed.value))
        assert (off <= np.asarray(measured.error) + np.asarray(claimed.error)).all()
    sizes = [np.abs(measured.value).max() for measured in left]
    # Some moments have a factor x, the effect on the outputs of the noise that FedDyn's server has summed up. Without
    # noise these moments are 0. `of_noise` is their number; they come last.
    of_noise = 3 if name == "drawn-memory" else 0
    assert min(sizes[: len(sizes) - of_noise]) > 0.01 and max(sizes[len(sizes) - of_noise :], default=0) < 1e-14
    louder = statement.evaluate(constants | {sigma: 0.5})
    apart = [
        np.abs(np.asarray(quiet.value) - np.asarray(noisy.value)).max()
        for quiet, noisy in zip(right, louder, strict=True)
    ]
    assert max(apart) > 0.01
    with pytest.raises(ValueError, match=r"sigma_w is -0\.5; it must be 0 or more"):
        statement.evaluate(constants | {sigma: -0.5})
