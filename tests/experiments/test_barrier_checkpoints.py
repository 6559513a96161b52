"""`ntkfl barrier` on networks with biases, as torch and safetensors keep them, on many at once, and on other models."""

import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import save_file
from torch import nn
from typed import command

from ntkfl.connectivity.barrier import group_barrier, loss_barrier
from ntkfl.connectivity.network import AffineTwoLayer, combination, with_constant, without_biases
from ntkfl.connectivity.network_files import load_affine_network
from ntkfl.training import run as train


def run(*arguments):
    return command("barrier", *arguments)


def module(seed, outputs=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, outputs)).double()


class Named(nn.Module):
    """Two layers under other names."""

    def __init__(self, of):
        super().__init__()
        self.encode, self.answer = of[0], of[2]


@pytest.fixture
def files(tmp_path):
    """Three networks with biases in the formats that there are, and data."""
    modules = [module(seed) for seed in range(3)]
    torch.save(modules[0].state_dict(), tmp_path / "a.pt")
    save_file(modules[1].state_dict(), tmp_path / "b.safetensors")
    torch.save({"model_state_dict": Named(modules[2]).state_dict(), "epoch": 3}, tmp_path / "c.pth")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(12, 3)), y=rng.choice([-1.0, 1.0], 12))
    return tmp_path, modules


def samples(folder):
    with np.load(folder / "data.npz") as archive:
        return {name: archive[name] for name in archive.files}


def losses_between(first, second, x, y, points):
    """The mean squared loss of torch's own modules at weights between, on a fine grid."""
    states, inputs = (first.state_dict(), second.state_dict()), torch.tensor(x)

    def loss(alpha):
        middle = {name: alpha * states[0][name] + (1 - alpha) * states[1][name] for name in states[0]}
        return ((torch.func.functional_call(first, middle, inputs)[:, 0] - torch.tensor(y)) ** 2).mean()

    with torch.no_grad():
        return torch.func.vmap(loss)(torch.linspace(0, 1, points, dtype=torch.float64)).numpy()


def test_the_barrier_of_torch_networks_with_biases_is_that_of_their_own_outputs(files):
    folder, modules = files
    result = run(folder / "a.pt", folder / "b.safetensors", "--data", folder / "data.npz", "--json", folder / "o.json")
    assert result.exit_code == 0, result.output
    assert "5 hidden units, 3 features, 1 output, biases" in result.stdout
    record = json.loads((folder / "o.json").read_text())
    data = samples(folder)
    losses = losses_between(modules[0], modules[1], data["x"], data["y"], 20001)
    line = np.linspace(losses[0], losses[-1], len(losses))
    excess = losses - line
    assert record["loss barrier"]["value"] == pytest.approx(excess.max(), rel=1e-6)
    assert record["loss barrier"]["value"] >= excess.max() - 1e-12
    assert record["loss barrier"]["alpha"] == pytest.approx(np.argmax(excess) / 20000, abs=1e-3)


def test_many_networks_have_a_group_barrier_and_one_for_every_pair(files):
    folder, _ = files
    paths = [folder / name for name in ("a.pt", "b.safetensors", "c.pth")]
    result = run(*paths, "--data", folder / "data.npz", "--json", folder / "o.json")
    assert result.exit_code == 0, result.output
    record = json.loads((folder / "o.json").read_text())
    data = samples(folder)
    networks, constant, unit = without_biases([load_affine_network(path) for path in paths])
    assert constant and unit
    expected = group_barrier(networks, with_constant(data["x"]), data["y"])
    assert record["group loss barrier"]["value"] == float(expected.value) and len(record["pairs"]) == 3
    pair = loss_barrier(networks[0], networks[2], with_constant(data["x"]), data["y"])
    assert record["pairs"][1]["loss barrier"]["value"] == float(pair.value.value)
    assert result.stdout.count(" - ") == 3 and "group accuracy barrier" in result.stdout


def test_units_of_networks_with_biases_are_aligned_and_the_added_one_stays(files):
    folder, modules = files
    order = torch.randperm(5, generator=torch.Generator().manual_seed(0))
    state = modules[0].state_dict()
    rows = {name: state[name][order] for name in ("0.weight", "0.bias")}
    torch.save(state | rows | {"2.weight": state["2.weight"][:, order]}, folder / "moved.pt")
    shared = ("--data", folder / "data.npz", "--align", "weights", "--json", folder / "o.json")
    result = run(folder / "a.pt", folder / "moved.pt", *shared)
    assert result.exit_code == 0, result.output
    aligned = json.loads((folder / "o.json").read_text())["aligned"]
    assert sorted(aligned["permutation"]) == list(range(5)) and aligned["cost after"] == 0
    assert aligned["numbers"]["loss barrier"]["value"] <= aligned["numbers"]["loss barrier"]["error"]


