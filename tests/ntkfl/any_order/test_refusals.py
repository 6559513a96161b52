"""Tests of networks that cannot be certified and of wrong input: each refusal says why."""

from fractions import Fraction

import numpy as np
import pytest
from exact_certificate import fitted
from torch import nn

from ntkfl import (
    Estimate,
    Problem,
    Setup,
    Weights,
    certify_any_order,
    certify_method,
    certify_network,
    certify_rounds,
)
from ntkfl.any_order import held_pairs
from ntkfl.any_order.certificate import _limit
from ntkfl.any_order.constraint_rows import NO_PAIRS, ConstraintRows, passed
from ntkfl.any_order.held_pairs import grown
from ntkfl.any_order.scaled_network import scaled
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
from verification import certify


def test_one_input_with_two_labels_is_named():
    problem, weights = fitted(0, n=4, distance=1e-4)
    x, y = problem.x.copy(), problem.y.copy()
    x[3], y[3] = 2 * x[1], 2 * y[1] + 0.5
    certificate = certify_any_order(Problem(x, y), weights)
    assert not certificate.certified and certificate.why.startswith(
        "samples 1 and 3 have the same input, up to a factor 2,"
    )
    assert certificate.shortfall is None and certificate.to_dict()["distance"] is None
    assert (certificate.final(x) == "open").all() and np.isinf(certificate.enclosure(x).error).all()


def test_labels_that_a_bias_has_rounded_are_told_as_known_or_refused():
    """If labels less the output's bias are rounded, the rounding is part of the residual's error.

    The difference of a label and the bias .1 is no float64. When such differences are rounded, no sample counts as a
    multiple of another.
    """
    problem, weights = fitted(0, n=4, distance=1e-4)
    network = TwoLayer(weights.hidden, weights.signs / np.sqrt(len(weights.hidden)))
    whole = certify_any_order(problem, network)
    moved = Problem(problem.x, problem.y + 0.1, problem.owner)
    certificate = certify_any_order(moved, AffineTwoLayer(network.hidden, network.readout, None, np.array([0.1])))
    exact = [
        Fraction(float(y)) - Fraction(0.1) - Fraction(float(z))
        for y, z in zip(moved.y, certificate.problem.y, strict=True)
    ]
    net = certificate.proof[0].neuron_pass.network
    doubt = np.ldexp(net.y_error, (net.exponent[net.sample] - net.gain)[:, None]).ravel()
    assert any(exact) and all(abs(off) <= Fraction(float(most)) for off, most in zip(exact, doubt, strict=True))
    assert (
        whole.certified
        and certificate.certified
        and certificate.distance.hi == pytest.approx(whole.distance.hi, rel=1e-6)
    )
    shifted = certificate.enclosure(problem.x) - whole.enclosure(problem.x)
    assert np.abs(shifted.value - 0.1).max() < 1e-6
    x, y = problem.x.copy(), moved.y.copy()
    x[3], y[3] = 2 * x[1], 2 * (y[1] - 0.1) + 0.1
    doubled = certify_any_order(Problem(x, y), certificate.network)
    assert not doubled.certified and "subtracting the output's bias rounds them" in doubled.why
    with pytest.raises(ValueError, match="takes 6 features; data has 4"):
        certify_any_order(problem, AffineTwoLayer(np.ones((3, 6)), np.ones(3)))
    with pytest.raises(ValueError, match="has 2 outputs; data has 1 label a sample"):
        certify_any_order(problem, AffineTwoLayer(np.ones((3, 4)), np.ones((2, 3))))


@pytest.mark.parametrize("fraction", [3.0, -1 / 3])
def test_dependent_samples_are_named(fraction):
    """Samples that depend on each other are named.

    Sample 3 is 3 times or -1/3 times sample 1. Its active neurons are those of sample 1, or all the others.
    """
    problem, weights = fitted(0, n=4, distance=1e-4)
    x = problem.x.copy()
    x[3] = fraction * x[1]
    certificate = certify_any_order(Problem(x, weights.outputs(x)), weights)
    if fraction > 0:
        assert not certificate.certified and "samples 1, 3 depend on each other" in certificate.why, certificate.why
    else:
        assert certificate.certified  # Sample 3 activates the neurons that sample 1 does not.


def test_neurons_with_more_kinks_than_features_are_named():
    problem, weights = fitted(0, n=4, d=2, distance=1e-6)
    hidden = weights.hidden.copy()
    hidden[5] = 0  # Neuron 5 is on the kinks of all four samples.
    weights = Weights(hidden, weights.signs)
    certificate = certify_any_order(problem, weights)
    assert not certificate.certified and "(5, " in certificate.why and "full row rank" in certificate.why


