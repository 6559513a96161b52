"""Algorithm 1 on any convex loss: its recursion in the outputs, and the bound on its losses."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.run_values import run_values
from bounds.fl_ntk.cases.convex_run import LOSSES, ConvexRun, convex_families, gathered
from bounds.fl_ntk.premises import SERVER_AT_MOST_1, at_most
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, H
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped
from bounds.symbols import K, N, T, eta_global, eta_local, n
from bounds.vocabulary import BEYOND
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import kernel_regime

largest = sp.Symbol("mu_D", positive=True)
SIZES, LEFT = sp.symbols("S_log S_sq", positive=True), sp.symbols("F_log F_sq", positive=True)
OUTPUTS = tuple(sp.MatrixSymbol(f"f_{name}", n, T) for name in ("log", "sq"))
SLOPES = tuple(sp.MatrixSymbol(f"l_{name}", n, T) for name in ("log", "sq"))


def _bound(part: int) -> sp.Expr:
    factor = 1 - eta_local * sp.Rational(LOSSES[part].smoothness) * largest
    return (N * SIZES[part] / (2 * eta_local * eta_global * K * T) + LEFT[part]) / factor


def _round(part: int) -> sp.MatrixExpr:
    return OUTPUTS[part] - eta_local * eta_global / N * H * SLOPES[part]


def _constants(case: ConvexRun) -> dict:
    values = run_values(case, eta_local, eta_global, K, T, N) | {
        largest: Estimate(case.largest_block, 1e-13 * case.largest_block, "rounding")
    }
    for part, loss in enumerate(LOSSES):
        values[SIZES[part]], values[LEFT[part]] = case.regularised(loss)
    return values


def _rounds_constants(case: ConvexRun) -> dict:
    values = run_values(case, eta_local, eta_global, K, T, N) | {H: case.gram}
    for part, loss in enumerate(LOSSES):
        values |= {OUTPUTS[part]: case.outputs(part)[:, :-1], SLOPES[part]: case.slopes(loss)}
    return values


def _measure_rounds(case: ConvexRun) -> tuple[Estimate, ...]:
    trained_columns = []
    for part, loss in enumerate(LOSSES):
        trained = case.outputs(part)
        columns = case.setup.rounds
        many = replace(case.problem, y=np.repeat(case.problem.y[:, None], columns, axis=1))
        value = kernel_regime(many, case.setup, case.gram.value, loss=loss).outputs(1, trained.value[:, :-1])
        rounding = 1e-13 * (case.largest_output(part) + 1)
        library = Estimate(value, np.full(value.shape, rounding + trained.error.max()), "rounding")
        trained_columns += [trained[:, 1:], library]
    # with one round the formulas give a single column
    return tuple(trained_columns) if case.setup.rounds > 1 else tuple(column[:, 0] for column in trained_columns)


SHORT = Hypothesis(
    "short-steps", "eta_l max_c |H_cc| < 1, so that both losses are covered: squares have b = 1, logistic b = 1/4",
    lambda case: 1 - 1e-9 - case.setup.eta_local * case.largest_block,
)  # fmt: skip
SIGNS = Hypothesis("signs", "labels -1 and +1", lambda case: -float(np.abs(np.abs(case.problem.y) - 1).max()))


def _eager_server() -> ConvexRun:
    """One client whose steps fit the labels, and a server that goes five times as far: its overshoot grows."""
    return gathered(0, clients=1, steps=8, rounds=8, share=0.9, server=5.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/convex-loss",
        title="Any convex loss: the mean local loss is at most kernel regression with the ridge N over the total step",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/convex_loss.md#the-mean-loss",
            note="l >= 0 is convex with |l'|^2 <= 2 b l, and L = b max_c |H_cc|; any K, N and partition. The mean is "
            "over rounds and local steps, of the sum of the clients' losses, each at the client's own model. The proof "
            "sums |w+ - u|^2 <= |w - u|^2 - 2 eta_l (1 - eta_l L) F_c(w) + 2 eta_l F_c(u), where w+ is w after a local "
            "step; the server's step is a convex combination",
        ),
        hypotheses=(at_most(400), SIGNS, SHORT, SERVER_AT_MOST_1),
        forms={Form.NEW: Claim((_bound(0), _bound(1)), note="first the logistic loss, then squares")},
        constants=_constants,
        measure=lambda case: (case.mean_loss(0), case.mean_loss(1)),
        symbols={
            largest: "max_c |H_cc(0)|",
            SIZES[0]: "alpha'H alpha at the alpha that makes the logistic loss's bound least",
            SIZES[1]: "the same of squares",
            LEFT[0]: "F(f_0 + H alpha) at that alpha, for the logistic loss",
            LEFT[1]: "the same of squares",
        },
        left_formula=tuple(f"mean_{{t,k}} sum_c F_{{{name},c}}(w_{{k,c}}(t))" for name in ("log", "sq")),
        says_left="the mean loss of the clients along the run of the training engine on the linearised network",
        families=convex_families,
        mutants=(
            replaced(largest, 0, "without 1 - eta_l L", Change.FACTOR),
            replaced(N, sp.sqrt(N), "N to the power 1/2", Change.POWER),
            index_shifted(K, 1),
        ),
        necessity={"eta_g-at-most-1": _eager_server},
    ),
    Statement(
        id="fl-ntk/convex-loss-recursion",
        title="Any convex loss: a round at infinite width is a recursion in the outputs, exactly",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/convex_loss.md#the-recursion",
            note="a client takes K steps f_c <- f_c - eta_l H_cc l'(f_c); the server adds eta_g/N times their "
            "coefficients",
        ),
        hypotheses=(at_most(400), SIGNS),
        forms={Form.NEW: Claim((_round(0), _round(0), _round(1), _round(1)), note="logistic, squares")},
        constants=_rounds_constants,
        measure=_measure_rounds,
        symbols={
            H: MAP_SYMBOLS[H],
            OUTPUTS[0]: "f(t) under the logistic loss, one column a round",
            OUTPUTS[1]: "the same under squares",
            SLOPES[0]: "sum over the local steps of l' at what each client sees, one column a round",
            SLOPES[1]: "the same under squares",
        },
        left_formula=("f(t+1)",) * 4,
        says_left="f(t+1) of the linearised network trained by the engine, and of the library's regime one round after "
        "f(t); for both losses",
        families=convex_families,
        mutants=(
            MILLIONTH_MORE,
            power(eta_local, sp.Rational(1, 2)),
            power(N, 2),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
