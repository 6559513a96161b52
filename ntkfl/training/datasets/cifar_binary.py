"""CIFAR-10 and CIFAR-100 in the published "binary version". The "python version" is a pickle and is never loaded."""

from functools import partial
from pathlib import Path

import numpy as np

from ntkfl.training.datasets.samples import Samples, check_labels, folder_of

SHAPE = 3, 32, 32  # the red, the green and the blue plane, each row by row
TRAINING = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
ADVICE = (
    "it must be the published binary version (cifar-10-binary.tar.gz or cifar-100-binary.tar.gz, unpacked): the "
    "'python version' (files without .bin) is a pickle, which could run any code and is never loaded"
)


def cifar(
    path: Path | None,
    size: int | None,
    name: str,
    inner: str,
    training: tuple[str, ...],
    test: str,
    classes: tuple[int, ...],
    chosen: int,
) -> Samples:
    """Images (3, 32, 32) with pixels scaled to [-1, 1].

    In the files, one or more label bytes come before the pixels of an image. `classes` has the number of classes of
    each label byte; byte number `chosen`, from 0, is used as the label.

    Raises:
        FileNotFoundError: no path is given, or a file is missing.
        ValueError: the size of a file is no multiple of the size of a record, or a label is out of range.

    Source of the scaling: FedGuCci's code, with mean .5 and standard deviation .5.
    """
    folder = folder_of(name, path, inner, (*training, test), ADVICE)
    parts = [_records(folder / file, classes, chosen) for file in training]
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Samples("images", x, y, *_records(folder / test, classes, chosen), classes=classes[chosen], signed=True)


def _records(file: Path, classes: tuple[int, ...], chosen: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a file. A record is a byte for each label and then 3072 bytes of pixels."""
    data = np.frombuffer(file.read_bytes(), np.uint8)
    length = len(classes) + int(np.prod(SHAPE))
    if not len(data) or len(data) % length:
        raise ValueError(
            f"{file} has {len(data)} bytes; it must be a positive multiple of {length}, one record's bytes"
        )
    records = data.reshape(-1, length)
    for byte, count in enumerate(classes):
        check_labels(file, records[:, byte], count)
    return records[:, len(classes) :].reshape(-1, *SHAPE), records[:, chosen].astype(int)


_HUNDRED = partial(cifar, inner="cifar-100-binary", training=("train.bin",), test="test.bin", classes=(20, 100))
DATA = {
    "cifar-10": partial(
        cifar,
        name="cifar-10",
        inner="cifar-10-batches-bin",
        training=TRAINING,
        test="test_batch.bin",
        classes=(10,),
        chosen=0,
    ),
    "cifar-100": partial(_HUNDRED, name="cifar-100", chosen=1),
    "cifar-100-coarse": partial(_HUNDRED, name="cifar-100-coarse", chosen=0),
}
