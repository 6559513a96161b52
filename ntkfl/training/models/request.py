"""The request for a model: its name and sizes, the shape of its inputs, the number of its outputs."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Request:
    """A model to be built."""

    spec: str  # as the user wrote it
    argument: str  # the part after the colon, or ""
    shape: tuple[int, ...]  # shape of one input
    outputs: int | None  # C, or None for one output without an axis for it
    # dtype, device: those of the parameters
    dtype: torch.dtype
    device: torch.device | str
    seed: int  # seed of fixed random parts

    @property
    def features(self) -> int:
        """Numbers in one input."""
        return math.prod(self.shape)

    def sizes(self, default: tuple[int, ...], exactly: bool = True) -> tuple[int, ...]:
        """The positive integers of the argument, joined by "-"; `default` without an argument.

        Raises:
            ValueError: sizes that are not positive integers, or another number of sizes.
        """
        if not self.argument:
            return default
        example = f"{self.spec.partition(':')[0]}:{'-'.join(map(str, default))}"
        try:
            sizes = tuple(int(text) for text in self.argument.split("-"))
        except ValueError:
            sizes = ()
        if not sizes or min(sizes) < 1 or (exactly and len(sizes) != len(default)):
            raise ValueError(
                f"the model {self.spec!r} has the sizes {self.argument!r}; they must be positive integers, such as "
                f"{example!r}"
            )
        return sizes

    def none(self) -> None:
        """Refuse sizes, for a model that has none to choose.

        Raises:
            ValueError: there is an argument.
        """
        if self.argument:
            raise ValueError(f"the model {self.spec!r} takes no sizes; write {self.spec.partition(':')[0]!r}")

    def image(self, least: int = 1) -> tuple[int, int, int]:
        """The shape of the inputs as images (channels, height, width).

        Raises:
            ValueError: the inputs are no images, or too small.
        """
        if len(self.shape) != 3 or min(self.shape[1:]) < least:
            raise ValueError(
                f"the model {self.spec!r} takes images (channels, height, width) of at least {least} x {least} "
                f"pixels; an input of these data has the shape {self.shape}"
            )
        channels, height, width = self.shape
        return channels, height, width
