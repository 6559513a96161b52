"""The tables are scikit-learn's own, bit for bit, and are read without importing it."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn import datasets

from ntkfl.data import sklearn_tables
from ntkfl.data.sklearn_tables import HEADERS, table

LOADERS = {
    "digits.csv.gz": datasets.load_digits,
    "wine_data.csv": datasets.load_wine,
    "breast_cancer.csv": datasets.load_breast_cancer,
}


@pytest.mark.parametrize("file", HEADERS)
def test_a_table_is_what_scikit_learn_loads(file):
    for ours, theirs in zip(table(file), LOADERS[file](return_X_y=True), strict=True):
        assert np.array_equal(ours, theirs) and ours.dtype == theirs.dtype
        with pytest.raises(ValueError, match="read-only"):
            ours[:] = 0


def test_the_rate_of_digits_waits_for_no_package_that_it_does_not_use():
    code = """
import sys
from experiments.command_line import app
try: app(["rate"])
except SystemExit as end: assert not end.code
sys.exit(", ".join({"sklearn", "pandas", "jax", "torch", "sympy", "scipy.optimize"} & sys.modules.keys()) or None)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "stable" in done.stdout, done.stderr


def test_a_missing_table_says_what_brings_it(monkeypatch):
    monkeypatch.setattr(sklearn_tables, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"scikit-learn has no wine_data.csv here; pip install"):
        table.__wrapped__("wine_data.csv")
