"""The clients' weights in the server's mean when each round draws some clients without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class CohortWeights:
    """Mean and covariance of the clients' weights p_c in the server's mean; p_c is 0 in a round without client c."""

    mean: Float[np.ndarray, " N"]  # (N,)
    covariance: Float[np.ndarray, "N N"]  # (N, N); exactly 0 if every client is in every round

    @property
    def second(self) -> Float[np.ndarray, " N"]:
        """E p_c^2."""
        return np.diag(self.covariance) + self.mean**2

    @classmethod
    def of(cls, sizes: Float[np.ndarray, " N"], cohort: int, weighting: str) -> CohortWeights:
        """The moments over all choices of `cohort` clients, where all choices are equally likely.

        With the weighting "uniform" each client of a cohort of s clients has the weight p_c = 1/s. With "size" p_c is
        n_c, the client's number of samples, divided by the number of samples of the cohort.
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
        """The weights of a given cohort; their covariance is 0, since no client is drawn."""
        taking_part, together = np.zeros(len(sizes)), list(cohort)
        taking_part[together] = 1 if weighting == "uniform" else np.asarray(sizes)[together]
        return cls(taking_part / taking_part.sum(), np.zeros((len(sizes), len(sizes))))

    @classmethod
    def _by_size(cls, sizes: np.ndarray, cohort: int) -> CohortWeights:
        """The moments for weights by size.

        They are computed once for each size that clients have, from the distribution of the number of samples of the
        other clients in the cohort.
        """
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
                    continue  # only one client has this size, so there is no pair
                chance_two, rest = _law_of_the_sum(np.delete(sizes, [place, other]), cohort - 2)
                both = kinds[a] * kinds[b] / (kinds[a] + kinds[b] + rest) ** 2
                product[a, b] = product[b, a] = twice * chance_two @ both
        second = product[np.ix_(kind, kind)]
        np.fill_diagonal(second, square[kind])
        return cls(mean[kind], second - np.outer(mean[kind], mean[kind]))


def _law_of_the_sum(sizes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The probability that `count` of these numbers have the sum 0, 1, ...

    All choices of numbers are equally likely.
    """
    total = int(sizes.sum())
    # `share` is the chance with which each number is taken, independently of the others. Given how many numbers are
    # taken, all choices are equally likely.
    share = count / max(len(sizes), 1)
    ways = np.zeros((count + 1, total + 1))
    ways[0, 0] = 1.0
    for size in sizes:
        taken = share * ways[:-1, : total + 1 - size]
        ways *= 1 - share
        ways[1:, size:] += taken
    return ways[count] / ways[count].sum(), np.arange(total + 1)
