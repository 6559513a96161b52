"""Tests of `ntkfl connectivity-table`: the bounds in its rows, and the training behind its last rows."""

import numpy as np
import pytest
from typed import command

from bounds.cases.cube_networks import CubeFamily
from experiments.connectivity_rows import _bounds, _data_bound, _federated_clients, _trained_row
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.losses import CROSS_ENTROPY
from ntkfl.connectivity.network import TwoLayer, between, combination
from ntkfl.connectivity.two_layer_training import draw_two_layer, train_two_layer

RNG = np.random.default_rng(0)
X, CLASSES = RNG.standard_normal((12, 3)), RNG.integers(0, 3, 12)
START, ANCHOR = (draw_two_layer(5, 3, 3, RNG) for _ in range(2))


def mean_loss(network):
    return float(CROSS_ENTROPY.value(network.outputs(X), CLASSES).mean())


def objective(network, weight):
    """Returns the cross-entropy plus its mean over the segment to the anchor, computed by numpy's 3-point
    Gauss rule.
    """
    nodes, shares = np.polynomial.legendre.leggauss(3)
    on_segment = [mean_loss(between(network, ANCHOR, (1 + node) / 2)) for node in nodes]
    return mean_loss(network) + weight * float(shares @ on_segment) / 2


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_a_step_is_the_gradient_of_the_objective(weight):
    rate, size = 1e-3, 1e-5
    after = train_two_layer(START, X, CLASSES, steps=1, rate=rate, anchor=ANCHOR, weight=weight)
    gradient = (START.vector() - after.vector()) / rate
    direction = np.random.default_rng(1).standard_normal(START.size)
    ends = [objective(START.at(START.vector() + s * size * direction), weight) for s in (1, -1)]
    assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / (2 * size), rel=1e-4)


def test_the_connectivity_loss_lowers_the_barrier_to_the_anchor():
    barriers = [
        loss_barrier(
            train_two_layer(START, X, CLASSES, steps=200, rate=0.5, anchor=ANCHOR, weight=w),
            ANCHOR,
            X,
            CLASSES,
            "cross-entropy",
        )
        for w in (0.0, 1.0)
    ]
    assert barriers[1].value.hi < barriers[0].value.lo


def test_a_weight_needs_an_anchor():
    with pytest.raises(ValueError, match=r"weight is 1 and there is no anchor; the connectivity loss needs one"):
        train_two_layer(START, X, CLASSES, steps=1, rate=0.1, weight=1.0)


CLIENTS = [(X[:4], CLASSES[:4]), (X[4:], CLASSES[4:])]


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_one_local_step_is_a_step_on_all_data(weight):
    """With one local step, a round is a step on all data.

    The average weighs clients by their samples, and thus averages gradients. The anchor is the initial model of the
    round.
    """
    federated = START
    for _ in range(3):
        _, networks = _federated_clients(federated, CLIENTS, rounds=1, local_steps=1, rate=0.1, weight=weight)
        central = train_two_layer(federated, X, CLASSES, steps=1, rate=0.1, anchor=federated, weight=weight)
        federated = combination(networks, [1 / 3, 2 / 3])
        assert np.allclose(federated.vector(), central.vector(), rtol=1e-12, atol=1e-12)


def test_rounds_go_on_from_the_average_and_the_last_one_s_clients_are_given():
    chosen = {"local_steps": 4, "rate": 0.2, "weight": 1.0}
    begun, networks = _federated_clients(START, CLIENTS, rounds=1, **chosen)
    assert begun is START
    average = combination(networks, [1 / 3, 2 / 3])
    _, again = _federated_clients(average, CLIENTS, rounds=1, **chosen)
    late, last = _federated_clients(START, CLIENTS, rounds=2, **chosen)
    assert np.array_equal(late.vector(), average.vector())
    assert all(np.array_equal(a.vector(), b.vector()) for a, b in zip(last, again, strict=True))
    assert mean_loss(combination(last, [1 / 3, 2 / 3])) < mean_loss(START)


def test_no_round_is_refused():
    with pytest.raises(ValueError, match="rounds is 0; it must be a positive integer"):
        _federated_clients(START, CLIENTS, rounds=0, local_steps=1, rate=0.1)


def test_an_overflow_is_named():
    with pytest.raises(FloatingPointError, match="a rate of 1e\\+200 is too large"):
        huge = TwoLayer(START.hidden * 1e150, START.readout * 1e150)
        train_two_layer(huge, X * 0.1, CLASSES, steps=3, rate=1e200)


def test_the_table_is_in_order():
    ran = command("connectivity-table", "--samples", "40", "--width", "8", "--steps", "30")
    assert ran.exit_code == 0, ran.output
    rows = ran.output.splitlines()
    assert len(rows) == 14
    for row in rows[1:6]:
        stated, first, sure, data, gap, barrier = (float(cell) for cell in row.split()[-6:])
        assert barrier <= gap * 1.01
        assert gap <= data <= sure
        assert gap <= first <= stated
    assert [row.split(":")[0] for row in rows[6:]] == ["digits, even/odd"] * 4 + ["digits, ten classes"] * 4
    said = ["alone", "connected", "FedAvg", "FedGuCci"] * 2
    assert [row.split(": ")[1].split()[0] for row in rows[6:]] == said


def test_the_cube_around_the_anchor_holds_both_networks_and_no_smaller_one_does():
    networks = [START, train_two_layer(START, X, CLASSES, steps=20, rate=0.5)]
    row = _trained_row("mine", ANCHOR, networks, X, CLASSES, 0.1)
    off = np.array([network.vector() - ANCHOR.vector() for network in networks])
    assert row.side / 2 == np.abs(off).max()
    assert row.barrier <= row.gap <= row.by_data <= row.sure and row.gap <= row.first <= row.stated


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--delta", "1.5"], "delta is 1.5; it must lie between 0 and 1"),
        (["--width", "1000000000000"], "training the networks takes 188 PB of memory and"),
        (["--samples", "5000"], "5000 images are asked for; 1797 distinct ones have target"),
    ],
)
def test_bad_input_is_refused(arguments, said):
    ran = command("connectivity-table", "--steps", "1", *arguments)
    assert ran.exit_code != 0
    assert said in " ".join((ran.output + ran.stderr).split())


def test_an_interrupted_table_has_the_rows_that_are_done(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("experiments.connectivity_rows.trained_rows", interrupted)
    result = command("connectivity-table")
    assert result.exit_code == 130 and len(result.stdout.splitlines()) == 6
    assert result.stderr.splitlines() == ["stopped by Ctrl-C", "5 rows were done, and are printed"]


@pytest.mark.parametrize(("loss", "constant"), [("absolute", 1.0), ("logistic", 1.0), ("cross-entropy", np.sqrt(2))])
def test_a_bound_is_the_constant_times_that_on_the_gap(loss, constant):
    case = CubeFamily(h=4, l=3, side=0.6, n=6, outputs=3 if loss == "cross-entropy" else 1, loss=loss).case(0)
    first, second = case.networks
    terms = _data_bound(first, second, case.x)  # The constant of the absolute loss is 1.
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
    constant = 1 if outputs == 2 else np.sqrt(2)  # For two classes the network has one output and the logistic loss.
    assert row.barrier <= constant * row.gap * (1 + 1e-9) <= row.by_data * (1 + 2e-9)
    assert row.by_data <= row.sure < row.stated
    assert row.by_data <= row.first < row.stated
    assert row.side <= 0.8 * (2 if outputs == 2 else 1), "the difference of two readouts is in a cube twice as large"
    assert row.accuracy is not None
