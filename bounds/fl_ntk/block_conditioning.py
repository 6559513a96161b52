"""Condition number of the kernel under client-local preconditioners: a lower bound for all, block Jacobi's bound."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from scipy.linalg import block_diag
from scipy.optimize import minimize

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import POSITIVE_LIMIT, at_most
from bounds.mutants import replaced
from bounds.symbols import N
from ntkfl.estimate import Estimate
from ntkfl.limit.round_modes import ClientModes, geometric_sum

STARTS, DESCENT = 3, 40  # random preconditioners from which searches start; steps of a search
ROUNDINGS = 100  # times n eps kappa: relative error of a condition number

nu = sp.Symbol("nu_min", positive=True)
even = sp.Symbol("M", positive=True)


def _factors(case: KernelCase, seed: int) -> Iterator[np.ndarray]:
    """Factors B of P = B B^T, block-diagonal over the clients: for block Jacobi, for local steps, and random ones."""
    h, clients = case.factor @ case.factor.T, case.problem.members
    order = np.concatenate(clients)
    back = np.argsort(order)

    def placed(blocks: list[np.ndarray]) -> np.ndarray:
        return block_diag(*blocks)[np.ix_(back, back)]

    yield placed([np.linalg.cholesky(np.linalg.inv(h[np.ix_(c, c)])) for c in clients])
    modes = ClientModes.of(h, tuple(clients))
    for steps in (1, 3, 30):
        response = geometric_sum(modes.values, 1 / float(modes.values.max()), steps)
        yield modes.apply(np.sqrt(response), np.eye(len(h)))
    rng = np.random.default_rng(seed)
    for _ in range(STARTS):
        yield placed([np.eye(len(c)) + 0.5 * rng.standard_normal((len(c), len(c))) for c in clients])


def _searched(case: KernelCase) -> float:
    """The least condition number of H P over the symmetric positive P that descents find."""
    h, owner = case.factor @ case.factor.T, case.problem.owner
    own = owner[:, None] == owner
    shape = h.shape

    def of(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """log kappa(B^T H B) and its gradient; an eigenvalue's gradient is 2 H B v v^T on the clients' blocks."""
        b = flat.reshape(shape) * own
        values, vectors = np.linalg.eigh(b.T @ h @ b)
        if not values[0] > 0:
            return np.inf, np.zeros(flat.size)
        slopes = [2 * np.outer(h @ b @ vectors[:, i], vectors[:, i]) / values[i] for i in (-1, 0)]
        return float(np.log(values[-1] / values[0])), ((slopes[0] - slopes[1]) * own).ravel()

    logarithms = []
    for start in _factors(case, case.setup.seed):
        logarithms.append(of(start.ravel())[0])
        logarithms.append(minimize(of, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": DESCENT}).fun)
    return float(np.exp(min(logarithms)))


def _condition(case: KernelCase, value: float) -> Estimate:
    error = ROUNDINGS * case.problem.n * np.finfo(float).eps * np.linalg.cond(case.factor) ** 2
    return Estimate(value, error * value, "rounding of eigenvalues")


def _jacobi(case: KernelCase) -> Estimate:
    b = next(_factors(case, 0))
    values = np.linalg.eigvalsh(b.T @ (case.factor @ case.factor.T) @ b)
    return _condition(case, float(values[-1] / values[0]))


def _constants(case: KernelCase) -> dict:
    clients = case.problem.n_clients
    return {nu: case.least_of_jacobi, N: clients, even: clients + clients % 2}


SHARED: dict[str, Any] = {
    "hypotheses": (at_most(60), POSITIVE_LIMIT),
    "constants": _constants,
    "symbols": {
        nu: "smallest eigenvalue of H_D^-1 H, H_D the clients' blocks of H",
        even: "N, or N + 1 where N is odd",
    },
    "families": partial(kernel_families, reach=1.9, most=12, steps=False),
}
STATEMENTS = (
    Statement(
        id="fl-ntk/block-conditioning",
        title="No symmetric positive P that is block-diagonal over the clients conditions H P better than this",
        kind=Kind.LOWER,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#lower-bound-for-client-local-methods",
            note="let x be the eigenvector of nu. The vectors with parts eps_c x_c, eps_c = +-1, all have one norm "
            "under P^-1. So kappa(H P) is at least the ratio of any mean of their values x'Hx to nu x'H_D x. Over all "
            "signs the mean is x'H_D x, which gives 1/nu, the stated form. Over the signs with as many + as - (where N "
            "is odd, for N + 1 clients, one of them empty) two signs have the correlation -1/(M - 1), which gives (M - "
            "nu)/((M - 1) nu), a larger bound. For N = 2 this bound equals the value of block Jacobi, (1 + cos)/(1 - "
            "cos) of the angle between the clients' tangent spaces; 1/nu is smaller. Related work, not consulted: "
            "optimal block scaling (Demmel; Elsner)",
        ),
        forms={
            Form.STATED: Claim(1 / nu, note="the mean over all signs"),
            Form.NEW: Claim((even - nu) / ((even - 1) * nu), note="sharper; attained for N = 2"),
        },
        measure=lambda case: _condition(case, _searched(case)),
        left_formula="min_{P that were tried} lambda_max(H P) / lambda_min(H P)",
        says_left="the least condition number of H P over block Jacobi, local steps, random P, and the end of a "
        "descent from each of these",
        mutants=(
            replaced(even, sp.Rational(3, 2), "as if a mean of fewer signs were larger"),
            replaced(nu, nu**2, "nu squared"),
        ),
        **SHARED,
    ),
    Statement(
        id="fl-ntk/block-conditioning-jacobi",
        title="Infinitely many local steps, block Jacobi, come within a factor N of the best conditioning",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#lower-bound-for-client-local-methods",
            note="H <= N H_D, so that the largest eigenvalue of H_D^-1 H is at most N; its smallest is nu, which is at "
            "most 1",
        ),
        forms={Form.NEW: Claim(N / nu)},
        measure=_jacobi,
        left_formula="lambda_max(H H_D^{-1}) / lambda_min(H H_D^{-1})",
        says_left="the condition number of H H_D^-1",
        mutants=(replaced(N, N - 1, "N - 1"), replaced(nu, sp.sqrt(nu), "the root of nu")),
        uses=("fl-ntk/X.4",),
        **SHARED,
    ),
)
