"""Losses l(f, y) with a known range and Lipschitz constant; some do not vanish at f = y."""

from dataclasses import dataclass, fields

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True)
class Loss:
    """l(f, y) = min(cap, floor + slope |f - y - shift|).

    The loss is Lipschitz in f with the constant `slope`, and has values in [min(floor, cap), cap]. With floor = shift =
    0 it vanishes at f = y; if floor >= cap or slope = 0, it does not depend on f.

    Raises:
        ValueError: a parameter that is not finite, or a negative slope, cap or floor.
    """

    slope: float = 1.0
    cap: float = 1.0
    floor: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not np.isfinite(value) or (value < 0 and field.name != "shift"):
                wanted = "finite" if field.name == "shift" else "finite and not negative"
                raise ValueError(f"{field.name} of the loss is {value}; it must be {wanted}")

    def __call__(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The loss of each output at its label, elementwise."""
        return np.minimum(self.cap, self.floor + self.slope * np.abs(outputs - labels - self.shift))

    @property
    def lowest(self) -> float:
        """The least value of the loss."""
        return min(self.floor, self.cap)

    @property
    def at_label(self) -> float:
        """l(y, y), the same for every y."""
        return min(self.cap, self.floor + self.slope * abs(self.shift))

    @property
    def constant(self) -> bool:
        """Whether the loss is constant, equal to `lowest`."""
        return self.slope == 0 or self.floor >= self.cap


def losses(*, at_label: bool = True) -> SearchStrategy[Loss]:
    """1-Lipschitz losses with values in [0, 1], of any slope, cap, floor and shift; without `at_label`, l(y, y) = 0."""
    share = st.floats(0, 1, allow_subnormal=False)
    if not at_label:
        return st.builds(Loss, slope=share, cap=share)
    return st.builds(Loss, slope=share, cap=share, floor=share, shift=st.floats(-1, 1, allow_subnormal=False))
