"""Tests of `ntkfl barrier`: barriers between networks in files, checkpoints and folders of runs.

Bad input is refused in one line.
"""

import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import save_file
from torch import nn
from typed import command

from ntkfl.connectivity.barrier import accuracy_barrier, connectivity_loss, group_barrier, loss_barrier
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer, combination, with_constant, without_biases
from ntkfl.connectivity.network_files import load_affine_network, load_network, save_network
from ntkfl.data import digits
from ntkfl.training import load_run, run as train
from ntkfl.training.models.two_layer import to_network


def run(*arguments):
    return command("barrier", *arguments)


@pytest.fixture
def files(tmp_path):
    """Returns a folder with two networks and a data file."""
    rng = np.random.default_rng(0)
    first = TwoLayer(rng.normal(size=(6, 3)), rng.normal(size=6))
    order = rng.permutation(6)
    save_network(first, tmp_path / "a.npz")
    save_network(TwoLayer(first.hidden[order], first.readout[order]), tmp_path / "b.npz")
    x = rng.normal(size=(12, 3))
    np.savez(tmp_path / "data.npz", x=x, y=np.where(first.outputs(x) > 0.1, 1.0, -1.0))
    return tmp_path


def test_a_saved_network_is_read_back_bit_for_bit(files):
    rng = np.random.default_rng(0)
    network = load_network(files / "a.npz")
    assert np.array_equal(network.hidden, rng.normal(size=(6, 3)))
    assert np.array_equal(network.readout, rng.normal(size=6))


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
def test_the_numbers_are_those_of_the_library(files, loss):
    a, b, data = files / "a.npz", files / "b.npz", files / "data.npz"
    result = run(a, b, "--data", data, "--loss", loss, "--json", files / "out.json")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in files.iterdir()) == ["a.npz", "b.npz", "data.npz", "out.json"]
    content = json.loads((files / "out.json").read_text())
    networks = load_network(a), load_network(b)
    with np.load(data) as archive:
        arrays = {name: archive[name] for name in ("x", "y")}
    exact = loss_barrier(*networks, arrays["x"], arrays["y"], loss)
    assert content["loss barrier"]["value"] == exact.value.value
    assert content["loss barrier"]["error"] == exact.value.error
    assert content["loss barrier"]["alpha"] == exact.at
    accuracy = accuracy_barrier(*networks, arrays["x"], arrays["y"])
    assert content["accuracy barrier"]["value"] == accuracy.value.value
    grid = content["11-point grid"]
    assert grid["misses"] >= -exact.value.error and grid["value"] >= 0
    assert round(10 * grid["alpha"], 9).is_integer()
    mean = connectivity_loss(*networks, arrays["x"], arrays["y"], loss)
    assert content["connectivity loss"] == {"value": mean.value, "error": mean.error}
    value, error = float(exact.value.value), float(exact.value.error)
    value, error = (0, value + error) if value <= error else (value, error)
    assert f"loss barrier       {value:.10g} ± {error:.1e} at alpha = " in result.stdout


def test_a_named_data_set_and_unit_rows(tmp_path):
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        save_network(TwoLayer(rng.normal(size=(4, 64)), rng.normal(size=4)), tmp_path / f"{name}.npz")
    result = run(tmp_path / "a.npz", tmp_path / "b.npz", "--data", "digits", "--n", 15, "--unit")
    assert result.exit_code == 0, result.output
    assert "n = 15" in result.stdout and "4 hidden units, 64 features, 1 output" in result.stdout


def test_an_accuracy_of_zero_is_said_to_be_undefined_and_the_rest_is_printed(files):
    save_network(TwoLayer(np.zeros((6, 3)), np.ones(6)), files / "zero.npz")
    result = run(files / "a.npz", files / "zero.npz", "--data", files / "data.npz")
    assert result.exit_code == 0
    assert "undefined: the second network classifies none of the 12 samples correctly" in result.stdout
    assert "connectivity loss" in result.stdout


