"""Tests of `ntkfl certify --network`: training until the network is certified, the record, and refused input."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from typed import command as run

from ntkfl import Setup, certify_network, certify_rounds, data
from ntkfl.networks import simulate_network, wide
from ntkfl.smooth_networks import ntkfl_check_network
from ntkfl.smooth_networks.adversary import WindowAttack, Worst
from ntkfl.smooth_networks.certificate import _copied
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.smooth_networks.watching import _sizes, network_checkpoints

SMALL = ("certify", "--network", "fc:3:gelu", "--width", "64", "--eta-local", "0.4", "--n", "2", "--every", "40")


def test_watch_stops_at_a_round_that_its_record_replays(tmp_path):
    result = run(*SMALL, "--watch", "--rounds", 400, "--visits", 2, "--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("CERTIFIED for any order: steps up to ")
    assert (
        "visits of samples in a window differ at most 2-fold." in result.stdout
        and "round 0: |y - f| = " in result.stderr
    )
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["certified"] and record["round"] % 40 == 0 < record["round"] and record["network"] == "fc:3:gelu"
    assert 0 < record["distance"] < record["reach"] and 0 < record["step_limit"] and record["window_factor"] < 1
    again = run(*record["replay"].split()[1:], "--json", tmp_path / "again.json")
    assert again.exit_code == 0, again.output
    replayed = json.loads((tmp_path / "again.json").read_text())
    assert {**replayed, "provenance": 0} == {**record, "provenance": 0}


@pytest.mark.parametrize("loss", ["hinge", "band:0.3", "huber:5"])
def test_another_loss_is_trained_on_certified_and_replayed(loss, tmp_path):
    asked = (*SMALL, "--loss", loss, "--watch", "--rounds", 600, "--attack", 20, "--json", tmp_path / "found.json")
    result = run(*asked)
    assert result.exit_code == 0, result.output
    assert f"  loss                        {loss}" in result.stdout and "from f to its minimisers = " in result.stderr
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["loss"] == loss and record["attack"]["broken"] is None and f"--loss {loss}" in record["replay"]
    again = run(*record["replay"].split()[1:], "--json", tmp_path / "again.json")
    assert again.exit_code == 0, again.output
    replayed = json.loads((tmp_path / "again.json").read_text())
    del record["attack"]
    assert {**replayed, "provenance": 0} == {**record, "provenance": 0}


def test_an_adversary_finds_nothing_against_a_certificate(tmp_path, monkeypatch):
    asked = (*SMALL, "--watch", "--rounds", 400, "--attack", 60, "--json", tmp_path / "found.json")
    result = run(*asked, "--visits", 2)
    assert result.exit_code == 0, result.output
    assert "  an adversary looked at 6" in result.stdout and "times as much as is claimed or more" in result.stdout
    attack = json.loads((tmp_path / "found.json").read_text())["attack"]
    assert attack["broken"] is None and attack["windows"] >= 60
    assert all(0 < attack[name] < 1 for name in ("fall", "factor", "distance", "reach", "outputs"))
    early = run(*SMALL, "--attack", 5)
    assert early.exit_code == 1 and "nothing is attacked: only a certificate that holds claims" in early.stderr
    broken = WindowAttack("reach", 7, Worst(reach=2.0))
    monkeypatch.setattr("experiments.console.smooth_network.attack_network", lambda *_, **options: broken)
    result = run(*asked)
    assert result.exit_code == 1 and "this contradicts the certificate" in result.stderr
    assert "  an adversary broke the claim of how far models go, by the factor 2 (7 windows looked at)" in result.stdout


@pytest.mark.slow
def test_an_export_is_checked_by_its_script(tmp_path):
    small = ("certify", "--network", "fc:2:erf", "--width", "64", "--eta-local", "0.4", "--n", "4", "--every", "200")
    result = run(*small, "--watch", "--rounds", 2000, "--test", "--data", "digits", "--export", tmp_path / "proof")
    assert result.exit_code == 0, result.output
    (command,) = re.findall(r"checked in exact numbers, reach <= \S+; again: python (.*)", result.stdout)
    done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("certified\n"), done.stdout
    claim = json.loads((tmp_path / "proof" / "certificate.json").read_text())["claim"]
    assert len(claim["final"]) > 100
    hinge = (*small, "--watch", "--rounds", 2000, "--data", "digits", "--loss", "hinge", "--export", tmp_path / "hinge")
    result = run(*hinge)
    assert result.exit_code == 0 and ntkfl_check_network.main([str(tmp_path / "hinge")]) == 0, result.output
    early = run(*SMALL, "--export", tmp_path / "none")
    assert early.exit_code == 1 and f"nothing is exported to {tmp_path / 'none'}" in early.stderr
    assert not (tmp_path / "none").exists()
    for words, why in (
        ((*small, "--export", tmp_path / "proof"), "the export needs a new folder"),
        ((*small, "--method", "scaffold", "--export", tmp_path / "b"), "leave out --method"),
        (("certify", "--network", "conv:3:erf", "--export", tmp_path / "b"), "--export has no convolutions"),
    ):
        refused = run(*words)
        assert refused.exit_code == 2 and why in refused.output


def test_a_round_too_early_is_not_certified_and_the_command_that_trains_on_certifies():
    result = run(*SMALL)
    assert result.exit_code == 1 and result.stdout.startswith("NOT CERTIFIED for any order: ")
    assert re.search(r"A residual \|y - f\| of about \S+ would do, by an estimate; now it is", result.stdout)
    assert "  in the way " in result.stdout
    (further,) = re.findall("  to train on: ntkfl (.*)", result.stdout)
    assert run(*further.split()).exit_code == 0


def test_weights_of_a_file_are_certified_as_in_python(tmp_path):
    """A network that the command trained itself, saved and read again, is certified as in Python.

    Files that do not fit are refused.
    """
    problem, setup = data.sphere(n=2, clients=2), Setup(width=64, eta_local=0.4, local_steps=2, seed=0)
    *_, (_, params) = network_checkpoints(problem, setup, wide("fc:3:gelu"), 280, 280)
    np.savez(tmp_path / "my net.npz", **params)
    file = ("certify", "--network", "fc:3:gelu", "--data", "sphere", "--n", "2", "--weights", tmp_path / "my net.npz")
    result = run(*file, "--json", tmp_path / "certificate.json")
    record = json.loads((tmp_path / "certificate.json").read_text())
    direct = certify_network(wide("fc:3:gelu"), params, problem)
    assert result.exit_code == (0 if direct.certified else 1), result.output
    assert record["residual"] == float(direct.residual.hi) and record["width"] == 64
    assert run(*shlex.split(record["replay"])[1:]).stdout.splitlines()[:2] == result.stdout.splitlines()[:2]
    # At half of these weights training starts far from a fit.
    for name, shape in (("layer1.weight", (64, 8)), ("readout.weight", (1, 64))):
        params[name] = 0.5 * np.reshape(params[name], shape)
    np.savez(tmp_path / "my net.npz", **params)
    early = run(*file, "--eta-local", "0.4", "--every", 40)
    assert early.exit_code == 1, early.output
    (further,) = re.findall("  to train on: ntkfl (.*)", early.stdout)
    further_run = run(*shlex.split(further), "--json", tmp_path / "further_run.json")
    record = json.loads((tmp_path / "further_run.json").read_text())
    assert further_run.exit_code == 0 and record["round"] > 0, further_run.output
    assert f"my net.npz after round {record['round']}" in further_run.stdout
    again = run(*shlex.split(record["replay"])[1:])
    assert again.exit_code == 0 and again.stdout.splitlines()[:2] == further_run.stdout.splitlines()[:2]
    np.savez(tmp_path / "my net.npz", **{name: value for name, value in params.items() if name != "layer2.weight"})
    refused = run(*file)
    assert refused.exit_code == 2 and "params have no 'layer2.weight'" in " ".join(refused.output.split())
    (tmp_path / "my net.npz").unlink()
    missing = run(*file)
    assert missing.exit_code == 2 and "my net.npz" in missing.output and "Traceback" not in missing.output


def test_rounds_of_a_method_certify_and_the_engine_keeps_to_their_rate(tmp_path):
    """Rounds of fl-ntk and of fedavg are certified, and the training engine keeps the certified rate.

    The clients have one and two samples, which the two methods weigh differently.
    """
    asked = (*SMALL[:-4], "--n", 3, "--every", 40, "--watch", "--rounds", 400, "--json", tmp_path / "rounds.json")
    problem, network = data.sphere(n=3, clients=2), wide("fc:3:gelu")
    assert np.bincount(problem.owner).tolist() == [1, 2]
    setup = Setup(width=64, eta_local=0.4, local_steps=2, seed=0)
    rates = {}
    for method, shares, server in (("fl-ntk", (0.5, 0.5), 1.0), ("fedavg", (1 / 3, 2 / 3), 1.2)):
        result = run(*asked, "--method", method, "--option", f"server_rate={server}")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"CERTIFIED for full rounds of {method}: ")
        record = json.loads((tmp_path / "rounds.json").read_text())
        *_, (_, params) = network_checkpoints(problem, setup, network, record["round"], 40)
        steps = replace(setup, eta_global=server)
        proved = certify_rounds(network, params, problem, steps, shares=shares)
        assert record["certified"] and record["method"] == method
        assert (record["rate"], record["reach"]) == pytest.approx((proved.rate, proved.reach), rel=1e-9)
        model = network.model((8,), 64)
        later = simulate_network(problem, replace(steps, rounds=6), model, params, method=method, keep=range(7))
        sizes = [_size(model, later.weights[t], problem, 0.4, 2, shares) for t in range(7)]
        ratios = np.array(sizes[1:]) / sizes[:-1]
        assert ratios.max() <= record["rate"] < 1 and ratios[-1] > record["last_rate"] - 0.02
        rates[method] = record["rate"]
        again = run(*shlex.split(record["replay"])[1:])
        assert again.exit_code == 0 and again.stdout.splitlines()[:2] == result.stdout.splitlines()[:2]
    assert abs(rates["fedavg"] - rates["fl-ntk"]) > 0.01


def test_a_method_with_memory_certifies_and_the_engine_keeps_to_its_reach(tmp_path):
    asked = (*SMALL[:-4], "--n", 3, "--every", 40, "--watch", "--rounds", 800, "--json", tmp_path / "rounds.json")
    result = run(*asked, "--method", "fedavgm", "--option", "momentum=0.5")
    assert result.exit_code == 0, result.output
    assert "a norm of the residual and the memory" in result.stdout
    record = json.loads((tmp_path / "rounds.json").read_text())
    problem, network = data.sphere(n=3, clients=2), wide("fc:3:gelu")
    setup = Setup(width=64, eta_local=0.4, local_steps=2, seed=0, rounds=30)
    *_, (_, params) = network_checkpoints(problem, setup, network, record["round"], 40)
    proved = certify_rounds(network, params, problem, setup, method="fedavgm", options={"momentum": 0.5})
    assert (record["rate"], record["reach"]) == pytest.approx((proved.rate, proved.reach), rel=1e-9)
    later = simulate_network(
        problem, setup, network.model((8,), 64), params, method="fedavgm", options={"momentum": 0.5}, keep=range(31)
    )
    start = {name: torch.as_tensor(value) for name, value in params.items()}
    ways = [
        float(sum(((torch.as_tensor(value) - start[name]) ** 2).sum() for name, value in weights.items())) ** 0.5
        for weights in later.weights.values()
    ]
    assert 0 < max(ways) <= record["reach"]
    again = run(*shlex.split(record["replay"])[1:])
    assert again.exit_code == 0 and again.stdout.splitlines()[:2] == result.stdout.splitlines()[:2]


def _size(model, params, problem, eta, steps, shares):
    """Returns phi as defined in docs/proofs/smooth_networks.md#rounds-of-federated-averaging."""
    params = {name: torch.as_tensor(value) for name, value in params.items()}
    x = torch.tensor(problem.x)
    j = model.jacobian(params, x)[:, 0]
    r = torch.tensor(problem.y) - model.outputs(params, x).detach()
    total = 0.0
    for c, share in enumerate(shares):
        mine = np.flatnonzero(problem.owner == c)
        z = torch.eye(len(mine), dtype=torch.float64) - eta * j[mine] @ j[mine].T
        total += share * eta * float(sum(r[mine] @ torch.linalg.matrix_power(z, k) @ r[mine] for k in range(steps)))
    return total**0.5


