"""Tests of `ntkfl tune`: it prints and writes the numbers that Python gives, and bad input is refused in one line."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from typed import command

from ntkfl import data
from ntkfl.tuned_outer import Drawn, tune_outer

SMALL = ("--n", 8, "--clients", 2, "--steps", "1")


def run(*words):
    return command("tune", *words)


def test_the_table_and_the_file_are_what_python_gives(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # The line is wide enough that no word is broken.
    file, picture = tmp_path / "a.json", tmp_path / "a.svg"
    drawn = "--outer", "average,nesterov,falling", "--batch-size", 2, "--noise", 0.01
    asked = {}

    def recorded(problem, gram, **options):
        asked.update(options, problem=problem, gram=gram)
        asked["choices"] = tune_outer(problem, gram, **options)
        return asked["choices"]

    monkeypatch.setattr("ntkfl.tuned_outer.tune_outer", recorded)
    monkeypatch.setattr("ntkfl.tuned_outer.SEARCHES", {})  # A falling rate is then searched from one start.
    result = run(*SMALL, "--samples", 8, *drawn, "--json", file, "--plot", picture)
    assert result.exit_code == 0, result.output
    problem, choices, own = asked.pop("problem"), asked.pop("choices"), data.BUILT_IN["digits"](n=8, clients=2)
    assert all(np.array_equal(getattr(problem, name), getattr(own, name)) for name in ("x", "y", "owner"))
    assert asked.pop("gram") is None and callable(asked.pop("progress"))
    noisy, names = Drawn(batch_size=2, noise=0.01), ("average", "nesterov", "falling")
    assert asked == {"rounds": None, "samples": 8, "local_steps": (1,), "outer": names, "drawn": noisy}
    assert json.loads(file.read_text())["choices"] == [asdict(choice) for choice in choices]
    assert f"least expected: {choices[0].mean_square:.3g} after 2 rounds, with {choices[0].outer}" in result.stdout
    (falling,) = [choice for choice in choices if choice.outer == "falling"]
    assert f"{falling.server_rate:.3g} to {falling.last_rate:.3g}" in result.stdout
    assert "nesterov" in result.stdout and "eta_local" in result.stdout and "momentum" in result.stdout
    assert picture.read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--outer", "adam"), "there is no outer optimizer 'adam'"),
        (("--samples", 5), "a round of K = 1 takes 8 samples; the budget is 5"),
        (("--samples", 9, "--rounds", 2), "--rounds and --samples are both given; give one of them"),
        (("--rounds", 2, "--batch-size", 0), "batch_size is 0; it must be a positive integer"),
        (("--rounds", 2, "--batch-size", 9), "batch_size is 9, and no client has so many samples: the largest has 4"),
        (("--rounds", 2, "--participation", 0), "participation is 0; it must lie in (0, 1]"),
        (("--rounds", 2, "--noise", -1), "noise is -1"),
        (("--rounds", 2, "--noise", "nan"), "noise is nan"),
        (("--samples", 100, "--participation", "nan"), "participation is nan"),
        (("--rounds", 2, "--steps", "many"), "--steps is 'many'; it must be whole numbers"),
        (("--eta-local", 0.1), "--eta-local is not for this command"),
    ],
)
def test_bad_input_is_one_line(words, message):
    result = run(*SMALL, *words)
    assert result.exit_code == 2 and message in result.stderr, result.output


def test_what_is_not_decided_in_the_long_run_is_said_so(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    for said in ("not decided", "grows", "stays"):
        monkeypatch.setattr("ntkfl.tuned_outer._long_run", lambda _, said=said: said)
        result = run(*SMALL, "--rounds", 2, "--outer", "average")
        assert result.exit_code == 0 and "in the long run" in result.stdout and said in result.stdout


def test_memory_is_asked_for_before_rows_are_compared(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 1e8)
    monkeypatch.setattr("ntkfl.gram.require_positive", lambda *_: pytest.fail("rows are compared"))
    result = run("--data", "sphere", "--n", 3000)
    assert result.exit_code == 2 and "n up to 510 would fit; ntkfl.sampled_rounds has estimates" in result.stderr