def bad_files(folder):
    """Writes files that hold no network of this shape, and returns them by name."""
    np.savez(folder / "lacks.npz", hidden=np.ones((6, 3)))
    np.savez(folder / "nan.npz", hidden=np.full((6, 3), np.nan), readout=np.ones(6))
    np.savez(folder / "other.npz", hidden=np.ones((5, 3)), readout=np.ones(5))
    np.savez(folder / "text.npz", hidden=np.array([["x"]]), readout=np.ones(1))
    np.savez(folder / "pickle.npz", hidden=np.array([{}], dtype=object), readout=np.ones(1))
    (folder / "plain.npz").write_text("hidden\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.npz", "there is no such file"),
        ("lacks.npz", "has no array 'readout'; a network needs hidden and readout, found: hidden"),
        ("nan.npz", "hidden[0, 0] is nan; every entry must be finite"),
        ("other.npz", "only networks of one shape lie on a segment"),
        ("text.npz", "array 'hidden' of"),
        ("pickle.npz", "holds pickled Python objects; loading those could run any code, so they are refused"),
        ("plain.npz", "is not a .npz archive"),
    ],
)
def test_a_bad_network_is_refused_in_one_line(files, name, message):
    bad_files(files)
    result = run(files / "a.npz", files / name, "--data", files / "data.npz", "--json", files / "out.json")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") and message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (files / "out.json").exists()


def test_other_bad_input(files):
    a, b = files / "a.npz", files / "b.npz"
    for arguments, message in (
        (("--data", files / "data.npz", "--loss", "cross-entropy"), "needs two outputs or more; use logistic"),
        (("--data", "digits"), "the inputs have shape (20, 64); the network takes (n, 3)"),
        (("--data", "digits", "--n", "0"), "n is 0; it must be a positive integer"),
        (("--data", files / "data.npz", "--json", a), "is what is read"),
    ):
        result = run(a, b, *arguments)
        assert result.exit_code == 2 and message in result.stderr, result.output
    assert run(a).exit_code == 2  # The command takes at least two networks.


@pytest.fixture
def ten(tmp_path):
    """Returns a folder with two networks for ten classes of digits."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        save_network(TwoLayer(rng.normal(size=(5, 64)), rng.normal(size=(10, 5))), tmp_path / f"{name}.npz")
    return tmp_path


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_networks_with_ten_outputs_get_the_ten_classes_of_the_digits(ten, loss):
    result = run(ten / "a.npz", ten / "b.npz", "--loss", loss, "--n", 30, "--json", ten / "out.json")
    assert result.exit_code == 0, result.output
    problem = digits(30, target="one-hot")
    networks = load_network(ten / "a.npz"), load_network(ten / "b.npz")
    classes = problem.y.argmax(axis=1)
    content = json.loads((ten / "out.json").read_text())
    exact = loss_barrier(*networks, problem.x, classes if loss == "cross-entropy" else problem.y, loss)
    assert content["loss barrier"]["value"] == exact.value.value
    assert content["accuracy barrier"]["value"] == accuracy_barrier(*networks, problem.x, classes).value.value


def test_losses_and_data_that_several_outputs_cannot_use_are_refused_with_a_way_out(ten):
    np.savez(ten / "classes.npz", x=np.eye(64)[:12], y=np.arange(12.0) % 10)
    for arguments, message in (
        (("--loss", "logistic"), "use --loss cross-entropy, or squared for the one-hot labels"),
        (("--data", "sphere"), "sphere has labels ±1 only: give a .npz file"),
        (("--data", ten / "classes.npz"), "for class labels use cross-entropy"),
    ):
        result = run(ten / "a.npz", ten / "b.npz", *arguments)
        assert result.exit_code == 2 and message in result.stderr, result.output


def test_one_row_of_data_and_noise_is_printed_as_zero(files):
    np.savez(files / "row.npz", x=np.ones((1, 3)), y=np.ones(1))
    result = run(files / "a.npz", files / "a.npz", "--data", files / "row.npz")
    assert result.exit_code == 0, result.output
    assert "; row.npz, n = 1;" in result.stdout
    assert "loss barrier       0 ± " in result.stdout and ", 1 piece\n" in result.stdout
    assert "misses 0\n" in result.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns a folder with two runs of the same data and shape from different initial models, and one run of another
    model.
    """
    folder = tmp_path_factory.mktemp("runs")
    small = {"clients": 3, "samples": 60, "test": 30, "rounds": 1, "local_steps": 2}
    models = (("a", "two-layer:6", "fedavg"), ("b", "two-layer:6", "local"), ("deep", "mlp:6-6", None))
    for name, model, method in models:
        train(method, model=model, out=folder / name, **small)
    return folder


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_runs_are_compared_on_their_own_test_samples(runs, loss):
    result = run(runs / "a", runs / "b", "--loss", loss, "--json", runs / "out.json")
    assert result.exit_code == 0, result.output
    content = json.loads((runs / "out.json").read_text())
    pair = load_run(runs / "a"), load_run(runs / "b")
    data = pair[0].federation.data
    x, y = data.x_test.flatten(1).double().numpy(), data.y_test.numpy()
    labels = y if loss == "cross-entropy" else np.eye(10)[y]
    exact = loss_barrier(*(to_network(run.params) for run in pair), x, labels, loss)
    assert content["samples"] == len(x) == 30 and content["data"] == f"digits, test samples of {runs / 'a'}"
    assert content["loss barrier"]["value"] == exact.value.value
    few = run(runs / "a", runs / "b", "--n", 7)
    assert few.exit_code == 0 and "n = 7;" in few.stdout


