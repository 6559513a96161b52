"""Tests of the built-in data sets and their names on the command line.

The reader of idx files and the pools of images behind the data sets are tested too.
"""

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import datasets
from sklearn.datasets import load_digits

from ntkfl import data
from ntkfl.data import sklearn_tables
from ntkfl.data.sklearn_tables import HEADERS, table
from ntkfl.data.user_files import read_idx

SPLITS = ("train", "t10k")
IMAGES, CLASSES = load_digits(return_X_y=True)
CENTRED = IMAGES - IMAGES.mean(axis=0)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def which_digit(row, pool=CENTRED):
    """Returns the index, in scikit-learn's order, of the image from which a row of digits() was made."""
    products = unit(pool) @ row
    assert products.max() > 1 - 1e-12
    return int(products.argmax())


def write_idx(path, array, magic=None):
    """Writes an idx file, compressed if its name ends in .gz."""
    magic = 0x0800 | array.ndim if magic is None else magic
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    content = magic.to_bytes(4, "big") + sizes + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_pool(folder, train=12, test=8, suffix=".gz", seed=0):
    """Writes a folder of four tiny idx files, in which every class from 0 to 9 occurs twice, and returns the pool of
    images.
    """
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, size=(train + test, 3, 2))
    classes = np.arange(train + test) % 10
    for part, chosen in zip(SPLITS, (slice(None, train), slice(train, None)), strict=True):
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images[chosen])
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", classes[chosen])
    return images.reshape(train + test, -1), classes


def test_the_default_digits():
    problem = data.digits()
    assert problem.name == "digits(n=50, seed=0)"
    assert problem.x.shape == (50, 64)
    assert sorted(len(c) for c in problem.members) == [12, 12, 13, 13]
    assert problem.x_test is None
    problem.require_unit()


@given(n=st.integers(4, 40), test=st.integers(0, 20), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=15)
def test_digits_are_real_images_with_their_labels_each_drawn_once(n, test, seed):
    problem = data.digits(n=n, seed=seed, test=test)
    x, y = problem.x, problem.y
    if test:
        x, y = np.vstack([x, problem.x_test]), np.concatenate([y, problem.y_test])
    drawn = [which_digit(row) for row in x]
    assert len(set(drawn)) == n + test
    assert np.array_equal(y, np.where(CLASSES[drawn] >= 5, 1.0, -1.0))


def test_a_pair_takes_only_these_digits():
    problem = data.digits(n=40, target=(8, 3), seed=5)
    classes = CLASSES[[which_digit(row) for row in problem.x]]
    assert set(classes) == {3, 8}
    assert np.array_equal(problem.y, np.where(classes == 3, 1.0, -1.0))
    text = data.digits(n=40, target="8,3", seed=5)
    assert np.array_equal(text.x, problem.x)
    assert np.array_equal(text.y, problem.y)


def test_one_hot_labels_name_the_class():
    problem = data.digits(n=30, target="one-hot", test=3)
    classes = CLASSES[[which_digit(row) for row in problem.x]]
    assert np.array_equal(problem.y, np.eye(10)[classes])
    assert problem.y_test.shape == (3, 10)
    assert problem.name == "digits(n=30, seed=0, target='one-hot', test=3)"


def test_without_centring_the_rows_are_the_normalised_images():
    problem = data.digits(n=10, center=False)
    drawn = [which_digit(row, IMAGES) for row in problem.x]
    np.testing.assert_allclose(problem.x, unit(IMAGES[drawn]), rtol=0, atol=1e-15)
    assert drawn == [which_digit(row) for row in data.digits(n=10).x]


def test_the_centring_map_does_not_depend_on_the_draw():
    everything = data.digits(n=1797, clients=1)
    some = data.digits(n=20, target=(3, 8), clients=1, test=7)
    assert np.abs(np.vstack([some.x, some.x_test]) @ everything.x.T).max(axis=1) == pytest.approx(1, abs=1e-14)


