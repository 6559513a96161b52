"""What a verdict keeps of its cases: the sides as they were compared, curves, exponents, and the same after JSON."""

import json
import math
from functools import cache

import numpy as np
import pytest

from bounds.ladders.slopes import Slope, slope
from bounds.listing import get
from bounds.options import Options
from bounds.statement import Form, Kind, Outcome
from ntkfl.estimate import Estimate
from verification.compare import SEVERITY, compare, judge, ratios
from verification.engine import verify
from verification.judging.points import Points, chosen_knobs, rank_correlation
from verification.seen import STORED, Seen
from verification.statement_picture import seen_of
from verification.verdict import Verdict

TRIALS = 12


@cache
def seen(identifier, trials=TRIALS):
    return {form: found for (_, form), found in seen_of([get(identifier)], Options(trials=trials)).items()}


def test_the_sides_are_those_of_an_independent_comparison():
    statement = get("fl-ntk/X.3")
    found = seen(statement.id)[Form.NEW]
    row = 0
    for number, family in enumerate(statement.families_of(Form.NEW, Options(trials=TRIALS))):
        for seed in range(family.trials):
            case = family.case(seed)
            if not all(h.met(case) for h in statement.required(Form.NEW)):
                continue
            told = judge(statement, Form.NEW, case)
            assert found.family[row] == number and SEVERITY[found.outcome[row]] in (Outcome.HOLDS, Outcome.TOUCHES)
            both = [found.x[row], found.y[row], found.ratio[row]]
            np.testing.assert_allclose(both, [told.right.value, told.left.value, told.tightness], rtol=1e-3)
            row += 1
    assert row == found.cases == len(found.x)


def test_a_stored_case_is_seen_to_violate_its_form_and_not_counted_as_drawn():
    found = seen("fl-ntk/B.12", 2)[Form.STATED]
    (place,) = [at for at, family in enumerate(found.family) if found.families[family] == STORED]
    assert found.y[place] > found.x[place] and found.outcome[place] == 3 and found.cases == len(found.x) - 1


def test_a_curve_over_rounds_reaches_the_ratio_of_its_case():
    found = seen("fl-ntk/B.12", 2)[Form.REPAIRED]
    assert found.curves and {line.along for line in found.curves} == {"round"}
    for line in found.curves:
        ratio = max(r for r, at in zip(found.ratio, found.family, strict=True) if found.families[at] == line.family)
        assert max(line.y) == pytest.approx(ratio, rel=0.02) and line.x[0] == 0


def test_exponents_and_what_they_were_fitted_to():
    (found,) = seen("averaging/I3", 2).values()
    assert {exponent.claimed for exponent in found.exponents} == {2.0} and not found.knobs
    for line in found.curves:  # a power law: the curve itself has the claimed slope
        steps = np.diff(np.log(line.y)) / np.diff(np.log(line.x))
        assert line.along == "size" and line.claimed == 2 and np.allclose(steps, 2, atol=0.05)


def test_a_slope_turned_round_is_of_the_reciprocal_sizes():
    sizes = 2.0 ** np.arange(6)
    found = -slope(sizes, sizes**-1.5)
    assert isinstance(found, Slope) and found.value == pytest.approx(1.5)
    np.testing.assert_array_equal(found.sizes, 1 / sizes)


def test_failures_are_counted_against_what_is_allowed():
    statement = get("fl-ntk/C.6")
    found = seen(statement.id)[Form.STATED]
    assert found.failed == 0 and found.allowed is not None
    assert 0 < found.allowed[0] <= found.allowed[1] < 1


def test_a_verdict_keeps_the_sharpest_cases_and_survives_json():
    (found,) = verify(get("fl-ntk/A.1"), Options(), Form.REPAIRED)
    assert Verdict.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found
    assert found.seen.cases == found.trials > len(found.seen.x)
    assert max(found.seen.ratio) == pytest.approx(found.tightness["sharpest"], rel=1e-3)


def test_infinite_and_unknown_numbers_survive_json():
    whole = Seen(1, ("a",), (0,), (2,), (math.inf,), (0.0,), (-1.0,), (0.5,), (math.inf,), {"m": (math.inf,)})
    assert Seen.from_json(json.loads(json.dumps(whole.to_json(), allow_nan=False))) == whole


@pytest.mark.parametrize("kind", [Kind.UPPER, Kind.LOWER, Kind.EQUALITY])
def test_ratios_are_those_of_the_comparison(kind):
    left, right = np.random.default_rng(0).uniform(-2, 2, (2, 50))
    found = compare(kind, Estimate.exact(left), Estimate.exact(right))
    assert ratios(kind, left, right).max() == pytest.approx(found.tightness)


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
    assert points.lost == 1 and not points.rows
