"""Tests of federated data that are loaded by name: draws, scales, labels, partitions and domains.

Data from users' files are tested too.
"""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_digits

from ntkfl.data import FASHION_MNIST_FOLDER
from ntkfl.data.user_files import read_idx
from ntkfl.partition import assign_owners
from ntkfl.problem import Problem
from ntkfl.training.datasets import catalogue, load
from ntkfl.training.datasets.loading import DOMAINS, deal
from ntkfl.training.federated_data import FederatedData

IMAGES, CLASSES = load_digits(return_X_y=True)
KNOWN = {image.tobytes() for image in IMAGES / 16}


def rows(x):
    return [row.numpy().tobytes() for row in x.flatten(1)]


def test_digits_are_all_used_once_and_scaled_to_the_unit_interval():
    data = load("digits")
    assert data.x.shape == (1438, 1, 8, 8) and data.x_test.shape == (359, 1, 8, 8)
    assert (data.classes, data.clients, data.x.dtype) == (10, 10, torch.float64)
    pixels = torch.cat([data.x, data.x_test]).flatten(1).numpy() * 16
    labels = torch.cat([data.y, data.y_test]).numpy()
    key = np.lexsort((labels, *pixels.T))
    expected = np.lexsort((CLASSES, *IMAGES.T))
    assert np.array_equal(pixels[key], IMAGES[expected]) and np.array_equal(labels[key], CLASSES[expected])


@given(n=st.integers(4, 40), more=st.integers(0, 30), test=st.integers(1, 20), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=10)
def test_draws_are_nested_and_disjoint_from_the_test_set(n, more, test, seed):
    small, large = (load("digits", clients=2, seed=seed, samples=k, test=test) for k in (n, n + more))
    assert torch.equal(small.x, large.x[:n]) and torch.equal(small.x_test, large.x_test)
    assert len(small.x_test) == test
    assert set(rows(small.x)) | set(rows(small.x_test)) <= KNOWN
    assert len(KNOWN) == len(IMAGES)  # All images differ, so that a repeated draw would be noticed.
    assert not set(rows(large.x)) & set(rows(large.x_test))


@pytest.mark.parametrize("spec", ["digits", "digits:16", "digits+domains"])
def test_no_test_set_is_none(spec):
    data = load(spec, samples=20, test=0, clients=4)
    assert data.x_test is None and data.y_test is None


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.3", "shards:2"])
def test_partitions_are_those_of_the_package(partition):
    data = load("digits", samples=200, clients=5, seed=3, partition=partition)
    assert np.array_equal(data.owner, assign_owners(partition, data.y.numpy(), 5, 3))


def test_more_than_a_hundred_classes_can_be_split(tmp_path):
    y = np.arange(600) % 200
    np.savez(tmp_path / "mine.npz", x=np.eye(600), y=np.eye(200)[y])
    data = load(str(tmp_path / "mine.npz"), clients=200, partition="shards:1", test=0)
    assert data.classes == 200 and ((data.class_counts() > 0).sum(axis=1) == 1).all()


def test_two_shards_a_client_are_few_classes():
    data = load("digits", samples=500, clients=10, partition="shards:2")
    # A client has two shards, and a shard contains at most one boundary between two classes.
    assert (data.class_counts() > 0).sum(axis=1).max() <= 4


@pytest.mark.parametrize("share", [0.7, 0.01, 1.0])
def test_clients_keep_their_share_of_what_they_have(share):
    whole, part = (load("digits", samples=100, clients=7, train_share=s) for s in (1.0, share))
    sizes = np.bincount(whole.owner)
    assert np.array_equal(np.bincount(part.owner, minlength=7), np.ceil(share * sizes))
    owner = dict(zip(rows(whole.x), whole.owner, strict=True))
    assert all(owner[row] == client for row, client in zip(rows(part.x), part.owner, strict=True))


