"""Tests of packages whose names are imported when first used: each name exists, and nothing slow is loaded before."""

import importlib
import re
import subprocess
import sys

import pytest

from bounds import MOVED
from ntkfl import connectivity

PACKAGES = ("ntkfl", "ntkfl.connectivity", "ntkfl.finite_width", "ntkfl.training")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_listed_name_is_that_of_its_module(package):
    module = importlib.import_module(package)
    assert len(dir(module)) > 1
    for name in dir(module):
        assert getattr(getattr(module, name), "__name__", name).rpartition(".")[2] == name


@pytest.mark.parametrize("package", PACKAGES)
def test_another_name_is_refused_as_python_does(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        importlib.import_module(package).nothing  # noqa: B018


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("bounds", "Draw", "Family"),
        ("ntkfl.conformance", "Case", "ConformanceCase"),
        ("ntkfl.conformance", "Outcome", "Agreement"),
        ("ntkfl.fastest_trained", "partings", "reversed_pairs"),
        ("ntkfl.connectivity", "sampled_connectivity_loss", "connectivity_loss, which is exact"),
    ],
)
def test_an_old_name_is_refused_by_the_new_one(package, old, new):
    module = importlib.import_module(package)
    with pytest.raises(ImportError, match=f"^{package} has no {old}; it is {new}$"):
        getattr(module, old)
    assert hasattr(module, new.partition(",")[0])


@pytest.mark.parametrize(("old", "new"), (MOVED | connectivity.MOVED).items())
def test_the_import_of_a_moved_module_says_where_it_is(old, new):
    for statement in (f"import {old}", f"from {old} import anything", "from {} import {}".format(*old.rsplit(".", 1))):
        with pytest.raises(ImportError, match=f"^there is no {re.escape(old)}; it is {re.escape(new)}$"):
            exec(statement)
    module = importlib.import_module(new.partition(",")[0])
    names = {"bounds.case, which has with_own": "with_own", "bounds.fl_ntk.initial_kernel": "AntipodalFamily"}
    assert hasattr(module, names.get(new, "__name__"))
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'bounds\.fl_ntk\.nothing'$"):
        importlib.import_module("bounds.fl_ntk.nothing")


def test_packages_load_neither_jax_nor_torch_nor_scipy():
    code = "import sys, PACKAGES; print(sorted({'jax', 'torch', 'scipy', 'sympy'} & set(sys.modules)))"
    code = code.replace("PACKAGES", ", ".join(PACKAGES))
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
