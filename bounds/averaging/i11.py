"""Eq (5): how many global models the moving average (IMA) needs, and the variance it leaves on a quadratic."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import sympy as sp
from flint import arb, fmpq, fmpq_mat
from hypothesis import strategies as st

from bounds import IMA, Case, Change, Claim, Family, Kind, Nature, Outcome, Source, Statement
from bounds.cases.bounded_sum import exact
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate

window = sp.Symbol("P", positive=True)
contraction = sp.Symbol("rho", positive=True)

WIDEST = 6  # largest window P; the equation for S, solved in rationals, has P^2 unknowns


def _left_over(models: sp.Expr) -> sp.Expr:
    """Stationary variance of the mean of the last P = `models` models.

    The covariance of w_t and w_{t-j} is the same g for all 1 <= j <= P, and w_t has the variance g_0:
    g = rho (g_0 + (P-1) g) / P and g_0 = rho g + 1. The variance of the mean is g / rho.
    """
    return 1 / ((models + contraction) * (1 - contraction))


@dataclass(frozen=True)
class NoisyQuadratic(Case):
    """Rounds w_t = rho w_IMA(t-1) + noise of variance 1 on a quadratic loss, w_IMA the mean of the last P models.

    Raises:
        ValueError: a window below 1, or rho outside (0, 1), where there is no stationary variance.
    """

    hundredths: int  # 100 rho, so that rho is rational
    window: int  # P

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"the window is {self.window}; at least 1 model is averaged")
        if not 0 < self.hundredths < 100:
            raise ValueError(f"rho is {self.hundredths / 100:g}; a stationary variance needs 0 < rho < 1")

    @property
    def averaged_models(self) -> float:
        """Number of models w_(t-i), i = 0..P-1, that Eq (5) averages."""
        return float(len({-i for i in range(self.window)}))

    @property
    def averaged_variance(self) -> Estimate:
        """Stationary variance of w_IMA: the covariance S of the last P models solves S = A S A^T + B, in rationals."""
        size = self.window
        newest = [fmpq(self.hundredths, 100 * size)] * size
        step = [newest, *([fmpq(int(j == i)) for j in range(size)] for i in range(size - 1))]
        pairs = list(product(range(size), repeat=2))
        system = fmpq_mat([[int(at == of) - step[at[0]][of[0]] * step[at[1]][of[1]] for of in pairs] for at in pairs])
        noise = fmpq_mat(len(pairs), 1, [int(pair == (0, 0)) for pair in pairs])
        mean = sum(system.solve(noise).entries(), fmpq(0)) / size**2
        with precision():
            return enclosure(arb(mean))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"rho": self.hundredths / 100, "P": self.window}


def _quadratic(seed: int) -> NoisyQuadratic:
    """Windows of 1 to 6 models, rho from .01 to .99."""
    rng = np.random.default_rng([seed, 8])
    return NoisyQuadratic(int(rng.integers(1, 100)), int(rng.integers(1, WIDEST + 1)))


NOISY_QUADRATICS = Family(
    "noisy quadratic", _quadratic, st.builds(NoisyQuadratic, st.integers(1, 99), st.integers(1, WIDEST)), trials=40
)


STATEMENTS = (
    Statement(
        id="averaging/I11",
        title="The moving average needs its last P models",
        kind=Kind.DEFINITION,
        source=Source(IMA, "Eq (5), section 6.2"),
        note="(5) averages w_t .. w_(t-P+1). The paper prints the models to store as tau = t-P..t, which are P+1 "
        "models, and calls them P models in the same sentence: an index slip. Algorithm 1 sends w_IMA^(t-1) in "
        "round t = t_s, before any average exists; the paper means w^(t_s - 1), which is sent here. The average "
        "needs t >= max(t_s, P-1). The second part follows from (5), and its value differs between windows of "
        "different P: on a quadratic where w_t = rho w_IMA(t-1) + noise, Var w_IMA = 1/((P + rho)(1 - rho)) "
        "(docs/proofs/linear_methods.md#noise-in-a-window)",
        stated=Claim(
            (window + 1, _left_over(window + 1)),
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            witness=lambda: NoisyQuadratic(90, 5),
            reading="printed once, in the sentence under (5)",
            note="this form is for the stored set tau = t-P..t",
            consequence="The algorithm is right; a server that follows the text stores one model more than it uses.",
        ),
        repaired=Claim((window, _left_over(window)), note="for the set tau = t-P+1..t"),
        constants=lambda case: {window: case.window, contraction: exact(Fraction(case.hundredths, 100))},
        measure=lambda case: (Estimate.exact(case.averaged_models), case.averaged_variance),
        symbols={window: "size P of the window", contraction: "factor of a round on the distance to the optimum"},
        left_formula=("number of models in w_IMA", "Var w_IMA"),
        says_left="number of models that Eq (5) averages; stationary variance of the average on a noisy quadratic, "
        "from the Lyapunov equation of the last P models in rationals",
        families=(NOISY_QUADRATICS,),
        mutants=(
            index_shifted(window, -1),
            power(window, 2),
            MILLIONTH_MORE,
            replaced(contraction, -contraction, "sign of rho flipped", Change.SIGN),
            replaced(contraction, contraction**2, "rho^2 for rho", Change.POWER),
        ),
    ),
)
