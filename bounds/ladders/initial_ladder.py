"""A ladder of widths up to 2^20 at initialisation: Gram matrices and outputs, computed without a whole network."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.case import prepared
from bounds.federated_run import federated_families
from bounds.ladders.rungs import OTHER, SPACING, Rungs, WidthFamily
from bounds.options import Options
from ntkfl import Estimate, Problem, data, gram
from ntkfl.initialisation import blocks

# number of networks at each width
RUNGS = {2**8: 1024, 2**10: 512, 2**12: 128, 2**14: 64, 2**16: 32, 2**18: 12, 2**20: 6}
SEEDS = st.integers(0, 2**31)


class Start(NamedTuple):
    """One network at initialisation: H(0) - H_inf, (n, n), and f(0), (n,)."""

    deviation: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True, eq=False)
class InitialLadder(Rungs):
    """Networks over widths and seeds, measured before training."""

    problem: Problem  # data; the labels are not used
    sigma: float  # standard deviation of the weights
    # widths, counts: the widths, and the number of networks at each; no two networks share neurons
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int  # the first seed
    spacing: ClassVar[int] = 2 * SPACING
    other: ClassVar[int] = OTHER * 2 * SPACING

    @prepared
    def starts(self) -> list[list[Start]]:
        """The networks of each width."""
        return self.at_each("starts", lambda row, i: self._start(self.widths[row], self.seeds(row)[i]))

    def _start(self, width: int, seed: int) -> Start:
        x = self.problem.x
        counted, outputs = np.zeros((len(x), len(x))), np.zeros(len(x))
        for piece in blocks(width, x.shape[1], seed, self.sigma):
            counted += gram.finite(x, piece.hidden) * (len(piece.signs) / width)
            outputs += np.maximum(x @ piece.hidden.T, 0) @ piece.signs
        return Start(counted - self.infinite_gram.value, outputs / np.sqrt(width))

    @cached_property
    def infinite_gram(self) -> Estimate:
        """H_inf with its rounding bound."""
        return gram.infinite_estimate(self.problem.x)


def _ladder(options: Options, widths: tuple[int, ...], counts: tuple[int, ...], seed: int) -> InitialLadder:
    """The ladder whose first seed is `seed`, on six points or on the user's data."""
    if options.data is None:
        problem = data.sphere(6, 4, seed=seed, clients=3, labels="uniform")
    else:
        problem = federated_families(options)[0].problem(seed)
    return InitialLadder(problem, options.setup().sigma, widths, counts, seed)


def _any_ladder(options: Options) -> SearchStrategy[InitialLadder]:
    """Ladders of four widths up to 2^11 on a few random samples, sigma over six powers of ten."""
    problems = st.builds(
        lambda n, d, seed: data.sphere(n, d, seed=seed, clients=1), st.integers(2, 5), st.integers(2, 5), SEEDS
    )
    sigmas = st.floats(-3, 3).map(lambda power: 10.0**power)
    widths = st.just((2**8, 2**9, 2**10, 2**11))
    return st.builds(InitialLadder, problems, sigmas, widths, st.just((32,) * 4), SEEDS)


def initial_ladder_families(options: Options) -> tuple[WidthFamily, ...]:
    """The data of the width ladders (n=6, d=4), or the user's, at widths 2^8..2^20."""
    name = "sphere, n=6, d=4" if options.data is None else federated_families(options)[0].name
    name += ", at initialisation, widths 2^8..2^20"
    return (WidthFamily.of_rungs(name, _ladder, _any_ladder, (options,), RUNGS),)
