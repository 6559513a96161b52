"""Neurons that must have moved alike: of one sign, and with the same activation patterns at every step so far.

A step moves neuron r by a_r times a sum over the samples it is active on. So whatever has moved a kind of neurons is
computed once for all of it, and kinds part where the patterns of their neurons do.
"""

import numpy as np
from jaxtyping import Bool, Float, Int


class NeuronKinds:
    """A partition of the neurons that only ever gets finer; at the start by their signs.

    of: the kind of each neuron, (m,). first: a neuron of each kind. counts: how many neurons each has.
    """

    def __init__(self, signs: Float[np.ndarray, " m"]) -> None:
        self._number(signs)

    def part(self, active: Bool[np.ndarray, "n m"]) -> Int[np.ndarray, " kinds"] | None:
        """Split the kinds whose neurons differ in these patterns.

        Returns, for each kind that there is then, the one it was part of; None where none was split.
        """
        if (active == active[:, self.first][:, self.of]).all():
            return None
        before = self.of
        for row in active:
            self._number(2 * self.of + row)
        return before[self.first]

    def _number(self, labels: np.ndarray) -> None:
        _, self.first, self.of, self.counts = np.unique(
            labels, return_index=True, return_inverse=True, return_counts=True
        )
