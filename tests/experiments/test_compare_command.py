"""Tests of `ntkfl compare`: its runs are those of `ntkfl train`.

The intervals are those of a paired t-test. The runs are kept.
"""

import json

import numpy as np
import pytest
from scipy import stats
from typed import command

from experiments.method_comparison import MethodComparison, compare_methods, parsed
from ntkfl.training import run as train
from ntkfl.training.runs.summary import summary

SMALL = {"data": "digits", "model": "two-layer:4", "clients": 3, "samples": 60, "test": 30, "rounds": 2}
WORDS = [word for key, value in SMALL.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def test_the_runs_are_those_of_each_method_and_seed_and_are_kept(tmp_path):
    methods = ("fedavg", "fedprox:mu=0.5")
    comparison = compare_methods(methods, 2, out=tmp_path / "runs", seed=3, **SMALL)
    assert comparison.methods == methods and comparison.seeds == (3, 4) and "test_accuracy" in comparison.values
    for k, (name, options) in enumerate([("fedavg", {}), ("fedprox", {"options": {"mu": 0.5}})]):
        alone = [summary(train(name, seed=seed, **SMALL, **options).rows)["test_loss"].mean for seed in (3, 4)]
        assert comparison.values["test_loss"][k].tolist() == alone
    # Every run exists already, so none is repeated.
    again = compare_methods(methods, 2, out=tmp_path / "runs", seed=3, **SMALL)
    assert again.to_dict() == comparison.to_dict()
    assert len(list((tmp_path / "runs").glob("*/seed-*/metrics.csv"))) == 4


def test_the_intervals_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=6), rng.normal(size=6) + 1
    comparison = MethodComparison(("a", "b"), tuple(range(6)), {"test_loss": np.stack([first, second])})
    interval = stats.ttest_rel(second, first).confidence_interval(0.95)
    difference = comparison.difference("test_loss", 1)
    assert difference.mean - difference.half == pytest.approx(interval.low)
    assert difference.mean + difference.half == pytest.approx(interval.high)
    three = MethodComparison(("a", "b", "c"), tuple(range(6)), {"test_loss": np.stack([first, second, second])})
    wider = stats.ttest_rel(second, first).confidence_interval(0.975)
    assert three.difference("test_loss", 2).half == pytest.approx((wider.high - wider.low) / 2)


@pytest.mark.parametrize(
    ("measure", "shift", "finding"), [("test_loss", 1.0, "worse"), ("test_accuracy", 1.0, "better")]
)
def test_what_is_better_depends_on_the_measure(measure, shift, finding):
    values = np.array([[0.0, 0.1, 0.2], [0.0, 0.11, 0.19]])
    alike = MethodComparison(("a", "b"), (0, 1, 2), {measure: values})
    assert alike.finding(measure, 1) == "not told apart"
    moved = MethodComparison(("a", "b"), (0, 1, 2), {measure: values + np.array([[0.0], [1.0]])})
    assert moved.finding(measure, 1) == finding


def test_the_command_prints_a_table_and_refuses_what_cannot_be_compared(tmp_path):
    def run(*words):
        return command("compare", *words)

    done = run("fedavg", "local", "--seeds", 2, "--json", tmp_path / "o.json", *WORDS)
    assert done.exit_code == 0 and "2 seeds, paired" in done.stdout, done.output
    content = json.loads((tmp_path / "o.json").read_text())
    assert content["baseline"] == "fedavg" and content["seeds"] == [0, 1]
    assert content["measures"]["test_loss"][1]["finding"] in ("better", "worse", "not told apart")
    assert content["nothing_learned"] == []
    still = run("fedavg", "fedprox", "--seeds", 2, "--json", tmp_path / "still.json", *WORDS, "--rate", 1e-9)
    assert still.exit_code == 1 and "2 seeds, paired" in still.stdout, still.output
    said = json.loads((tmp_path / "still.json").read_text())["nothing_learned"]
    assert [(record["method"], record["seed"]) for record in said] == [
        ("fedavg", 0),
        ("fedavg", 1),
        ("fedprox", 0),
        ("fedprox", 1),
    ]
    assert still.stdout.splitlines()[-4:] == [
        f"{record['method']}, seed {record['seed']}: {record['why']}" for record in said
    ]
    gone = run("fedavg", "fedprox", "--seeds", 2, *WORDS, "--rate", 1e30)
    assert gone.exit_code == 2 and "error: fedavg, seed 0, round " in gone.stderr
    for words, said in (
        (("fedavg",), "name two or more different ones"),
        (("fedavg", "fedavg"), "name two or more different ones"),
        (("fedavg", "local", "--seeds", 1), "an interval needs two or more"),
        (("fedavg", "fedprocks", *WORDS), "there is no method 'fedprocks'"),
        (("fedavg", "fedprox", *WORDS, "--test", 0), "nothing is measured: the data have no test samples"),
    ):
        refused = run(*words)
        assert refused.exit_code == 2 and said in refused.stderr and refused.stderr.count("\n") <= 3, refused.output
    assert parsed("fedprox:mu=0.1,kind=a") == ("fedprox", {"mu": 0.1, "kind": "a"})
