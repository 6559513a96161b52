"""A statement on networks of any depth that are linearised in their parameters.

Such a network follows exactly the round map of its own kernel.
"""

import sympy as sp

from bounds import BEYOND, Change, Claim, Kind, Source, Statement
from bounds.deep.cases.deep_ladder import DeepRun, between, deep_run_families
from bounds.federated_run import run_values
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, MOVEMENT, ROUND_MAP, D, H, map_constants, start
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced
from bounds.symbols import N, T, eta_local
from ntkfl.estimate import Estimate
from ntkfl.limit.infinite_width import algorithm1_limit


def _constants(case: DeepRun) -> dict:
    return map_constants(case, case.kernel) | run_values(case, T) | {start: case.start}


def _measure(case: DeepRun) -> tuple[Estimate, ...]:
    """y(T) - y and |theta(T) - theta(0)|^2, for the trained network and again by the library's kernel regime."""
    regimes = [algorithm1_limit(case.problem, case.setup, order.kernel) for order in case.orders]
    last, outputs = case.setup.rounds, case.orders[0].first
    linearised_residuals = [-regime.residual(last, outputs) for regime in regimes]
    moved = [regime.movement(last, outputs) ** 2 for regime in regimes]
    return case.residuals[:, -1], case.movement.squared(), between(*linearised_residuals), between(*moved)


STATEMENTS = (
    Statement(
        id="deep/linearised",
        title="A linearised network of any depth follows the round map of its own kernel",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#the-round-map"),
        note="X.1 and X.8 with H = J J^T: their proofs do not use that a network has two layers. Checked on fully "
        "connected and convolutional networks with all layers trained",
        hypotheses=(POSITIVE_SPECTRUM,),
        new=Claim((ROUND_MAP**T * start, MOVEMENT) * 2),
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            H: "J J^T of the network at the start, over all parameters",
            start: "y(0) - y, y(0) the outputs of the network itself",
        },
        left_formula=("y_{lin}(T) - y", "|theta_{lin}(T) - theta(0)|^2") * 2,
        says_left="left 1 and 2: y(T) - y and |theta(T) - theta(0)|^2 of the linearised network trained by the engine; "
        "left 3 and 4: the same by the kernel regime",
        families=deep_run_families,
        mutants=(
            MILLIONTH_MORE,
            index_shifted(T, 1),
            power(N, 2),
            power(eta_local, sp.Rational(1, 2)),
            replaced(D, H, "one client with all the data", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.8"),
    ),
)
