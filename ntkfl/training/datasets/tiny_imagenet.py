"""Tiny-ImageNet in its published folders: images of 64 x 64 pixels in 200 classes, read only when they are used."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ntkfl.training.datasets.samples import OnDemand, Samples, folder_of

SIDE = 64
ADVICE = (
    "it must be the unpacked tiny-imagenet-200, with train/ID/images/*.JPEG, val/images and val/val_annotations.txt"
)


def tiny_imagenet(path: Path | None, size: int | None) -> Samples:
    """100,000 training images and, as the test set, the 10,000 validation images.

    Validation images are taken because their labels are published.

    Classes are numbered in the alphabetical order of their ids (n01443537, ...). Pixels are scaled to [-1, 1].

    Raises:
        FileNotFoundError: no path is given, or a part of the folder is missing.
        ValueError: no images, an annotation that names no image or class, a damaged image, an image of another size.
    """
    parts = ("train", "val/images", "val/val_annotations.txt")
    folder = folder_of("tiny-imagenet", path, "tiny-imagenet-200", parts, ADVICE)
    ids = sorted(entry.name for entry in (folder / "train").iterdir() if entry.is_dir())
    number = {name: at for at, name in enumerate(ids)}
    training = [(file, at) for name, at in number.items() for file in sorted((folder / "train" / name).rglob("*.JPEG"))]
    if not training:
        raise ValueError(f"tiny-imagenet: {folder / 'train'} has no file ID/images/*.JPEG; {ADVICE}")
    test = list(_annotated(folder, number))
    files, y = zip(*training, strict=True)
    files_test, y_test = zip(*test, strict=True)
    x, x_test = (_images(chosen) for chosen in (files, files_test))
    return Samples("images", x, np.array(y), x_test, np.array(y_test), classes=len(ids), signed=True)


def _images(files: Sequence[Path]) -> OnDemand:
    """Images as bytes (k, 3, 64, 64), read from their files on demand. Grey images become colour images."""
    return OnDemand(len(files), (3, SIDE, SIDE), np.uint8, lambda number: _image(files[number]))


def _annotated(folder: Path, number: dict[str, int]) -> list[tuple[Path, int]]:
    """The validation images and their classes.

    A line of the file has the image's name, its class id and a box, separated by tabs.
    """
    file = folder / "val" / "val_annotations.txt"
    annotated = []
    for line, text in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        name, _, rest = text.partition("\t")
        identity = rest.partition("\t")[0]
        if identity not in number:
            raise ValueError(f"{file}, line {line}: the class {identity!r} is no folder of {folder / 'train'}")
        image = folder / "val" / "images" / name
        if not image.is_file():
            raise ValueError(f"{file}, line {line}: there is no image {image}")
        annotated.append((image, number[identity]))
    if not annotated:
        raise ValueError(f"{file} is empty; a line names a validation image and its class")
    return annotated


def _image(file: Path) -> np.ndarray:
    from PIL import Image  # imported here, since only this format needs it

    try:
        with Image.open(file) as image:
            if image.size == (SIDE, SIDE):  # checked before decoding, so that a huge image is never decoded
                return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
            size = image.size
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{file} is not a whole image: {error}") from error
    raise ValueError(f"{file} has {size[0]} x {size[1]} pixels; an image of Tiny-ImageNet has {SIDE} x {SIDE}")


DATA = {"tiny-imagenet": tiny_imagenet}
