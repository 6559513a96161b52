"""Statements on condition numbers of the kernel under client-local preconditioners, and on tuned server steps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from scipy.linalg import block_diag
from scipy.optimize import minimize

from bounds import BEYOND, Claim, Hypothesis, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import LOCALLY_STABLE, POSITIVE_LIMIT, at_most
from bounds.mutants import power, replaced, scaled
from bounds.symbols import N
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import of_method
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.round_modes import ClientModes, geometric_sum

STARTS, DESCENT = 3, 40  # number of random preconditioners from which searches start, and number of steps of a search
ROUNDINGS = 100  # the relative error of a condition number is this factor times n eps kappa

nu = sp.Symbol("nu_min", positive=True)
even = sp.Symbol("M", positive=True)


def _factors(case: KernelCase, seed: int) -> Iterator[np.ndarray]:
    """Factors B of preconditioners P = B B^T, which are block-diagonal over the clients.

    There are factors for block Jacobi, for local steps, and random factors.
    """
    h, clients = case.factor @ case.factor.T, case.problem.members
    back = np.argsort(np.concatenate(clients))

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
    """The least condition number of H P that gradient descents find, over symmetric positive P."""
    h, owner = case.factor @ case.factor.T, case.problem.owner
    own = owner[:, None] == owner
    shape = h.shape

    def of(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """log kappa(B^T H B) and its gradient.

        The gradient of an eigenvalue with the eigenvector v is 2 H B v v^T, restricted to the clients' blocks.
        """
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


OF_CONDITION: dict[str, Any] = {
    "hypotheses": (at_most(60), POSITIVE_LIMIT),
    "constants": _constants,
    "symbols": {
        nu: "smallest eigenvalue of H_D^-1 H, H_D the clients' blocks of H",
        even: "N, or N + 1 where N is odd",
    },
    "families": partial(kernel_families, reach=1.9, most=12, steps=False),
}


# relative error of a double root, which is the square root of the rounding of the polynomial's coefficients
DOUBLE_ROOT = 3e-7
# the factors by which the tuned steps are changed
BESIDE = (0.3, 0.7, 0.9, 0.99, 0.999, 1 - 1e-6, 1.0, 1 + 1e-6, 1.001, 1.01, 1.1, 1.5, 3.0)

slow, fast = sp.symbols("nu_1 nu_n", positive=True)
KAPPA = fast / slow
ROOT = sp.sqrt(KAPPA)
RATES = ((KAPPA - 1) / (KAPPA + 1), (ROOT - 1) / (ROOT + 1), 1 - 2 / sp.sqrt(3 * KAPPA + 1))
NAMES = ("averaging", "heavy ball", "Nesterov")
Steps = dict[str, Any]
Choices = Callable[[Steps], Iterable[Steps]]


def _tuned(slowest: float, fastest: float) -> Iterator[tuple[str, Steps]]:
    """Each method with its tuned steps, for these extreme eigenvalues of H W P."""
    yield "fedavg", {"server_rate": 2 / (slowest + fastest)}
    low, high = np.sqrt(slowest), np.sqrt(fastest)
    momentum = float(((high - low) / (high + low)) ** 2)
    yield "fedavgm", {"server_rate": float((2 / (low + high)) ** 2), "momentum": momentum}
    root = np.sqrt(3 * fastest / slowest + 1)
    momentum = max(0.0, float((root - 2) / (root + 2)))
    yield "fedavgm", {"server_rate": 4 / (3 * fastest + slowest), "momentum": momentum, "nesterov": True}


def _beside(tuned: Steps) -> Iterator[Steps]:
    """A grid around the tuned steps.

    Server rates and the distances 1 - b of momenta b from 1 are multiplied by factors.

    The momenta are kept in [0, 1).
    """
    for server, other in product(BESIDE, BESIDE if "momentum" in tuned else (1.0,)):
        if server == other == 1:
            continue
        steps = tuned | {"server_rate": tuned["server_rate"] * server}
        if "momentum" in tuned:
            steps["momentum"] = min(max(1 - (1 - tuned["momentum"]) * other, 0.0), 0.999999)
        yield steps


def _rates(regime: KernelRegime, choices: Choices) -> list[float]:
    """For each method, its least rate among the steps that `choices` derives from its tuned steps."""
    from ntkfl.training.engine.linear_rounds import linear_round

    averaging = of_method(regime.at(replace(regime.setup, eta_global=1.0)), "fedavg", {"server_rate": 1.0})
    nu = averaging.response_eigenvalues
    assert nu is not None
    least = []
    for method, tuned in _tuned(float(nu[0]), float(nu[-1])):
        rates = []
        for steps in choices(tuned):
            roots = linear_round(method, regime.blocks, 0.0, steps).roots
            assert roots is not None
            rates.append(float(np.abs(roots(steps["server_rate"] * nu)).max()))
        least.append(min(rates))
    return least


def _measured(choices: Choices) -> Callable[[KernelCase], tuple[Estimate, ...]]:
    def measure(case: KernelCase) -> tuple[Estimate, ...]:
        rates = case.regime.of(lambda regime, _: _rates(regime, choices), size=1.0)
        return tuple(
            Estimate(v, e + DOUBLE_ROOT * v, rates.method) for v, e in zip(rates.value, rates.error, strict=True)
        )

    return measure


APART = Hypothesis(
    "told-apart",
    "kappa >= 1.2: the tool's limit, for a rate near 0 is lost in the rounding of a double root",
    lambda case: case.nu_by_size[-1] - 1.2 * case.nu_by_size[0],
)
OF_TUNED_STEPS: dict[str, Any] = {
    "hypotheses": (at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE, APART),
    "new": Claim(RATES, note="for averaging, heavy ball, and Nesterov's momentum at the server"),
    "constants": lambda case: {slow: case.nu_by_size[0], fast: case.nu_by_size[-1]},
    "symbols": {slow: "smallest eigenvalue of H W P, W the weights n_c/n of the clients", fast: "the largest"},
    "families": partial(kernel_families, reach=1.9, most=12),
}


STATEMENTS = (
    Statement(
        id="fl-ntk/block-conditioning",
        title="No symmetric positive P that is block-diagonal over the clients conditions H P better than this",
        kind=Kind.LOWER,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#bound-for-client-local-methods"),
        note="let x be the eigenvector of nu. The vectors with parts eps_c x_c, eps_c = +-1, all have one norm "
        "under P^-1. So kappa(H P) is at least the ratio of any mean of their values x'Hx to nu x'H_D x. Over all "
        "signs the mean is x'H_D x, which gives 1/nu, the stated form. Over the signs with as many + as - (where N "
        "is odd, for N + 1 clients, one of them empty) two signs have the correlation -1/(M - 1), which gives (M - "
        "nu)/((M - 1) nu), a larger bound. For N = 2 this bound equals the value of block Jacobi, (1 + cos)/(1 - "
        "cos) of the angle between the clients' tangent spaces; 1/nu is smaller. Related work, not consulted: "
        "optimal block scaling (Demmel; Elsner)",
        stated=Claim(1 / nu, note="the mean over all signs"),
        new=Claim((even - nu) / ((even - 1) * nu), note="sharper; attained for N = 2"),
        measure=lambda case: _condition(case, _searched(case)),
        left_formula="min_{P that were tried} lambda_max(H P) / lambda_min(H P)",
        says_left="the least condition number of H P over block Jacobi, local steps, random P, and the end of a "
        "descent from each of these",
        mutants=(
            replaced(even, sp.Rational(3, 2), "as if a mean of fewer signs were larger"),
            replaced(nu, nu**2, "nu squared"),
        ),
        **OF_CONDITION,
    ),
    Statement(
        id="fl-ntk/block-conditioning-jacobi",
        title="Infinitely many local steps, block Jacobi, come within a factor N of the best conditioning",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#bound-for-client-local-methods"),
        note="H <= N H_D, so that the largest eigenvalue of H_D^-1 H is at most N; its smallest is nu, which is at "
        "most 1",
        new=Claim(N / nu),
        measure=_jacobi,
        left_formula="lambda_max(H H_D^{-1}) / lambda_min(H H_D^{-1})",
        says_left="the condition number of H H_D^-1",
        mutants=(replaced(N, N - 1, "N - 1"), replaced(nu, sp.sqrt(nu), "the root of nu")),
        uses=("fl-ntk/X.4",),
        **OF_CONDITION,
    ),
    Statement(
        id="fl-ntk/tuned-steps",
        title="Tuned server steps: the rates of averaging, heavy ball and Nesterov are those of the condition number",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#tuned-server-steps"),
        note="kappa = nu_n/nu_1. Averaging: g = 2/(nu_1 + nu_n). Heavy ball: g = (2/(sqrt nu_1 + sqrt nu_n))^2, b "
        "the square of the rate. Nesterov: g = 4/(3 nu_n + nu_1), b = (sqrt(3 kappa + 1) - 2)/(sqrt(3 kappa + 1) + "
        "2), as Lessard, Recht and Packard (2016) show for gradient steps. Their argument needs only real and "
        "positive eigenvalues, and H W P has such eigenvalues",
        measure=_measured(lambda tuned: [tuned]),
        left_formula=tuple(f"max_i |lambda_i(M_{{{name}}})|" for name in NAMES),
        says_left="the spectral radius of the library's map of each method at its tuned steps",
        mutants=(
            scaled(sp.Rational(1_001, 1_000)),
            power(fast, sp.Rational(1, 2)),
            power(slow, 2),
            replaced(KAPPA, KAPPA + 1, "kappa + 1"),
        ),
        uses=("fl-ntk/X.2",),
        **OF_TUNED_STEPS,
    ),
    Statement(
        id="fl-ntk/tuned-steps-grid",
        title="No server step and momentum beat the tuned ones",
        kind=Kind.LOWER,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#tuned-server-steps"),
        note="the grid is centred at the tuned steps",
        measure=_measured(_beside),
        left_formula=tuple(f"min_{{grid}} max_i |lambda_i(M_{{{name}}})|" for name in NAMES),
        says_left="the least spectral radius of the library's maps over a grid of server rates and momenta, from "
        "factors 1 - 1e-6 and 1 + 1e-6 of the tuned steps to .3 and 3",
        mutants=(power(fast, 2), power(slow, 2)),
        uses=("fl-ntk/tuned-steps",),
        **OF_TUNED_STEPS,
    ),
)
