"""X.1: one round of FedAvg in the kernel regime is a linear map of the residual, exactly."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.measured_regime import MeasuredRegime
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import linearised_families
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, ROUND_MAP, map_constants, residuals
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, sign_flipped
from bounds.symbols import K, N, T, eta_global, eta_local, n
from ntkfl.estimate import Estimate
from ntkfl.limit.infinite_width import KernelRegime

r = sp.MatrixSymbol("r", n, T)  # y(t) - y, one column a round


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    """y(t+1) - y of the network, and of the kernel regime one round after y(t): (n, T), or (n,) where T is 1.

    The regime trains all rounds at once, as the outputs of one problem, each from its y(t), so that errors do not add
    up.
    """
    known, columns = residuals(case), case.setup.rounds
    problem = replace(case.problem, y=np.repeat(case.problem.y[:, None], columns, axis=1), x_test=None, y_test=None)

    def after(regime: KernelRegime, _: slice, start: np.ndarray) -> np.ndarray:
        return regime.outputs(1, start) - regime.problem.y

    # Outputs are rounded before y is subtracted: beside a y of 1 a small residual loses its last digits.
    terms = float(np.abs(problem.y).max() + 2 * np.abs(known.value).max())
    regime = MeasuredRegime(problem, case.setup, case.initial_gram.value)
    curve = regime.of(after, samples=(0,), size=terms, start=case.trajectory.outputs[:-1].T)
    return (known[:, 1:], curve) if columns > 1 else (known[:, 1], curve[:, 0])


STATEMENTS = (
    Statement(
        id="fl-ntk/X.1",
        title="The exact round map M = I - (eta_g/N) H P",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#the-round-map",
            note="P = blockdiag f_K(H_cc), f_K(q) = (1 - (1 - eta_l q)^K)/q",
        ),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        forms={Form.NEW: Claim((ROUND_MAP * r,) * 2)},
        constants=lambda case: map_constants(case, case.initial_gram) | {r: residuals(case)[:, :-1]},
        measure=_measure,
        symbols=MAP_SYMBOLS | {r: "y(t) - y, one column a round"},
        left_formula=("y(t+1) - y",) * 2,
        says_left="y(t+1) - y in every round: left 1 of the linearised network, trained in parameter space; left 2 of "
        "the kernel regime of H(0), one round after y(t)",
        families=linearised_families,
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            power(eta_local, sp.Rational(1, 2)),
            index_shifted(K, 1),
            sign_flipped(eta_global, "the server's step"),
        ),
    ),
)