def test_a_network_that_is_too_far_says_by_how_much():
    problem, weights = fitted(3, n=4, d=5, width=64, distance=1.0)
    certificate = certify_any_order(problem, weights)
    assert (
        not certificate.certified
        and certificate.why
        and certificate.shortfall is not None
        and certificate.shortfall >= 2
    )
    outputs = weights.outputs(problem.x)
    nearer = Problem(problem.x, outputs + (problem.y - outputs) / certificate.shortfall, problem.owner)
    assert certify_any_order(nearer, weights).certified
    assert certificate.to_dict()["why"] == certificate.why and certificate.to_dict()["step_limit"] == 0


def test_memory_is_said_before_starting():
    problem, weights = fitted(0, n=4)
    with pytest.raises(
        ValueError, match=r"4 labels at width 36 takes .* GB before any pair is held, and memory is 0.001"
    ):
        certify_any_order(problem, weights, memory=1e6)


def test_memory_without_end_is_memory():
    problem, weights = fitted(0, n=4, d=5, width=64, distance=1e-3)
    one, other = (certify_any_order(problem, weights, memory=memory) for memory in (np.inf, 8e9))
    assert one.certified == other.certified and one.held.tolist() == other.held.tolist()
    with pytest.raises(ValueError, match="memory is nan; it must be 0 or more"):
        certify_any_order(problem, weights, memory=np.nan)


def test_an_infinite_distance_never_certifies(monkeypatch):
    """A network at an infinite distance is never certified.

    A is the set of the pairs of a neuron and a sample at whose kink the neuron may stay. If no pair is outside A, the
    least margin is infinite. If the distance is infinite too, subtracting the distance from this margin gives a NaN.
    """
    honest = ConstraintRows.nearest

    def far(self, scale=1.0):
        distance = honest(self, scale)
        return type(distance)(distance.solution, distance.slack, Estimate.between(0, np.inf, "none"))

    monkeypatch.setattr(ConstraintRows, "nearest", far)
    monkeypatch.setattr(held_pairs, "failures", lambda *args: (np.inf, NO_PAIRS))
    certificate = certify_any_order(*fitted(0, n=4, d=5, width=64, distance=1e-3))
    assert not certificate.certified and certificate.why and not certificate.margin > 0


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_search_without_end_keeps_the_last_a_that_was_solved(rounds, monkeypatch):
    """If the search for held pairs does not end, the last set A whose system was solved is kept.

    A and W* then belong together, even if the next A, whose system is not solved, has dependent rows.
    """
    monkeypatch.setattr(held_pairs, "ROUNDS", rounds)
    seen = 0
    for seed in range(12):
        problem, weights = fitted(seed, n=4, d=5, width=64, distance=2e-2)
        certificate = certify_any_order(problem, weights)
        if certificate.why.startswith("no end"):
            seen += 1
            point = certificate.fitted_weights()
            assert not certificate.certified and certificate.to_dict() and f"after {rounds} round" in certificate.why
            held = [abs(point[r] @ problem.x[i]) for r, i in certificate.held.tolist()]
            assert max(held, default=0) <= 1e-9 and np.isfinite(float(certificate.smallest_eigenvalue.lo))
    assert seen


def test_a_norm_that_is_no_number_allows_no_step():
    assert _limit(float("nan")) == 0 and 0.49 < _limit(4.0) <= 0.5


def test_a_limit_on_held_pairs_is_kept():
    problem, weights = fitted(0, n=4, width=64, distance=1e-6)
    hidden = weights.hidden.copy()
    for r in range(8):
        hidden[r] -= (hidden[r] @ problem.x[r % 4]) * problem.x[r % 4]
    weights = Weights(hidden, weights.signs)
    problem = Problem(problem.x, weights.outputs(problem.x) + 1e-6)
    count = len(certify_any_order(problem, weights).held)
    certificate = certify_any_order(problem, weights, most_held=count - 1)
    assert (
        not certificate.certified
        and certificate.why.startswith("A is too large: ")
        and f"limit is {count - 1}" in certificate.why
    )


@pytest.mark.parametrize("most_held", [-1, 2.5, True, np.nan])
def test_a_limit_that_is_no_number_of_pairs_is_refused(most_held):
    """A negative or fractional limit is refused.

    With -1 an earlier version checked no pair, and certified every network with independent rows.
    """
    with pytest.raises(ValueError, match=r"most_held is .*; it must be an integer, 0 or more"):
        certify_any_order(*fitted(3, n=4, d=5, width=64, distance=1.0), most_held=most_held)


def test_pairs_that_are_not_looked_at_do_not_pass():
    start = passed(scaled(*fitted(3, n=4, d=5, width=64, distance=1.0)))
    assert grown(start, most_held=-1, most_near=2**20).why


