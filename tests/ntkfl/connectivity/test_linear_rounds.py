"""Tests of FedGuCci on a linear model: in rational arithmetic FedGuCci equals FedAvg with other rates.

The integral in FedGuCci's gradient is tested too.
"""

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given, settings, strategies as st

from ntkfl import data, gram, kernel_regime
from ntkfl.connectivity.kernel_regime_fedgucci import equivalent_setup, overshoot
from ntkfl.connectivity.linear_rounds import LinearRounds, double, extended, fedavg, fedgucci, rational
from ntkfl.problem import Setup


def run(seed=0, **changed):
    rng = np.random.default_rng(seed)
    owner = np.array([0, 0, 1, 2, 2])
    fields = {
        "features": rng.integers(-8, 9, (5, 3)) / 8,
        "labels": rng.integers(-8, 9, 5) / 8,
        "owner": owner,
        "scale": np.array([1.0, 2.0, 1.0]),
        "weights": np.array([2.0, 1.0, 3.0]),
        "start": rng.integers(-8, 9, 3) / 8,
        "participants": ((0, 1), (2,), (0, 1, 2)),
        "eta_local": 0.25,
        "eta_global": 1.25,
        "local_steps": 3,
    }
    return LinearRounds(**(fields | changed))


def rates(setting, beta):
    share = fmpq(*float(beta).as_integer_ratio())
    local, server = (fmpq(*float(eta).as_integer_ratio()) for eta in (setting.eta_local, setting.eta_global))
    return local * (1 + share / 3), server * (1 + share / (6 + 2 * share)), share / (6 + 3 * share)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.125, 1.0, 2.5, 40.0]), st.integers(1, 4))
def test_one_anchor_is_fedavg_with_two_steps_rescaled_in_rationals(seed, beta, local_steps):
    setting = run(seed, local_steps=local_steps)
    local, server, _ = rates(setting, beta)
    assert (fedgucci(setting, beta, 1, rational) == fedavg(setting, local, server, arithmetic=rational)).all()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([0.125, 1.0, 2.5]), st.integers(1, 4))
def test_several_anchors_pull_the_start_in_rationals(seed, beta, anchors):
    setting = run(seed)
    local, server, pull = rates(setting, beta)
    pulled = fedavg(setting, local, server, pull=pull, anchors=anchors, arithmetic=rational)
    assert (fedgucci(setting, beta, anchors, rational) == pulled).all()
    plain = fedavg(setting, local, server, arithmetic=rational)
    assert (plain == pulled).all() == (anchors == 1)


@pytest.mark.parametrize("degree", [2, 4])
def test_the_connectivity_gradient_is_the_derivative_of_the_integrated_loss(degree):
    setting = run(degree=degree, participants=((0,),), local_steps=1, eta_global=1.0)
    share, own = 2.0, setting.owner == 0
    nodes, heights = np.polynomial.legendre.leggauss(8)

    def objective(w):
        total = 0.0
        for alpha, part in zip((nodes + 1) / 2, heights / 2, strict=True):
            between = alpha * w + (1 - alpha) * setting.start
            total += part * ((setting.features[own] @ between - setting.labels[own]) ** degree).sum() / degree
        return ((setting.features[own] @ w - setting.labels[own]) ** degree).sum() / degree + share * total

    step = fedgucci(setting, share)[1] - setting.start
    small = 1e-6
    slope = [
        (objective(setting.start + small * e) - objective(setting.start - small * e)) / 2 / small for e in np.eye(3)
    ]
    assert step == pytest.approx(-setting.eta_local * np.array(slope), rel=1e-7, abs=1e-9)


def test_without_connectivity_loss_it_is_fedavg_whatever_the_anchors():
    setting = run()
    plain = fedavg(setting, setting.eta_local, setting.eta_global)
    assert fedgucci(setting, 0.0, 3) == pytest.approx(plain, rel=1e-14)


