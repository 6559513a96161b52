"""Tests of `ntkfl rate` for random rounds, uneven steps and windows: it prints the numbers that Python gives."""

import re

import numpy as np
import pytest
from typed import command

from ntkfl import Setup, data, kernel_regime, random_rounds, sampled_rounds
from ntkfl.exact_dynamics import MovingWindow

GIVEN = ("rate", "--data", "sphere", "--n", "6", "--seed", "3", "--method", "fedavgm", "--option", "momentum=0.5")


def run(*arguments):
    return command(*GIVEN, *arguments)


def test_it_reaches_the_root_mean_square_in_the_rounds_it_says():
    result = run("--participation", "0.5", "--batch-size", "2", "--eps", "1e-2", "--width", "256")
    assert result.exit_code == 0 and "H(0) at width 256" in result.stdout
    problem, drawn = data.sphere(6, seed=3), {"participation": 0.5, "batch_size": 2}
    regime = random_rounds(problem, Setup(), None, "fedavgm", {"momentum": 0.5}, **drawn)
    rounds = int(re.search(r"rounds to 0.01 of the start\s+(\d+)", result.stdout)[1])
    size = regime.root_mean_square([0, rounds - 1, rounds])
    assert size[2] <= 1e-2 * size[0] < size[1]
    for label, value in (
        ("contracts the root mean square residual by the factor", regime.rate),
        ("factor per round, of the mean", regime.mean.rate),
        ("eta_global limit, at this eta_local", regime.step_limits.eta_global),
    ):
        assert float(re.search(rf"{label}\s+([\d.]+)", result.stdout)[1]) == pytest.approx(value, rel=1e-5)
    assert "participation = 0.5, batch_size = 2" in result.stdout


def test_uneven_steps_and_a_window_are_heard():
    result = run("--client-steps", "1,4", "--step-factors", "1,.5", "--ima-window", "3")
    assert result.exit_code == 0 and "local_steps =" not in result.stdout
    assert "client_steps = 1,4, step_factors = 1,.5, ima_window = 3" in result.stdout
    local = {"client_steps": (1, 4), "step_factors": (1, 0.5), "ima": MovingWindow(3)}
    regime = kernel_regime(data.sphere(6, seed=3), Setup(), None, "fedavgm", {"momentum": 0.5}, **local)
    assert float(re.search(r"by the factor ([\d.]+)", result.stdout)[1]) == pytest.approx(regime.rate, rel=1e-8)


def test_schedules_cohorts_and_noise_are_heard():
    turns = ("--cohorts", "0/1", "--local-schedule", ".3,.2", "--server-schedule", "1,.5", "--noise", "0.02")
    turns += ("--steps-schedule", "3,1")
    result = run(*turns, "--eps", "0.3")
    assert result.exit_code == 0
    said = "noise = 0.02, local_schedule = .3,.2, server_schedule = 1,.5, steps_schedule = 3,1, cohorts = 0/1"
    assert said in result.stdout and "of the mean" not in result.stdout
    by_round = {"cohorts": [[0], [1]], "eta_local": [0.3, 0.2], "eta_global": [1.0, 0.5], "noise": 0.02}
    by_round["local_steps"] = [3, 1]
    regime = random_rounds(data.sphere(6, seed=3), Setup(), None, "fedavgm", {"momentum": 0.5}, **by_round)
    for label, value in (
        ("contracts the root mean square residual by the factor", regime.rate),
        ("root mean square residual in the end", regime.stationary_mean_square() ** 0.5),
        ("rounds to 0.3 of the start", regime.rounds_to(0.3)),
    ):
        assert float(re.search(rf"{label}\s+([\d.]+)", result.stdout)[1]) == pytest.approx(value, rel=1e-7)


def test_clients_that_take_part_in_no_round_are_the_reason_that_residuals_stay():
    """Clients that take part in no round are named as the reason why residuals do not vanish.

    The coefficients of absent clients stay 0. So no residual is smaller than the remainder of a least-squares fit whose
    coefficients belong to the samples of the other clients.
    """
    arguments = ("rate", "--data", "sphere", "--n", "8", "--clients", "4", "--eps", "0.05", "--cohorts")
    lone = command(*arguments, "2")
    assert lone.stdout.startswith("some residuals never vanish: clients 0, 1 and 3 take part in no round\n")
    assert re.search(r"rounds to 0.05 of the start\s+never", lone.stdout)
    pairs = command(*arguments, "0,1/3,0")
    assert pairs.stdout.startswith("some residuals never vanish: client 2 takes part in no round\n")
    assert command(*arguments, "0,1/3,2").stdout.startswith("stable: ")
    problem = data.sphere(8, clients=4)
    regime = random_rounds(problem, Setup(), cohorts=[[2]])
    moving = regime.gram[:, problem.owner == 2]
    left = np.linalg.norm(problem.y - moving @ np.linalg.pinv(moving) @ problem.y) / np.linalg.norm(problem.y)
    with pytest.raises(ValueError, match="of it stays, since clients 0, 1 and 3 take part in no round"):
        regime.rounds_to(0.999 * left)
    # The residual falls until only the remainder of these least squares is left.
    rounds = regime.rounds_to(1.01 * left)
    assert 0 < rounds < 200 and regime.root_mean_square(rounds) <= 1.01 * left * np.linalg.norm(problem.y)


