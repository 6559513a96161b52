"""Margins of hypotheses: the smallest over the admitted cases, kept with the verdict."""

import json
import math

import numpy as np
import pytest

from bounds import Form, Hypothesis, Options, get
from ntkfl.estimate import Estimate
from verification.engine import verify
from verification.verdict import Verdict
from verification.verdict_page import as_text

CHECKED, FORM, TRIALS = "fl-ntk/X.3b", Form.NEW, 12  # some of its cases are rejected


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
