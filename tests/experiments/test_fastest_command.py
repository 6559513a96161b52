"""Tests of `ntkfl fastest` and `ntkfl rate --method`: they print and write the numbers that Python gives.

Bad input is refused in one line.
"""

import json
import re

import pytest
from typed import command as run

from ntkfl import data, kernel_regime
from ntkfl.fastest_method import fastest
from ntkfl.fastest_trained import reversed_pairs, train_fastest
from ntkfl.problem import Setup

SMALL = ("--n", 12, "--clients", 3)


def small():
    return data.BUILT_IN["digits"](n=12, clients=3)


def test_the_table_and_the_file_are_what_python_gives(tmp_path):
    file, picture = tmp_path / "a.json", tmp_path / "a.svg"
    words = ("--steps", "3,1", "--budget", 9, "--eta-local", 0.3)
    result = run("fastest", *SMALL, *words, "--json", file, "--plot", picture)
    assert result.exit_code == 0, result.output
    comparison = fastest(small(), local_steps=(1, 3), budget=9, eta_local=0.3)
    assert json.loads(file.read_text()) == json.loads(json.dumps(comparison.to_dict()))
    assert picture.read_text().lstrip().startswith("<?xml")
    for tuned in comparison.best:
        of = {choice.local_steps: choice.rounds for choice in comparison.tuned if choice.label == tuned.label}
        row = (
            rf"^{re.escape(tuned.label)} +{of[1]} +{of[3]} +{tuned.vectors} +{re.escape(f'{tuned.residual_left:.2g}')} "
        )
        assert re.search(row, result.stdout, re.MULTILINE), tuned.label
        said = f"tuning {tuned.label}\n  {tuned.residual_left:.2g} left with K {tuned.local_steps}, eta_local 0.3"
        assert said in result.stderr
    assert f"takes some {comparison.floor} rounds for the worst labels" in " ".join(result.stdout.split())


def test_tiles_have_the_numbers_of_python_and_say_what_is_not_resolved(tmp_path):
    file = tmp_path / "a.json"
    words = ("--steps", 3, "--budget", 9, "--eta-local", 0.3, "--tiles", "float32", "--json", file)
    result = run("fastest", *SMALL, *words)
    assert result.exit_code == 0, result.output
    comparison = fastest(small(), local_steps=(3,), budget=9, eta_local=0.3, matrix_free="float32")
    assert json.loads(file.read_text()) == json.loads(json.dumps(comparison.to_dict()))
    assert "rate and floor are not resolved" in result.stdout and re.search(r"^scaffold +", result.stdout, re.MULTILINE)
    refused = run("fastest", *SMALL, "--tiles", "auto", "--train", 9)
    assert refused.exit_code == 2 and "is for the two-layer network at infinite width" in refused.stderr


def test_a_network_is_trained_beside_the_table(tmp_path):
    file = tmp_path / "a.json"
    result = run("fastest", *SMALL, "--steps", 2, "--eps", 0.01, "--seed", 0, "--train", 200, "--json", file)
    assert result.exit_code == 0, result.output
    comparison = fastest(small(), local_steps=(2,), eps=0.01)
    rows = train_fastest(small(), comparison, 200, 0)
    content = json.loads(file.read_text())
    assert {"off", "ran", "left"} < content["trained"][0].keys() and "left" in content["best"][0]
    assert content["width"] == 200 and content["trained"] == [row.to_dict() for row in rows]
    below = result.stdout.split("a network of width 200")[1]
    for row in rows:
        counts = f"{row.predicted} +{row.linearised} +{row.trained} +{row.output_distance:.2g}"
        assert re.search(rf"^{re.escape(row.label)} +{counts} *$", below, re.MULTILINE), row
    told = [line for line in below.splitlines() if line.startswith("parted: ")]
    assert len(told) == len(reversed_pairs(rows)) and ("as predicted" in below) == (not told)


def test_the_rate_of_a_method_is_that_of_its_regime():
    words = ("rate", "--method", "fedprox", "--option", "mu=0.3", *SMALL, "--local-steps", 4, "--eta-local", 0.2)
    result = run(*words)
    assert result.exit_code == 0, result.output
    regime = kernel_regime(small(), Setup(eta_local=0.2, local_steps=4), None, "fedprox", {"mu": 0.3})
    assert f"by the factor {regime.rate:.9g}" in result.stdout
    assert re.search(rf"rounds to 1e-06 of the start +{regime.rounds_to(1e-6)}\n", result.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fastest", "--steps", "1,x"), "--steps is '1,x'; it must be whole numbers, such as 1,5,20"),
        (("fastest", "--steps", "0"), r"local_steps are \[0\]; there must be some, each at least 1"),
        (("fastest", "--width", "64"), "--width is not for this command"),
        (("fastest", "--train", "0"), "Invalid value for .--train.: Input should be greater than or equal to 1"),
        (("fastest", "--plot", "a.pdf"), "a.pdf has the suffix '.pdf'; pictures are .png or .svg"),
        (("fastest", "--eps", "2"), "eps is 2; it must lie between 0 and 1"),
        (("rate", "--method", "fedadam"), "fedadam has no exact linear limit: its server divides by roots"),
        (("rate", "--method", "fedavg", "--option", "mu"), "write NAME=VALUE"),
        (("rate", "--method", "fedprox", "--option", "nu=1"), "fedprox has no option 'nu'"),
        (("rate", "--method", "fedproxx"), "fedproxx"),
    ],
)
def test_bad_input_is_said_in_one_line(words, message):
    result = run(*words, "--n", 8)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert re.search(message, " ".join(result.stderr.split())), result.stderr
