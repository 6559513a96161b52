"""Tuned server steps: the best rates of averaging, heavy ball and Nesterov are functions of the condition number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.fl_ntk.premises import LOCALLY_STABLE, POSITIVE_LIMIT, at_most
from bounds.mutants import power, replaced, scaled
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import of_method
from ntkfl.limit.infinite_width import KernelRegime

DOUBLE_ROOT = 3e-7  # relative error of a double root: the square root of the rounding of the polynomial's coefficients
BESIDE = (0.3, 0.7, 0.9, 0.99, 0.999, 1 - 1e-6, 1.0, 1 + 1e-6, 1.001, 1.01, 1.1, 1.5, 3.0)  # factors on the tuned steps

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
    """A grid around the tuned steps: server rates times factors; momenta 1 - (1 - b) times factors, kept in [0, 1)."""
    for server, other in product(BESIDE, BESIDE if "momentum" in tuned else (1.0,)):
        if server == other == 1:
            continue
        steps = tuned | {"server_rate": tuned["server_rate"] * server}
        if "momentum" in tuned:
            steps["momentum"] = min(max(1 - (1 - tuned["momentum"]) * other, 0.0), 0.999999)
        yield steps


def _rates(regime: KernelRegime, choices: Choices) -> list[float]:
    """Each method's least rate among the steps that `choices` makes of its tuned steps."""
    from ntkfl.training.engine.linear_rounds import linear_round  # torch is slow to load

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
SHARED: dict[str, Any] = {
    "hypotheses": (at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE, APART),
    "forms": {Form.NEW: Claim(RATES, note="for averaging, heavy ball, and Nesterov's momentum at the server")},
    "constants": lambda case: {slow: case.nu_by_size[0], fast: case.nu_by_size[-1]},
    "symbols": {slow: "smallest eigenvalue of H W P, W the weights n_c/n of the clients", fast: "the largest"},
    "families": partial(kernel_families, reach=1.9, most=12),
}
STATEMENTS = (
    Statement(
        id="fl-ntk/tuned-steps",
        title="Tuned server steps: the rates of averaging, heavy ball and Nesterov are those of the condition number",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#tuned-server-steps",
            note="kappa = nu_n/nu_1. Averaging: g = 2/(nu_1 + nu_n). Heavy ball: g = (2/(sqrt nu_1 + sqrt nu_n))^2, b "
            "the square of the rate. Nesterov: g = 4/(3 nu_n + nu_1), b = (sqrt(3 kappa + 1) - 2)/(sqrt(3 kappa + 1) + "
            "2), as Lessard, Recht and Packard (2016) show for gradient steps. Their argument needs only real and "
            "positive eigenvalues, and H W P has such eigenvalues",
        ),
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
        **SHARED,
    ),
    Statement(
        id="fl-ntk/tuned-steps-grid",
        title="No server step and momentum beat the tuned ones",
        kind=Kind.LOWER,
        source=Source(
            BEYOND, "docs/proofs/linear_methods.md#tuned-server-steps", note="the grid is centred at the tuned steps"
        ),
        measure=_measured(_beside),
        left_formula=tuple(f"min_{{grid}} max_i |lambda_i(M_{{{name}}})|" for name in NAMES),
        says_left="the least spectral radius of the library's maps over a grid of server rates and momenta, from "
        "factors 1 - 1e-6 and 1 + 1e-6 of the tuned steps to .3 and 3",
        mutants=(power(fast, 2), power(slow, 2)),
        uses=("fl-ntk/tuned-steps",),
        **SHARED,
    ),
)
