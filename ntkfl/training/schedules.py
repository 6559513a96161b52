"""Local learning rates as functions of the round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """The local learning rate of round `number`, from 0."""

    def __call__(self, number: int) -> float: ...


@dataclass(frozen=True)
class Exponential:
    """rate * decay^number; decay 1 is a constant rate (.99 in both code bases of the papers)."""

    rate: float
    decay: float = 1.0

    def __post_init__(self) -> None:
        if not self.rate >= 0:
            raise ValueError(f"the learning rate is {self.rate:g}; it must be 0 or more")
        if not 0 < self.decay <= 1:
            raise ValueError(f"the decay of the learning rate is {self.decay:g}; it must lie in (0, 1]")

    def __call__(self, number: int) -> float:
        return self.rate * self.decay**number