@pytest.mark.parametrize("spec", ["fc:3:erf", "fc:2:gelu:bias=0.5", "conv:3:relu", "conv:4:erf"])
@pytest.mark.parametrize("outputs", [None, 3])
def test_the_memory_of_weights_that_are_not_drawn_yet_is_that_of_the_layers(spec, outputs):
    network = wide(spec)
    layers = layers_of(network, network.model((16,), 6, outputs).initial(0), 16)
    wanted = [(layer.weight.size, layer.n_outputs, _copied(layer)) for layer in layers]
    assert list(_sizes(network, (16,), 6, outputs)) == wanted


def test_memory_is_asked_before_anything_is_drawn_or_trained(monkeypatch):
    monkeypatch.setattr("ntkfl.memory.available", lambda: 3e9)
    monkeypatch.setattr("ntkfl.training.models.wide_networks.WideNetwork.model", None)
    for training in ((), ("--after", "100"), ("--watch",), ("--method", "scaffold")):
        result = run("certify", "--network", "fc:3:relu", "--width", "20000", *training)
        assert result.exit_code == 2 and "the certificate of a smooth network takes 25.6 GB" in result.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--network", "fc:3:tanh"), "tanh"),
        (("--network", "conv:3:erf", "--n", "4"), "takes images"),
        (("--network", "deep"), "there is no network 'deep'; it must be of a form like fc:3:relu"),
        (("--network", "fc:3:erf", "--any-order"), "choose one"),
        (
            ("--network", "fc:3:erf", "--method", "fednova"),
            "the method is fednova; this certificate covers",
        ),
        (("--network", "fc:3:erf", "--method", "fedavg", "--visits", "2"), "--visits is for any order"),
        (("--network", "fc:3:erf", "--method", "fedavg", "--option", "mu=1"), "mu"),
        (("--network", "fc:3:erf", "--method", "fl-ntk", "--momentum"), "leave it out with --network"),
        (("--network", "fc:3:erf", "--option", "mu=1"), "--option needs --method"),
        (("--network", "fc:3:erf", "--search"), "look at X.11 and X.12, not at --any-order, --network"),
        (("--network", "fc:3:erf", "--visits", "0.5"), "visits is 0.5; it must be 1 or more"),
        (("--network", "fc:3:erf", "--test"), "sphere takes no test"),
        (("--network", "fc:3:erf", "--attack", "0"), "--attack is 0; it is how many steps, or windows, to look at"),
        (("--network", "fc:3:erf", "--method", "fedavg", "--attack", "9"), "--attack is for certificates of any order"),
        (("--visits", "2"), "--visits needs --network"),
        (("--test",), "--test needs --any-order or --network or --method"),
        (("--network", "fc:2:erf", "--loss", "logistic"), "the logistic loss has no minimiser"),
        (("--network", "fc:2:erf", "--loss", "hing"), "it must be squares, hinge"),
        (("--network", "fc:2:erf", "--loss", "logistic", "--watch"), "the logistic loss has no minimiser"),
        (
            ("--network", "fc:3:gelu", "--width", "8", "--loss", "hinge", "--eta-local", "1e9", "--after", "9"),
            "eta_local = 1e+09 or eta_global = 1 is too long a step; try a tenth",
        ),
        (
            ("--network", "fc:2:erf", "--loss", "hinge", "--method", "scaffold"),
            "--loss is for certificates of any order",
        ),
    ],
)
def test_what_does_not_go_is_refused(arguments, why):
    result = run("certify", *arguments, *(("--width", "16") if "--network" in arguments else ()))
    assert result.exit_code == 2 and why in " ".join(result.output.split()), result.output


