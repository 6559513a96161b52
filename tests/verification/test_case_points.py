"""Tests of the record of a verdict's cases: sides, curves, exponents, and margins of hypotheses.

A record that was written as JSON and read again equals the first record.
"""

import json
import math
from functools import cache

import numpy as np
import pytest

from bounds import Form, Hypothesis, Kind, Options, Outcome, get
from bounds.ladders.slopes import Slope, slope
from ntkfl.estimate import Estimate
from verification.case_points import STORED, CasePoints
from verification.compare import SEVERITY, compare, judge, ratios
from verification.engine import verify
from verification.judging.points import Points, chosen_knobs, rank_correlation
from verification.statement_picture import seen_of
from verification.verdict import Verdict
from verification.verdict_page import as_text

TRIALS = 12


@cache
def seen(identifier, trials=TRIALS):
    return {form: points for (_, form), points in seen_of([get(identifier)], Options(trials=trials)).items()}


def test_the_sides_are_those_of_an_independent_comparison():
    statement = get("fl-ntk/X.3")
    points = seen(statement.id)[Form.NEW]
    row = 0
    for number, family in enumerate(statement.families_of(Form.NEW, Options(trials=TRIALS))):
        for seed in range(family.trials):
            case = family.case(seed)
            if not all(h.met(case) for h in statement.required(Form.NEW)):
                continue
            told = judge(statement, Form.NEW, case)
            assert points.family[row] == number and SEVERITY[points.outcome[row]] in (Outcome.HOLDS, Outcome.TOUCHES)
            both = [points.x[row], points.y[row], points.ratio[row]]
            np.testing.assert_allclose(both, [told.right.value, told.left.value, told.tightness], rtol=1e-3)
            row += 1
    assert row == points.cases == len(points.x)


def test_a_stored_case_is_seen_to_violate_its_form_and_not_counted_as_drawn():
    points = seen("fl-ntk/B.12", 2)[Form.STATED]
    (place,) = [at for at, family in enumerate(points.family) if points.families[family] == STORED]
    assert points.y[place] > points.x[place] and points.outcome[place] == 3 and points.cases == len(points.x) - 1


def test_a_curve_over_rounds_reaches_the_ratio_of_its_case():
    points = seen("fl-ntk/B.12", 2)[Form.REPAIRED]
    assert points.curves and {line.along for line in points.curves} == {"round"}
    for line in points.curves:
        ratio = max(r for r, at in zip(points.ratio, points.family, strict=True) if points.families[at] == line.family)
        assert max(line.y) == pytest.approx(ratio, rel=0.02) and line.x[0] == 0


def test_exponents_and_what_they_were_fitted_to():
    (points,) = seen("averaging/I3", 2).values()
    assert {exponent.claimed for exponent in points.exponents} == {2.0} and not points.knobs
    for line in points.curves:  # The case is a power law, whose curve has the claimed slope.
        steps = np.diff(np.log(line.y)) / np.diff(np.log(line.x))
        assert line.along == "size" and line.claimed == 2 and np.allclose(steps, 2, atol=0.05)


def test_a_slope_turned_round_is_of_the_reciprocal_sizes():
    sizes = 2.0 ** np.arange(6)
    turned = -slope(sizes, sizes**-1.5)
    assert isinstance(turned, Slope) and turned.value == pytest.approx(1.5)
    np.testing.assert_array_equal(turned.sizes, 1 / sizes)


def test_failures_are_counted_against_what_is_allowed():
    statement = get("fl-ntk/C.6")
    points = seen(statement.id)[Form.STATED]
    assert points.failed == 0 and points.allowed is not None
    assert 0 < points.allowed[0] <= points.allowed[1] < 1


def test_a_verdict_keeps_the_sharpest_cases_and_survives_json():
    (verdict,) = verify(get("fl-ntk/A.1"), Options(), Form.REPAIRED)
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json(), allow_nan=False))) == verdict
    assert verdict.seen.cases == verdict.trials > len(verdict.seen.x)
    assert max(verdict.seen.ratio) == pytest.approx(verdict.tightness["sharpest"], rel=1e-3)