ARRAYS = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(max_examples=30, deadline=None)
@given(ARRAYS, st.integers(1, 3), st.booleans(), st.booleans(), st.floats(0, 1))
def test_without_biases_every_mean_is_the_same_function(rng, outputs, hidden, shifted, share):
    shape = () if outputs == 1 else (outputs,)
    networks = [
        AffineTwoLayer(
            rng.normal(size=(4, 3)),
            rng.normal(size=(*shape, 4)),
            rng.normal(size=4) if hidden else None,
            rng.normal(size=outputs) if shifted and k else None,
        )
        for k in range(2)
    ]
    plain, constant, unit = without_biases(networks)
    assert (constant, unit) == (hidden or shifted, shifted)
    x = rng.normal(size=(7, 3))
    weights = (share, 1 - share)
    parts = {}
    for name in ("hidden", "readout", "bias", "output_bias"):
        values = [getattr(network, name) for network in networks]
        parts[name] = sum(p * (0.0 if v is None else v) for p, v in zip(weights, values, strict=True))
    own = np.maximum(x @ parts["hidden"].T + parts["bias"], 0) @ np.transpose(parts["readout"]) + parts["output_bias"]
    mean = combination(plain, weights).outputs(with_constant(x) if constant else x)
    np.testing.assert_allclose(mean, own, atol=1e-12)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_what_is_no_state_of_two_linear_layers_is_refused_and_nothing_is_unpickled(files, tmp_path):
    folder, modules = files
    touched = tmp_path / "touched"

    class Harm:
        def __reduce__(self):
            return (open, (str(touched), "w"))

    torch.save(modules[0], folder / "module.pt")
    (folder / "harm.pt").write_bytes(pickle.dumps({"0.weight": Harm()}))
    torch.save({"state_dict": {"0.weight": Harm()}}, folder / "harm2.pt")
    torch.save(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)).state_dict(), folder / "deep.pt")
    square = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    save_file(Named(square).state_dict(), folder / "square.safetensors")
    torch.save({"0.weight": torch.ones(5, 3), "2.weight": torch.ones(1, 4)}, folder / "apart.pt")
    torch.save(torch.ones(3), folder / "tensor.pt")
    torch.save(
        {"0._packed": (torch.quantize_per_tensor(torch.ones(5, 3), 0.1, 0, torch.qint8), None)}
        | {"2._packed": (torch.ones(1, 5), None)},
        folder / "quantised.pt",
    )
    (folder / "empty.pt").write_bytes(b"")
    (folder / "words.pt").write_bytes(b"hello")
    for name, said in {
        "module": "no file of tensors alone",
        "harm": "no file of tensors alone",
        "harm2": "no file of tensors alone",
        "deep": "it is no two-layer network. Of others, barriers are evaluated on a grid",
        "square.safetensors": "may come first in answer.bias (3,), answer.weight (3, 3), encode.bias (3,), encode",
        "apart": "do not follow one another",
        "tensor": "it must hold what module.state_dict() gives",
        "quantised": "0._packed is quantised (torch.qint8); save its dequantize()",
        "empty": "nothing else is read: save module.state_dict()\n",
        "words": "nothing else is read: save module.state_dict()\n",
    }.items():
        file = folder / (name if "." in name else f"{name}.pt")
        result = run(folder / "a.pt", file, "--data", folder / "data.npz")
        assert result.exit_code == 2 and said in result.stderr and result.stderr.count("\n") == 1, (name, result.stderr)
        assert "weights_only" not in result.stderr  # torch would advise a setting that executes the file
    assert not touched.exists()
    assert run(folder / "a.pt").exit_code == 2
    assert run(folder / "a.pt", folder / "a.pt", folder / "a.pt", "--align", "weights").exit_code == 2


def test_shapes_in_messages_are_those_of_the_files(files):
    """A network with folded biases has one feature and one unit more than the file: messages name the file's shapes."""
    folder, _ = files
    torch.save(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).state_dict(), folder / "narrow.pt")
    np.savez(folder / "wide.npz", x=np.eye(4), y=np.ones(4))
    result = run(folder / "a.pt", folder / "narrow.pt", "--data", folder / "data.npz")
    assert result.exit_code == 2
    wanted = f"{folder / 'a.pt'} has (5, 3) and (5,); only networks of one shape"
    assert f"narrow.pt has hidden and readout weights of shapes (4, 3) and (4,), {wanted}" in result.stderr
    result = run(folder / "a.pt", folder / "c.pth", "--data", folder / "wide.npz")
    assert result.exit_code == 2 and "the inputs have shape (4, 4); the network takes (n, 3)" in result.stderr
    words = ["certify", "--any-order", "--weights", folder / "narrow.pt", "--data", folder / "wide.npz"]
    torch.save({"0.weight": torch.ones(4, 3), "0.bias": torch.ones(4), "2.weight": torch.ones(1, 4)}, words[3])
    result = command(*words)
    assert result.exit_code == 2 and "narrow.pt takes 3 features; wide.npz has 4" in result.stderr, result.output


