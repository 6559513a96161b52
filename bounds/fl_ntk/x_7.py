"""X.7: antipodal pairs with dependent directions make H_inf singular, even where all points are different."""

from dataclasses import dataclass

import numpy as np
import sympy as sp
from flint import arb_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Case, Change, Claim, Family, Form, Hypothesis, Kind, Source, Statement
from bounds.mutants import MILLIONTH_MORE, replaced, scaled, sign_flipped
from bounds.strategies import unit_data
from ntkfl import Estimate, gram
from ntkfl.balls import ball_matrix, enclosure, precision


@dataclass(frozen=True, eq=False)
class AntipodalFamily(Case):
    """Directions x_p (p, d), p = d+1, and coefficients c (p,) with sum_p c_p x_p = 0, with their errors."""

    directions: np.ndarray
    coefficients: Estimate

    @property
    def relation(self) -> Estimate:
        """|sum_p c_p x_p|, which is 0 for dependent directions."""
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
    """d+1 different directions, on a coarse grid or spread out."""
    return unit_data(n=(d + 1, d + 1), d=(d, d), distinct=True)


ANTIPODAL_PAIRS = Family(
    "antipodal pairs",
    antipodal_pairs,
    st.integers(2, 4).flatmap(_directions).map(lambda x: AntipodalFamily(x, cramer(x))),
    trials=24,
    fixed=True,
)


p = sp.Symbol("p", positive=True)  # number of pairs
H_minus = sp.MatrixSymbol("H_-", 2 * p, p)
c = sp.MatrixSymbol("c", p, 1)
ROUNDING = 1e-12  # tolerance of the relation; the coefficients are known to about 1e-16


def _columns(case: AntipodalFamily, side: int) -> Estimate:
    """H_inf of all 2p points against the points +x_p or -x_p, (2p, p)."""
    x = case.directions
    return gram.infinite_estimate(np.concatenate([x, -x]), side * x)


def _independent() -> AntipodalFamily:
    """Two antipodal pairs in orthogonal directions: H_inf is positive."""
    return AntipodalFamily(np.eye(2), Estimate.exact(np.ones(2)))


STATEMENTS = (
    Statement(
        id="fl-ntk/X.7",
        title="Antipodal pairs can make lambda 0: sum_p c_p H(., x_p) = sum_p c_p H(., -x_p)",
        kind=Kind.EXISTENCE,
        source=Source(
            BEYOND,
            "docs/proofs/certificates.md#antipodal-points",
            note="H(z, x) - H(z, -x) = z.x / 2 for every z. So where sum_p c_p x_p = 0, the vector with c on the "
            "points and -c on their mirror images is in the kernel of H_inf, and lambda = 0 if all these points are "
            "different. Hence it does not suffice for lambda > 0 that no two points have the same direction. One "
            "antipodal pair, or several in independent directions, do no harm",
        ),
        hypotheses=(
            Hypothesis(
                "dependent-directions",
                "sum_p c_p x_p = 0 to 1e-12, c known with its error",
                lambda case: ROUNDING - float(case.relation.hi),
            ),
            Hypothesis(
                "nontrivial", "some c_p is not 0", lambda case: float(np.abs(case.coefficients.value).max()) - 1e-6
            ),
        ),
        forms={Form.NEW: Claim(H_minus * c)},
        constants=lambda case: {H_minus: _columns(case, -1), c: case.coefficients},
        measure=lambda case: _columns(case, 1) @ case.coefficients,
        symbols={
            H_minus: "H_inf of all points against the mirror images -x_p",
            c: "coefficients of a linear relation between the directions",
        },
        left_formula="sum_p c_p H_inf(z, x_p)",
        says_left="sum_p c_p H_inf(z, x_p) for every point z of the family, with its rounding bound",
        families=(ANTIPODAL_PAIRS,),
        mutants=(
            MILLIONTH_MORE,
            scaled(sp.Rational(1, 2)),
            sign_flipped(c, "one side"),
            replaced(c, H_minus.T * H_minus * c, "the kernel applied three times", Change.POWER),
        ),
        necessity={"dependent-directions": _independent},
    ),
)
