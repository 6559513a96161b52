"""Tests of --network: commands work on networks of any depth, and on a user's network from a file of three lines."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.command_line import app
from ntkfl import data, gram, kernel_regime, networks, simulate_network
from ntkfl.problem import Setup

MODULE = """import torch
part = torch.nn.Linear
module = torch.nn.Sequential(part(64, 9), torch.nn.Tanh(), part(9, {}))
"""


def ran(*arguments, status=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == status, result.output + result.stderr
    return result.output if status == 0 else result.stderr


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MODULE.format(1))
    return path


def column(printed, label):
    """Returns the cells of the row with this label, as numbers."""
    (row,) = re.findall(rf"^ *{re.escape(label)}(.*)$", printed, re.MULTILINE)
    return [float(part.split("±")[0]) for part in re.split(r"\s{3,}", row.strip())]


def test_rate_of_a_deep_network_is_that_of_its_kernels():
    printed = ran("rate", "--network", "fc:3:erf", "--width", 32, "--eta-local", 0.1, "--seed", 5)
    problem, setup = data.digits(n=20, seed=5, clients=4), Setup(width=32, eta_local=0.1, seed=5)
    wide = networks.wide("fc:3:erf")
    own = wide.model((64,), 32)
    matrices = [gram.deep(problem.x, activation="erf"), gram.empirical(problem.x, own, own.initial(5))]
    regimes = [kernel_regime(problem, setup, matrix) for matrix in matrices]
    assert column(printed, "spectral radius per round") == pytest.approx([regime.rate for regime in regimes], rel=1e-8)
    assert column(printed, "lambda_min(H)") == pytest.approx(
        [np.linalg.eigvalsh(matrix)[0] for matrix in matrices], rel=1e-6
    )
    assert "setting: fc:3:erf, fl-ntk" in printed
    # One line is for the limit, the other for the network's own kernel.
    assert printed.count("(certified)") == printed.count("(H in float64)") == 2


def test_rate_of_a_file_s_network_of_several_outputs(tmp_path):
    path, points = tmp_path / "two.py", tmp_path / "points.npz"
    path.write_text(MODULE.format(2))
    problem = data.digits(n=8, seed=0, clients=2)
    np.savez(points, x=problem.x, y=np.stack([problem.y, problem.y**2 / 2], 1), owner=problem.owner)
    printed = ran("rate", "--network", path, "--data", points, "--partition", "given", "--eta-local", 0.01)
    model = networks.from_file(path)
    matrix, whole = gram.empirical(problem.x, model, model.initial(0)), np.repeat(problem.owner, 2)
    largest = max(np.linalg.eigvalsh(matrix[np.ix_(whole == c, whole == c)])[-1] for c in range(2))
    assert column(printed, "eta_local limit, any eta_global <= 1") == pytest.approx([2 / largest], rel=1e-5)
    ran("simulate", "--network", path, "--data", points, "--partition", "given", "--eta-local", 0.01, "--rounds", 2)


@pytest.mark.parametrize("command", ["gram", "rate", "simulate"])
def test_commands_say_that_a_network_is_taken_in_eval_mode(command, tmp_path):
    path, parts = tmp_path / "mine.py", "part(64, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(), part(9, 1)"
    text = "import torch\npart = torch.nn.Linear\nmodule = torch.nn.Sequential({}){}\n"
    said = "the network is taken in eval mode: the statistics of '1' (BatchNorm1d) are constants, "
    path.write_text(text.format(parts, ".eval()"))
    assert f"{said}the randomness of '2' (Dropout) is off" in ran(command, "--network", path, "--n", 8)
    path.write_text(text.format(parts, ""))
    assert "call eval() on the module" in ran(command, "--network", path, "--n", 8, status=2)
    path.write_text(text.format("part(64, 1)", ".eval()"))
    assert "eval mode" not in ran(command, "--network", path, "--n", 8)


def test_simulate_prints_how_far_a_network_is_from_its_exact_runs(module):
    printed = ran("simulate", "--network", module, "--rounds", 4, "--eta-local", 0.02)
    model, problem = networks.from_file(module), data.digits(n=20, seed=0, clients=4)
    setup = Setup(eta_local=0.02, rounds=4)
    run = simulate_network(problem, setup, model)
    own = kernel_regime(problem, setup, gram.empirical(problem.x, model, model.initial(0)))
    off = np.linalg.norm(run.outputs[-1] - own.outputs(4, run.outputs[0]))
    last = [float(cell) for cell in printed.splitlines()[-1].split()]
    expected = [4, run.residual_norm[-1], run.loss[-1], run.total_movement[-1], off]
    assert last == pytest.approx(expected, rel=1e-5)
    assert "off its limit" not in printed and "off its own kernel" in printed
    assert "off its limit" in ran("simulate", "--network", "conv:2:relu", "--width", 8, "--rounds", 2)


def test_a_run_of_a_network_is_kept_and_read_back(module, tmp_path):
    from ntkfl.trajectory_file import read_npz

    out = tmp_path / "run.npz"
    ran("simulate", "--network", module, "--rounds", 3, "--eta-local", 0.02, "--out", out)
    run = simulate_network(
        data.digits(n=20, seed=0, clients=4), Setup(eta_local=0.02, rounds=3), networks.from_file(module)
    )
    np.testing.assert_array_equal(read_npz(out).outputs, run.outputs)


def test_gram_and_fastest_of_a_network(module, tmp_path):
    out = tmp_path / "h.npy"
    printed = ran("gram", "--network", "fc:4:gelu:bias=0.2", "--n", 6, "--out", out)
    x = data.digits(n=6, seed=0, clients=1).x
    np.testing.assert_array_equal(np.load(out), gram.deep(x, depth=4, activation="gelu", bias=0.2))
    assert "H_inf of fc:4:gelu:bias=0.2 on digits" in printed
    assert "H(0) of" in ran("gram", "--network", module, "--n", 6)
    two_layer, deep = (
        ran("fastest", "--network", name, "--n", 8, "--steps", 1, "--clients", 2) for name in ("two-layer", "fc:3:relu")
    )
    assert "setting: fc:3:relu, digits" in deep
    floors = [float(re.search(r"condition\s+number\s+to\s+([\d.]+)", text)[1]) for text in (two_layer, deep)]
    assert floors[0] != floors[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rate", "--network", "mlp"), "no network 'mlp'; it must be two-layer, of a form like fc:3:relu"),
        (("simulate", "--network", "mlp"), "no network 'mlp'; it must be finite, linearised, infinite, of a form"),
        (("rate", "--network", "fc:3:rely"), "Did you mean 'relu'"),
        (("rate", "--network", "fc:1:relu"), "depth is 1; it must be an integer of at least 2"),
        (("rate", "--network", "fc:3:relu:64"), "'fc:3:relu:64' names a width"),
        (("simulate", "--network", "missing.py"), "missing.py"),
        (("fastest", "--network", "fc:3:relu", "--train", "64"), "--train is for the two-layer network"),
    ],
)
def test_what_is_no_network_is_refused(arguments, message):
    assert message in " ".join(ran(*arguments, status=2).split())


ONE_FEATURE = "a,y\n1,1\n2,-1\n0.5,1\n0,0.3\n"  # All rows are parallel, and one is zero.
OWN = """import torch
module = torch.nn.Sequential(torch.nn.Linear(1, 40), torch.nn.Tanh(), torch.nn.Linear(40, 1))
"""


def test_conditions_of_the_kernel_without_biases_are_asked_of_no_other(tmp_path):
    """The conditions that the kernel without biases sets for rows are checked for no other kernel.

    On such rows kernels with biases and kernels of user networks have lambda_min > 0.
    """
    data_file, own = tmp_path / "one.csv", tmp_path / "own.py"
    data_file.write_text(ONE_FEATURE)
    own.write_text(OWN)
    x = data.load(data_file).x
    for spec, kernel in (
        ("fc:2:relu:bias=0.5", gram.deep(x, depth=2, bias=0.5)),
        ("fc:3:erf:bias=2", gram.deep(x, depth=3, activation="erf", bias=2)),
        (own, gram.empirical(x, networks.from_file(own), networks.from_file(own).initial(0))),
    ):
        least = np.linalg.eigvalsh(kernel)[0]
        assert least > 1e-6
        said = ran("gram", "--network", spec, "--data", data_file)
        assert float(re.search(r"lambda_min\s+(\S+)", said)[1]) == pytest.approx(least, rel=1e-6)
        assert "stable" in ran("rate", "--network", spec, "--data", data_file, "--eta-local", 0.01)
        assert "off its own kernel" in ran("simulate", "--network", spec, "--data", data_file, "--rounds", 2)
    for spec in ("two-layer", "fc:2:relu", "fc:3:relu", "fc:3:erf", "fc:3:gelu"):
        assert "row 3 of x is zero" in ran("gram", "--network", spec, "--data", data_file, status=2)
    data_file.write_text(ONE_FEATURE.replace("0,0.3\n", ""))
    for spec in ("two-layer", "fc:2:relu", "fc:3:relu"):
        said = ran("rate", "--network", spec, "--data", data_file, status=2)
        assert f"{data_file}, lines 2, 3 and 4: rows 0, 1 and 2 of x are parallel" in said
        assert "a network with biases tells rows of two lengths apart" in said and "--duplicates" not in said
    for spec in ("fc:3:erf", "fc:3:gelu"):
        assert "lambda_min" in ran("gram", "--network", spec, "--data", data_file)


@pytest.mark.parametrize("spec", ["two-layer", "fc:3:erf:bias=0.5"])
def test_duplicates_are_named_dropped_or_merged(tmp_path, spec):
    file = tmp_path / "twice.csv"
    lines = ["a,b,y", "1,0,1", "2,1,-1", "1,0,1", "0.5,3,-1", "2,1,-1", "1,0,1"]
    file.write_text("\n".join(lines))
    command = ("rate", "--network", spec, "--data", file, "--clients", 2)
    said = ran(*command, status=2)
    assert f"{file}, lines 2, 4 and 7; 3 and 6: rows 0, 2 and 5; 1 and 4 of x are " in said
    assert said.endswith("keep one of each set; --duplicates drop, or merge, keeps one of equal rows\n")
    result = CliRunner().invoke(app, [str(word) for word in (*command, "--duplicates", "drop")])
    assert result.exit_code == 0 and "n = 3" in result.stdout
    assert "3 of 6 rows of twice.csv" in result.stderr and "the first stays" in result.stderr
    alone = tmp_path / "once.csv"
    alone.write_text("\n".join([*lines[:3], lines[4]]))
    once = ran("rate", "--network", spec, "--data", alone, "--clients", 2)
    assert result.stdout.splitlines()[2:] == once.splitlines()[3:]  # The first line of `once` describes the file.
    assert "some residuals never vanish: lambda_min(H) is 0" in ran(*command, "--duplicates", "keep")
    file.write_text("\n".join([*lines[:-1], "1,0,0.4"]))
    said = ran(*command, "--duplicates", "drop", status=2)
    assert f"{file}, lines 2, 4 and 7: rows 0, 2 and 5 of x are the same and their labels differ" in said
    assert "n = 3" in ran(*command, "--duplicates", "merge")


def test_labels_and_outputs_that_do_not_go_together_are_said_with_what_would(tmp_path, module):
    ten = tmp_path / "ten.py"
    ten.write_text(MODULE.format(10))
    for command in ("rate", "fastest"):
        said = ran(command, "--network", ten, "--n", 8, status=2)
        assert "the network has 10 outputs, and the labels of digits" in said and "give y of 10 columns" in said
    assert "give it labels of 10 columns, one-hot" in ran("simulate", "--network", ten, "--n", 8, status=2)
    file = tmp_path / "classes.npz"
    digits = data.digits(8, target="one-hot")
    np.savez(file, x=digits.x, y=digits.y, owner=digits.owner)
    said = " ".join(ran("rate", "--network", ten, "--data", file, "--eta-local", 0.01).split())
    own = networks.from_file(ten)
    regime = kernel_regime(digits.per_output(), Setup(eta_local=0.01), gram.empirical(digits.x, own, own.initial(0)))
    assert f"contracts the residual by the factor {regime.rate:.9g}" in said
    both = ran("rate", "--network", "fc:2:erf", "--data", file, "--width", 32, "--eta-local", 0.01)
    assert "infinite width" in both and "H(0) at width 32" in both
    assert "y has shape (8, 10); the network has one output" in ran("exponents", "--data", file, status=2)
