"""Numbers outside their range are refused in the words of the range."""

import math

import pytest

from ntkfl.ranges import RANGES, require_number

INSIDE = {
    "be positive": (1e-300, 3, math.inf),
    "be 0 or more": (0, 1e-300, math.inf),
    "be a positive integer": (1, 7),
    "lie in [0, 1]": (0, 0.5, 1),
    "lie in [0, 1)": (0, 0.5),
    "lie in (0, 1]": (0.5, 1),
}
OUTSIDE = {
    "be positive": (0, -1),
    "be 0 or more": (-1e-300, -1),
    "be a positive integer": (0, -1),
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
