"""Algebraic identities used by the statements on averaging."""

import sympy as sp

from bounds.algebra import Vanishes

rho = sp.Symbol("rho", positive=True)


def _averaged_variance(window: int) -> sp.Expr:
    """The variance of the mean of P successive values of w_t = rho mean(w_{t-1}, ..., w_{t-P}) + noise of variance 1.

    It is computed from the linear equations for the covariances.
    """
    names = sp.symbols(f"g0:{window + 1}")  # the covariances of w_t and w_{t-j} for j = 0..P
    equations = []
    for lag in range(window + 1):
        past = sum(names[abs(lag - i)] for i in range(1, window + 1))
        equations.append(names[lag] - rho * past / window - (1 if lag == 0 else 0))
    moments = dict(zip(names, next(iter(sp.linsolve(equations, names))), strict=True))
    pairs = sum(moments[names[abs(i - j)]] for i in range(window) for j in range(window))
    return pairs / window**2


STEPS = (
    Vanishes(
        "averaging/I11",
        "Var(w_IMA) = 1 / ((P + rho)(1 - rho)) for w_t = rho w_IMA,t-1 + noise, P = 1..5",
        tuple(_averaged_variance(window) - 1 / ((window + rho) * (1 - rho)) for window in range(1, 6)),
    ),
)
