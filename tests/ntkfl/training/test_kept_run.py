"""A kept run is read back unchanged, without touching its folder; changed data or files are refused."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy_runs import measured, objects, same, toy_data, toy_run

from ntkfl.training import load_run, run
from ntkfl.training.models.two_layer import to_network, to_networks
from ntkfl.training.run_folder import RunFolder

SMALL = {"clients": 3, "samples": 60, "test": 30, "rounds": 1, "model": "two-layer:6", "dtype": "float64"}


def stamps(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_it_is_the_run_that_was_kept_and_nothing_is_written(tmp_path):
    done = toy_run(out=tmp_path)
    before = stamps(tmp_path)
    read = load_run(tmp_path, **objects("feddyn"))
    assert same(done, read) and measured(done) == measured(read) and read.config == done.config
    assert stamps(tmp_path) == before


def test_a_run_of_names_needs_nothing_given_again(tmp_path):
    done = run("fedprox", options={"mu": 0.1}, out=tmp_path, **SMALL)
    read = load_run(str(tmp_path))
    assert same(done, read) and read.federation.method.name == "fedprox"
    assert read.federation.method.local == done.federation.method.local  # with its options


def test_an_object_that_is_missing_other_data_and_an_empty_folder_are_refused(tmp_path):
    toy_run(out=tmp_path)
    with pytest.raises(ValueError, match=r"the model of this run, <.*>, was an object; give it again"):
        load_run(tmp_path, data=toy_data())
    changed = replace(toy_data(), x=toy_data().x + 1)
    with pytest.raises(ValueError, match="toy has changed since the run in"):
        load_run(tmp_path, **objects("feddyn") | {"data": changed})
    with pytest.raises(FileNotFoundError, match=r"no run in .*nowhere"):
        load_run(tmp_path / "nowhere")


def test_networks_of_a_run_and_of_its_clients_have_the_outputs_of_its_model(tmp_path):
    done = run("fedavg", **SMALL)
    x = done.federation.data.x_test
    ends = done.federation.round(done.state, keep_ends=True).ends
    for network, params in (
        (to_network(done.params), done.params),
        *zip(to_networks(ends), ({k: w[i] for k, w in ends.items()} for i in range(3)), strict=True),
    ):
        expected = done.model.outputs(params, x).numpy()
        assert np.allclose(network.outputs(x.flatten(1).numpy()), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="the parameters are 0, 1; exact barriers are for hidden and readout"):
        to_network({"0": torch.zeros(2), "1": torch.zeros(2)})


@pytest.mark.parametrize(
    "key, spec", [("method", "mine.py"), ("model", "FOLDER/net.py:3,4"), ("method", "FOLDER/a.py")]
)
def test_a_folder_does_not_run_a_file_that_it_brings(key, spec, tmp_path, monkeypatch):
    (tmp_path / "checkpoint.safetensors").touch()
    config = {"method": "fedavg", "model": "mlp"} | {key: spec.replace("FOLDER", str(tmp_path))}
    monkeypatch.setattr("ntkfl.training.run_folder.load", lambda path: SimpleNamespace(run={"config": config}))
    with pytest.raises(ValueError, match=f"says that its {key} is in .*; only a file outside it"):
        RunFolder(tmp_path).load()
    config[key] = str(tmp_path.parent / "mine.py")
    assert RunFolder(tmp_path).load().run["config"] == config
