"""Tests of the comparison of printed outputs with stored ones: it accepts numerical noise and no other difference."""

import pytest
from outputs import assert_same


@pytest.mark.parametrize(
    ("printed", "shown", "noise"),
    [
        ("loss 0.500", "loss 0.505", 0.02),
        ("| a |  9.9 |", "| a | 10.1 |", 0.05),
        ("left 1 ± 2e-14", "left 1 ± 7e-13", 0.02),
        ("took 5 s", "took 900 s", None),
        ("1e-17", "-3e-16", 0.02),
        ("7 equal, 2027-01-31.", "7 equal, 2026-11-23.", 0.02),
    ],
)
def test_noise_is_accepted(printed, shown, noise):
    assert_same(printed, shown, noise)


@pytest.mark.parametrize(
    ("printed", "shown", "noise"),
    [
        ("loss 0.500", "loss 0.550", 0.02),
        ("loss 0.5", "loss -0.5", 0.02),
        ("holds", "violated", 0.02),
        ("holds in 5 s", "violated in 5 s", None),
        ("1 2", "1 2 3", None),
        ("a\nb", "a b", 0.02),
        ("left 1 ± 2e-14", "left 1", 0.02),
        ("7 equal, today.", "7 equal, 2026-11-23.", 0.02),
    ],
)
def test_anything_else_is_not(printed, shown, noise):
    with pytest.raises(AssertionError):
        assert_same(printed, shown, noise)