def test_rows_and_layers_that_a_file_may_not_have(tmp_path, monkeypatch):
    """Rows of different lengths are different samples, even if they are parallel.

    Equal rows are refused for the squared loss, and taken for the band loss. The hinge loss takes only the labels -1
    and +1.
    """
    # The test reads files only, so training is switched off.
    monkeypatch.setattr("experiments.console.smooth_network._judged", None)
    x = np.eye(3, 4)
    small = ("certify", "--network", "fc:2:erf", "--width", "8", "--data", tmp_path / "rows.csv")
    lines = [[*row, y] for row, y in zip([*x, 2 * x[0]], (1, -1, 1, 1), strict=True)]
    for rows, options, why in (
        (lines, (), None),
        (lines, ("--loss", "hinge"), None),
        ([*lines, lines[0]], (), "lines 2 and 6: rows 0 and 4 of x are the same: lambda_min is 0; remove one of them"),
        ([*lines, lines[0]], ("--loss", "band:0.1"), None),
        ([*lines, [1, 1, 1, 1, 0.5]], ("--loss", "hinge"), "a label is 0.5; the hinge loss takes -1 and +1"),
    ):
        np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c,d,y", comments="")
        result = run(*small, *options)
        if why is None:
            # The file was accepted, and the command went on to _judged.
            assert isinstance(result.exception, TypeError), result.output
        else:
            assert result.exit_code == 2 and why in " ".join(result.output.split()), result.output
    monkeypatch.undo()
    np.savetxt(tmp_path / "rows.csv", lines, delimiter=",", header="a,b,c,d,y", comments="")
    np.savez(tmp_path / "bn.npz", **{"0.weight": np.ones((8, 4)), "1.running_mean": np.ones(8)})
    refused = run(*small, "--weights", tmp_path / "bn.npz", "--loss", "hinge")
    assert refused.exit_code == 2 and "layer 1 is a batch normalisation" in " ".join(refused.output.split())
