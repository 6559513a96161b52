"""Tests of a run's folder that was edited, altered or read from elsewhere: allowed changes are accepted, others
refused.
"""

import os
import warnings

import numpy as np
import pytest

from ntkfl.training.runs.training_run import load_run, prepared


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Makes a run of two rounds on a data file that is named by a relative path.

    The working directory changes between the run and the test.
    """
    rng = np.random.default_rng(0)
    (tmp_path / "begun").mkdir()
    monkeypatch.chdir(tmp_path / "begun")
    np.savez("own.npz", x=rng.standard_normal((40, 3)), y=rng.integers(0, 2, 40))
    prepared("fedavg", "own.npz", "mlp:4", clients=2, rounds=2, out=tmp_path / "run").train()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "run"


def edited(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def resumed(folder, **keys):
    return prepared(out=folder, resume=True, **keys)


def test_a_run_is_resumed_from_another_folder(folder):
    assert resumed(folder, rounds=3).train().state.rounds == 3
    assert load_run(folder).state.rounds == 3


def test_data_that_were_moved_are_taken_if_they_are_the_same(folder, tmp_path):
    os.replace(tmp_path / "begun/own.npz", tmp_path / "elsewhere/own.npz")
    with pytest.raises(FileNotFoundError, match=r"begun/own\.npz"):
        resumed(folder)
    assert resumed(folder, data="own.npz", rounds=3).train().state.rounds == 3
    np.savez("own.npz", x=np.ones((40, 3)), y=np.arange(40) % 2)
    with pytest.raises(ValueError, match="has changed since the run"):
        resumed(folder, data="own.npz")


def test_more_rounds_in_the_configuration_are_taken(folder):
    edited(folder / "config.toml", "rounds = 2", "rounds = 4")
    assert resumed(folder).train().state.rounds == 4
    assert resumed(folder, rounds=5).train().state.rounds == 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "rate = 0.05",
            "rate = 0.5",
            r"config.toml: rate is 0.5, and 0.05 in the run that is resumed; only rounds may",
        ),
        ("rate = 0.05", "rate = 0.05\nspeed = 3", r"config.toml: there is no key 'speed'"),
        ("rate = 0.05", "rate = ", r"config.toml is not TOML"),
        ("rounds = 2", "rounds = 1", r"rounds is 1, and 2 are done"),
    ],
)
def test_another_edited_configuration_is_refused_and_left_as_it_is(folder, old, new, message):
    edited(folder / "config.toml", old, new)
    before = (folder / "config.toml").read_text()
    with pytest.raises(ValueError, match=message):
        resumed(folder)
    assert (folder / "config.toml").read_text() == before


def test_altered_metrics_are_refused_and_missing_ones_named(folder):
    text = (folder / "metrics.csv").read_text()
    lines = text.splitlines()
    cells = lines[2].split(",")
    (folder / "metrics.csv").write_text("\n".join([*lines[:2], ",".join([*cells[:2], "0.5", *cells[3:]]), *lines[3:]]))
    for read in (resumed, load_run):
        with pytest.raises(ValueError, match=r"metrics.csv was altered: its rows up to round 2 are not those"):
            read(folder)
    (folder / "metrics.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"metrics.csv is missing, and the checkpoint beside it is of round 2"):
        resumed(folder)
    (folder / "metrics.csv").write_text(text)
    resumed(folder).record.close()


def test_features_of_very_different_scales_and_classes_that_become_signs_are_warned_of(tmp_path):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((30, 3)), np.arange(30) % 3
    np.savez(tmp_path / "even.npz", x=x, y=y)
    np.savez(tmp_path / "uneven.npz", x=x * (1, 5000, 1), y=y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared("fedavg", str(tmp_path / "even.npz"), clients=2)
    with pytest.warns(UserWarning, match="deviation of feature 1 is .* times that of feature .*; divide each column"):
        prepared("fedavg", str(tmp_path / "uneven.npz"), clients=2)
    with pytest.warns(UserWarning, match="target 'sign' makes two of the 3 classes of .*; target 'one-hot' keeps all"):
        prepared("fl-ntk", str(tmp_path / "even.npz"), "ntk:8", clients=2)


@pytest.mark.parametrize("sizes", ["1000000000000", "1" + "0" * 20, "1000000000000-1000000000000"])
def test_a_model_beyond_all_memory_is_refused(sizes):
    with pytest.raises(ValueError, match=r"the model mlp:.*( of memory and .* are available| than can be counted)"):
        prepared("fedavg", "digits", f"mlp:{sizes}")
    with pytest.raises(ValueError, match=r"the plan of a round takes .*; local steps up to \d+ would fit"):
        prepared("fedavg", "digits", "mlp:4", samples=20, clients=2, local_steps=10**11)
