"""A Problem from a pool of images in ten classes: draw, label, centre, normalise, split."""

import operator
from dataclasses import dataclass, fields

import numpy as np

from ntkfl.messages import require_size
from ntkfl.partition import assign_owners, generator
from ntkfl.problem import Problem

CLASSES = 10
INPUTS, LABELS = 1, 2  # random streams of the seed; the partition uses stream 0

Target = str | tuple[int, int]


@dataclass(frozen=True)
class ImageDraw:
    """What to draw from a pool of images: the arguments of `ntkfl.data.digits`, which describes them.

    Raises:
        ValueError: n is not a positive integer, or test is not an integer of at least 0.
    """

    n: int = 50
    seed: int = 0
    target: Target = "sign"
    center: bool = True
    clients: int = 4
    partition: str = "iid"
    test: int = 0

    def __post_init__(self) -> None:
        require_size("n", self.n)
        require_size("test", self.test, least=0)

    def problem(self, source: str, images: np.ndarray, classes: np.ndarray) -> Problem:
        """The drawn images as rows of norm 1, so that the scale of their pixels does not matter.

        `images` is the whole pool, (N, d), of any real type; `classes` are integers 0..9.

        Raises:
            ValueError: an unknown target or partition, or fewer distinct images than needed.
        """
        pool, labels = _labelled(self.target, classes)
        mean = images.mean(axis=0) if self.center else np.zeros(images.shape[1])
        order = pool[generator(self.seed, INPUTS).permutation(len(pool))]
        drawn = _distinct(images, mean, order, self.n + self.test)
        options = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        name = source + describe(options, always=("n", "seed"))
        if len(drawn) < self.n + self.test:
            raise ValueError(
                f"{name}: n + test = {self.n + self.test} images are asked for; "
                f"{len(drawn)} distinct ones have target {self.target!r}"
            )
        x, y = images[drawn] - mean, labels[drawn]
        owner = assign_owners(self.partition, y[: self.n], self.clients, self.seed)
        x_test, y_test = (x[self.n :], y[self.n :]) if self.test else (None, None)
        return Problem(x[: self.n], y[: self.n], owner, x_test, y_test, name).unit()


def describe(options: dict[str, tuple], always: tuple[str, ...] = ()) -> str:
    """The text "(name=value, ...)" for those options (value, default) that differ from their default or are in
    `always`.
    """
    shown = {name: value for name, (value, default) in options.items() if value != default or name in always}
    return f"({', '.join(f'{name}={value!r}' for name, value in shown.items())})" if shown else ""


def _labelled(target: Target, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the images that may be drawn, and the labels of all images."""
    everything = np.arange(len(classes))
    if target == "sign":
        return everything, np.where(classes >= 5, 1.0, -1.0)
    if target == "one-hot":
        return everything, np.eye(CLASSES)[classes]
    try:
        first, second = map(int, target.split(",")) if isinstance(target, str) else map(operator.index, target)
    except (TypeError, ValueError):
        raise ValueError(
            f"target is {target!r}; it must be 'sign', 'one-hot', or a pair of classes such as (3, 8) or '3,8'"
        ) from None
    if first == second or not {first, second} <= set(range(CLASSES)):
        raise ValueError(f"target is {target!r}; a pair must name two different classes from 0 to {CLASSES - 1}")
    return np.flatnonzero((classes == first) | (classes == second)), np.where(classes == second, 1.0, -1.0)


def _distinct(images: np.ndarray, mean: np.ndarray, order: np.ndarray, count: int) -> list[int]:
    """The first `count` indices of `order` whose image differs from the mean and from the images before it."""
    seen: set[bytes] = set()
    chosen: list[int] = []
    for i in order:
        key = images[i].tobytes()
        if key not in seen and (images[i] != mean).any():
            chosen.append(int(i))
        seen.add(key)
        if len(chosen) == count:
            break
    return chosen