def test_draws_are_nested_and_depend_on_the_seed():
    small, large = data.digits(n=20, seed=3), data.digits(n=50, seed=3)
    assert np.array_equal(small.x, large.x[:20])
    assert np.array_equal(data.digits(n=20, seed=3, test=5).x_test, large.x[20:25])
    assert not np.array_equal(small.x, data.digits(n=20, seed=4).x)
    assert np.array_equal(small.owner, data.digits(n=20, seed=3).owner)


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_fashion_mnist_pools_both_parts(tmp_path, suffix):
    images, classes = write_pool(tmp_path, suffix=suffix)
    problem = data.fashion_mnist(n=20, target="one-hot", clients=3, path=tmp_path)
    assert problem.name == "fashion_mnist(n=20, seed=0, target='one-hot', clients=3)"
    products = problem.x @ unit(images - images.mean(axis=0)).T
    drawn = products.argmax(axis=1)
    assert products.max(axis=1) == pytest.approx(1, abs=1e-14)
    assert sorted(drawn) == list(range(20))
    assert np.array_equal(problem.y, np.eye(10)[classes[drawn]])


def test_an_image_that_occurs_twice_or_has_no_direction_is_not_drawn(tmp_path):
    images = write_pool(tmp_path)[0].reshape(-1, 3, 2)
    images[5], images[7] = images[2], 0
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images[:12])
    problem = data.fashion_mnist(n=18, center=False, clients=1, path=tmp_path)
    assert len(np.unique(problem.x, axis=0)) == 18
    with pytest.raises(ValueError, match=r"n \+ test = 19 images are asked for; 18 distinct ones have target 'sign'"):
        data.fashion_mnist(n=18, test=1, center=False, path=tmp_path)


def test_the_installed_fashion_mnist():
    if not (data.FASHION_MNIST_FOLDER / "train-images-idx3-ubyte.gz").is_file():
        pytest.skip("the Debian package dataset-fashion-mnist is not installed")
    problem = data.fashion_mnist(n=200, seed=1, target="one-hot", test=50)
    assert problem.x.shape == (200, 784)
    assert problem.y.sum(axis=0).min() >= 5  # There are ten equal classes of 7000 images.
    gram = np.abs(problem.x @ problem.x.T) - np.eye(200)
    assert gram.max() < 1 - 1e-6
    with pytest.raises(ValueError, match="14001 images are asked for; 14000 distinct ones have target"):
        data.fashion_mnist(n=14001, target=(0, 9))


def test_absent_fashion_mnist_names_both_ways(tmp_path):
    message = r"neither train-images-idx3-ubyte\.gz nor .*apt-get install dataset-fashion-mnist\), or pass path=FOLDER"
    with pytest.raises(FileNotFoundError, match=message):
        data.fashion_mnist(path=tmp_path)
    write_pool(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"neither t10k-labels-idx1-ubyte\.gz nor t10k-labels-idx1-ubyte in "):
        data.fashion_mnist(path=tmp_path)


POOL_FAULTS = [
    ("train-labels-idx1-ubyte.gz", np.zeros(11), "12 train images, 11 train labels; one label per image"),
    ("t10k-labels-idx1-ubyte.gz", np.full(8, 10), "the t10k labels contain 10; classes are 0 to 9"),
    ("t10k-images-idx3-ubyte.gz", np.ones((8, 2, 2)), "the training images have shape (3, 2), the test images (2, 2)"),
]


@pytest.mark.parametrize(("file", "array", "message"), POOL_FAULTS, ids=[fault[2] for fault in POOL_FAULTS])
def test_files_that_do_not_belong_together_are_refused(tmp_path, file, array, message):
    write_pool(tmp_path)
    write_idx(tmp_path / file, array)
    with pytest.raises(ValueError, match=re.escape(message)):
        data.fashion_mnist(n=4, path=tmp_path)


