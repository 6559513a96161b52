"""Statements on methods in the kernel regime: the residual after T rounds by the T-th power of a map."""

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

from bounds import BEYOND, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import OTHER_METHODS, Training, engine_residuals, final_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.terms.local_methods import shares, shares_of
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, map_constants, start
from bounds.mutants import MILLIONTH_MORE, index_shifted, power
from bounds.statement import Mutant
from bounds.symbols import T, eta_local


def method_maps(
    label: str,
    title: str,
    *,
    note: str,
    methods: tuple[str, ...],
    after: Callable[[], tuple[sp.MatrixExpr, ...]],
    trainings: Callable[[FederatedRun], tuple[Training, ...]],
    values: Callable[[FederatedRun], Mapping[Any, Any]],
    symbols: Mapping[Any, str],
    mutants: tuple[Mutant, ...],
    uses: tuple[str, ...],
    hypotheses: tuple[Hypothesis, ...] = (),
) -> Statement:
    """The statement that under each method the linearised network and its kernel regime have the residual `after()`.

    Three mutants come with every such statement: a factor, a power of eta_l and the number of rounds.
    """

    def constants(case: FederatedRun) -> dict[Any, Any]:
        known = {
            shares: shares_of(case.problem),
            start: engine_residuals(case, trainings(case)[0])[:, :1],
            T: case.setup.rounds,
        }
        return map_constants(case, case.initial_gram) | known | dict(values(case))

    return Statement(
        id=f"fl-ntk/{label}",
        title=title,
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#state-maps", note=note),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM, *hypotheses),
        forms={Form.NEW: Claim(lambda: after() * 2, note=", ".join(methods))},
        constants=constants,
        measure=lambda case: final_residuals(case, trainings(case)),
        symbols=MAP_SYMBOLS
        | {shares: "n_c/n of each sample's client, on the diagonal", start: "y(0) - y"}
        | dict(symbols),
        left_formula=("y(T) - y",) * 2 * len(methods),
        says_left="y(T) - y, T = 5, under each method: of the linearised network trained by the engine, and of the "
        "library's kernel regime",
        families=(OTHER_METHODS,),
        mutants=(
            MILLIONTH_MORE,
            power(eta_local, sp.Rational(1, 2)),
            index_shifted(T, 1),
            *mutants,
        ),
        uses=uses,
    )
