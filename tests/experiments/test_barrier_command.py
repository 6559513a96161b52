"""`ntkfl barrier`: the numbers of the library on the user's files, and every bad file refused in one line."""

import json

import numpy as np
import pytest
from typed import command

from ntkfl.connectivity.barrier import accuracy_barrier, connectivity_loss, loss_barrier
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.network_files import load_network, save_network
from ntkfl.data import digits
from ntkfl.training import load_run, run as train
from ntkfl.training.models.two_layer import to_network


def run(*arguments):
    return command("barrier", *arguments)


@pytest.fixture
def files(tmp_path):
    """Two networks, and a data file, in a folder."""
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
    """Files that are no networks of this shape, by name."""
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
    assert run(a).exit_code == 2  # the command takes at least two networks


@pytest.fixture
def ten(tmp_path):
    """Two networks for ten classes of digits, in a folder."""
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
    """Two runs of the same data and shape from other starts, and one of another model."""
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
        np.savez(data, x=archive["x"], y=load_network(a).outputs(archive["x"]))  # no loss at either end
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
