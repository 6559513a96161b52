"""Tests of checkpoints: a checkpoint is read back bit for bit, and a damaged or foreign checkpoint is refused."""

import json
import os
import pickle
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_federations import classes, network, on_classes

import ntkfl.training.checkpoint as checkpoint
from ntkfl.training.checkpoint import Checkpoint, load, restored, tensors_digest
from ntkfl.training.engine.federation import State
from ntkfl.training.tree import flatten

RUN = {"config": {"rate": 0.1}}


@pytest.fixture
def state():
    """Returns a state with keys out of order, an empty dict, and tensors with no rows or no axes.

    One tensor shares memory with another.
    """
    window = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    server = {
        "model": {"b": window[1], "a": torch.tensor(float("-inf"))},
        "empty": {"inner": {}},
        "window": window,
        "none": torch.zeros(0, 3),
        "count": torch.tensor([3, 4]),
        "turned": torch.arange(6.0).reshape(2, 3).T,
    }
    return State(7, server, {"rule": {"dual": torch.full((2, 1), np.pi)}}, torch.tensor([True, False]))


def outline(tree):
    return [(key, outline(value) if isinstance(value, dict) else None) for key, value in tree.items()]


def test_a_state_comes_back_as_it_was(state, tmp_path):
    file = tmp_path / "state.safetensors"
    Checkpoint(state, RUN, {"versions": {}}).save(file)
    loaded = load(file)
    assert (loaded.state.rounds, loaded.run, loaded.provenance) == (7, RUN, {"versions": {}})
    for name in ("server", "clients"):
        before, after = getattr(state, name), getattr(loaded.state, name)
        # The order of keys is compared too, since sums over parameters depend on it.
        assert outline(before) == outline(after)
        for path, tensor in flatten(before).items():
            other = flatten(after)[path]
            assert other.dtype == tensor.dtype and torch.equal(other, tensor), path
    assert torch.equal(loaded.state.has_trained, state.has_trained)
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


def test_a_write_that_fails_leaves_the_old_file(state, tmp_path, monkeypatch):
    file = tmp_path / "state.safetensors"
    Checkpoint(state, RUN, {}).save(file)
    before = file.read_bytes()

    monkeypatch.setattr(checkpoint.os, "replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        Checkpoint(state, {"config": {}}, {}).save(file)
    assert file.read_bytes() == before and os.listdir(tmp_path) == [file.name]


def test_every_damaged_byte_is_seen(state, tmp_path):
    file = tmp_path / "state.safetensors"
    Checkpoint(state, RUN, {"made": "here"}).save(file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    places = [0, 7, 8, len(whole) - 1, *rng.integers(8, len(whole), 60).tolist()]
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            loaded = load(file)
        except ValueError as error:
            assert "damaged" in str(error) or "no checkpoint" in str(error)
        else:  # Only the blanks between the header's entries may change without an error.
            assert loaded.run == RUN and torch.equal(loaded.state.server["window"], state.server["window"])
            assert chr(whole[place]) == " "
    for length in (0, 5, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged, or no safetensors file"):
            load(file)


def test_foreign_files_are_refused_and_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    file = tmp_path / "foreign.safetensors"
    file.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="no safetensors file"):
        load(file)
    torch.save({"w": torch.ones(2)}, file)
    with pytest.raises(ValueError, match="no safetensors file"):
        load(file)
    save_file({"w": torch.ones(2)}, file)
    with pytest.raises(ValueError, match="no checkpoint of this package: its metadata say 'no such entry'"):
        load(file)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.safetensors")


def test_metadata_changed_by_hand_are_seen(state, tmp_path):
    file = tmp_path / "state.safetensors"
    Checkpoint(state, RUN, {}).save(file)
    with safe_open(file, framework="pt") as opened:
        about, content = dict(opened.metadata()), {name: opened.get_tensor(name) for name in opened.keys()}
    save_file(content, file, about | {"run": json.dumps({"config": {"rate": 0.2}})})
    with pytest.raises(ValueError, match="does not have the digest"):
        load(file)


def test_a_state_of_another_run_is_refused():
    state = on_classes().start()
    assert restored(state, state).model.keys() == state.model.keys()
    with pytest.raises(ValueError, match=r"'body.0.bias' is \(\(5,\), torch.float64\); this model's is .*float32"):
        restored(state, on_classes().start(network(torch.float32).initial(0)))
    with pytest.raises(ValueError, match="'w' is None; this model's is"):
        restored(state, State(0, {"model": {"w": torch.ones(1)} | state.model}, {}, state.has_trained))
    with pytest.raises(ValueError, match="has 5 clients; this run has 7"):
        restored(state, on_classes(data=classes(clients=7)).start())


def test_digests_tell_tensors_apart():
    one = {"x": torch.arange(4.0)}
    others = [
        {"z": torch.arange(4.0)},
        {"x": torch.arange(4.0).double()},
        {"x": torch.arange(4.0).reshape(2, 2)},
        {"x": torch.tensor([0.0, 1.0, 2.0, 3.0000002])},
    ]
    digests = {tensors_digest(tensors) for tensors in (one, *others)}
    assert len(digests) == 5 and tensors_digest({"x": torch.arange(4.0)}) in digests