def test_infinite_and_unknown_numbers_survive_json():
    whole = CasePoints(1, ("a",), (0,), (2,), (math.inf,), (0.0,), (-1.0,), (0.5,), (math.inf,), {"m": (math.inf,)})
    assert CasePoints.from_json(json.loads(json.dumps(whole.to_json(), allow_nan=False))) == whole


@pytest.mark.parametrize("kind", [Kind.UPPER, Kind.LOWER, Kind.EQUALITY])
def test_ratios_are_those_of_the_comparison(kind):
    left, right = np.random.default_rng(0).uniform(-2, 2, (2, 50))
    comparison = compare(kind, Estimate.exact(left), Estimate.exact(right))
    assert ratios(kind, left, right).max() == pytest.approx(comparison.tightness)


def test_knobs_are_those_that_the_ratio_goes_with():
    rng = np.random.default_rng(1)
    rows = [
        {"ratio": a**2 + b / 100, "knobs": {"a": a, "b": b, "c": 3.0, "a twice": 2 * a}} for a, b in rng.random((40, 2))
    ]
    statement = get("fl-ntk/A.1")
    assert chosen_knobs(statement, rows)[0] in ("a", "a twice") and len(chosen_knobs(statement, rows)) == 2
    assert "c" not in chosen_knobs(statement, rows) and "b" in chosen_knobs(statement, rows)
    assert rank_correlation(np.arange(5.0), np.arange(5.0) ** 3) == pytest.approx(1)


def test_what_cannot_be_drawn_is_counted_and_breaks_no_check():
    points = Points(get("fl-ntk/A.1"), Form.STATED)
    points.add(object(), "none", None, ((), {}), ())
    assert points.not_placed == 1 and not points.rows


CHECKED, FORM = "fl-ntk/X.3b", Form.NEW  # Some of the cases of this form are rejected.


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    (own,) = verify(get(CHECKED), Options(trials=TRIALS), FORM)
    return own


def test_a_margin_is_the_smallest_of_the_admitted_cases(verdict):
    statement, options = get(CHECKED), Options(trials=TRIALS)
    admitted, rejected = [], 0
    for family in statement.families_of(FORM, options):
        for seed in range(family.trials):
            case = family.case(options.seed + seed)
            margins = {}
            for hypothesis in statement.required(FORM):
                margin = hypothesis.margin(case)
                margins[hypothesis.name] = np.min(
                    margin.value - margin.error if isinstance(margin, Estimate) else margin
                )
            if min(margins.values()) >= 0:
                admitted.append(margins)
            else:
                rejected += 1
    assert rejected and (rejected, len(admitted)) == (sum(verdict.counts.rejected.values()), verdict.trials)
    expected = {name: min(margins[name] for margins in admitted) for name in admitted[0]}
    assert verdict.counts.margins == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert min(verdict.counts.margins.values()) >= 0
    name, least = min(expected.items(), key=lambda item: item[1])
    assert f"{name} {least:.3g}" in " ".join(as_text(verdict).split())


def test_margins_survive_json_and_older_files_have_none(verdict):
    endless = Verdict.from_json(verdict.to_json() | {"margins": {"open-ended": "inf"}})
    assert endless.counts.margins == {"open-ended": math.inf}
    assert Verdict.from_json(json.loads(json.dumps(endless.to_json(), allow_nan=False))) == endless
    older = {name: part for name, part in verdict.to_json().items() if name != "margins"}
    assert Verdict.from_json(older).counts.margins == {}


@pytest.mark.parametrize(("margin", "least", "met"), [
    (0.25, 0.25, True), (-0.0, 0.0, True), (np.array([3.0, -1.0]), -1.0, False),
    (Estimate(np.array([1.0, 2.0]), np.array([0.5, 1.9]), "ball"), 0.1, True),
    (Estimate(1.0, 1.5, "ball"), -0.5, False), (np.array([]), math.inf, True),
])  # fmt: skip
def test_the_least_margin_has_its_error_taken_off(margin, least, met):
    hypothesis = Hypothesis("name", "says", lambda case: margin)
    assert hypothesis.least(None) == pytest.approx(least)
    assert math.copysign(1, hypothesis.least(None)) == math.copysign(1, least)
    assert hypothesis.met(None) is met