@given(n=st.integers(1, 20), d=st.integers(1, 10), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=40)
def test_sphere_rows_are_unit_and_the_labels_as_named(n, d, seed):
    sign, uniform, linear = (data.sphere(n, d, seed, labels, clients=1) for labels in ("sign", "uniform", "linear"))
    sign.require_unit()
    assert np.array_equal(sign.x, uniform.x)
    assert np.array_equal(sign.x, linear.x)
    assert set(sign.y) <= {-1.0, 1.0}
    assert (np.abs(uniform.y) < 1).all()
    assert np.array_equal(linear.y, 0.5 * linear.x[:, 0])


def test_the_sphere_is_uniform_and_the_labels_fair():
    """The sphere is uniform, and the labels are fair coins.

    Means are within 5 standard errors of E x = 0, E x x^T = I/d (the variance of an entry is at most 2/d^2) and E y =
    0.
    """
    n, d = 20000, 5
    problem = data.sphere(n, d, seed=1)
    assert np.abs(problem.x.mean(axis=0)).max() < 5 / np.sqrt(n * d)
    assert np.abs(problem.x.T @ problem.x / n - np.eye(d) / d).max() < 5 * np.sqrt(2 / n) / d
    assert abs(problem.y.mean()) < 5 / np.sqrt(n)
    assert abs(data.sphere(n, d, labels="uniform").y.var() - 1 / 3) < 5 * np.sqrt(4 / 45 / n)


def test_the_default_sphere():
    problem = data.sphere()
    assert problem.name == "sphere(n=8, d=8, seed=0)"
    assert problem.x.shape == (8, 8)
    assert [len(c) for c in problem.members] == [4, 4]
    assert data.sphere(5, 3, labels="linear", clients=1).name == "sphere(n=5, d=3, seed=0, labels='linear', clients=1)"


def test_a_name_means_the_data_set_with_its_own_defaults(tmp_path):
    assert np.array_equal(data.named("digits").x, data.digits().x)
    assert data.named("digits", n=20, seed=2, target="3,8", clients=2, test=1).name == (
        "digits(n=20, seed=2, target='3,8', clients=2, test=1)"
    )
    assert np.array_equal(data.named("sphere", unit=True).x, data.sphere().x)
    np.savez(tmp_path / "mine.npz", x=3 * np.eye(5), y=np.arange(5.0))
    problem = data.named(str(tmp_path / "mine.npz"), unit=True, clients=2)
    assert np.array_equal(problem.x, np.eye(5))
    assert problem.n_clients == 2


