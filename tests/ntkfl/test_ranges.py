"""Tests of numbers outside their range: the refusal states the range."""

import math

import numpy as np
import pytest

from ntkfl.messages import RANGES, require_number, require_size

INSIDE = {
    "be a positive finite number": (1e-300, 3, 1e300),
    "be 0 or more, and finite": (0, 1e-300, 1e300),
    "lie between 0 and 1": (1e-300, 0.5),
    "be 1 or more, and finite": (1, 1.5, 1e300),
    "be positive": (1e-300, 3, math.inf),
    "be 0 or more": (0, 1e-300, math.inf),
    "lie in [0, 1]": (0, 0.5, 1),
    "lie in [0, 1)": (0, 0.5),
    "lie in (0, 1]": (0.5, 1),
}
OUTSIDE = {
    "be a positive finite number": (0, -1, math.inf),
    "be 0 or more, and finite": (-1e-300, math.inf),
    "lie between 0 and 1": (0, 1),
    "be 1 or more, and finite": (0.999, 0, -1, math.inf),
    "be positive": (0, -1),
    "be 0 or more": (-1e-300, -1),
    "lie in [0, 1]": (-1e-300, 1.5),
    "lie in [0, 1)": (-1e-300, 1),
    "lie in (0, 1]": (0, 1.5),
}


@pytest.mark.parametrize("must", RANGES)
def test_a_range_has_its_ends_and_no_nan(must):
    for value in INSIDE[must]:
        require_number("tau", value, must)
    for value in (*OUTSIDE[must], math.nan):
        with pytest.raises(ValueError) as error:
            require_number("tau", value, must)
        assert str(error.value) == f"tau is {value:g}; it must {must}"


@pytest.mark.parametrize("must", RANGES)
def test_a_truth_value_is_no_number(must):
    for value in (True, False, np.True_):
        with pytest.raises(ValueError, match=rf"tau is {value!r}; it must be a number, and "):
            require_number("tau", value, must)


def test_a_positive_integer_is_one_of_any_type_and_nothing_else():
    for value in (1, 7, np.int64(3)):
        require_size("anchors", value)
    for value in (0, -1, 1.0, 1.5, math.nan, True):
        with pytest.raises(ValueError, match=rf"anchors is {value!r}; it must be a positive integer"):
            require_size("anchors", value)
        with pytest.raises(ValueError, match=rf"anchors is {value!r}; it must be a positive integer"):
            require_size("anchors", value, optional=True)
    require_size("anchors", None, optional=True)
