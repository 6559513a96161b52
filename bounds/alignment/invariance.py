"""Permuting hidden units leaves a network's function unchanged."""

import numpy as np
import sympy as sp

from bounds import Change, Claim, Form, Kind, Provenance, Source, Statement
from bounds.alignment.cases import PAPERS, AlignedPair, pair_families
from bounds.cases.ensembles import ball_array, estimated, forward
from bounds.mutants import MILLIONTH_MORE, replaced
from ntkfl.balls import ball_matrix, precision
from ntkfl.connectivity.network import TwoLayer
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps
outputs, hidden_only = sp.symbols("f_2 f_U", real=True)


def _in_balls(network: TwoLayer, x: np.ndarray) -> Estimate:
    """f(x), (n, C), from the definition, in balls."""
    rows, hidden = ball_matrix(x), ball_matrix(network.hidden)
    readouts = ball_array(np.atleast_2d(network.readout))
    return estimated(ball_array([forward(rows, hidden, list(readout)) for readout in readouts]).T)


def _constants(case: AlignedPair) -> dict:
    moved = TwoLayer(case.alignment.aligned.hidden, case.second.readout)  # the readout not permuted with the units
    with precision():
        return {outputs: _in_balls(case.second, case.x), hidden_only: _in_balls(moved, case.x)}


def _measure(case: AlignedPair) -> Estimate:
    network = case.alignment.aligned
    value = network.outputs(case.x).reshape(len(case.x), -1)
    size = np.abs(case.x) @ np.abs(network.hidden).T @ np.abs(np.atleast_2d(network.readout)).T
    return Estimate(value, (sum(network.hidden.shape) + 8) * EPS * size + 1e-300, "rounding bound")


STATEMENTS = (
    Statement(
        id="alignment/invariance",
        title="An aligned network is the same function",
        kind=Kind.EQUALITY,
        source=Source(
            PAPERS,
            "Entezari et al., section 2; Ainsworth et al., section 3",
            note="sum_i v_i relu(u_i x) is a sum over the units, and does not depend on their order",
            read=Provenance.REPORTED,
        ),
        forms={Form.STATED: Claim(outputs)},
        constants=_constants,
        measure=_measure,
        symbols={
            outputs: "f_2(x), the outputs of the given network, in balls",
            hidden_only: "the outputs with the hidden units permuted and the readout not permuted",
        },
        left_formula="f_{aligned}(x)",
        says_left="the outputs of the aligned network for every input, as the library evaluates them",
        families=pair_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(outputs, hidden_only, "the readout left where it was", Change.INDEX),
        ),
    ),
)
