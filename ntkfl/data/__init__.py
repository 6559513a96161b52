"""Data sets as `Problem` objects: scikit-learn's digits, wine and breast_cancer, Fashion-MNIST, a sphere, or a user's
own file.

Both image sets are centred and normalised in the same way. With center=True the mean image of the full data set (all
classes, training and test images) is subtracted, so that this map does not depend on the draw. Then every row is
divided by its norm. An image that occurs twice is drawn at most once. An image without a direction (equal to the mean,
or blank) is never drawn. The reason is that parallel or zero rows would make the smallest eigenvalue of the Gram matrix
zero. Draws are nested: the 20 samples of n = 20 are the first 20 of the 50 samples of n = 50 with the same seed.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ntkfl.data.duplicates import Duplicates, without_duplicates
from ntkfl.data.image_draw import INPUTS, LABELS, ImageDraw, Target, describe
from ntkfl.data.sklearn_tables import table
from ntkfl.data.user_files import SUFFIXES, breast_cancer, is_data_file, read_arrays, read_idx, wine
from ntkfl.gram.degeneracy import ParallelRows
from ntkfl.messages import did_you_mean, require_size
from ntkfl.partition import assign_owners, generator
from ntkfl.problem import Problem

FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts its files


def digits(
    n: int = 50,
    seed: int = 0,
    target: Target = "sign",
    center: bool = True,
    clients: int = 4,
    partition: str = "iid",
    test: int = 0,
) -> Problem:
    """The 1797 images of 8 x 8 pixels that come with scikit-learn (d = 64), as rows of norm 1.

    Args:
        n: number of training images, drawn without replacement.
        seed: the seed of the draw and of the partition; default 0.
        target: "sign": y = +1 for classes 5-9, -1 for 0-4. A pair of classes such as (3, 8) or "3,8": only images of
            these two, with y = -1 for the first and +1 for the second. "one-hot": y of shape (n, 10); default sign.
        center: whether the mean of all 1797 images is subtracted before rows are normalised.
        clients: number of clients N, default 4.
        partition: how samples are split, as in `ntkfl.partition.assign_owners`; default "iid".
        test: number of further images, disjoint from the training images, as x_test and y_test; default 0.

    Raises:
        ValueError: an unknown target or partition, sizes that are not positive, or more images than there are.

    Example:
        >>> from ntkfl.data import digits
        >>> digits(n=6, clients=2).x.shape
        (6, 64)
    """
    return ImageDraw(n, seed, target, center, clients, partition, test).problem("digits", *table("digits.csv.gz"))


def fashion_mnist(
    n: int = 50,
    seed: int = 0,
    target: Target = "sign",
    center: bool = True,
    clients: int = 4,
    partition: str = "iid",
    test: int = 0,
    path: str | os.PathLike | None = None,
) -> Problem:
    """Images of Fashion-MNIST, of 28 x 28 pixels (d = 784), as rows of norm 1.

    They are drawn from one pool of its 60,000 training and 10,000 test images.

    Args:
        n: number of training samples, drawn from 70,000 images; default 50.
        seed: the seed of the draw and the split; default 0.
        target: how labels are made, as in `digits`; default sign.
        center: as in `digits`.
        clients: number of clients N, default 4.
        partition: how samples are split, as in `digits`; default iid.
        test: test samples, default 0.
        path: folder of the four idx files, gzip-compressed or not. Default: the folder of the Debian package
            dataset-fashion-mnist.

    Raises:
        FileNotFoundError: a file is missing; the message names both ways to provide it.
        ValueError: a damaged file, or as in `digits`.
    """
    draw = ImageDraw(n, seed, target, center, clients, partition, test)
    folder = FASHION_MNIST_FOLDER if path is None else Path(path)
    parts = [idx_pair(folder, part) for part in ("train", "t10k")]
    shapes = [images.shape[1:] for images, _ in parts]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{folder}: the training images have shape {shapes[0]}, the test images {shapes[1]}")
    images, classes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return draw.problem("fashion_mnist", images.reshape(len(images), -1), classes)


def sphere(
    n: int = 8, d: int = 8, seed: int = 0, labels: str = "sign", clients: int = 2, partition: str = "iid"
) -> Problem:
    """Samples drawn uniformly from the unit sphere of R^d.

    Args:
        n: number of samples, default 8.
        d: number of features, default 8.
        seed: the seed of the draw and of the partition; default 0.
        labels: "sign": y = +-1 with equal chance; "uniform": y uniform in (-1, 1); "linear": y = x_1 / 2; default sign.
        clients: number of clients N, default 2.
        partition: how samples are split, as in `ntkfl.partition.assign_owners`; default iid.

    Raises:
        ValueError: unknown labels or partition, or sizes that are not positive.

    Example:
        >>> from ntkfl.data import sphere
        >>> sphere(n=4, d=3).owner
        array([0, 0, 1, 1])
    """
    require_size("n", n)
    require_size("d", d)
    if labels not in ("sign", "uniform", "linear"):
        raise ValueError(f"labels is {labels!r}; it must be 'sign', 'uniform' or 'linear'")
    x = generator(seed, INPUTS).standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    draw = generator(seed, LABELS)
    y = {
        "sign": draw.choice([-1.0, 1.0], size=n),
        "uniform": draw.uniform(-1, 1, size=n),
        "linear": x[:, 0] / 2,
    }[labels]
    options = {"n": (n, 8), "d": (d, 8), "seed": (seed, 0), "labels": (labels, "sign")}
    options |= {"clients": (clients, 2), "partition": (partition, "iid")}
    name = "sphere" + describe(options, always=("n", "d", "seed"))
    return Problem(x, y, assign_owners(partition, y, clients, seed), name=name)


def load(
    path: str | os.PathLike,
    unit: bool = False,
    clients: int | None = None,
    partition: str | None = None,
    seed: int = 0,
    duplicates: Duplicates = "keep",
) -> Problem:
    """Load a user's own data from a file.

    Args:
        path: a .npz file with arrays x (n, d), y (n,) or (n, C), where (n, 1) counts as (n,), and optionally owner
            (n,), x_test, y_test. Or a .csv or .csv.gz file whose first line names its columns: y, optionally owner, and
            the features. Other usual names of the columns for labels and owners are recognised, such as label and
            client. Labels may be names of classes, which become -1 and 1, or 0, 1, 2, ..., in alphabetical order;
            owners may be numbers from 0, or names. The log of `ntkfl.data.user_files`, at the level INFO, says which
            column or array was read as labels, owners or features.
        unit: divide every row by its norm.
        clients: number of clients N. Default: the number of owners in the file; if the file has none, 4, or the number
            of samples if that is smaller.
        partition: how samples are split, as in `ntkfl.partition.assign_owners`; default: "given" if the file has
            owners, otherwise "iid".
        seed: the seed of the split, default 0.
        duplicates: what to do with equal rows, after `unit`: "keep" keeps all, "drop" keeps only the first, and "merge"
            keeps the first with the mean of their labels. A warning says which rows are left out. Default: keep.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another suffix; contents that are not as described (the message has line and column, or the array);
            pickled objects, which are never loaded; rows of zeros with `unit`; equal rows with different labels with
            `duplicates` "drop".
    """
    path = Path(path)
    arrays: dict[str, Any] = read_arrays(path)
    options: dict[str, tuple[Any, Any]] = {"unit": (unit, False), "clients": (clients, None)}
    options |= {"partition": (partition, None), "seed": (seed, 0), "duplicates": (duplicates, "keep")}
    try:
        problem = Problem(**arrays, name=path.name + describe(options)).one_axis()
        owned = "owner" in arrays and partition in (None, "given")
        problem = problem if owned else replace(problem, owner=np.zeros(problem.n, int))
        problem = without_duplicates(problem.unit() if unit else problem, duplicates)
    except ParallelRows:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not owned:
        split = min(4, problem.n) if clients is None else clients
        problem = replace(problem, owner=assign_owners(partition or "iid", problem.y, split, seed))
    elif clients not in (None, problem.n_clients):
        raise ValueError(
            f"{path} gives its own owners, {problem.n_clients} clients; clients={clients} needs a partition beside it"
        )
    return problem


BUILT_IN: dict[str, Callable[..., Problem]] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "sphere": sphere,
    "wine": wine,
    "breast_cancer": breast_cancer,
}


def named(
    spec: str,
    *,
    n: int | None = None,
    seed: int = 0,
    target: Target | None = None,
    test: int | None = None,
    clients: int | None = None,
    partition: str | None = None,
    unit: bool = False,
    duplicates: Duplicates | None = None,
) -> Problem:
    """The data for a name as on the command line: a name of BUILT_IN, or the path of a .npz or .csv file.

    Args:
        spec: the name or the path.
        n: number of samples; None for the data set's default.
        seed: the seed of the draw and the split; default 0.
        target: how labels are made, as in `digits`; None: the data set's default.
        test: number of test samples; None for the data set's default.
        clients: number of clients; None: the data set's default.
        partition: how samples are split; None: the data set's default.
        unit: divide every row by its norm; the built-in data have unit rows anyway.
        duplicates: what to do with equal rows, as in `load`; None: the data set's default.

    Raises:
        FileNotFoundError: a file that does not exist.
        ValueError: an unknown name (the message has the nearest known one), or an option that these data do not have.

    Example:
        >>> from ntkfl.data import named
        >>> named("sphere", n=5).n
        5
    """
    is_file = is_data_file(spec) or Path(spec).name != spec or Path(spec).is_file()
    if spec not in BUILT_IN and not is_file:
        hint = did_you_mean(spec, BUILT_IN)
        raise ValueError(
            f"there are no data named {spec!r}.{hint} Data are {', '.join(BUILT_IN)}, or the path of a "
            f"{', '.join(SUFFIXES)} file"
        )
    loader = BUILT_IN.get(spec) or partial(load, spec, unit=unit)
    options = {"n": n, "target": target, "test": test, "clients": clients, "partition": partition}
    options |= {"duplicates": duplicates}
    options = {name: value for name, value in options.items() if value is not None}
    refused = sorted(options.keys() - inspect.signature(loader).parameters.keys())
    if refused:
        raise ValueError(f"{spec} takes no {refused[0]}; it is {options[refused[0]]!r} here and must be left out")
    return loader(seed=seed, **options)


def idx_pair(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the part "train" or "t10k" of a folder of Fashion-MNIST: images (n, h, w) and classes (n,), as bytes.

    Args:
        folder: the folder of Fashion-MNIST's files.
        part: "train" or "t10k".

    Returns: the images, shape (n, h, w), and the classes, shape (n,).

    Raises:
        FileNotFoundError, ValueError: as `fashion_mnist`.
    """
    images = read_idx(_idx_file(folder, f"{part}-images-idx3-ubyte"), 3)
    labels = read_idx(_idx_file(folder, f"{part}-labels-idx1-ubyte"), 1)
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} {part} images, {len(labels)} {part} labels; one label per image")
    if labels.max() > 9:
        raise ValueError(f"{folder}: the {part} labels contain {labels.max()}; classes are 0 to 9")
    return images, labels


def _idx_file(folder: Path, stem: str) -> Path:
    for file in (folder / f"{stem}.gz", folder / stem):
        if file.is_file():
            return file
    raise FileNotFoundError(
        f"Fashion-MNIST: there is neither {stem}.gz nor {stem} in {folder}. Install the Debian package (apt-get "
        "install dataset-fashion-mnist), or pass path=FOLDER, the folder that holds the four idx files"
    )