def test_targets():
    classes, real, sign, hot = (load("digits", samples=50, target=t) for t in (None, "real", "sign", "one-hot"))
    assert classes.classes == 10 and all(data.classes is None for data in (real, sign, hot))
    assert torch.equal(real.y, classes.y.double())
    assert torch.equal(sign.y, torch.where(classes.y >= 5, 1.0, -1.0).double())
    assert hot.y.shape == (50, 10) and torch.equal(hot.y.argmax(1), classes.y) and (hot.y.sum(1) == 1).all()


def test_unit_inputs_have_norm_one_and_keep_their_direction():
    plain, unit = (load("digits", samples=30, unit=u, dtype=torch.float32) for u in (False, True))
    assert unit.x.dtype == torch.float32
    norms = unit.x.flatten(1).norm(dim=1)
    assert torch.allclose(norms, torch.ones(30), atol=1e-6)
    assert torch.allclose(unit.x * plain.x.flatten(1).norm(dim=1)[:, None, None, None], plain.x, atol=1e-6)


def test_images_are_resized_by_bilinear_interpolation():
    plain, large = (load(spec, samples=5, clients=2) for spec in ("digits", "digits:16"))
    assert large.x.shape == (5, 1, 16, 16)
    # In each direction, a pixel of the large image lies between the pixels i and i + 1 of the plain image. Its value is
    # three quarters of the nearer pixel and one quarter of the other pixel.
    inner = large.x[..., 1:-1:2, 1:-1:2]
    near = 0.75 * plain.x + 0.25 * plain.x.roll(-1, -1)
    expected = (0.75 * near + 0.25 * near.roll(-1, -2))[..., :-1, :-1]
    assert torch.allclose(inner, expected, rtol=0, atol=1e-14)


def test_domains_change_the_images_and_every_client_has_one():
    plain = load("digits", samples=80, test=20)
    data = load("digits+domains", samples=80, test=20, clients=9, seed=0)
    domain = deal(80, 0, 0)
    changes = {"plain": plain.x, "turned": torch.rot90(plain.x, 1, (2, 3)), "inverted": 1 - plain.x}
    for number, name in enumerate(DOMAINS):
        if name in changes:
            assert torch.equal(data.x[domain == number], changes[name][domain == number])
    blurred = plain.x[domain == 3]
    assert torch.allclose(data.x[domain == 3][..., 3, 4], blurred[..., 2:5, 3:6].mean((-2, -1)), atol=1e-14)
    assert np.bincount(domain).tolist() == [20, 20, 20, 20]
    assert np.array_equal(data.owner % 4, domain) and set(data.owner) == set(range(9))
    assert torch.equal(data.y, plain.y)


def test_domains_with_label_skew():
    data = load("digits+domains", samples=800, clients=8, partition="shards:1")
    assert ((data.class_counts() > 0).sum(axis=1) <= 7).all()


@pytest.mark.skipif(
    not (FASHION_MNIST_FOLDER / "train-images-idx3-ubyte.gz").is_file(),
    reason="Fashion-MNIST is not installed: apt-get install dataset-fashion-mnist",
)
def test_fashion_mnist_keeps_its_published_split():
    data = load("fashion-mnist", samples=300, test=200, dtype=torch.float32)
    assert data.x.shape == (300, 1, 28, 28) and data.x.min() == 0 and data.x.max() == 1
    for part, x, y in (("train", data.x, data.y), ("t10k", data.x_test, data.y_test)):
        images = read_idx(FASHION_MNIST_FOLDER / f"{part}-images-idx3-ubyte.gz", 3)
        labels = read_idx(FASHION_MNIST_FOLDER / f"{part}-labels-idx1-ubyte.gz", 1)
        known = {(image.tobytes(), label) for image, label in zip(images, labels, strict=True)}
        pixels = (255 * x).round().to(torch.uint8).numpy()
        assert {(image.tobytes(), label) for image, label in zip(pixels, y.numpy(), strict=True)} <= known


