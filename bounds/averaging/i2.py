"""Eq (2) and (8): bias and variance of one model, and of the weighted ensemble of the clients of a round."""

import sympy as sp

from bounds import IMA, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.ensembles import Ensemble, ensemble_families, estimated
from bounds.mutants import MILLIONTH_MORE, replaced
from bounds.symbols import n
from ntkfl.balls import precision

samples, rows = sp.symbols("s r", positive=True)
M = sp.Symbol("M", positive=True)
bias = sp.MatrixSymbol("b", samples, 1)
spread = sp.MatrixSymbol("Z", rows, samples)
wens_bias = sp.MatrixSymbol("b_wens", samples, 1)
wens_spread = sp.MatrixSymbol("Z_wens", rows, samples)


def _decomposed(bias: sp.MatrixSymbol, spread: sp.MatrixSymbol) -> sp.Expr:
    return sp.Trace(bias.T * bias) / n + sp.Trace(spread.T * spread) / (n * M)


def _constants(case: Ensemble) -> dict:
    constants = {n: case.problem.n, M: case.draws}
    for outputs, b, z in ((case.outputs[:, 0], bias, spread), (case.wens_outputs, wens_bias, wens_spread)):
        with precision():
            mean = outputs.sum(axis=0) / len(outputs)
            constants |= {b: estimated(case.labels - mean), z: estimated(outputs - mean)}
    return constants


STATEMENTS = (
    Statement(
        id="averaging/I2",
        title="Expected squared loss = squared bias + variance",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Eq (2) and (8)",
            note="holds for the squared loss if the mean output and the outer expectation are over the same law; here "
            "both are over the same finite set of draws, so that the sides differ by rounding only",
        ),
        forms={Form.STATED: Claim((_decomposed(bias, spread), _decomposed(wens_bias, wens_spread)))},
        constants=_constants,
        measure=lambda case: (case.mean_loss(case.outputs[:, 0]), case.mean_loss(case.wens_outputs)),
        symbols={
            M: "number of joint draws",
            bias: "y - E f of the first client's model",
            spread: "f - E f of the first client's model, one row a draw",
            wens_bias: "y - E f of the weighted ensemble (WENS)",
            wens_spread: "f - E f of the weighted ensemble, one row a draw",
        },
        left_formula=("E (y - f_1)^2", "E (y - f_WENS)^2"),
        says_left="mean over draws and samples of (y - f)^2: of the first client's model; of the weighted ensemble",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(M, M - 1, "sample variance: M read as M-1", Change.INDEX),
            replaced(1 / M, 0, "variance dropped", Change.FACTOR),
            replaced(M, -M, "sign of the variance flipped", Change.SIGN),
            replaced(M, M**2, "M^2 for M", Change.POWER),
        ),
    ),
)
