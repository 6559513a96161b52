"""Tests of `ntkfl certify` from later rounds of training: --after, --watch, --search, --save, and refused input."""

import json
import re
import shlex

import pytest
from typed import command as run

from bounds import Options
from experiments.console.certifying import replay
from ntkfl.problem import Setup

SMALL = ("certify", "--width", "400", "--eta-local", "0.1", "--every", "50")


def test_watch_stops_at_a_round_that_its_record_replays(tmp_path):
    result = run(*SMALL, "--watch", "--rounds", 600, "--save", tmp_path / "found.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED"), result.output
    assert "round 0: expects" in result.stderr
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["certificate"]["certified"] and record["round"] % 50 == 0 < record["round"]
    assert f"by {record['theorem']} from round {record['round']} on" in result.stdout
    assert record["replay"].startswith("ntkfl certify ") and f"--after {record['round']}" in record["replay"]
    words = record["replay"].split()[1:]
    again = run(*words, "--json", tmp_path / "again.json")
    assert again.exit_code == 0, again.output
    replayed = json.loads((tmp_path / "again.json").read_text())
    assert replayed["certificate"] == record["certificate"] and replayed["replay"] == record["replay"]


def test_a_round_too_early_is_not_certified_and_says_what_would_help():
    result = run(*SMALL, "--after", 1)
    assert result.exit_code == 1
    assert re.match(r"NOT CERTIFIED.* would help", result.stdout) and "FAILS  movement" in result.stdout


def test_watch_judges_the_last_round_it_was_given():
    result = run(*SMALL, "--watch", "--rounds", 2)
    assert result.exit_code == 1 and "from round 2 on" in result.stdout and "FAILS" in result.stdout


def test_an_interrupted_watch_says_how_to_certify_what_it_has(monkeypatch):
    import verification.certification as certification

    def interrupted(*network):
        yield 50, 123.0, None
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(certification, "watch", interrupted)
        result = run(*SMALL, "--watch")
    assert result.exit_code == 130 and "round 50: expects 1.2e+02 times the radius" in result.stderr
    *_, said, last, command = result.stderr.splitlines()
    assert said == "stopped by Ctrl-C" and last.startswith("round 50 was the last one looked at")
    again = run(*command.removeprefix("ntkfl ").split())
    assert "from round 50 on" in again.stdout and "radius R" in again.stdout


def test_search_prints_the_boundary_beside_the_theorem(tmp_path):
    result = run(*SMALL, "--after", 150, "--search-steps", "--save", tmp_path / "steps.json")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "steps.json").read_text())
    certified, failed = record["search"]["certifies"], record["search"]["fails"]
    assert certified < failed <= 1.1 * certified * (1 + 1e-12)
    assert f"largest eta_local found that certifies: {certified:g} ({failed:g} does not)" in result.stdout
    asked = record["search"]["theorem_b_3"]
    assert asked["local_time"] < certified / 1000
    assert min(asked["width_stated"], asked["width"]) > 400 and asked["rounds"] > 1e4
    assert f"{asked['width_stated']:.3g}" in result.stdout
    assert run(*record["replay"].split()[1:]).exit_code == 0
    harder = record["replay"].replace(f"--eta-local {certified}", f"--eta-local {failed}")
    assert run(*harder.split()[1:]).exit_code != 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch", "--search"), "--watch and --search are given; choose one"),
        (("--watch", "--after", 3), "--watch starts at round 0; --after names one round"),
        (("--after", -1), "after is -1 and every is 50; they must be at least 0 and at least 1"),
        (("--rounds", 9), "rounds is 9, the limit of --watch; to train first, give --after 9"),
        (("--watch", "--eta-local", 400), "."),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    result = run(*SMALL, *arguments)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and re.search(message, errors[0])


@pytest.mark.parametrize("begun", [("--after", 3), ("--watch",), ()])
def test_more_samples_than_memory_holds_are_refused_before_any_round(begun, monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 4e7)
    monkeypatch.setattr("verification.certification.checkpoints", lambda *_: pytest.fail("it trains"))
    result = run("certify", "--data", "digits", "--n", 200, "--clients", 2, "--width", 64, *begun)
    assert result.exit_code == 2
    said = "error: the certificate takes 120 MB of memory and 40 MB are available; samples up to 115 would fit"
    assert said in result.stderr.splitlines()


def test_the_command_that_certifies_again_has_the_data_whatever_their_name():
    options = Options(data="my data.csv", clients=3, unit=True)
    words = shlex.split(replay("ntkfl certify", options, Setup(width=64, seed=5)))
    assert words[:6] == ["ntkfl", "certify", "--data", "my data.csv", "--clients", "3"]
    assert words[-1] == "--unit" and words[words.index("--width") + 1] == "64" and "--partition" not in words
