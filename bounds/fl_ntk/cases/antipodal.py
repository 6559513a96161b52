"""Case: p points and their mirror images, with a linear relation between the points."""

from dataclasses import dataclass

import numpy as np
from flint import arb_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family
from bounds.case import Case
from bounds.strategies import unit_data
from ntkfl.balls import ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate


@dataclass(frozen=True, eq=False)
class AntipodalFamily(Case):
    """Directions (p, d), p = d+1, and coefficients c (p,) with sum_p c_p x_p = 0, each known with its error."""

    directions: np.ndarray
    coefficients: Estimate

    @property
    def relation(self) -> Estimate:
        """|sum_p c_p x_p|, 0 where the directions are dependent in this way."""
        return (self.coefficients @ self.directions).norm()

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"antipodal pairs": len(self.directions), "d": self.directions.shape[1]}


def cramer(directions: np.ndarray) -> Estimate:
    """c_p = (-1)^p det(the other directions): the relation between d+1 vectors in d dimensions, in balls, (d+1,)."""
    with precision():
        minors: list[arb_mat] = [ball_matrix(np.delete(directions, p, axis=0)) for p in range(len(directions))]
        return enclosure([minor.det() * (-1) ** p for p, minor in enumerate(minors)])


def antipodal_pairs(seed: int) -> AntipodalFamily:
    """d+1 antipodal pairs at random on the sphere, d = 2, 3, 4; no two of the 2d+2 points have the same direction."""
    d = 2 + seed % 3
    x = np.random.default_rng([seed, 4]).normal(size=(d + 1, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return AntipodalFamily(x, cramer(x))


def _directions(d: int) -> SearchStrategy[np.ndarray]:
    """d+1 directions on a coarse grid or spread, no two the same."""
    return unit_data(n=(d + 1, d + 1), d=(d, d), distinct=True)


ANTIPODAL_PAIRS = Family(
    "antipodal pairs",
    antipodal_pairs,
    st.integers(2, 4).flatmap(_directions).map(lambda x: AntipodalFamily(x, cramer(x))),
    trials=24,
    fixed=True,
)
