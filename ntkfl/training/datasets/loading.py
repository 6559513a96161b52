"""`load` makes `FederatedData` from a name or a user's .npz or .csv file.

It reads the samples, draws some of them, scales inputs, makes labels, and splits the samples over clients.
"""

import math
import os
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ntkfl.data.image_draw import INPUTS
from ntkfl.data.user_files import SUFFIXES, is_data_file, read_arrays
from ntkfl.extensions import modules_of
from ntkfl.messages import did_you_mean, require_number, require_size
from ntkfl.partition import CLASS_LIMIT, assign_owners, generator
from ntkfl.problem import Problem
from ntkfl.training.datasets.samples import Reader, Samples
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.tree import one_a_row


def table(path: Path, target: str | None = None) -> Samples:
    """The samples of a user's file. Labels that are 0..C-1 (all present), +-1 or one-hot become classes.

    Other labels are real numbers. With the target "real" all labels stay real numbers. With any other target, whole
    numbers that are not 0..C-1 become classes too, in ascending order.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the contents are not as `ntkfl.data.load` describes; or the labels are whole numbers that may be
            classes (as 1..C) or quantities, and no target is given.
    """
    arrays: dict[str, Any] = read_arrays(path)
    try:
        problem = Problem(**arrays).one_axis()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    labels = [problem.y] if problem.y_test is None else [problem.y, problem.y_test]
    numbered = None if target == "real" else _classes(np.concatenate(labels), str(path), named=target is not None)
    classes = None
    if numbered is not None:
        labels, classes = np.split(numbered, [len(problem.y)])[: len(labels)], int(numbered.max()) + 1
    y, y_test = labels[0], labels[1] if len(labels) > 1 else None
    return Samples("rows", problem.x, y, problem.x_test, y_test, classes, problem.owner if "owner" in arrays else None)


def _classes(y: np.ndarray, name: str, named: bool) -> np.ndarray | None:
    """The labels as classes, or None if they are not classes.

    `named` says whether the user has given a target other than "real".
    """
    if y.ndim == 2:
        hot = ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()
        return y.argmax(axis=1) if hot else None
    values, places = np.unique(y, return_inverse=True)
    if np.array_equal(values, [-1, 1]):
        return (y > 0).astype(int)
    numbered = len(values) >= 2 and np.array_equal(values, np.arange(len(values)))
    if numbered and (named or len(values) <= CLASS_LIMIT):
        return y.astype(int)
    if not (2 <= len(values) < len(y) and (values == np.rint(values)).all()):
        return None
    if not named:
        few = ", ".join(f"{value:g}" for value in values[:3])
        raise ValueError(
            f"{name}: the {len(values)} labels {few}{', ...' * (len(values) > 3)} may be classes or quantities; say "
            "target 'classes' or 'real'"
        )
    return places


STREAM = 3  # stream of random numbers that decide the domain of a sample


DOMAINS = {
    "plain": lambda x: x,
    "turned": lambda x: x.rot90(1, (-2, -1)),
    "inverted": lambda x: 1 - x,
    "blurred": lambda x: functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1),
}


def deal(count: int, seed: int, part: int) -> np.ndarray:
    """A random domain for each of `count` samples; the domains have equally many samples as far as possible.

    `part` is 0 for training samples and 1 for test samples. The two have separate streams of random numbers.
    """
    return generator(seed, STREAM + part).permutation(np.arange(count) % len(DOMAINS))


def shifted(x: Tensor, domain: np.ndarray) -> Tensor:
    """Square images with pixels in [0, 1], (n, c, h, h), each turned, inverted, blurred or left as it is.

    Raises:
        ValueError: the images are not square, so that they cannot be turned.
    """
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"domains turn images by a right angle; images of {x.shape[-2]} x {x.shape[-1]} are not square"
        )
    result = torch.empty_like(x)
    for number, change in enumerate(DOMAINS.values()):
        rows = torch.as_tensor(domain == number)
        result[rows] = change(x[rows])
    return result


def owners(kind: str, y: np.ndarray, domain: np.ndarray, clients: int, seed: int) -> np.ndarray:
    """The client that owns each sample: the partition `kind` splits domain j over the clients j, j + D, j + 2 D, ...

    D is the number of domains, which are numbered from 0.

    Raises:
        ValueError: there are fewer clients than domains; and as `ntkfl.partition.assign_owners`.
    """
    if clients < len(DOMAINS):
        raise ValueError(f"{clients} clients cannot have one of {len(DOMAINS)} domains each; at least {len(DOMAINS)}")
    owner = np.empty(len(y), int)
    for number in range(len(DOMAINS)):
        rows, its = np.flatnonzero(domain == number), np.arange(number, clients, len(DOMAINS))
        # each domain has its own seed, since with the same seed clients of different domains would get similar classes
        owner[rows] = its[assign_owners(kind, y[rows], len(its), len(DOMAINS) * seed + number)]
    return owner


