"""Tests that an old name of an attribute is refused by a message with the new name."""

import pytest

from bounds import Hypothesis, Limit
from ntkfl.any_order.adversary import Attack as AnyOrderAttack
from ntkfl.fastest_method import Tuned
from ntkfl.fastest_trained import Trained
from verification.certification import Searched
from verification.exponents import Exponent
from verification.findings.findings_page import Finding
from verification.first_look import Checked, FirstLook
from verification.planning import Plan
from verification.search import Counterexample, Rejudged


@pytest.mark.parametrize(
    ("of", "old", "new"),
    [
        (Limit, "found", "value_and_limit"),
        (Hypothesis, "found", "value_and_limit"),
        (Plan, "found", "value_and_limit"),
        (Finding, "found", "outcome_and_size"),
        (Exponent, "found", "measured_coefficient"),
        (Plan, "missed", "unmet_value"),
        (Searched, "fails", "failing_value"),
        (Checked, "met", "admitted"),
        (Checked, "ran", "drawn"),
        (FirstLook, "missed", "blocked_forms"),
        (Counterexample, "seen", "comparison"),
        (Counterexample, "by", "found_by"),
        (Counterexample, "after", "cases_searched"),
        (Rejudged, "seen", "result"),
        (AnyOrderAttack, "kept", "largest_ratio"),
        (Tuned, "left", "residual_left"),
        (Trained, "off", "output_distance"),
    ],
)
def test_an_old_name_of_an_attribute_is_refused_by_the_new_one(of, old, new):
    with pytest.raises(AttributeError, match=f"^{of.__name__} has no {old}: it is {new}$"):
        getattr(object.__new__(of), old)
    with pytest.raises(TypeError, match=f"^{of.__name__} has no {old}: it is {new}$"):
        of(**{old: ""})
    assert new in of.__annotations__ or hasattr(of, new)
