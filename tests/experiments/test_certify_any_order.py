"""Tests of `ntkfl certify --any-order`: it trains until the network is certified, and reads users' files and test
samples.

Bad input is refused.
"""

import json
import re
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn
from typed import command as run

from experiments.console import any_order
from ntkfl import Problem, certify_any_order
from ntkfl.any_order.adversary import Attack
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.network_files import load_affine_network, load_network

ANY = ("certify", "--any-order")
SMALL = (*ANY, "--width", "400", "--eta-local", "0.1", "--every", "50")


@pytest.mark.parametrize("momentum", [False, True])
def test_watch_stops_at_a_round_that_its_record_replays(tmp_path, momentum):
    more = ("--momentum",) if momentum else ()
    result = run(*SMALL, *more, "--watch", "--rounds", 600, "--json", tmp_path / "found.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED for any order"), result.output
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["certified"] and record["round"] % 50 == 0 < record["round"]
    assert record["distance"] > 0 < record["step_limit"] and record["residual"] > 0 and isinstance(record["held"], list)
    assert all(sentence in result.stdout for sentence in record["proved"])
    again = run(*record["replay"].split()[1:], "--json", tmp_path / "again.json")
    assert again.exit_code == 0, again.output
    replayed = json.loads((tmp_path / "again.json").read_text())
    assert {**replayed, "provenance": 0} == {**record, "provenance": 0}


@pytest.mark.parametrize(("loss", "left"), [("squares", "|y - f|"), ("hinge", "from f to its minimisers")])
def test_while_watching_the_residual_is_named_by_the_loss(loss, left):
    result = run(*SMALL, "--loss", loss, "--watch", "--rounds", 1)
    assert re.match(rf"round 0: {re.escape(left)} = \d", result.stderr) and f"\n  {left}  " in result.stdout


def test_a_round_too_early_is_not_certified_and_says_what_is_in_the_way():
    result = run(*SMALL, "--after", 1)
    assert result.exit_code == 1 and result.stdout.startswith("NOT CERTIFIED for any order: ")
    first, second = result.stdout.splitlines()[:2]
    assert re.fullmatch(r"A residual \|y - f\| of about \S+ would do, by an estimate; now it is \S+\.", second)
    assert max(len(first.split()), len(second.split())) <= 25 and "\n  in the way  " in result.stdout
    (further,) = re.findall("  to train on: ntkfl (.*)", result.stdout)
    assert run(*further.split()).exit_code == 0


@pytest.mark.parametrize(("rounds", "status"), [(400, 0), (1, 1)])
def test_an_adversary_is_reported(tmp_path, rounds, status):
    """An adversary finds an order of steps that raises |W - W*| near the start of training, and none after training.

    W* is the fit of the labels that is certified.
    """
    result = run(*SMALL, "--after", rounds, "--attack", 200, "--json", tmp_path / "found.json")
    assert result.exit_code == status, result.output
    record = json.loads((tmp_path / "found.json").read_text())["attack"]
    assert record["trials"] <= 200 and (record["broken"] is None) == (status == 0)
    assert ("none raised |W - W*|" in result.stdout) == (status == 0)
    assert ("an adversary found an order of" in result.stdout) == (record["rounds"] > 0) == (status == 1)


def test_an_export_is_checked_by_its_script(tmp_path):
    result = run(*SMALL, "--after", 400, "--export", tmp_path / "proof")
    assert result.exit_code == 0 and "checked in exact numbers" in result.output, result.output
    from ntkfl.any_order import ntkfl_check

    assert ntkfl_check.main([str(tmp_path / "proof")]) == 0
    again = run(*SMALL, "--after", 400, "--export", tmp_path / "proof")
    assert again.exit_code == 2 and "the export needs a new folder" in again.output
    early = run(*SMALL, "--after", 1, "--export", tmp_path / "none")
    assert early.exit_code == 1 and f"nothing is exported to {tmp_path / 'none'}" in early.stderr, early.output
    assert not (tmp_path / "none").exists()
    refused = run("certify", "--export", tmp_path / "other")
    assert refused.exit_code == 2 and "--export needs --any-order or --network" in refused.output


def test_a_certificate_that_an_adversary_breaks_is_an_error(monkeypatch):
    broken = Attack("distance", (), 1.0, 2.0, 5, 1.0)
    monkeypatch.setattr(any_order, "attack_any_order", lambda *arguments, **options: broken)
    result = run(*SMALL, "--after", 400, "--attack", 5)
    assert result.exit_code == 1 and "CERTIFIED" in result.stdout and "one of the two is wrong" in result.stderr