@cache
def catalogue() -> dict[str, Reader]:
    """The reader of every data set by its name, in alphabetical order."""
    formats = modules_of("ntkfl.training.datasets")
    readers = {name: reader for module in formats for name, reader in getattr(module, "DATA", {}).items()}
    return dict(sorted(readers.items()))


def read(spec: str, path: Path | None, target: str | None = None) -> tuple[Samples, int | None, bool]:
    """The samples of "NAME:SIZE+domains" or of a file; the size, or None; and whether the name ends in "+domains".

    `target` is as in `table`.

    Raises:
        FileNotFoundError: as the reader.
        ValueError: an unknown name (the message has the nearest one), a size that is no positive integer, a suffix
            other than "+domains", a path given together with a file, domains of data that are not images; and as the
            reader.
    """
    if is_data_file(spec):
        if path is not None:
            raise ValueError(f"{spec} is a file; path={path} must be left out")
        return table(Path(spec), target), None, False
    front, plus, suffix = spec.partition("+")
    name, colon, size = front.partition(":")
    if name not in catalogue():
        raise ValueError(
            f"there are no data named {name!r}.{did_you_mean(name, catalogue())} Data are "
            f"{', '.join(catalogue())}, or the path of a {', '.join(SUFFIXES)} file"
        )
    if plus and suffix != "domains":
        raise ValueError(f"{spec!r} ends in {plus + suffix!r}; only '+domains' may follow a name of data")
    if colon and not (size.isascii() and size.isdigit() and int(size)):
        raise ValueError(f"{spec!r} has the size {size!r}; it must be a positive integer, as in {name + ':32'!r}")
    number = int(size) if colon else None
    reader = catalogue()[name](path, number)
    if plus and reader.kind != "images":
        raise ValueError(f"{spec!r}: only images can be in several domains; these are {reader.kind}")
    return reader, number, bool(plus)


TEST, SHARE = 5, 6  # streams of random numbers: for the draw of test samples, and for the samples that a client keeps
POOLED_TEST = 5  # if no test set is published, one of POOLED_TEST samples is a test sample
CLIENTS = 10
VERY_DIFFERENT = 1000  # a larger ratio of two features' standard deviations causes a warning
Target = Literal["classes", "real", "sign", "one-hot"]