BAD = {
    "nan": (
        lambda h, s: Weights(np.where(np.arange(len(h))[:, None] == 2, np.nan, h), s),
        r"hidden\[2, 0\] is nan; every entry must be finite",
    ),
    "infinite": (
        lambda h, s: Weights(h, np.where(s > 0, np.inf, s)),
        r"signs\[.*\] is inf; every entry must be finite",
    ),
    "sign": (lambda h, s: Weights(h, s * 2), r"sign of neuron 0 is -?2.0; every sign must be \+1 or -1"),
    "width": (lambda h, s: Weights(h, s[1:]), r"signs have shape \(35,\)"),
    "features": (lambda h, s: Weights(h[:, 1:], s), r"hidden weights have shape \(36, 3\); the data need \(width, 4\)"),
    "outputs": (lambda h, s: TwoLayer(h, np.stack([s, s])), r"readout have shape \(2, 36\)"),
    "nothing": (lambda h, s: TwoLayer(h, 0 * s), "readout is 0"),
    "huge": (lambda h, s: Weights(h * 1e60, s), "rescale the data"),
    "underflow": (lambda h, s: TwoLayer(h, np.where(s > 0, 1e-310, 1e30)), "below 1e-250"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_weights_are_refused(kind):
    problem, weights = fitted(0)
    change, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        certify_any_order(problem, change(weights.hidden, weights.signs))


@pytest.mark.parametrize("shape", [(36,), (2, 36), (36, 2)])
def test_signs_are_for_one_output(shape):
    problem, weights = fitted(0)
    two = Problem(problem.x, np.stack([problem.y, problem.y], axis=1), problem.owner)
    with pytest.raises(
        ValueError, match=r"labels of shape \(3, 2\) need a readout for each of 2 outputs, and signs are"
    ):
        certify_any_order(two, Weights(weights.hidden, np.ones(shape)))


def test_bad_inputs_of_predictions_are_refused():
    certificate = certify_any_order(*fitted(0, distance=1e-5, width=64))
    assert certificate.certified
    for x, message in (
        (np.zeros((2, 3)), r"x has shape \(2, 3\)"),
        (np.full((1, 4), np.nan), r"x\[0, 0\] is nan; every entry must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            certificate.final(x)
    for batch in (0, True, 1.5):
        with pytest.raises(ValueError, match="must be a positive integer"):
            certificate.step_limit_for(batch)


DOORS = {
    "any order": lambda problem, weights, setup, network: certify_any_order(problem, weights),
    "method": lambda problem, weights, setup, network: certify_method(problem, weights, setup),
    "network": lambda problem, weights, setup, network: certify_network(network, None, problem),
    "rounds": lambda problem, weights, setup, network: certify_rounds(network, None, problem, setup),
    "before training": lambda problem, weights, setup, network: certify(problem, setup, weights),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_problem_and_no_setup_is_refused_by_its_type(door):
    """Wrong types are refused with the type that is needed; an array in place of a Problem once ended in an
    AttributeError.
    """
    problem, weights = fitted(0)
    network, setup = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double(), Setup(width=36)
    for wrong, words in (
        (problem.x, r"ndarray, with shape \(3, 4\)"),
        ((problem.x, problem.y), "tuple"),
        (None, "NoneType"),
    ):
        with pytest.raises(
            ValueError, match=f"problem is of type {words}; it must be of type Problem, such as ntkfl.P"
        ):
            DOORS[door](wrong, weights, setup, network)
    if door not in ("any order", "network"):
        with pytest.raises(ValueError, match="setup is of type float; it must be of type Setup"):
            DOORS[door](problem, weights, 0.1, network)


def test_other_things_of_another_type_are_refused():
    problem, weights = fitted(0)
    network, setup = nn.Sequential(nn.Linear(4, 1)).double(), Setup()
    for ask, why in (
        (lambda: certify_any_order(problem, weights.hidden), r"weights is a ndarray; it must be ntkfl.Weights\(hidden"),
        (lambda: certify_method(problem, (weights.hidden,), setup), "weights is 1 things; it must be"),
        (lambda: certify_any_order(problem, weights, loss=3), "loss is of type int; it must be of type ConvexLoss"),
        (lambda: certify_any_order(problem, weights, memory="all"), "memory is 'all'; it must be a number"),
        (lambda: certify_method(problem, weights, setup, 3), "method is of type int; it must be of type str"),
        (lambda: certify_method(problem, weights, setup, "fedprox", "mu=1"), "options is of type str; it must be of"),
        (lambda: certify_rounds(network, None, problem, setup, method=3), "method is of type int"),
        (lambda: certify_network(network, [1], problem), "params is of type list; it must be of type Mapping"),
    ):
        with pytest.raises(ValueError, match=why):
            ask()


def test_a_row_of_zeros_is_named():
    problem, weights = fitted(0)
    x = problem.x.copy()
    x[1] = 0
    with pytest.raises(ValueError, match="row 1 of x is zero: it has no direction"):
        certify_any_order(Problem(x, problem.y), weights)
