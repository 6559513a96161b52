"""Tests of a file with a model: nothing else is needed to train it, and to keep and resume its runs.

A run is not resumed if the file has changed.
"""

import numpy as np
import pytest

from ntkfl.training import run
from ntkfl.training.checkpoint import load
from ntkfl.training.config import checked, read_toml

OPTIONS = "--data digits --clients 3 --samples 60 --test 30 --rounds 2 --dtype float64"


def test_it_is_trained_and_goes_on_from_its_folder(ntkfl, folder):
    ntkfl(f"train fedavg {OPTIONS} --model ./my_model.py:5 --out first")
    assert read_toml(folder / "first" / "config.toml")["model"] == str(folder / "my_model.py") + ":5"
    ntkfl("train --resume --rounds 4 --out first")
    ntkfl("train --config first/config.toml --rounds 4 --out second")
    stopped, straight = (load(folder / name / "checkpoint.safetensors").state for name in ("first", "second"))
    assert stopped.rounds == straight.rounds == 4 and stopped.model["body.1.weight"].shape == (5, 64)
    for name, weights in straight.model.items():
        np.testing.assert_array_equal(stopped.model[name], weights)


def test_its_network_is_the_one_that_the_file_describes(folder):
    small = {"data": "digits", "clients": 3, "samples": 60, "test": 30, "rounds": 0, "dtype": "float64"}
    done = run("fedavg", model="my_model.py", **small)
    weights, x = {name: np.asarray(value) for name, value in done.state.model.items()}, done.federation.data.x
    hidden = np.sin(x.flatten(1).numpy() @ weights["body.1.weight"].T + weights["body.1.bias"])
    expected = hidden @ weights["head.weight"].T + weights["head.bias"]
    np.testing.assert_allclose(done.federation.model.outputs(done.state.model, x), expected, rtol=0, atol=1e-12)


def test_a_run_goes_on_with_the_file_that_it_was_begun_with(ntkfl, folder):
    ntkfl(f"train fedavg {OPTIONS} --model my_model.py --out first")
    (folder / "my_model.py").write_text("open('trace', 'w')\n")
    said = ntkfl("train --resume --rounds 3 --out first", status=2)
    assert "my_model.py has changed since the run was begun with it" in said and "with the model it was begun" in said
    assert not (folder / "trace").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('MODELS = {"sines": sines}', "", "must have MODELS, a dict of one name and its builder; it has None"),
        ('MODELS = {"sines": sines}', "MODELS = {}", "must have MODELS, a dict of one name and its builder; it has {}"),
        ("import torch\n", "import torsh\n", "line 3, `import torsh`: ModuleNotFoundError"),
        ("request.sizes((8,))", "request.sizes((8, 8))", "has the sizes '5'; they must be positive integers, such as"),
    ],
)
def test_a_bad_file_says_what_is_wrong(ntkfl, folder, old, new, message):
    file = folder / "my_model.py"
    file.write_text(file.read_text().replace(old, new))
    assert message in " ".join(ntkfl(f"train fedavg {OPTIONS} --model my_model.py:5", status=2).split())


def test_names_and_paths_are_told_apart(ntkfl, folder):
    assert checked({"model": "mlp:8"}).model == "mlp:8"
    said = " ".join(ntkfl(f"train fedavg {OPTIONS} --model mlpp", status=2).split())
    assert "there is no model 'mlpp'. Did you mean 'mlp'?" in said and "or the path of a .py file with MODELS" in said
    assert "none.py cannot be read: No such file" in ntkfl(f"train fedavg {OPTIONS} --model none.py", status=2)