def test_two_runs_on_as_many_classes_as_features_are_compared(tmp_path):
    """With as many features as units, the shapes do not tell which layer comes first."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=rng.normal(size=(30, 2)), y=rng.integers(0, 2, 30))
    for seed in (0, 1):
        train("fedavg", data=str(tmp_path / "two.npz"), model="mlp:4", out=tmp_path / f"{seed}", seed=seed, rounds=1)
    result = run(tmp_path / "0", tmp_path / "1", "--loss", "cross-entropy")
    assert result.exit_code == 0 and "4 hidden units, 2 features, 2 outputs, biases" in result.stdout, result.output


def test_of_several_networks_in_a_file_the_usual_one_is_read_and_named(files):
    folder, modules = files
    states = {"model": modules[1].state_dict(), "ema": modules[0].state_dict(), "epoch": 3}
    torch.save(states, folder / "both.pt")
    result = run(folder / "a.pt", folder / "both.pt", "--data", folder / "data.npz")
    assert result.exit_code == 0 and "both.pt has several networks, model, ema: model is read" in result.stderr
    other = run(folder / "a.pt", folder / "b.safetensors", "--data", folder / "data.npz")
    assert result.stdout.splitlines()[1:] == other.stdout.splitlines()[1:]


def test_a_dict_or_a_list_of_layers_is_one_network(files):
    folder, modules = files
    layers = {name: dict(modules[1][k].named_parameters()) for name, k in (("fc1", 0), ("fc2", 2))}
    wanted = run(folder / "a.pt", folder / "b.safetensors", "--data", folder / "data.npz").stdout.splitlines()[1:]
    lists = [list(layer.values()) for layer in layers.values()]
    for state in (layers, {"params": layers, "optimizer": {"m": layers}}, list(layers.values()), lists):
        torch.save(state, folder / "layers.pt")
        result = run(folder / "a.pt", folder / "layers.pt", "--data", folder / "data.npz")
        assert result.exit_code == 0 and result.stdout.splitlines()[1:] == wanted, result.output
    torch.save({"one": modules[0].state_dict(), "two": modules[1].state_dict()}, folder / "layers.pt")
    result = run(folder / "a.pt", folder / "layers.pt", "--data", folder / "data.npz")
    assert result.exit_code == 2 and "several networks: one, two; save the one that is meant" in result.stderr


def test_runs_of_an_mlp_are_exact_and_of_other_models_on_a_grid(tmp_path):
    small = {"clients": 3, "samples": 60, "test": 30, "rounds": 1, "local_steps": 2}
    for name, model, seed in (("a", "mlp:6", 0), ("b", "mlp:6", 1), ("d", "mlp:6-6", 0), ("e", "mlp:6-6", 1)):
        train("fedavg", model=model, out=tmp_path / name, seed=seed, **small)
    exact = run(tmp_path / "a", tmp_path / "b", "--loss", "cross-entropy")
    assert exact.exit_code == 0 and "6 hidden units, 64 features, 10 outputs, biases" in exact.stdout, exact.output
    grid = run(tmp_path / "d", tmp_path / "e", tmp_path / "d", "--loss", "cross-entropy", "--json", tmp_path / "o.json")
    assert grid.exit_code == 0 and "on a grid of 21 points" in grid.stdout, grid.output
    record = json.loads((tmp_path / "o.json").read_text())
    assert len(record["pairs"]) == 3 and record["pairs"][f"{tmp_path / 'd'} - {tmp_path / 'd'}"]["loss"] < 1e-12
    assert run(tmp_path / "d", tmp_path / "e", "--data", "digits").exit_code == 2


@pytest.mark.parametrize("by", ["weights", "activations", "outputs"])
def test_a_group_of_copies_with_permuted_units_has_no_barrier_when_aligned(files, by):
    folder, modules = files
    states = [modules[0].state_dict() for _ in range(3)]
    for seed, state in enumerate(states):
        order = torch.tensor(np.random.default_rng(seed).permutation(5))
        moved = {"0.weight": state["0.weight"][order], "0.bias": state["0.bias"][order]}
        save_file(
            state | moved | {"2.weight": state["2.weight"][:, order].contiguous()}, folder / f"{seed}.safetensors"
        )
    names = [folder / f"{seed}.safetensors" for seed in range(3)]
    data = ("--data", folder / "data.npz", "--align", by, "--json", folder / "o.json")
    result = run(*names, *data)
    assert result.exit_code == 0, result.output
    assert f"each aligned to the mean of the others by {by}" in result.stdout
    record = json.loads((folder / "o.json").read_text())
    assert abs(record["group loss barrier"]["value"]) > 1e-3  # the networks are not aligned
    numbers = record["aligned"]["numbers"]
    for barrier in (numbers["group loss barrier"], *(pair["loss barrier"] for pair in numbers["pairs"])):
        assert abs(barrier["value"]) <= barrier["error"]
    assert all(sorted(order) == list(range(5)) for order in record["aligned"]["permutations"])