def write_csv(path, y, owner=None):
    generator = np.random.default_rng(0)
    lines = ["a,b,y" + (",owner" if owner is not None else "")]
    for i, label in enumerate(y):
        a, b = generator.standard_normal(2)
        lines.append(f"{a},{b},{label}" + (f",{owner[i]}" if owner is not None else ""))
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([0, 1, 2, 1, 0], 3), ([-1, 1, 1, -1, 1], 2), ([0.5, 1, 2, 1, 0], None), ([3, 1, 7, 2, 5], None)],
)
def test_labels_of_a_table_are_classes_where_they_look_so(labels, classes, tmp_path):
    data = load(write_csv(tmp_path / "mine.csv", labels), clients=2, test=0)
    assert data.classes == classes
    expected = sorted(range(classes) if classes == 3 else [0, 1]) if classes else sorted(set(map(float, labels)))
    assert sorted(set(data.y.tolist())) == expected
    real = load(write_csv(tmp_path / "mine.csv", labels), clients=2, test=0, target="real")
    assert real.classes is None and sorted(real.y.tolist()) == sorted(labels)


@pytest.mark.parametrize("labels", [[1, 2, 3, 1, 2], [0, 5, 9, 5, 0], [-1, 0, 1, 1, 0], [2, 4, 4, 4, 2]])
def test_whole_numbers_of_a_table_are_not_guessed_at(labels, tmp_path):
    """The kind of whole-number labels of a table is not guessed.

    Labels 1..C suit cross-entropy, and they also suit half squares, the loss (f - y)^2 / 2. The wrong loss must not be
    taken.
    """
    file = write_csv(tmp_path / "mine.csv", labels)
    kinds = sorted(set(labels))
    with pytest.raises(ValueError, match=rf"mine\.csv: the {len(kinds)} labels {kinds[0]}, .* say target 'classes' or"):
        load(file, clients=2, test=0)
    of_classes, real = (load(file, clients=2, test=0, target=target) for target in ("classes", "real"))
    assert of_classes.classes == len(kinds) and [kinds[k] for k in of_classes.y] == real.y.tolist()
    hot = load(file, clients=2, test=0, target="one-hot").y
    assert torch.equal(hot.argmax(1), of_classes.y) and torch.equal(hot.sum(1), torch.ones(5, dtype=hot.dtype))


def test_the_owners_of_a_table_count(tmp_path):
    file = write_csv(tmp_path / "mine.csv", [0, 1, 0, 1, 0], owner=[2, 0, 1, 2, 2])
    data = load(file, test=0)
    assert data.clients == 3 and np.bincount(data.owner).tolist() == [1, 1, 3]
    assert load(file, test=0, partition="iid", clients=5).clients == 5
    with pytest.raises(ValueError, match=r"gives its own owners, 3 clients; clients=2 needs a partition"):
        load(file, test=0, clients=2)
    with pytest.raises(ValueError, match=r"client \d owns none of the 2 training samples drawn; draw more"):
        load(file, test=0, samples=2)


@pytest.mark.parametrize("labels", [np.array([0, 1, 1, 0, 1.0]), np.array([1, -1, -1, 1, 1.0]), np.arange(5.0) / 2])
def test_a_column_of_labels_is_one_label_a_sample(tmp_path, labels):
    loaded = []
    for name, y in (("row", labels), ("column", labels[:, None])):
        np.savez(tmp_path / f"{name}.npz", x=np.eye(5), y=y, x_test=np.eye(5), y_test=y)
        loaded.append(load(str(tmp_path / f"{name}.npz"), clients=1))
        problem = Problem(np.eye(5), y, x_test=np.eye(5), y_test=y)
        assert FederatedData.from_problem(problem, classes=True).y.tolist() == (labels > 0).astype(int).tolist()
    row, column = loaded
    assert row.classes == column.classes == (None if labels.max() > 1 else 2)
    assert torch.equal(row.y, column.y) and torch.equal(row.y_test, column.y_test) and row.y.ndim == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=5, max_size=20), st.integers(0, 3))