BAD = [
    (lambda: data.named("digts"), "there are no data named 'digts'. Did you mean 'digits'? Data are digits, fashion-"),
    (lambda: data.named("Fashion_MNIST"), "no data named 'Fashion_MNIST'. Did you mean 'fashion-mnist'?"),
    (
        lambda: data.named("qqq"),
        "no data named 'qqq'. Data are digits, fashion-mnist, sphere, wine, breast_cancer, or the path of a .npz, .csv",
    ),
    (lambda: data.named("sphere", target="sign"), "sphere takes no target; it is 'sign' here and must be left out"),
    (lambda: data.named("a.csv", n=5), "a.csv takes no n; it is 5 here and must be left out"),
    (lambda: data.digits(n=0), "n is 0; it must be a positive integer"),
    (lambda: data.digits(n=10.0), "n is 10.0; it must be a positive integer"),
    (lambda: data.digits(test=-1), "test is -1; it must be an integer, 0 or more"),
    (lambda: data.digits(n=1800), "n + test = 1800 images are asked for; 1797 distinct ones have target 'sign'"),
    (lambda: data.digits(target="sgn"), "target is 'sgn'; it must be 'sign', 'one-hot', or a pair of classes such as"),
    (lambda: data.digits(target=(1, 2, 3)), "target is (1, 2, 3); it must be 'sign', 'one-hot', or a pair"),
    (lambda: data.digits(target=(3.5, 8)), "target is (3.5, 8); it must be 'sign', 'one-hot', or a pair"),
    (lambda: data.digits(target=(3, 3)), "target is (3, 3); a pair must name two different classes from 0 to 9"),
    (lambda: data.digits(target="3,10"), "target is '3,10'; a pair must name two different classes from 0 to 9"),
    (lambda: data.digits(clients=51), "51 clients cannot share 50 samples"),
    (lambda: data.digits(seed=-1), "seed is -1; it must be an integer, 0 or more"),
    (lambda: data.sphere(n=0), "n is 0; it must be a positive integer"),
    (lambda: data.sphere(d=0), "d is 0; it must be a positive integer"),
    (lambda: data.sphere(labels="random"), "labels is 'random'; it must be 'sign', 'uniform' or 'linear'"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(("name", "n", "d"), [("wine", 178, 13), ("breast_cancer", 569, 30)])
def test_tables_are_unit_rows_of_centred_columns_and_draws_are_nested(name, n, d):
    whole, few = data.named(name, seed=3), data.named(name, n=20, seed=3, clients=2)
    assert whole.x.shape == (n, d) and set(whole.y) == {-1.0, 1.0} and whole.unit_deviation < 1e-12
    assert np.array_equal(few.x, whole.x[:20]) and few.n_clients == 2
    with pytest.raises(ValueError, match=f"n is {n + 1}; {name} has {n} rows"):
        data.named(name, n=n + 1)


def idx_bytes(array, magic=None):
    magic = 0x0800 | array.ndim if magic is None else magic
    return b"".join(size.to_bytes(4, "big") for size in (magic, *array.shape)) + array.tobytes()


@given(array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3)), zipped=st.booleans())
@settings(deadline=None, max_examples=40)
def test_what_was_written_is_read(tmp_path_factory, array, zipped):
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if zipped else "file")
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    read = read_idx(path, array.ndim)
    assert read.dtype == np.uint8
    assert np.array_equal(read, array)


ARRAY = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
GOOD = idx_bytes(ARRAY)
FAULTS = [
    (b"", "is truncated: 0 bytes, where the idx header alone takes 16"),
    (GOOD[:10], "is truncated: 10 bytes, where the idx header alone takes 16"),
    (GOOD[:-1], "is truncated: 23 bytes of data, 24 for shape (4, 3, 2)"),
    (GOOD + b"\0\0", "has bytes left over: 26 bytes of data, 24 for shape (4, 3, 2)"),
    (
        idx_bytes(ARRAY, magic=0x0D03),
        "starts with the magic number 0x00000d03; an idx file of unsigned bytes with 3 dimensions starts with 0x0000"
        "0803",
    ),
    (idx_bytes(ARRAY.reshape(4, 6)), "starts with the magic number 0x00000802"),
    (idx_bytes(ARRAY[:, :0]), "declares the shape (4, 0, 2); every size must be at least 1"),
]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("content", "message"), FAULTS, ids=[message[:40] for _, message in FAULTS])
def test_a_damaged_file_is_refused(tmp_path, content, message, zipped):
    path = tmp_path / ("file.gz" if zipped else "file")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(ValueError, match=re.escape(f"{path} {message}")):
        read_idx(path, 3)


def test_one_dimension_is_singular(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(GOOD)
    with pytest.raises(ValueError, match="with 1 dimension starts with 0x00000801"):
        read_idx(path, 1)


BROKEN_GZIP = [GOOD, gzip.compress(GOOD)[:-9], gzip.compress(GOOD)[:12] + b"\xff" * 8 + gzip.compress(GOOD)[20:]]


@pytest.mark.parametrize("content", BROKEN_GZIP, ids=["not compressed", "cut off", "overwritten"])
def test_a_broken_gzip_stream_is_refused(tmp_path, content):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"file\.gz is not a whole gzip file: "):
        read_idx(path, 3)


def test_an_absent_file_is_no_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "file.gz", 3)


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