def test_a_run_and_a_file_on_named_data(runs, tmp_path):
    save_network(to_network(load_run(runs / "a").params), tmp_path / "a.npz")
    alike = run(runs / "a", tmp_path / "a.npz", "--data", "digits")
    assert alike.exit_code == 0 and "digits" in alike.stdout and "loss barrier       0 ±" in alike.stdout


@pytest.mark.parametrize(
    ("first", "more", "said"),
    [
        ("deep", (), "deep is no run of a two-layer ReLU network, as the others are"),
        ("a", ("--unit",), "--unit is for --data"),
        ("a", ("--n", 31), "n is 31; the run in "),
        (".", (), "there is no run in "),
    ],
)
def test_runs_that_cannot_be_compared(runs, first, more, said):
    result = run(runs / first, runs / "b", *more)
    assert result.exit_code == 2 and said in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("by", ["weights", "activations", "outputs"])
def test_aligned_copies_have_no_barrier(files, by):
    a, b, data = files / "a.npz", files / "b.npz", files / "fitted.npz"
    with np.load(files / "data.npz") as archive:
        # The labels are the network's own outputs, so the loss is 0 at both ends.
        np.savez(data, x=archive["x"], y=load_network(a).outputs(archive["x"]))
    result = run(a, b, "--data", data, "--align", by, "--json", files / "out.json")
    assert result.exit_code == 0, result.output
    content = json.loads((files / "out.json").read_text())
    after = content["aligned"]
    assert content["loss barrier"]["value"] > 1e-3 > after["cost after"]
    assert after["numbers"]["loss barrier"]["value"] <= after["numbers"]["loss barrier"]["error"]
    first, second = load_network(a), load_network(b)
    np.testing.assert_array_equal(second.hidden[after["permutation"]], first.hidden)
    assert f"B aligned to A by {by}: squared distance " in result.stdout
    assert result.stdout.count("  loss barrier") == 2


def test_an_unknown_way_to_align_is_refused(files):
    result = run(files / "a.npz", files / "b.npz", "--data", files / "data.npz", "--align", "colour")
    assert result.exit_code == 2 and "colour" in result.stderr


def module(seed, outputs=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, outputs)).double()