def test_every_owner_of_a_table_keeps_a_sample(tmp_path_factory, owners, seed):
    owner = np.unique(owners, return_inverse=True)[1]
    file, count = str(tmp_path_factory.mktemp("owners") / "mine.npz"), len(owner)
    np.savez(file, x=np.arange(2.0 * count).reshape(count, 2), y=np.linspace(0, 1, count), owner=owner)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = load(file, seed=seed)
    tested = 0 if data.x_test is None else len(data.x_test)
    assert tested == min(count // 5, count - len(np.unique(owner)))
    assert any("every client keeps one" in str(line.message) for line in said) == (tested < count // 5)
    assert len(data.x) == count - tested and len(np.unique(data.owner)) == data.clients
    whole = data.x if data.x_test is None else torch.cat([data.x, data.x_test])
    assert sorted(whole[:, 0].tolist()) == list(range(0, 2 * count, 2))
    try:
        # The last fifth of the rows is held out, whichever clients own it.
        plain = load(file, seed=seed, test=count // 5)
    except ValueError as error:
        assert "owns none of" in str(error) and "test 0: none" in str(error)
        assert load(file, seed=seed, test=0).clients == data.clients  # The message suggests test=0.
    else:
        assert torch.equal(plain.x, data.x) and torch.equal(plain.x_test, data.x_test)


def test_one_hot_tables_have_classes(tmp_path):
    np.savez(
        tmp_path / "mine.npz", x=np.eye(4), y=np.eye(3)[[0, 2, 1, 0]], x_test=np.ones((1, 4)), y_test=np.eye(3)[:1]
    )
    data = load(str(tmp_path / "mine.npz"), clients=1)
    assert data.classes == 3 and sorted(data.y.tolist()) == [0, 0, 1, 2] and data.y_test.tolist() == [0]


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("digit", {}, r"there are no data named 'digit'\. Did you mean 'digits'\? Data are cifar-10, "),
        ("digits:x", {}, r"has the size 'x'; it must be a positive integer, as in 'digits:32'"),
        ("digits:0", {}, r"has the size '0'"),
        ("digits+noise", {}, r"ends in '\+noise'; only '\+domains' may follow"),
        ("digits", {"samples": 1700, "test": 98}, r"1700 training and 98 test samples are asked for; there are 1797"),
        ("digits", {"samples": 0}, r"samples is 0; it must be a positive integer"),
        ("digits", {"test": -1}, r"test is -1; it must be an integer, 0 or more"),
        ("digits", {"target": "signs"}, r"target is 'signs'; it must be 'classes', 'real', 'sign' or 'one-hot'"),
        ("digits", {"train_share": 0}, r"train_share is 0; it must lie in \(0, 1\]"),
        ("digits", {"samples": 5, "clients": 6}, r"6 clients cannot share 5 samples"),
        ("digits", {"partition": "given"}, r"partition 'given' is for a file"),
        ("digits", {"path": "here"}, r"digits come with scikit-learn and take no path; path is here"),
        ("digits+domains", {"clients": 3}, r"3 clients cannot have one of 4 domains each; at least 4"),
    ],
)
def test_what_cannot_be_loaded_is_refused(spec, options, message):
    with pytest.raises(ValueError, match=message):
        load(spec, **options)


def test_real_labels_have_no_classes_to_be_asked_for(tmp_path):
    file = write_csv(tmp_path / "mine.csv", [0.5, 1, 2, 1])
    with pytest.raises(ValueError, match=r"target 'sign' needs classes; the labels of .*mine\.csv are real numbers"):
        load(file, test=0, clients=1, target="sign")
    with pytest.raises(ValueError, match=r"is a file; path=there must be left out"):
        load(file, path="there")


def test_the_zero_input_has_no_direction(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.eye(3), y=np.arange(3.0) / 2, x_test=np.zeros((1, 3)), y_test=np.zeros(1))
    with pytest.raises(ValueError, match="zero"):
        load(str(tmp_path / "mine.npz"), clients=1, unit=True)


def test_the_names():
    assert {"digits", "fashion-mnist", "mnist-5k", "cifar-10", "cifar-100", "tiny-imagenet", "sst-2"} <= set(
        catalogue()
    )
