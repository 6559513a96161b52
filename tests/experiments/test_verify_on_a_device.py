"""Tests of `ntkfl verify --device`, which takes the left sides of statements from the training engine.

A record that another machine made is compared with results of this machine.
"""

import json
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from typed import command as run

from bounds import Kind, Options, get
from verification.engine import verify
from verification.facts import Fact
from verification.sentences import What
from verification.verdict import Verdict

SMALL = ["--width", "128", "--rounds", "10", "--trials", "5"]
REFERENCE = Path(__file__).with_name("cuda_reference.json")
RECORD = (
    "ntkfl verify fl-ntk/B.3 fl-ntk/B.12 fl-ntk/C.7-movement fl-ntk/X.1 --width 131072 --trials 5 --device cuda "
    f"--json {REFERENCE.relative_to(Path(__file__).parents[2])}"
)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def written(path):
    content = json.loads(path.read_text())
    return content["provenance"], [Verdict.from_json(part) for part in content["verdicts"]]


def disagreements(provenance, verdicts):
    """Returns the differences of a recorded run from the simulator's results on the same cases on this machine."""
    options, differences = replace(Options(**provenance["options"]), device=None), []
    for recorded in verdicts:
        (here,) = verify(get(recorded.id), options, recorded.form)
        for field in ("outcome", "trials", "counts.rejected"):
            value = attrgetter(field)
            if value(recorded) != value(here):
                differences.append(f"{recorded.id} {recorded.form}: {field} {value(recorded)}")
        # The tightness of an equality is |difference| / scale. This is a rounding error, so it is not compared.
        if recorded.kind is not Kind.EQUALITY:
            differences += [
                f"{recorded.id} {recorded.form}: {name} tightness {ratio}, here {here.tightness[name]}"
                for name, ratio in recorded.tightness.items()
                if ratio != pytest.approx(here.tightness[name], rel=1e-9)
            ]
    return differences


def test_a_run_on_a_device_says_so_and_agrees_with_the_simulator(tmp_path):
    result = run("verify", "fl-ntk/B.3", "fl-ntk/X.1", *SMALL, "--device", "cpu", "--json", tmp_path / "v.json")
    assert result.exit_code == 0, result.output
    provenance, verdicts = written(tmp_path / "v.json")
    assert [v.id for v in verdicts] == ["fl-ntk/B.3", "fl-ntk/B.3", "fl-ntk/X.1"]
    for origin in (provenance, *(v.provenance for v in verdicts)):
        assert (origin["device"], origin["dtype"], origin["seeds"]) == ("cpu", "float64", {"first_seed": 0})
        assert origin["versions"]["torch"] == torch.__version__
    assert all(v.replay.endswith("--trials 5 --device cpu") for v in verdicts)
    assert not any("computed on" in str(note) for v in verdicts for note in v.notes)
    assert disagreements(provenance, verdicts) == []
    wrong = replace(verdicts[0], tightness={name: ratio * (1 + 1e-6) for name, ratio in verdicts[0].tightness.items()})
    assert len(disagreements(provenance, [wrong])) == 2


def test_without_a_device_the_simulator_runs():
    (verdict,) = verify(get("fl-ntk/X.1"), Options(width=64, rounds=3, trials=5))
    assert "torch" not in verdict.provenance["versions"] and "--device" not in verdict.replay


def test_a_statement_whose_cases_are_no_runs_says_that_nothing_was_computed_there():
    (verdict,) = verify(get("fl-ntk/X.7"), Options(device="cpu", trials=5))
    assert Fact(What.NO_ENGINE, {"device": "cpu"}) in verdict.notes and "torch" not in verdict.provenance["versions"]
    both = get("fl-ntk/B.9-13")
    (verdict,) = verify(both, Options(device="cpu", width=64, rounds=4, trials=5), both.mutated_form)
    assert Fact(What.PART_ENGINE, {"device": "cpu"}) in verdict.notes and "torch" in verdict.provenance["versions"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "tpu"], "error: device is 'tpu'"),
        (["--device", "cpu", "--meta"], "error: --meta tests the verifier on the simulator's runs; leave --device out"),
        (["--device", "cpu", "--symbolic"], "error: --symbolic runs no case"),
    ],
)
def test_what_does_not_go_is_refused(arguments, message):
    result = run("verify", "fl-ntk/B.3", *arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_without_a_gpu_cuda_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    result = run(*RECORD.split()[1:-1], tmp_path / "v.json")
    assert result.exit_code == 2 and not list(tmp_path.iterdir())
    assert "error: device is 'cuda', and PyTorch" in result.stderr and "sees no CUDA device here" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE.exists(), reason=f"no GPU reference has been recorded; record it with `{RECORD}`")
def test_what_a_gpu_found_is_what_the_simulator_finds():
    provenance, verdicts = written(REFERENCE)
    assert provenance["device"].startswith("cuda:") and provenance["complete"] and verdicts
    assert disagreements(provenance, verdicts) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_a_gpu_the_verdicts_are_the_simulators(tmp_path):
    result = run("verify", "fl-ntk/B.3", *SMALL, "--device", "cuda", "--json", tmp_path / "v.json")
    assert result.exit_code == 0, result.output
    provenance, verdicts = written(tmp_path / "v.json")
    assert provenance["device"].startswith("cuda:")
    assert disagreements(provenance, verdicts) == []
