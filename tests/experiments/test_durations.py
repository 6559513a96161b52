"""Tests of times on the command line: they may have a unit or none, and bad ones are refused."""

import pytest
import typer
from hypothesis import given, strategies as st
from typed import command

from experiments.console.durations import duration


@given(st.floats(0, 1e6), st.sampled_from([("", 1), ("s", 1), (" s", 1), ("m", 60), ("h", 3600)]))
def test_a_time_is_its_number_times_its_unit(number, unit):
    assert duration(f"{number!r}{unit[0]}") == number * unit[1]


@pytest.mark.parametrize("text", ["", "s", "60x", "1 m 5", "nan", "inf", "1e", "--5", "6 0s"])
def test_what_is_no_time_is_refused_with_what_would_be(text):
    with pytest.raises(typer.BadParameter, match="must be a number of seconds, or one with s, m or h"):
        duration(text)


@pytest.mark.parametrize(("text", "why"), [("60x", "it is '60x'"), ("0s", "budget is 0"), ("-5m", "budget is -300")])
def test_attack_refuses_a_budget_that_is_none(text, why):
    done = command("attack", "fl-ntk/B.12", f"--budget={text}")
    assert done.exit_code == 2 and why in done.output