class Named(nn.Module):
    """A network of two layers whose names differ from the usual ones."""

    def __init__(self, of):
        super().__init__()
        self.encode, self.answer = of[0], of[2]


@pytest.fixture
def checkpoints(tmp_path):
    """Writes three networks with biases, one in each known format, and data."""
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
    """Returns the mean squared loss of torch's own modules at weights between two networks, on a fine grid."""
    states, inputs = (first.state_dict(), second.state_dict()), torch.tensor(x)

    def loss(alpha):
        middle = {name: alpha * states[0][name] + (1 - alpha) * states[1][name] for name in states[0]}
        return ((torch.func.functional_call(first, middle, inputs)[:, 0] - torch.tensor(y)) ** 2).mean()

    with torch.no_grad():
        return torch.func.vmap(loss)(torch.linspace(0, 1, points, dtype=torch.float64)).numpy()


def test_the_barrier_of_torch_networks_with_biases_is_that_of_their_own_outputs(checkpoints):
    folder, modules = checkpoints
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


def test_many_networks_have_a_group_barrier_and_one_for_every_pair(checkpoints):
    folder, _ = checkpoints
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


def test_units_of_networks_with_biases_are_aligned_and_the_added_one_stays(checkpoints):
    folder, modules = checkpoints
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
def test_what_is_no_state_of_two_linear_layers_is_refused_and_nothing_is_unpickled(checkpoints, tmp_path):
    folder, modules = checkpoints
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
        "deep": "it is no two-layer network. Barriers of other networks are evaluated on a grid",
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
        # torch advises a setting that would execute the file. The refusal does not repeat this advice.
        assert "weights_only" not in result.stderr
    assert not touched.exists()
    assert run(folder / "a.pt").exit_code == 2
    assert run(folder / "a.pt", folder / "a.pt", folder / "a.pt", "--align", "weights").exit_code == 2


def test_shapes_in_messages_are_those_of_the_files(checkpoints):
    """Messages name the shapes of the files.

    Internally a network with folded biases has one feature and one unit more than its file.
    """
    folder, _ = checkpoints
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
    """Two runs can be compared although, with as many features as classes, shapes do not tell which layer
    comes first.
    """
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=rng.normal(size=(30, 2)), y=rng.integers(0, 2, 30))
    for seed in (0, 1):
        train("fedavg", data=str(tmp_path / "two.npz"), model="mlp:4", out=tmp_path / f"{seed}", seed=seed, rounds=1)
    result = run(tmp_path / "0", tmp_path / "1", "--loss", "cross-entropy")
    assert result.exit_code == 0 and "4 hidden units, 2 features, 2 outputs, biases" in result.stdout, result.output


def test_of_several_networks_in_a_file_the_usual_one_is_read_and_named(checkpoints):
    folder, modules = checkpoints
    states = {"model": modules[1].state_dict(), "ema": modules[0].state_dict(), "epoch": 3}
    torch.save(states, folder / "both.pt")
    result = run(folder / "a.pt", folder / "both.pt", "--data", folder / "data.npz")
    assert result.exit_code == 0 and "both.pt has several networks, model, ema: model is read" in result.stderr
    other = run(folder / "a.pt", folder / "b.safetensors", "--data", folder / "data.npz")
    assert result.stdout.splitlines()[1:] == other.stdout.splitlines()[1:]


def test_a_dict_or_a_list_of_layers_is_one_network(checkpoints):
    folder, modules = checkpoints
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
def test_a_group_of_copies_with_permuted_units_has_no_barrier_when_aligned(checkpoints, by):
    folder, modules = checkpoints
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
    assert abs(record["group loss barrier"]["value"]) > 1e-3  # The networks are not aligned, so they have a barrier.
    numbers = record["aligned"]["numbers"]
    for barrier in (numbers["group loss barrier"], *(pair["loss barrier"] for pair in numbers["pairs"])):
        assert abs(barrier["value"]) <= barrier["error"]
    assert all(sorted(order) == list(range(5)) for order in record["aligned"]["permutations"])
