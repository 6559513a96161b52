"""Tests of `ntkfl exponents`: every quantity has its row, and columns are aligned.

A ladder is a set of networks of several sizes. A ladder with too few sizes is refused.
"""

import re
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from typed import command
from typer.testing import CliRunner

from bounds import Source, catalogue
from bounds.ladders.width_rate import ONE, Quantity, WidthRate, width_rate
from experiments.command_line import app
from experiments.commands.theorems.exponents import lines_of
from ntkfl.estimate import Estimate
from verification.exponents import Exponent, exponents, ladders

TABLE = ("exponents", "--largest", "16384", "--networks", "3", "--rounds", "4")


@pytest.fixture(scope="module")
def lines():
    result = CliRunner().invoke(app, TABLE, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@dataclass(frozen=True)
class Powers:
    """A ladder with two quantities: one is 3 / size^seed, and the other is 0."""

    def case(self, seed):
        sizes = 2.0 ** np.arange(1, 9)
        return SimpleNamespace(sizes=sizes, power=3 * sizes**-seed, nothing=0 * sizes)


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_are_of_the_networks_of_the_seed(seed):
    quantities = (
        Quantity("power", ONE, lambda ladder: ladder.power, exact=True, coefficient=lambda ladder: 3.0),
        Quantity("nothing", ONE, lambda ladder: ladder.nothing),
    )
    about = {"source": Source("tests", "W"), "says_left": "given", "families": lambda options: ()}
    power, nothing = exponents({Powers(): [width_rate("mine/W", "powers", quantities, **about)]}, seed)
    assert (power.quantity, power.statement, power.theory, power.coefficient) == ("power", "mine/W", -1, 3.0)
    assert power.measured.value == pytest.approx(-seed, abs=1e-12)
    assert power.measured_coefficient == pytest.approx(
        np.sqrt(np.mean((3 * 2.0 ** (np.arange(6, 9) * (1 - seed))) ** 2))
    )
    # A quantity that noise hides has no exponent and no coefficient.
    assert (nothing.measured, nothing.measured_coefficient, nothing.coefficient) == (None, None, None)


@pytest.mark.slow
def test_every_quantity_has_its_row(lines):
    rates = [s for s in catalogue().values() if isinstance(s, WidthRate) and s.id.startswith("fl-ntk/")]
    promised = [(q.name, s.id) for s in rates for q in s.quantities]
    rows = [line for line in lines if "fl-ntk/" in line]
    assert {s.title for s in rates if s.title not in {name for name, _ in promised}} <= {line.strip() for line in lines}
    assert len(rows) == len(promised)
    for name, identifier in promised:
        assert any(row.startswith(name) and row.endswith(identifier) for row in rows), name


@pytest.mark.slow
def test_columns_line_up(lines):
    start = lines[0].index("statement")
    assert all(
        line[start - 2 : start] == "  " and line[start:].startswith("fl-ntk/") for line in lines if "/W-" in line
    )


@pytest.mark.slow
def test_the_gram_has_its_exponent_and_coefficient(lines):
    (row,) = [line for line in lines if line.endswith("fl-ntk/W-gram")]
    low, high = map(float, re.search(r"\[(\S+), (\S+)\]", row).groups())
    assert low <= -0.5 <= high
    theory, measured = map(float, row.split("]")[1].split()[:2])
    # The tolerance is wide, because only nine networks were measured.
    assert measured == pytest.approx(theory, rel=0.6)


@pytest.mark.slow
def test_the_ladders_are_named(lines):
    assert sorted(lines[-3:]) == [
        "sphere, n=16, d=8, every method: 33 networks of widths 256 to 8192",
        "sphere, n=6, d=4, at initialisation: 12 networks of widths 256 to 16384",
        "sphere, n=6, d=4: 21 networks of widths 256 to 16384",
    ]


@pytest.mark.parametrize("columns", [60, 80, 100, 150])
def test_no_terminal_is_too_narrow_for_a_cell(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    slope = Estimate(-0.493, 0.147, "slope")
    rows = [
        Exponent(
            "largest movement of a weight",
            "fl-ntk/W-frobenius-movement",
            "The largest movement",
            sp.Rational(-1, 2),
            3.468,
            slope,
            3.402,
        ),
        Exponent("K(t) - K(0)", "fl-ntk/W-gram", "The kernel's change", sp.Rational(-3, 4), None, None, None),
    ]
    printed = " ".join(" ".join(lines_of(rows)).split())
    for row in rows:
        assert printed.count(row.statement) == printed.count(row.title) == 1 and str(row.theory) in printed
    assert "[-0.640, -0.346]" in printed and "lost in the noise" in printed and "3.402" in printed
    assert all(word in printed for row in rows for word in row.quantity.split())
    assert all(len(line) <= max(columns, 70) for line in "\n".join(lines_of(rows)).splitlines())


def test_ladders_go_up_to_the_width_named_with_as_many_networks_at_most():
    whole, short = ladders(), ladders(largest=16384, networks=3)
    assert len(short) == len(whole)
    for shorter, longer in zip(short, whole, strict=True):
        rungs = dict(zip(longer.widths, longer.counts, strict=True))
        kept = {width: min(count, 3) for width, count in rungs.items() if width <= 16384}
        assert dict(zip(shorter.widths, shorter.counts, strict=True)) == kept
        assert short[shorter] == whole[longer]
    assert any(16384 in draw.widths for draw in short) and any(max(draw.widths) > 16384 for draw in whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--largest", "1024"), "largest is 1024; a slope needs 4 widths, so it must be at least 16384"),
        (("--networks", "1"), "networks is 1; a spread needs at least 2 at each width"),
    ],
)
def test_short_ladders_are_refused(arguments, message):
    result = command("exponents", *arguments)
    assert result.exit_code == 2
    assert message in result.output + result.stderr
