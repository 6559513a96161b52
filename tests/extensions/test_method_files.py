"""Tests of a file with a method: nothing else is needed to train with it, and to keep and resume its runs.

A run is not resumed if the file has changed.
"""

import numpy as np
import pytest

from ntkfl.training import run
from ntkfl.training.checkpoint import load
from ntkfl.training.config import checked, read_toml
from ntkfl.training.methods import brought_by, build, options
from ntkfl.training.objectives import CrossEntropy

SMALL = {"data": "digits", "clients": 3, "samples": 60, "test": 30, "rounds": 2, "model": "mlp:8", "dtype": "float64"}
OPTIONS = " ".join(f"--{key} {value}" for key, value in SMALL.items())


def test_it_is_trained_with_and_goes_on_from_its_folder(ntkfl, folder):
    assert "shrunk" in ntkfl(f"train ./my_method.py {OPTIONS} --option factor=0.3 --out first")
    kept = read_toml(folder / "first" / "config.toml")
    assert kept["method"] == str(folder / "my_method.py") and kept["options"] == {"factor": 0.3}
    ntkfl("train --resume --rounds 3 --out first")
    ntkfl("train my_method.py --resume --rounds 4 --out first")
    ntkfl("train --config first/config.toml --rounds 4 --out second")
    stopped, straight = (load(folder / name / "checkpoint.safetensors").state for name in ("first", "second"))
    assert stopped.rounds == straight.rounds == 4
    for name, weights in straight.model.items():
        np.testing.assert_array_equal(stopped.model[name], weights)


def test_without_shrinking_it_is_fedavg_and_with_all_of_it_nothing_moves(folder):
    plain, same = run("fedavg", **SMALL), run("my_method.py", options={"factor": 1.0}, **SMALL)
    np.testing.assert_array_equal(same.metrics["test_loss"], plain.metrics["test_loss"])
    still = run("my_method.py", options={"factor": 0.0}, **SMALL)
    assert np.ptp(still.metrics["test_loss"]) == 0 < np.ptp(plain.metrics["test_loss"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.write_text(file.read_text() + "\n"), "has changed since the run was begun with it (its SHA"),
        (lambda file: file.unlink(), "my_method.py cannot be read: No such file or directory; name a .py file that is"),
    ],
    ids=["changed", "gone"],
)
def test_a_run_goes_on_with_the_file_that_it_was_begun_with(ntkfl, folder, change, message):
    ntkfl(f"train my_method.py {OPTIONS} --out first")
    change(folder / "my_method.py")
    assert message in ntkfl("train --resume --rounds 3 --out first", status=2)


def test_a_changed_file_is_not_executed_for_a_folders_asking(ntkfl, folder):
    ntkfl(f"train my_method.py {OPTIONS} --out first")
    (folder / "my_method.py").write_text("open('trace', 'w')\n")
    ntkfl("train --resume --rounds 3 --out first", status=2)
    assert not (folder / "trace").exists()


def test_its_options_are_checked(ntkfl, folder):
    assert options("my_method.py")["factor"].default == 0.5
    said = ntkfl(f"train my_method.py {OPTIONS} --option faktor=1", status=2)
    assert "shrunk has no option 'faktor'. Did you mean 'factor'?" in said
    assert "factor is -1; it must be 0 or more" in ntkfl(f"train my_method.py {OPTIONS} --option factor=-1", status=2)
    assert "it must be a finite number" in ntkfl(f"train my_method.py {OPTIONS} --option factor=x", status=2)


def test_its_path_is_kept_as_an_absolute_one(folder):
    assert checked({"method": "./my_method.py"}).method == str(folder / "my_method.py")
    assert brought_by("my_method.py")["file"] == "my_method.py" and brought_by("fedavg") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('NAME = "shrunk"', "", "must have NAME, the method's name; it has None"),
        ('NAME = "shrunk"', 'NAME = "fedavg"', "has the NAME 'fedavg', which another method has; choose another"),
        ("def method(", "def other(", "must have a function method(objective, *, options) -> Method; it has none"),
        ("objective: Objective", "loss: Objective", "it has method(loss: "),
        ("server=Average(1.0))", "server=Average(1.0)).name", "returned a str; it must return a Method"),
        ("from dataclasses import", "from dataclass import", "line 3, `from dataclass import dataclass`: ModuleNotFo"),
    ],
)
def test_a_bad_file_says_what_is_wrong(ntkfl, folder, old, new, message):
    file = folder / "my_method.py"
    text = file.read_text().replace(old, new).replace("NAME, objective", "'x', objective")
    file.write_text(text.replace("'x', objective", "'x', loss") if "loss" in new else text)
    assert message in " ".join(ntkfl(f"train my_method.py {OPTIONS}", status=2).split())


def test_an_unknown_name_says_that_a_file_may_be_given():
    with pytest.raises(ValueError, match=r"there is no method 'mine'.* or the path of a .py file with a NAME and"):
        build("mine", CrossEntropy())
