"""The clients' weights in the server's mean when each round draws some clients without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class CohortWeights:
    """Moments of the clients' weights p_c in the mean; p_c is 0 in a round without client c."""

    mean: Float[np.ndarray, " N"]  # (N,)
    covariance: Float[np.ndarray, "N N"]  # (N, N); exactly 0 if every client is in every round

    @property
    def second(self) -> Float[np.ndarray, " N"]:
        """E p_c^2."""
        return np.diag(self.covariance) + self.mean**2

    @classmethod
    def of(cls, sizes: Float[np.ndarray, " N"], cohort: int, weighting: str) -> CohortWeights:
        """The moments over all choices of `cohort` clients, with equal probabilities.

        The weighting "uniform" is p_c = 1/s for a cohort of s clients; "size" is p_c = n_c over the samples of the
        cohort.
        """
        sizes = np.asarray(sizes, int)
        clients = len(sizes)
        absent = clients - cohort
        if weighting == "uniform" or cohort == 1 or (sizes == sizes[0]).all():
            variance = absent / (cohort * clients**2)
            covariance = np.full((clients, clients), -variance / max(clients - 1, 1))
            np.fill_diagonal(covariance, variance)
            return cls(np.full(clients, 1 / clients), covariance)
        if absent == 0:
            return cls(sizes / sizes.sum(), np.zeros((clients, clients)))
        return cls._by_size(sizes, cohort)

    @classmethod
    def given(cls, sizes: Float[np.ndarray, " N"], cohort: Sequence[int], weighting: str) -> CohortWeights:
        """The weights of a cohort that is not drawn."""
        taking_part, together = np.zeros(len(sizes)), list(cohort)
        taking_part[together] = 1 if weighting == "uniform" else np.asarray(sizes)[together]
        return cls(taking_part / taking_part.sum(), np.zeros((len(sizes), len(sizes))))

    @classmethod
    def _by_size(cls, sizes: np.ndarray, cohort: int) -> CohortWeights:
        """The moments for weights by size, once for each size, from the distribution of the other clients' samples."""
        clients = len(sizes)
        once, twice = cohort / clients, cohort * (cohort - 1) / (clients * (clients - 1))
        kinds, kind = np.unique(sizes, return_inverse=True)
        first = [int(np.flatnonzero(kind == k)[0]) for k in range(len(kinds))]
        mean, square = np.empty(len(kinds)), np.empty(len(kinds))
        product = np.zeros((len(kinds), len(kinds)))
        for a, place in enumerate(first):
            chance, total = _law_of_the_sum(np.delete(sizes, place), cohort - 1)
            share = kinds[a] / (kinds[a] + total)
            mean[a], square[a] = once * chance @ share, once * chance @ share**2
            for b in range(a, len(kinds)):
                other = first[b] if b != a else next((int(i) for i in np.flatnonzero(kind == a)[1:]), None)
                if other is None:
                    continue  # there is only one client of this size, and so no pair
                chance_two, rest = _law_of_the_sum(np.delete(sizes, [place, other]), cohort - 2)
                both = kinds[a] * kinds[b] / (kinds[a] + kinds[b] + rest) ** 2
                product[a, b] = product[b, a] = twice * chance_two @ both
        second = product[np.ix_(kind, kind)]
        np.fill_diagonal(second, square[kind])
        return cls(mean[kind], second - np.outer(mean[kind], mean[kind]))


def _law_of_the_sum(sizes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The probability of each sum 0, 1, ... of `count` of these numbers, all choices being equally likely."""
    total = int(sizes.sum())
    share = count / max(len(sizes), 1)  # chance of a number; given how many are taken, all choices are equally likely
    ways = np.zeros((count + 1, total + 1))
    ways[0, 0] = 1.0
    for size in sizes:
        taken = share * ways[:-1, : total + 1 - size]
        ways *= 1 - share
        ways[1:, size:] += taken
    return ways[count] / ways[count].sum(), np.arange(total + 1)
