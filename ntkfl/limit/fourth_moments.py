"""Fourth moments of random rounds, by enumerating the choices of a round; the variance of |r|^2 needs them.

All outputs have the same draws, so G = sum_kl E z_k (x) z_k (x) z_l (x) z_l, summed over outputs, suffices: a choice
with the map M takes G to (M (x) M (x) M (x) M) G. Source: docs/proofs/random_rounds.md#the-loss-of-a-run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.draws import choices
from ntkfl.limit.mean_square import ESTIMATE
from ntkfl.memory import require

if TYPE_CHECKING:
    from ntkfl.limit.random_regime import Noise

WORK = 1e10  # most multiplications in a round


def require_few(noise: Noise, size: int) -> float:
    """The number of multiplications in a round; refuses a round with too many choices to enumerate."""
    require("the fourth moments of random rounds", lambda size: 40.0 * size**4, hint=ESTIMATE, size=size)
    count = choices(noise)
    work = 4.0 * count * size**5
    if work > WORK:
        raise ValueError(
            f"a round has {count:.3g} choices of clients and batches, and a state {size} numbers: the fourth moments "
            f"take {work:.2g} products a round, at most {WORK:.0g} are taken; {ESTIMATE}"
        )
    return work


@dataclass(frozen=True, eq=False)
class FourthMoments:
    """The moments of the states z_k of all outputs k, summed over outputs."""

    second: Float[np.ndarray, "s s"]  # sum_k E z_k z_k^T
    fourth: Float[np.ndarray, "s s s s"]  # G
    outputs: int

    @classmethod
    def start(cls, states: Float[np.ndarray, "s C"]) -> FourthMoments:
        """The moments of known states."""
        second = states @ states.T
        return cls(second, np.multiply.outer(second, second), states.shape[1])

    def after(
        self, maps: Sequence[tuple[float, Float[np.ndarray, "s s"]]], added: Float[np.ndarray, "s s"] | None
    ) -> FourthMoments:
        """The moments after a round: `maps` have probabilities, and Gaussian noise has the covariance `added`."""
        second, fourth = np.zeros_like(self.second), np.zeros_like(self.fourth)
        for chance, step in maps:
            interruption.check()
            mapped = self.fourth
            for _ in range(4):  # each time the first axis, which becomes the last
                mapped = np.tensordot(mapped, step, (0, 1))
            fourth += chance * mapped
            second += chance * step @ self.second @ step.T
        if added is not None:
            count = self.outputs
            fourth += count * (np.multiply.outer(second, added) + np.multiply.outer(added, second))
            fourth += _crossed(second, added) + _crossed(added, second)
            fourth += count**2 * np.multiply.outer(added, added) + count * _crossed(added, added)
            second = second + count * added
        return FourthMoments(second, fourth, self.outputs)

    def variance(self, n: int) -> float:
        """The variance of |r|^2, r the first n entries of a state, over all outputs."""
        square = float(np.trace(self.second[:n, :n]))
        return max(float(np.einsum("iijj->", self.fourth[:n, :n, :n, :n])) - square**2, 0.0)


def _crossed(first: Float[np.ndarray, "s s"], other: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s s s"]:
    """A_ik B_jl + A_il B_jk."""
    return np.einsum("ik,jl->ijkl", first, other) + np.einsum("il,jk->ijkl", first, other)
