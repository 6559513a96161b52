"""Tests of a first look at a user's data: it shows the statements with the sharpest bounds on one screen.

A statement whose hypotheses need a smaller step size is checked with a smaller step size.
"""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bounds import Form, Options, Outcome, get
from experiments.command_line import app
from experiments.commands.check import _data_lines, _next, _statement_lines
from experiments.console.choices import for_a_look
from ntkfl import data
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.problem import Setup
from verification.applicability import Applies
from verification.engine import verify
from verification.first_look import first_look
from verification.planning import planned

FEW = ("fl-ntk/Eq16", "fl-ntk/B.12", "fl-ntk/X.1", "fl-ntk/B.3", "fl-ntk/X.11", "fedgucci/F5", "deep/kernel")


@pytest.fixture
def options(tmp_path):
    """Returns options with twelve rows of norm 2 for three clients; the step size is too large for B.12."""
    x = np.random.default_rng(0).normal(size=(12, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True) / 2
    np.savez(tmp_path / "mine.npz", x=x, y=np.sign(x[:, 0]), owner=np.arange(12) % 3)
    return Options(data=str(tmp_path / "mine.npz"), width=128, rounds=5, eta_local=0.1)


def test_a_plan_has_its_own_step_or_says_why_not(options):
    unit = replace(options, unit=True)
    plan = planned(get("fl-ntk/B.12"), Form.REPAIRED, unit, auto_step=True)
    assert plan.unmet is None and plan.options == replace(unit, eta_local=0.0523)
    kept = planned(get("fl-ntk/B.12"), Form.REPAIRED, unit)
    assert kept.unmet.name == "small-local-steps" and kept.options == unit and kept.change == "--eta-local 0.0523"
    rows = planned(get("fl-ntk/B.12"), Form.REPAIRED, options, auto_step=True)
    assert rows.why.startswith("unit-rows: the largest ||x_i| - 1| = 1, at most 1e-12: ") and rows.why.endswith(
        " passes"
    )
    assert rows.other.unit and rows.passing


def test_the_sharpest_come_first_and_their_outcomes_are_those_of_verify(options):
    unit = replace(options, unit=True)
    checked = first_look([get(name) for name in FEW], unit)
    ids = [check.looked.statement.id for check in checked.checked]
    assert {"fl-ntk/Eq16", "fl-ntk/X.1"} <= set(ids)
    # X.11 and deep/kernel are costly statements, B.3 is vacuous here, and left/right of B.12 is below 1e-3.
    left = {"fl-ntk/X.11", "deep/kernel", "fl-ntk/B.3", "fl-ntk/B.12"}
    assert not left & set(ids) and not {"fl-ntk/X.11", "deep/kernel"} & {look.statement.id for look in checked.looked}
    kinds = [check.looked.applies for check in checked.checked]
    assert kinds == sorted(kinds, key=list(Applies).index)
    for kind in set(kinds):
        shown = [check.sharpest for check in checked.checked if check.looked.applies is kind]
        assert shown == sorted(shown, reverse=True)
    one = checked.checked[ids.index("fl-ntk/Eq16")]
    assert one.looked.plan.options.eta_local == 0.0523
    (verdict,) = verify(one.looked.statement, replace(one.looked.plan.options, trials=5), one.looked.form)
    assert (one.outcome, one.admitted, one.drawn) == (verdict.outcome, verdict.trials, 5) == (Outcome.HOLDS, 5, 5)
    assert one.sharpest == verdict.tightness["sharpest"]


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_screen_names_titles_and_the_option_that_lets_more_apply(options, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    look = first_look([get(name) for name in FEW], options)
    change, more = look.easiest
    assert change == "--unit" and get("fl-ntk/B.12") in more
    lines = _statement_lines(look, options)
    assert max(map(len, lines)) <= columns and any("holds 5/5" in line for line in lines)
    assert all(any(line.startswith(form.looked.statement.id) for line in lines) for form in look.checked)
    assert f"{change} would let" in " ".join(" ".join(lines).split())
    assert _next(look, options)[1].startswith(f"  ntkfl check {options.data}")


@pytest.mark.slow
def test_the_command_is_one_screen(options, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = CliRunner().invoke(app, ["check", options.data, "--width", "64", "--rounds", "3"])
    lines = done.stdout.splitlines()
    assert done.exit_code == 0 and len(lines) <= 40 and max(map(len, lines[:-4])) <= 100, done.output
    assert lines[0].startswith("mine.npz: 12 rows, 4 features; labels: ") and "3 clients of 4 rows" in done.stdout
    assert "lambda_min" in done.stdout and sum(line.startswith("  ntkfl ") for line in lines) == 3
    missing = CliRunner().invoke(app, ["check", "nowhere.csv"])
    assert missing.exit_code == 2 and "nowhere.csv" in missing.stderr


@pytest.mark.parametrize("row, said", [("2,1e300", "the largest label is"), ("1e-300,1", "the largest entry of a row")])
def test_data_whose_squares_float64_lacks_are_refused_before_anything_runs(row, said, tmp_path):
    (tmp_path / "far.csv").write_text(f"a,y\n{row}\n-1,1\n")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "far.csv")])
    assert done.exit_code == 2 and said in done.stderr and not done.stdout


@pytest.mark.parametrize("command", [("check",), ("applies", "--data")])
def test_cases_too_large_for_the_machine_are_refused(command, options, monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 1e8)
    done = CliRunner().invoke(app, [*command, options.data, "--width", "1000000"])
    assert done.exit_code == 2 and "error: a case of " in done.stderr and "width up to" in done.stderr


def test_a_step_is_found_for_the_largest_rows(tmp_path):
    """A step size is found even for rows so large that the first round at the default step size overflows float64."""
    (tmp_path / "far.csv").write_text("a,b,y\n1e90,0,1\n0,1e90,-1\n")
    problem = data.named(str(tmp_path / "far.csv"), clients=1)
    step = for_a_look(problem, Options(data=str(tmp_path / "far.csv"))).eta_local
    limits = kernel_regime(problem, Setup(eta_local=step)).step_limits
    assert limits.eta_local == pytest.approx(2 * step, rel=0.02) and limits.eta_global > 1
    with pytest.warns(UserWarning, match="overflows float64"):
        assert kernel_regime(problem, Setup()).step_limits == (0.0, limits.eta_local)


def test_identities_wait_where_there_are_bounds_enough(options, monkeypatch):
    monkeypatch.setattr("verification.first_look.MOST", 1)
    first_screen = first_look([get(name) for name in FEW], replace(options, unit=True))
    assert [check.looked.statement.id for check in first_screen.checked] == ["fedgucci/F5"]
    assert first_screen.identities == 1 and "fl-ntk/X.1" not in {look.statement.id for look in first_screen.looked}
    monkeypatch.setattr("verification.first_look.MOST", 10)
    whole = first_look([get(name) for name in FEW], replace(options, unit=True))
    assert (
        whole.left_out == first_screen.left_out
        and len(whole.looked) == len(first_screen.looked) + first_screen.identities
    )


@pytest.mark.parametrize(
    ("n", "clients", "said"), [(6, 6, "6 clients of 1 row;"), (6, 3, "3 clients of 2 rows;"), (6, 1, "1 client of 6")]
)
def test_clients_of_one_size_are_said_once(n, clients, said):
    assert said in " ".join(" ".join(_data_lines(data.sphere(n, seed=0, clients=clients))).split())