def test_runs_estimate_what_python_estimates_and_the_moments_say():
    drawn = {"participation": 0.5, "batch_size": 2, "noise": 0.02, "eta_local": [0.3, 0.2]}
    words = ("--participation", "0.5", "--batch-size", "2", "--noise", "0.02", "--local-schedule", ".3,.2")
    result = run(*words, "--runs", "300", "--rounds", "9")
    assert result.exit_code == 0 and "noise = 0.02, local_schedule = .3,.2" in result.stdout, result.output
    problem, options = data.sphere(6, seed=3), {"momentum": 0.5}
    runs = sampled_rounds(problem, Setup(), [9], None, "fedavgm", options, runs=300, seed=3, **drawn)
    value, error = runs.mean_square.value[0] / 6, runs.mean_square.error[0] / 6
    assert f"expected after 9 rounds: a mean square error of {value:.4g} ± {error:.1g}, three" in result.stdout
    exact = random_rounds(problem, Setup(), None, "fedavgm", options, **drawn).root_mean_square(9) ** 2 / 6
    assert abs(value - exact) <= 4 / 3 * error
    last = result.stdout.rstrip().splitlines()[-1].split()
    deviation = runs.square_variance.value[0] ** 0.5 / 6
    assert [last[0], last[1], last[3]] == ["9", f"{value:.6g}", f"{deviation:.2g}"]


def test_a_residual_below_what_noise_leaves_is_not_promised():
    result = run("--noise", "0.1", "--eps", "1e-6", "--option", "momentum=0.2")
    assert result.exit_code == 0 and re.search(r"rounds to 1e-06 of the start\s+over 10000", result.stdout)


def test_at_the_limit_of_a_linear_method_it_is_not_decided_whether_residuals_fall():
    limit = kernel_regime(data.sphere(6, seed=3), Setup(), None, "fedavgm", {"momentum": 0.5}).step_limits.eta_global
    result = run("--option", f"server_rate={limit!r}")
    assert "not decided whether every residual goes to 0: the factor per round is 1, and 1 is within" in result.stdout
    assert re.search(r"stable\s+not decided", result.stdout)


def test_too_many_samples_for_the_moments_are_offered_estimates_before_rows_are_compared(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 1e8)
    monkeypatch.setattr("ntkfl.gram.require_positive", lambda *_: pytest.fail("rows are compared"))
    result = command("rate", "--data", "sphere", "--n", "3000", "--method", "fedavg", "--participation", "0.5")
    assert result.exit_code == 2 and "would fit; ntkfl.sampled_rounds has estimates" in result.stderr


def test_what_cannot_be_is_refused():
    for arguments, message in (
        (("--participation", "1.5"), "participation is 1.5; it must lie in (0, 1]"),
        (("--batch-size", "0"), "batch_size is 0; it must be a positive integer"),
        (("--momentum", "0.5", "--batch-size", "2"), "--momentum is 0.5; in drawn or scheduled rounds"),
        (("--client-steps", "1,2,3,4", "--batch-size", "2"), "--client-steps is 1,2,3,4; in drawn or scheduled rounds"),
        (("--ima-window", "2", "--participation", "0.5"), "--ima-window is 2; in drawn or scheduled rounds"),
        (("--step-factors", "1,.5", "--noise", "0.1"), "--step-factors is 1,.5; in drawn or scheduled rounds"),
        (("--runs", "100"), "--runs is 100, but nothing is drawn"),
        (("--runs", "100", "--server-schedule", "1,.5"), "--runs is 100, but nothing is drawn"),
        (("--runs", "1", "--noise", "0.1"), "runs is 1; it must be an integer, 2 or more"),
        (("--runs", "9", "--noise", "0.1", "--width", "64"), "--width is 64; --runs are of the network at infinite"),
        (("--noise", "-1"), "noise is -1.0; it is a standard deviation"),
        (("--cohorts", "0/5"), "a cohort is [5]; it must name some of the clients 0 to 1"),
        (("--cohorts", "0/x"), "--cohorts is 'x'; it must be whole numbers"),
        (("--cohorts", "0", "--participation", "0.5"), "participation is 0.5 and cohorts are given"),
        (("--steps-schedule", "2,0"), "local_steps is 0; it must be a positive integer"),
        (("--local-schedule", ".3,0"), "eta_local is 0; it must be a positive finite number"),
        (("--server-schedule", "1,", "--noise", "0.1"), "--server-schedule is '1,'; it must be numbers"),
        (("--client-steps", "1,x"), "--client-steps is '1,x'; it must be whole numbers"),
        (("--client-steps", "1,2,3"), "there must be a positive integer for each of 2 clients"),
        (("--step-factors", "1,-1"), "each must be positive and finite"),
        (("--ima-window", "0"), "the window of models is 0"),
        (("--method", "scaffold", "--participation", "0.5"), "scaffold has no option 'momentum'"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and message in result.stderr


def test_steps_that_are_too_long_are_warned_of():
    result = run("--participation", "0.5", "--option", "server_rate=100")
    assert result.exit_code == 1 and result.stdout.startswith("NOT STABLE")
    assert result.stdout.splitlines()[-1].startswith("NOT STABLE, infinite width: ")
    assert "stable in the mean square for a server rate below" in result.stderr and "never" in result.stdout


@pytest.mark.parametrize(("scale", "advised"), [(1.0, False), (40.0, True)])
def test_long_rows_of_a_file_are_named_where_their_steps_are_not_stable(scale, advised, tmp_path):
    rows = scale * data.sphere(6, seed=3).x
    file = tmp_path / "mine.npz"
    np.savez(file, x=rows, y=np.ones(6))
    words = ["rate", "--data", str(file), "--eta-local", "0.3" if advised else "30"]
    raw = command(*words)
    assert raw.exit_code == 1 and "NOT STABLE" in raw.stdout
    assert ("the rows of mine.npz have norms from 40 to 40" in raw.stdout) is advised
    assert ("--unit divides each row by its norm" in raw.stdout) is advised
    if advised:
        assert command(*words, "--unit").exit_code == 0