def load(
    spec: str,
    *,
    clients: int | None = None,
    partition: str | None = None,
    seed: int = 0,
    path: str | os.PathLike | None = None,
    samples: int | None = None,
    test: int | None = None,
    target: Target | None = None,
    unit: bool = False,
    train_share: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> FederatedData:
    """Federated data by name. Pixels are in [0, 1], but pixels of CIFAR and Tiny-ImageNet are in [-1, 1].

    Args:
        spec: "NAME"; "NAME:SIDE" for images resized (bilinearly) to SIDE x SIDE; "TASK:TOKENS" for sentences cut to
            TOKENS tokens; "NAME+domains" for images in four domains (a quarter of the images is plain, a quarter
            turned, a quarter inverted and a quarter blurred); or the path of a .npz or .csv file.
        clients: number of clients; default 10, or as many as the file has.
        partition: "iid", "dirichlet:ALPHA" or "shards:S" ("shards:2" for #C=2 in IMA), as
            `ntkfl.partition.assign_owners`; with domains each client has one domain, and the partition splits each
            domain over the clients of that domain. "given": the owners in the file. Default: "given" where the file has
            owners, else "iid".
        seed: the seed of draws and partition, default 0. Draws are nested: with the same seed, a draw of 50 samples
            begins with the samples of a draw of 20.
        path: the folder or file of the data, if they do not come with a package; default none.
        samples: number of training samples; default all.
        test: number of test samples; default: the whole published test set. Without a published test set the default is
            a fifth of all samples, or fewer if otherwise an owner in the file would keep no training sample.
        target: the form of the labels: "classes"; "real" numbers (the numbers of the classes, if there are classes);
            "sign" (-1 for the lower half of the classes, +1 for the upper); or "one-hot". Default: classes if there are
            any. For a file whose labels are whole numbers, but neither 0..C-1, +-1 nor one-hot, the target must be
            given.
        unit: whether every input is divided by its norm; FL-NTK supposes inputs of norm 1.
        train_share: the share of its samples that each client keeps; they are drawn at random, and at least one is
            kept. FedGuCci's code has .7; default 1.
        dtype: dtype of inputs and real labels, default float64; tokens are integers.

    Raises:
        FileNotFoundError: files or packages that are not there; the message says how to get them.
        ValueError: unknown names (with the nearest one), sizes out of range, damaged files.
    """
    read_samples, size, in_domains = read(spec, None if path is None else Path(path), target)
    owners = read_samples.owner if partition in (None, "given") else None
    rows, rows_test = _drawn(spec, read_samples, seed, samples, test, owners)
    x, y = read_samples.x[rows], read_samples.y[rows]
    if read_samples.x_test is None or read_samples.y_test is None:
        x_test, y_test = read_samples.x[rows_test], read_samples.y[rows_test]
    else:
        x_test, y_test = read_samples.x_test[rows_test], read_samples.y_test[rows_test]
    inputs = _sized(size, read_samples, [_tensor(read_samples, part, dtype) for part in (x, x_test)])
    domain = None
    if in_domains:
        dealt = [deal(len(part), seed, number) for number, part in enumerate(inputs)]
        inputs, domain = [shifted(part, of) for part, of in zip(inputs, dealt, strict=True)], dealt[0]
    if read_samples.signed:
        inputs = [2 * part - 1 for part in inputs]
    if unit:
        inputs = [_unit(spec, part) for part in inputs]
    given = None if read_samples.owner is None else (read_samples.owner[rows], int(read_samples.owner.max()) + 1)
    # one-hot, because `assign_owners` treats more than a hundred different whole numbers as real labels
    marked = y if read_samples.classes is None else np.eye(read_samples.classes, dtype=np.uint8)[y]
    owner, count = _owners(partition, marked, domain, given, clients, seed)
    kept = _kept(owner, train_share, seed)
    if read_samples.kind == "rows":
        _warn_of_table(spec, read_samples, target, inputs[0])
    labels = [_labels(spec, part, read_samples.classes, target, dtype) for part in (y, y_test)]
    data = FederatedData(
        inputs[0][kept],
        labels[0][kept],
        owner[kept],
        count,
        classes=None if labels[0].is_floating_point() else read_samples.classes,
        name=spec,
    )
    return replace(data, x_test=inputs[1], y_test=labels[1]) if len(rows_test) else data


def _warn_of_table(name: str, samples: Samples, target: Target | None, x: Tensor) -> None:
    """Warn that target "sign" merges classes of a user's file, or that its features have very different scales."""
    if target == "sign" and (samples.classes or 0) > 2:
        warnings.warn(
            f"target 'sign' makes two of the {samples.classes} classes of {name}: -1 of the lower half of them, +1 of "
            "the upper; target 'one-hot' keeps all, with a model of several outputs, such as two-layer:512",
            stacklevel=4,
        )
    spread = x.std(dim=0, correction=0)
    varying = torch.nonzero(spread).flatten()
    if len(varying) and float(ratio := spread.max() / spread[varying].min()) > VERY_DIFFERENT:
        widest, narrowest = int(spread.argmax()), int(varying[spread[varying].argmin()])
        warnings.warn(
            f"the features of {name} have very different scales: the standard deviation of feature {widest} is "
            f"{ratio:.3g} times that of feature {narrowest}, which training will hardly see; divide each column by its "
            "standard deviation (the warning begins at a ratio of 1000)",
            stacklevel=4,
        )


def _drawn(
    name: str, samples_read: Samples, seed: int, samples: int | None, test: int | None, owner: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the drawn training and test samples.

    Test samples come from the published test set. Without one, training and test samples are drawn from the same pool,
    and no sample is in both.
    """
    require_size("samples", samples, optional=True)
    require_size("test", test, least=0, optional=True)
    pool = len(samples_read.x)
    order = generator(seed, INPUTS).permutation(pool)
    if samples_read.x_test is None:
        if owner is not None and test is None and samples is None:
            return _drawn_of_owners(name, order, owner)
        test = pool // POOLED_TEST if test is None else test
        samples = pool - test if samples is None else samples
        if samples < 1 or samples + test > pool:
            raise ValueError(f"{name}: {samples} training and {test} test samples are asked for; there are {pool}")
        return order[:samples], order[pool - test :]
    for part, wanted, there in (("training", samples, pool), ("test", test, len(samples_read.x_test))):
        if wanted is not None and wanted > there:
            raise ValueError(f"{name}: {wanted} {part} samples are asked for; there are {there}")
    return order[:samples], generator(seed, TEST).permutation(len(samples_read.x_test))[:test]


def _drawn_of_owners(name: str, order: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The training samples and the test samples among the samples `order`.

    A fifth of the samples is for the test. They are the last samples of `order`, but the first sample of every owner is
    always for training. If too few samples are left by this rule, there are fewer test samples.
    """
    spare = np.ones(len(order), dtype=bool)
    spare[np.unique(owner[order], return_index=True)[1]] = False
    wanted = len(order) // POOLED_TEST
    places = np.flatnonzero(spare)[::-1][:wanted][::-1]
    if len(places) < wanted:
        warnings.warn(
            f"{name}: {len(places)} of {len(order)} samples are for the test, not {wanted}, since every client keeps "
            f"one to train on; with another partition than the file's, such as iid, {wanted} are for the test",
            stacklevel=4,
        )
    return np.delete(order, places), order[places]


def _tensor(samples: Samples, x: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The inputs as a tensor: pixels scaled to [0, 1], tokens as integers, rows of numbers unchanged."""
    if samples.kind == "tokens":
        return torch.as_tensor(x)
    return torch.as_tensor(x).to(dtype).div_(samples.peak if samples.kind == "images" else 1)


def _sized(size: int | None, samples: Samples, inputs: list[Tensor]) -> list[Tensor]:
    """Images resized to the given size; tokens without the columns that are padding in all samples."""
    if samples.kind == "tokens":
        longest = max(int((part != 0).sum(1).max()) for part in inputs if len(part))
        return [part[:, :longest] for part in inputs]
    if size is None:
        return inputs
    return [functional.interpolate(part, (size, size), mode="bilinear") for part in inputs]


def _unit(name: str, x: Tensor) -> Tensor:
    if not x.is_floating_point():
        raise ValueError(f"{name}: tokens have no norm; unit must be False")
    norms = x.flatten(1).norm(dim=1)
    if not (norms > 0).all():
        raise ValueError(f"{name}: input {int((norms == 0).nonzero()[0])} is zero and cannot be divided by its norm")
    return x / one_a_row(norms, x)


def _labels(name: str, y: np.ndarray, classes: int | None, target: Target | None, dtype: torch.dtype) -> Tensor:
    if target not in (None, "classes", "real", "sign", "one-hot"):
        raise ValueError(f"target is {target!r}; it must be 'classes', 'real', 'sign' or 'one-hot'")
    if classes is None:
        if target not in (None, "real"):
            raise ValueError(
                f"target {target!r} needs classes; the labels of {name} are real numbers: take target 'real'"
            )
        return torch.as_tensor(y).to(dtype)
    if target in (None, "classes"):
        return torch.as_tensor(y)
    changed = {"real": y, "sign": np.where(2 * y >= classes, 1, -1), "one-hot": np.eye(classes)[y]}[target]
    return torch.as_tensor(changed).to(dtype)


def _owners(
    partition: str | None,
    y: np.ndarray,
    domain: np.ndarray | None,
    given: tuple[np.ndarray, int] | None,
    clients: int | None,
    seed: int,
) -> tuple[np.ndarray, int]:
    """The client of each sample, and the number of clients. `given` has these owners and this number from the file."""
    if given is not None and partition in (None, "given"):
        owner, count = given
        if missing := sorted(set(range(count)) - set(owner.tolist())):
            raise ValueError(
                f"client {missing[0]} owns none of the {len(owner)} training samples drawn; draw more, or fewer "
                "for the test (test 0: none), take another seed, or a partition"
            )
        if clients not in (None, count):
            raise ValueError(f"the file gives its own owners, {count} clients; clients={clients} needs a partition")
        return given
    count = CLIENTS if clients is None else clients
    if domain is not None:
        return owners(partition or "iid", y, domain, count, seed), count
    return assign_owners(partition or "iid", y, count, seed), count


def _kept(owner: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The indices of the samples that clients train on, ascending: `share` of each client's samples, rounded up."""
    require_number("train_share", share, "lie in (0, 1]")
    order = generator(seed, SHARE).permutation(len(owner))
    kept = [own[: math.ceil(share * len(own))] for c in np.unique(owner) for own in [order[owner[order] == c]]]
    return np.sort(np.concatenate(kept))
