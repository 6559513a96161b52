"""The tables wine and breast_cancer that ship with scikit-learn, as unit rows with two labels."""

from functools import cache

import numpy as np

from ntkfl.data.image_draw import INPUTS, describe
from ntkfl.data.sklearn_tables import table
from ntkfl.partition import assign_owners, generator
from ntkfl.problem import Problem, require_size


def wine(n: int | None = None, seed: int = 0, clients: int = 4, partition: str = "iid") -> Problem:
    """The 178 wines of three cultivars, 13 measurements each; y = +1 for the first cultivar, -1 for the others.

    Each measurement has mean 0 and standard deviation 1 over all wines before rows are divided by their norms.
    """
    return _drawn("wine", n, seed, clients, partition)


def breast_cancer(n: int | None = None, seed: int = 0, clients: int = 4, partition: str = "iid") -> Problem:
    """The 569 tumours, 30 measurements each, scaled as those of wine; y = +1 for malignant ones, -1 for benign ones."""
    return _drawn("breast_cancer", n, seed, clients, partition)


@cache
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows, each a unit vector, and their labels; in both tables class 0 gets y = +1."""
    x, classes = table({"wine": "wine_data.csv", "breast_cancer": "breast_cancer.csv"}[name])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(classes == 0, 1.0, -1.0)
    for array in (x, y):
        array.flags.writeable = False
    return x, y


def _drawn(name: str, n: int | None, seed: int, clients: int, partition: str) -> Problem:
    x, y = _table(name)
    size = len(x) if n is None else n
    require_size("n", size)
    if size > len(x):
        raise ValueError(f"n is {size}; {name} has {len(x)} rows")
    rows = generator(seed, INPUTS).permutation(len(x))[:size]
    options = {"n": (size, 0), "seed": (seed, 0), "clients": (clients, 4), "partition": (partition, "iid")}
    owner = assign_owners(partition, y[rows], clients, seed)
    return Problem(x[rows], y[rows], owner, name=name + describe(options, always=("n", "seed")))