def test_an_interrupted_watch_keeps_what_it_has(monkeypatch):
    honest = any_order.watch_any_order

    def interrupted(*arguments, **options):
        yield next(honest(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(any_order, "watch_any_order", interrupted)
    result = run(*SMALL, "--watch")
    assert result.exit_code == 130
    assert "stopped by Ctrl-C" in result.stderr and "round 0 was the last one judged: " in result.stderr


def test_a_method_is_certified_by_the_round_that_its_record_replays(tmp_path):
    """For a method with options the network is certified after training.

    Before training it is not certified, and the command says why.
    """
    asked = ("certify", "--method", "fedavgm", "--option", "momentum=0.6", "--n", 1, "--clients", 1, "--width", 300)
    asked += ("--eta-local", "0.2", "--every", 5, "--eta-global", "1.5")
    result = run(*asked, "--watch", "--rounds", 100, "--json", tmp_path / "found.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED for fedavgm"), result.output
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["certified"] and record["spectral_radius"] <= record["rate"] < 1 and len(record["conditions"]) == 2
    assert record["round"] % 5 == 0 < record["round"] and all(said in result.stdout for said in record["proved"])
    again = run(*record["replay"].split()[1:], "--json", tmp_path / "again.json")
    assert again.exit_code == 0 and "--option=momentum=0.6" in record["replay"], again.output
    assert {**json.loads((tmp_path / "again.json").read_text()), "provenance": 0} == {**record, "provenance": 0}
    early = run(*asked)
    assert early.exit_code == 1 and "NOT CERTIFIED for fedavgm" in early.stdout
    assert max(len(said.split()) for said in early.stdout.splitlines()[:2]) <= 25 and "\n  in the way  " in early.stdout


@pytest.mark.slow
def test_another_loss_is_trained_on_and_certified(tmp_path):
    """A network that is trained on another loss is certified, and the command in its record gives the same result."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((8, 6)), y=rng.choice([-1.0, 1.0], 8))
    asked = (*ANY, "--loss", "hinge", "--data", tmp_path / "data.npz", "--width", 400, "--eta-local", "0.05")
    result = run(*asked, "--watch", "--every", 20, "--rounds", 2000, "--attack", 50, "--json", tmp_path / "a.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED for any order"), result.output
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["loss"] == "hinge" and 0 < len(record["kept"]) <= 8 == record["n"] and not record["attack"]["broken"]
    assert "  if steps are on half the sum of squared hinges" in result.stdout
    again = run(*record["replay"].split()[1:], "--attack", 50, "--json", tmp_path / "b.json")
    assert again.exit_code == 0, again.output
    assert {**json.loads((tmp_path / "b.json").read_text()), "provenance": 0} == {**record, "provenance": 0}


@pytest.fixture
def files(tmp_path):
    """Writes a network with biases that nearly fits its data, in three formats."""
    rng = np.random.default_rng(0)
    x, x_test = rng.standard_normal((5, 4)), rng.standard_normal((30, 4))
    hidden, bias = rng.standard_normal((200, 4)), rng.standard_normal(200)
    readout = rng.choice([-1.0, 1.0], 200) / np.sqrt(200)
    network = TwoLayer(np.column_stack([hidden, bias]), readout)
    with_one = [np.column_stack([part, np.ones(len(part))]) for part in (x, x_test)]
    y = network.outputs(with_one[0]) + 1e-3 * rng.standard_normal(5)
    y_test = np.sign(network.outputs(with_one[1]))
    np.savez(tmp_path / "data.npz", x=x, y=y, owner=[0, 0, 1, 1, 1], x_test=x_test, y_test=y_test)
    np.savez(tmp_path / "net.npz", hidden=hidden, readout=readout, bias=bias)
    torch = {"0.weight": hidden, "0.bias": bias, "2.weight": readout[None], "2.bias": np.zeros(1)}
    save_file(torch, tmp_path / "net.safetensors")
    problem = Problem(with_one[0], y, np.array([0, 0, 1, 1, 1]))
    return tmp_path, network, problem


@pytest.mark.parametrize("name", ["net.npz", "net.safetensors"])
def test_a_users_network_with_biases_is_certified(files, name):
    folder, network, problem = files
    picture, kept = folder / "margins.svg", folder / "found.json"
    result = run(
        *ANY, "--data", folder / "data.npz", "--weights", folder / name, "--test", "--plot", picture, "--json", kept
    )
    assert result.exit_code == 0, result.output
    assert max(len(sentence.split()) for sentence in result.stdout.splitlines()[:2]) <= 25
    record, certificate = json.loads(kept.read_text()), certify_any_order(problem, network)
    assert record["certified"] and record["distance"] == pytest.approx(float(certificate.distance.hi), rel=1e-12)
    assert record["step_limit"] == pytest.approx(certificate.step_limit, rel=1e-12)
    assert record["test"]["final"] == record["test"]["right"] > 20 and record["test"]["samples"] == 30
    assert picture.read_text().lstrip().startswith("<?xml") and "final: " in result.stdout
    assert "x with its constant feature" in result.stdout


@pytest.mark.parametrize("prefix", ["{}", "fc{}", "net.{}"])
@pytest.mark.parametrize("shift", [0.5, 0.1])
def test_a_bias_of_the_output_is_subtracted_from_the_labels(files, prefix, shift):
    """A bias of the output is subtracted from the labels, so the result is that of labels less the bias.

    Outputs include the bias. The bias 0.1 is no float64, so that subtracting it rounds the labels.
    """
    folder, network, problem = files
    state = {"0.weight": network.hidden[:, :4], "0.bias": network.hidden[:, 4], "2.weight": network.readout[None]}
    save_file(
        {f"{prefix.format(name)}": np.ascontiguousarray(array) for name, array in state.items()}
        | {prefix.format("2.bias"): np.array([shift])},
        folder / "head.safetensors",
    )
    arrays = dict(np.load(folder / "data.npz"))
    y_test = np.sign(network.outputs(np.column_stack([arrays["x_test"], np.ones(30)])) + shift)
    np.savez(folder / "moved.npz", **arrays | {"y": arrays["y"] + shift, "y_test": y_test})
    kept = folder / "found.json"
    told = ("--weights", folder / "head.safetensors", "--test", "--json", kept)
    result = run(*ANY, "--data", folder / "moved.npz", *told)
    assert result.exit_code == 0 and "  if the output's bias is not trained: it is subtracted" in result.stdout
    record, certificate = json.loads(kept.read_text()), certify_any_order(problem, network)
    assert record["distance"] == pytest.approx(float(certificate.distance.hi), rel=1e-9)
    assert record["test"]["final"] == record["test"]["right"] > 20
    refused = run(*ANY, "--data", folder / "moved.npz", *told[:2], "--export", folder / "proof")
    assert refused.exit_code == 2 and "has no place for it" in refused.stderr and not (folder / "proof").exists()


@pytest.mark.parametrize("asked", [ANY, (*ANY, "--loss", "hinge"), ("certify", "--method", "scaffold")])
def test_a_network_of_a_file_is_trained_on_by_the_command_that_is_named(files, asked):
    """The command that is printed trains a network with biases further, and the command in the record repeats the
    result.

    A certificate for a method allows no pair of neuron and sample at the kink, and needs labels nearer to the outputs.
    """
    folder, network, problem = files
    arrays = {name: array for name, array in np.load(folder / "data.npz").items() if not name.endswith("_test")}
    outputs, off = network.outputs(problem.x), np.array([1, -1, 1, 1, -1]) / 100
    labels = outputs + off if "--method" in asked else np.where(problem.y > 0, 1.0, -1.0)
    np.savez(folder / "far.npz", **arrays | {"y": labels})
    steps = ("--data", folder / "far.npz", "--weights", folder / "net.npz", "--eta-local", "0.05", "--every", 20)
    early = run(*asked, *steps)
    assert early.exit_code == 1 and early.stdout.startswith("NOT CERTIFIED for "), early.output
    assert max(len(sentence.split()) for sentence in early.stdout.splitlines()[:2]) <= 25
    (further,) = re.findall("  to train on: ntkfl (.*)", early.stdout)
    result = run(*further.split(), "--json", folder / "found.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED for "), result.output
    record = json.loads((folder / "found.json").read_text())
    assert record["round"] > 0 and f"network of {folder / 'net.npz'} after round {record['round']}" in result.stdout
    again = run(*record["replay"].split()[1:])
    assert again.exit_code == 0 and again.stdout.splitlines()[:2] == result.stdout.splitlines()[:2]


def test_labels_in_one_column_are_tested_by_their_signs(files):
    folder, _, _ = files
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "column.npz", **arrays | {name: arrays[name][:, None] for name in ("y", "y_test")})
    records = []
    for name in ("data.npz", "column.npz"):
        plot, kept = folder / "margins.svg", folder / f"{name}.json"
        shared = ("--weights", folder / "net.npz", "--test", "--plot", plot, "--json", kept)
        result = run(*ANY, "--data", folder / name, *shared)
        assert result.exit_code == 0, result.output
        records.append(json.loads(kept.read_text())["test"])
    assert records[0] == records[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("certify", "--test"), "--test needs --any-order"),
        (("certify", "--weights", "a.npz"), "--weights needs --any-order"),
        ((*ANY, "--search"), "--search and --search-steps look at X.11 and X.12"),
        ((*ANY, "--weights", "a.npz", "--watch", "--momentum"), "--momentum is tuned for networks that are drawn here"),
        (("certify", "--attack", "5"), "--attack needs --any-order"),
        ((*ANY, "--attack", "0"), "--attack is 0; it is how many steps, or windows, to look at"),
        ((*ANY, "--momentum"), "--momentum is for the rounds of --watch or --after"),
        ((*ANY, "--plot", "a.png"), "give --test too"),
        ((*ANY, "--test", "--plot", "a.txt"), "pictures are .png or .svg"),
        ((*ANY, "--weights", "nothing.npz"), "there is no such file"),
        ((*ANY, "--test"), "sphere takes no test"),
        (("certify", "--option", "mu=1"), "--option needs --method"),
        (("certify", "--loss", "hinge"), "--loss needs --any-order"),
        ((*ANY, "--loss", "logistic", "--width", "40"), "the logistic loss has no minimiser"),
        ((*ANY, "--loss", "hing", "--width", "40"), "it must be squares, hinge, huber:DELTA or band:WIDTH"),
        ((*ANY, "--loss", "band", "--width", "40"), "band needs a positive number"),
        ((*ANY, "--loss", "hinge", "--momentum", "--watch"), "--momentum is tuned for squares"),
        ((*ANY, "--loss", "hinge", "--export", "new"), "--export is for squares"),
        (("certify", "--method", "scaffold", "--attack", "5"), "--attack needs --any-order"),
        ((*ANY, "--method", "scaffold"), "choose one"),
        (("certify", "--method", "scaffold", "--width", "40", "--option", "speed"), "write NAME=VALUE"),
        (("certify", "--method", "scafold", "--width", "40"), "scaffold"),
        (("certify", "--method", "fedadam", "--width", "40"), "this certificate covers fl-ntk"),
        (("certify", "--method", "feddyn", "--width", "40", "--eta-global", "2"), "feddyn has no server_rate"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2 and f"{message}" in result.stderr, result.output


@pytest.mark.parametrize("kind", [ANY[1:], ("--method", "scaffold"), ("--network", "fc:2:gelu")])
def test_memory_is_asked_for_before_rows_are_compared(kind, monkeypatch):
    monkeypatch.setattr("ntkfl.gram.require_positive", Mock(side_effect=AssertionError("rows are compared")))
    monkeypatch.setattr("ntkfl.memory.available", lambda: 8e9)
    result = run("certify", *kind, "--n", 20000, "--width", 50)
    assert result.exit_code == 2 and "the certificate of" in result.stderr and "GB" in result.stderr, result.output


def test_files_that_are_no_networks_are_refused(files):
    folder, network, _ = files
    (folder / "damaged.safetensors").write_bytes(b"nothing")
    save_file({"0.weight": network.hidden}, folder / "half.safetensors")
    both = {"hidden": network.hidden, "readout": network.readout}
    save_file(both | {"bias": np.zeros(3)}, folder / "bias.safetensors")
    torch.save(nn.MultiheadAttention(4, 1).state_dict(), folder / "attention.pt")
    attention = run(*ANY, "--data", folder / "data.npz", "--weights", folder / "attention.pt")
    assert attention.exit_code == 2 and "it is a layer of attention, no two-layer network" in attention.stderr
    normalised = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1))
    torch.save(normalised.state_dict(), folder / "normalised.pt")
    normal = run(*ANY, "--data", folder / "data.npz", "--weights", folder / "normalised.pt")
    assert normal.exit_code == 2 and "layer 1 is a batch normalisation, whose result for" in normal.stderr
    for name, message in {
        "damaged": "damaged, or no safetensors file",
        "half": "is no two-layer network",
        "bias": r"bias has shape \(3,\)",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_affine_network(folder / f"{name}.safetensors")
    with pytest.raises(ValueError, match="without biases"):
        load_network(folder / "net.npz")
