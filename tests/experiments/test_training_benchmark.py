"""The training benchmark: its ways of doing a round do the same work. Of times only the presence is asserted."""

import sys

import numpy as np
import pytest
import torch

from experiments.benchmarks import elsewhere, training
from ntkfl.training.federated_data import FederatedData


def images():
    rng = np.random.default_rng(0)
    owner = np.repeat([0, 1, 2], [5, 40, 3])  # ragged, one with two batches
    x = torch.tensor(rng.random((len(owner), 1, 28, 28)))
    return FederatedData(x, torch.tensor(rng.integers(0, 10, len(owner))), owner, 3, classes=10)


@pytest.mark.parametrize("make", [lambda: training.two_layer(4, 32, 6, 50), lambda: training.convolutional(images())])
def test_the_plain_loop_trains_as_the_engine_does(make):
    work = make()
    runs = training.by_engine_and_loop(work, 3)
    (seconds, engine), (_, loop) = runs["engine"], runs["plain loop"]
    start = work.run.start().model
    assert len(seconds) == 2 and min(min(pair) for pair in seconds) > 0
    assert training.distance(engine, loop, start) < 1e-3  # float32: the weights' rounding over their movement
    assert training.distance(start, loop, start) == 1


def test_the_loop_weights_clients_as_the_engine_does():
    """One client's samples given twice change the mean where clients count by size: the loop follows the engine."""
    data = images()
    order = np.concatenate([np.arange(len(data.x)), np.flatnonzero(data.owner == 2)])
    larger = FederatedData(data.x[order], data.y[order], data.owner[order], 3, classes=10)
    work, before = training.convolutional(larger), training.convolutional(data)
    start = work.run.start().model
    loop = training.loop_round(work, start, 0)
    assert training.distance(work.run.round(work.run.start()).state.model, loop, start) < 1e-3
    assert training.distance(training.loop_round(before, start, 0), loop, start) > 1e-2


PEER = """
import json, sys
import numpy as np
folder, rounds = sys.argv[1], int(sys.argv[2])
work = np.load(folder + "/work.npz")
np.save(folder + "/result.npy", work["hidden"] + work["local_steps"] * work["rate"])
json.dump([[2.0 * k, 3.0 * k] for k in range(rounds)], open(folder + "/times.json", "w"))
"""


def test_a_peer_gets_the_work_and_gives_times_and_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(elsewhere, "HERE", tmp_path)
    (tmp_path / "rounds_by_pfl.py").write_text(PEER)
    work = training.two_layer(2, 8, 3, 10)
    seconds, weights = training.by_peer("pfl", sys.executable, work, 4, 1)
    assert seconds == [(2.0, 3.0)] * 3
    moved = work.given["local_steps"] * work.given["rate"]
    assert np.allclose(weights["hidden"], work.given["hidden"] + moved, atol=1e-6) and moved > 0
    lines = training.report(work, {"pfl": sys.executable}, 2, 2, 1)
    assert [line.split()[0] for line in lines[2:]] == ["engine", "plain", "pfl"]


def test_a_peer_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(elsewhere, "HERE", tmp_path)
    (tmp_path / "rounds_by_flower.py").write_text("raise SystemExit('no such package')")
    with pytest.raises(RuntimeError, match="rounds_by_flower ended with 1: no such package"):
        training.by_peer("flower", sys.executable, training.two_layer(2, 8, 3, 10), 2, 1)