def test_precisions_agree():
    setting = run()
    paths = [np.array(fedgucci(setting, 1.5, 2, how).tolist(), dtype=object) for how in (double, extended, rational)]
    exact = np.array([[float(int(v.p)) / int(v.q) for v in row] for row in paths[2]])
    assert np.array(paths[0], float) == pytest.approx(exact, rel=1e-13, abs=1e-15)
    assert np.array(paths[1], float) == pytest.approx(exact, rel=1e-15, abs=1e-16)


def test_at_infinite_width_it_is_the_kernel_regime_of_the_equivalent_setup():
    problem = data.sphere(8, 4, seed=3, clients=2)
    setup, beta = Setup(eta_local=0.3, eta_global=0.8, local_steps=3, rounds=6), 1.5
    factor = np.linalg.cholesky(gram.infinite(problem.x))  # The features have the infinite-width kernel.
    setting = run(
        features=factor,
        labels=problem.y,
        owner=problem.owner,
        scale=np.ones(2),
        weights=np.ones(2),
        start=np.zeros(8),
        participants=((0, 1),) * setup.rounds,
        eta_local=setup.eta_local,
        eta_global=setup.eta_global,
        local_steps=setup.local_steps,
    )
    outputs = kernel_regime(problem, equivalent_setup(setup, beta)).outputs(np.arange(setup.rounds + 1))
    assert fedgucci(setting, beta) @ factor.T == pytest.approx(outputs, abs=1e-12)


def test_a_converged_client_overshoots():
    setting = run(local_steps=3000, participants=((1,),), eta_global=1.0, eta_local=0.1)
    own = setting.owner == 1
    before, after = (setting.features[own] @ w - setting.labels[own] for w in fedgucci(setting, 1.0))
    assert after == pytest.approx(-overshoot(1.0) * before, rel=1e-9)
    assert overshoot(1.0) == 0.125


def test_the_spread_between_clients_may_fall_while_every_client_moves_farther():
    """In one round the models of two clients may come closer to each other although each of them moves farther.

    The clients have the curvatures 1 and .1, and the same optimum. With beta = 6 both move farther than with beta = 0,
    and their models are closer to each other.
    """
    setting = run(
        features=np.sqrt([[1.0], [0.1]]),
        labels=np.sqrt([1.0, 0.1]),
        owner=np.array([0, 1]),
        scale=np.ones(2),
        weights=np.ones(2),
        start=np.zeros(1),
        participants=((0,), (1,)),
        eta_local=0.3,
        eta_global=1.0,
        local_steps=10,
    )
    moves = []
    for beta in (0.0, 6.0):
        alone = [fedgucci(run(**{**vars(setting), "participants": ((c,),)}), beta)[1, 0] for c in (0, 1)]
        moves.append(alone)
    plain, connected = moves
    assert min(connected[c] / plain[c] for c in (0, 1)) > 1 + overshoot(6.0) - 1e-12
    assert abs(connected[0] - connected[1]) < abs(plain[0] - plain[1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.ones(4)}, r"labels has shape \(4,\); 5 samples, 3 features, 3 clients need \(5,\)"),
        ({"start": np.array([1.0, np.nan, 0.0])}, r"start\[1\] is nan; every entry must be finite"),
        ({"owner": np.array([0, 0, 1, 1, 1])}, r"owned by clients \[0, 1\]; with 3 weights each of 0..2 has some"),
        ({"weights": np.array([1.0, 0.0, 1.0])}, "smallest client weight is 0.0; every weight must be positive"),
        ({"participants": ((0,), ())}, r"round 1 has the participants \(\); it needs some of \[0, 1, 2\]"),
        ({"participants": ((0, 0),)}, r"round 0 has the participants \(0, 0\)"),
        ({"degree": 3}, "degree is 3; it must be 2 or 4"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(ValueError, match=message):
        run(**changed)


def test_no_anchor_and_bad_beta():
    with pytest.raises(ValueError, match="anchors is 0; FedGuCci needs at least 1"):
        fedgucci(run(), 1.0, 0)
    for beta in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"beta is {beta}; the weight of the connectivity loss must be 0 or"):
            equivalent_setup(Setup(), beta)
