"""The bounds in the rows of `ntkfl connectivity-table`: every loss with its own constant, every number of outputs."""

import numpy as np
import pytest

from bounds.cases.cube_networks import CubeFamily
from experiments.connectivity_rows import _bounds, _data_bound, _trained_row


@pytest.mark.parametrize(("loss", "constant"), [("absolute", 1.0), ("logistic", 1.0), ("cross-entropy", np.sqrt(2))])
def test_a_bound_is_the_constant_times_that_on_the_gap(loss, constant):
    case = CubeFamily(h=4, l=3, side=0.6, n=6, outputs=3 if loss == "cross-entropy" else 1, loss=loss).case(0)
    first, second = case.networks
    terms = _data_bound(first, second, case.x)  # the absolute loss's constant is 1
    assert _data_bound(first, second, case.x, loss) == pytest.approx(constant * terms, rel=1e-12)
    outputs, s = case.outputs, np.linalg.norm(case.x, 2) / np.sqrt(6)
    spread, anchor = case.side * s * np.sqrt(12), np.linalg.norm(np.atleast_2d(case.anchor.readout), 2)
    assert _bounds(case)[2] == pytest.approx(
        constant * spread / 2 * (case.side * np.sqrt(4 * outputs) / 2 + anchor / 2), rel=1e-12
    )


@pytest.mark.parametrize("outputs", [2, 4])
def test_a_row_of_trained_networks_is_full_and_in_order(outputs):
    case = CubeFamily(h=6, l=4, side=0.8, n=30, outputs=outputs, loss="cross-entropy").case(1)
    row = _trained_row("trained", case.anchor, list(case.networks), case.x, case.y, 0.1)
    constant = 1 if outputs == 2 else np.sqrt(2)  # two classes are one output under the logistic loss
    assert row.barrier <= constant * row.gap * (1 + 1e-9) <= row.by_data * (1 + 2e-9)
    assert row.by_data <= row.sure < row.stated
    assert row.by_data <= row.first < row.stated
    assert row.side <= 0.8 * (2 if outputs == 2 else 1), "the difference of two readouts is in a cube twice as large"
    assert row.accuracy is not None
