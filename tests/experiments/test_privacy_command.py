"""Tests of `ntkfl privacy`: it prints and writes the numbers that Python gives, and refuses bad input in one line."""

import json
import math
import sys

import pytest
from typed import command

from ntkfl import data
from ntkfl.privacy import COHORTS, best_choices, best_cohorts, private_settings

SMALL = ("--n", 16, "--rounds", 8, "--steps", "1,4", "--clients", 8, "--participation", 1)


def run(*words):
    return command("privacy", *words)


def flat(result):
    """Returns what was printed, without its line breaks."""
    return " ".join(result.stdout.split())


def test_the_table_and_the_file_are_what_python_gives(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    file, picture = tmp_path / "a.json", tmp_path / "a.svg"
    result = run(*SMALL, "--epsilon", 30, "--json", file, "--plot", picture)
    assert result.exit_code == 0, result.output
    problem = data.BUILT_IN["digits"](n=16, clients=8)
    choices = best_choices(private_settings(problem, local_steps=(1, 4), rounds=8), 30.0, 1e-5)
    assert json.loads(file.read_text())["choices"] == [choice.to_dict() for choice in choices]
    assert f"from 1 to {choices[0].plan.mean_square:.3g}, in expectation" in flat(result)
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr.startswith("0 of 10 settings: K = ") and ", 8 of 8 clients\n" in result.stderr
    assert picture.read_text().lstrip().startswith("<?xml")
    plan, rate = choices[0].plan, choices[0].server_rate
    turned = math.atan(rate * plan.noise * plan.rounds**0.5) / math.pi
    assert f"may lose up to {turned:.1%} of what is learned" in flat(result)
    assert "what is learned" not in run(*SMALL, "--epsilon", 30, "--network", "fc:2:erf").stdout


def test_the_cohort_is_searched_for_and_the_table_the_file_and_the_picture_say_it(tmp_path):
    file, picture = tmp_path / "a.json", tmp_path / "a.svg"
    words = ("--clients", 8, "--n", 8, "--rounds", 2, "--steps", 1, "--delta", 0.2, "--epsilon", 9, "--clipped", 0.2)
    result = run(*words, "--json", file, "--plot", picture)
    assert result.exit_code == 0, result.output
    problem = data.BUILT_IN["digits"](n=8, clients=8)
    tried = private_settings(problem, local_steps=(1,), rounds=2, participation=COHORTS, clipped=0.2)
    cohorts = best_cohorts(tried, 9.0, 0.2, 0.2)
    (best,) = (own for own in cohorts if own.is_best)
    assert json.loads(file.read_text())["cohorts"] == [own.to_dict() for own in cohorts]
    assert [own.cohort for own in cohorts] == [8, 4, 2, 1]
    assert f"the cohort: {best.cohort} of 8 clients a round are best of those tried" in flat(result)
    assert f"{best.cohort} of 8" in flat(result) and f"{best.choice.plan.mean_square:.3g}" in flat(result)
    equal = [str(own.cohort) for own in cohorts if own.as_good and not own.is_best]
    said = f"{best.cohort} and {' and '.join(equal)} clients a round are not told apart"
    assert (said in flat(result)) if equal else ("not told apart" not in flat(result))
    assert picture.read_text().lstrip().startswith("<?xml")


def test_a_budget_that_allows_no_gain_is_said_with_the_least_that_does_and_has_its_status(tmp_path):
    file = tmp_path / "a.json"
    result = run(*SMALL, "--epsilon", 0.01, "--json", file)
    assert result.exit_code == 1
    assert "no training within epsilon = 0.01, delta = 1e-05 lowers the mean square error 1" in flat(result)
    least = json.loads(file.read_text())["least_epsilon"]
    assert f"epsilon = {least:.3g} is the least at which it falls" in flat(result)
    assert run(*SMALL, "--epsilon", least).exit_code == 0 and run(*SMALL, "--epsilon", least / 1.02).exit_code == 1


def test_a_clip_is_taken_where_it_is_inactive_and_refused_where_it_never_is():
    result = run(*SMALL, "--epsilon", 30, "--clip", 2)
    assert result.exit_code == 0, result.output
    problem = data.BUILT_IN["digits"](n=16, clients=8)
    choices = best_choices(private_settings(problem, local_steps=(1, 4), rounds=8), 30.0, 1e-5, clip=2.0)
    assert f"from 1 to {choices[0].plan.mean_square:.3g}, in expectation" in flat(result)
    result = run(*SMALL, "--epsilon", 30, "--clip", 1e-6)
    assert result.exit_code == 2 and "clip is 1e-06; with a chance above 0.01 it may clip an update" in result.stderr


def test_drawn_clients_are_those_of_python_and_a_clip_that_is_not_known_is_said(tmp_path):
    file = tmp_path / "a.json"
    result = run(*SMALL, "--epsilon", 4, "--participation", 0.5, "--json", file)
    assert result.exit_code == 0, result.output
    problem = data.BUILT_IN["digits"](n=16, clients=8)
    tried = private_settings(problem, local_steps=(1, 4), rounds=8, participation=0.5)
    assert json.loads(file.read_text())["choices"] == [choice.to_dict() for choice in best_choices(tried, 4.0, 1e-5)]
    plans = [plan for setting in tried for plan in setting.plans(4.0, 1e-5)]
    beyond = [plan for plan in plans if plan.rounds == 1 + max(p.rounds for p in plans if p.clip < float("inf"))]
    said = f"update by {min(plan.moved for plan in beyond):.3g} times the clip"
    assert beyond and said in flat(result) and f"from {beyond[0].rounds} rounds on no clip" in flat(result)
    assert "no clip" not in run(*SMALL, "--epsilon", 500).stdout
    result = run(*SMALL, "--epsilon", 4, "--participation", 2)
    assert result.exit_code == 2 and "participation is 2" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epsilon", 0), "epsilon is 0.0; it must be a positive number"),
        (("--clip", 0), "clip is 0.0; it is a norm and must be a positive number"),
        (("--clip", 1e308), "clip is 1e+308; it is a norm and must be a positive number, up to 1e+100"),
        (("--epsilon", 1e300), "epsilon is 1e+300; it must be a positive number, from 1e-06 to 1e+06"),
        (("--participation", 0), "participation is 0; it must lie in (0, 1]"),
        (("--participation", "half"), "--participation is 'half'; it must be numbers, such as 1,0.5"),
        (("--delta", 2), "delta is 2.0; it must lie between 0 and 1"),
        (("--clipped", 0), "clipped is 0.0; it is a chance and must lie between 0 and 1"),
        (("--falls", "much"), "--falls is 'much'; it must be numbers, such as 1,0.5"),
        (("--falls", "1,0"), "falls has 0.0; the server rate falls to a share in (0, 1]"),
        (("--steps", "many"), "--steps is 'many'; it must be whole numbers"),
        (("--eta-local", 0.1), "--eta-local is not for this command"),
        (("--plot", "a.txt"), "pictures are .png or .svg"),
    ],
)
def test_bad_input_is_one_line(words, message):
    result = run(*SMALL, *words)
    assert result.exit_code == 2 and message in result.stderr, result.output


def test_memory_is_asked_for_before_rows_are_compared(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 1e8)
    monkeypatch.setattr("ntkfl.gram.require_positive", lambda *_: pytest.fail("rows are compared"))
    result = run("--data", "sphere", "--n", 3000)
    assert result.exit_code == 2 and "n up to 1020 would fit; ntkfl.sampled_rounds has estimates" in result.stderr


def test_without_the_accountant_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    result = run(*SMALL, "--epsilon", 7.7)
    assert result.exit_code == 2 and "pip install dp-accounting" in result.stderr
