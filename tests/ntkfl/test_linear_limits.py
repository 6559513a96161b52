"""Tests of the exact limit of every linear method against the training engine on a linearised network."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from linear_methods import EACH, METHODS, quietly, ragged

from ntkfl import gram, kernel_regime
from ntkfl.exact_dynamics import UnstableSteps
from ntkfl.initialisation import draw
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.problem import Setup
from ntkfl.training.methods import build, catalogue
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.wide_training import wide_federation

WIDTH = 60


def trained(problem, setup, method, options, z=None):
    """Returns the outputs of the engine's rounds on the linearised network, at the samples and at z, and its Gram
    matrix.
    """
    weights = draw(setup.width, problem.d, setup.seed)
    run = wide_federation(problem, setup, weights, method=build(method, HalfSquares("sum"), **options), linearised=True)
    state, points = run.start(), run.data.x if z is None else run.data.x.new_tensor(z)
    outputs = []
    outputs.append(run.model.outputs(state.model, points).numpy())
    for _ in range(setup.rounds):
        state = run.round(state).state
        outputs.append(run.model.outputs(state.model, points).numpy())
    return np.array(outputs), weights


@pytest.mark.quick_rows(4)
@EACH
@settings(deadline=None, max_examples=6)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    eta=st.floats(0.02, 0.6),
    steps=st.integers(1, 5),
    repeated=st.booleans(),
    seed=st.integers(0, 2**16),
)
@example(sizes=[1, 3, 2], eta=0.3, steps=3, repeated=True, seed=1)
@quietly
def test_the_engine_trains_a_linearised_network_so(method, options, sizes, eta, steps, repeated, seed):
    problem = ragged(sizes, seed=seed, repeated=repeated)
    setup = Setup(width=WIDTH, eta_local=eta, local_steps=steps, rounds=8, seed=seed)
    outputs, weights = trained(problem, setup, method, options)
    regime = kernel_regime(problem, setup, gram.finite(problem.x, weights.hidden), method, options)
    predicted = regime.outputs(np.arange(9), weights.outputs(problem.x))
    assert np.abs(predicted - outputs).max() <= 1e-12 * max(1, np.abs(outputs).max())


@pytest.mark.quick_rows(4)
@EACH
@quietly
def test_rounds_counted_many_at_once_are_those_of_the_residuals(method, options):
    problem = ragged((3, 1, 4), seed=4)
    regime = kernel_regime(problem, Setup(eta_local=0.1, local_steps=3), None, method, options)
    sizes = np.linalg.norm(regime.residual(np.arange(2000)), axis=1) / np.linalg.norm(problem.y)
    for eps in (0.9, 0.3, 0.1, 0.03):
        assert regime.rounds_to(eps) == np.argmax(sizes <= eps) > 0


@EACH
def test_predictions_are_those_of_the_linearised_network_and_movement_its_weights(method, options):
    problem, setup = ragged((3, 1, 4)), Setup(width=WIDTH, eta_local=0.3, local_steps=3, rounds=9)
    z = ragged((5,), seed=3).x
    outputs, weights = trained(problem, setup, method, options, z)
    h = gram.finite(problem.x, weights.hidden)
    cross = gram.finite(z, weights.hidden, z=problem.x)
    regime = kernel_regime(problem, setup, h, method, options)
    start = {"initial_outputs": weights.outputs(problem.x)}
    predicted = regime.predict(None, np.arange(10), initial_prediction=weights.outputs(z), cross_gram=cross, **start)
    assert np.abs(predicted - outputs).max() <= 1e-12
    change = regime.outputs(9, **start) - start["initial_outputs"]
    assert regime.movement(9, **start) == pytest.approx(np.sqrt(change @ np.linalg.solve(h, change)), rel=1e-9)


@pytest.mark.quick_rows(4)
@EACH
def test_the_spectrum_is_that_of_the_round_map_and_decides_the_pace(method, options):
    problem, setup = ragged((3, 1, 4), d=12), Setup(eta_local=0.3, local_steps=3)
    regime = kernel_regime(problem, setup, None, method, options)
    dense = np.linalg.eigvals(regime.round_map)
    # Double roots are found to 1e-8 only.
    assert np.abs(np.sort(np.abs(dense)) - np.abs(regime.spectrum)).max() <= 1e-7
    for z in regime.spectrum:  # Every value of the spectrum is an eigenvalue of the dense map.
        assert np.abs(dense - z).min() <= 1e-7
    assert regime.stable and regime.rate < 1
    norms = np.linalg.norm(regime.residual(np.array([400, 800])), axis=1)
    assert (norms[1] / norms[0]) ** (1 / 400) == pytest.approx(regime.rate, rel=2e-3)
    first = regime.rounds_to(1e-4)
    size = np.linalg.norm(regime.residual(np.array([0, first - 1, first])), axis=1)
    assert size[2] <= 1e-4 * size[0] < size[1]


def test_algorithm_1_and_fedavg_have_one_round_map_under_one_name():
    problem, setup = ragged((4, 4, 4), d=12), Setup(eta_local=0.3, local_steps=3)
    ours, fedavg = kernel_regime(problem, setup), kernel_regime(problem, setup, None, "fedavg")
    assert np.abs(ours.round_map - fedavg.round_map).max() <= 1e-14
    with pytest.raises(AttributeError, match="LinearRegime has no state_map: it is called round_map"):
        _ = fedavg.state_map


@pytest.mark.parametrize(
    ("method", "options"), [m for m in METHODS if m[0] in ("fl-ntk", "fedavg", "fedprox", "fedavgm")]
)
def test_the_limit_of_the_server_rate_separates(method, options):
    problem, setup = ragged((3, 1, 4), d=12), Setup(eta_local=0.3, local_steps=3)
    limit = kernel_regime(problem, setup, None, method, options).step_limits.eta_global
    below = kernel_regime(problem, setup, None, method, options | {"server_rate": limit * (1 - 1e-6)})
    assert below.stable and below.rate < 1 and below.step_warning is None
    with pytest.warns(UnstableSteps, match=f"stable for a server rate below {limit:.6g}"):
        above = kernel_regime(problem, setup, None, method, options | {"server_rate": limit * (1 + 1e-6)})
    assert not above.stable and above.rate > 1
    with pytest.raises(ValueError, match="no number of rounds"):
        above.rounds_to(1e-3)


def test_where_methods_are_the_same():
    problem, setup = ragged((3, 3, 3)), Setup(eta_local=0.2, local_steps=4, eta_global=1.0)
    t = np.arange(30)
    ours = kernel_regime(problem, setup).outputs(t)
    for method, options in (
        ("fl-ntk", {"server_rate": 1.0}),
        ("fedavg", {}),  # All clients have one size, so their weights are equal.
        ("fedprox", {"mu": 0.0}),
        ("fednova", {}),
        ("fedavgm", {"momentum": 0.0}),
        ("fedavgm", {"momentum": 0.0, "nesterov": True}),
    ):
        assert np.abs(kernel_regime(problem, setup, None, method, options).outputs(t) - ours).max() <= 1e-13
    alone = replace(problem, owner=None)  # One client has no drift.
    one = kernel_regime(alone, setup).outputs(t)
    assert np.abs(kernel_regime(alone, setup, None, "scaffold").outputs(t) - one).max() <= 1e-13


def test_several_outputs_are_each_of_them():
    problem, setup = ragged((3, 1, 4)), Setup(eta_local=0.3, local_steps=2)
    both = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    for method, options in METHODS:
        together = kernel_regime(both, setup, None, method, options).outputs(7)
        for k in range(2):
            one = kernel_regime(replace(problem, y=both.y[:, k]), setup, None, method, options)
            assert np.abs(together[:, k] - one.outputs(7)).max() <= 1e-14


def test_the_largest_eigenvalues_of_a_large_map_are_those_of_the_whole(monkeypatch):
    problem, setup = ragged((9, 4, 12), d=30), Setup(eta_local=0.3, local_steps=3)
    for method, options in (("scaffold", {"option": "I"}), ("feddyn", {"alpha": 0.05}), ("cyclic", {})):
        whole = kernel_regime(problem, setup, None, method, options).rate
        monkeypatch.setattr("ntkfl.limit.linear_regime.DENSE", 10)
        large = kernel_regime(problem, setup, None, method, options)
        assert large.rate == pytest.approx(whole, rel=1e-9)
        monkeypatch.undo()


@pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")  # The last case is beyond the limit.
@pytest.mark.parametrize(("method", "options"), [("fedavg", {}), ("fedavgm", {}), ("fedavgm", {"nesterov": True})])
def test_at_the_largest_server_rate_it_is_not_decided_whether_residuals_fall(method, options):
    problem, setup = ragged((9, 4, 12), d=30), Setup(eta_local=0.3, local_steps=3)
    limit = kernel_regime(problem, setup, None, method, options).step_limits.eta_global
    for factor, stable, undecided in ((1 - 1e-9, True, False), (1, False, True), (1 + 1e-9, False, False)):
        at = kernel_regime(problem, setup, None, method, options | {"server_rate": factor * limit})
        assert (at.stable, at.undecided) == (stable, undecided)
        assert (at.step_warning is None) == (stable or undecided)


def test_large_maps_are_stable_only_beyond_the_error_of_their_rate(monkeypatch):
    problem, setup = ragged((9, 4, 12), d=30), Setup(eta_local=0.3, local_steps=3)
    monkeypatch.setattr("ntkfl.limit.linear_regime.DENSE", 0)
    turns = kernel_regime(problem, Setup(eta_local=1e-9, local_steps=1), None, "cyclic")
    assert turns.rate > 1 - 1e-6 and turns.stable and not turns.undecided  # Every client contracts.
    other = kernel_regime(problem, setup, None, "scaffold", {"option": "I"})
    assert other.round.outer is None and other.round.in_turn is None
    for rate, stable, undecided in (
        (0.9, True, False),
        (1 - 1e-8, False, True),
        (1.0, False, True),
        (1.1, False, False),
    ):
        same = replace(other)
        vars(same)["rate"] = rate
        assert (same.stable, same.undecided) == (stable, undecided)


def test_every_method_has_a_limit_or_says_why_not():
    problem = ragged((2, 2))
    for name, module in catalogue().items():
        assert not (hasattr(module, "linear") and hasattr(module, "NOT_LINEAR")), name
        if hasattr(module, "NOT_LINEAR"):
            with pytest.raises(ValueError, match=f"^{name.replace('+', '.')} has no exact linear limit: .*fedavg, "):
                kernel_regime(problem, Setup(), None, name)
        else:
            # With its default alpha fedgucci draws points of interpolation, so that its steps are random.
            options = {"alpha": "gauss2"} if name == "fedgucci" else {}
            assert isinstance(kernel_regime(problem, Setup(), None, name, options), LinearRegime) or name == "fl-ntk"


@pytest.mark.parametrize(
    ("setup", "method", "options", "message"),
    [
        (Setup(), "fedavgg", {}, "there is no method 'fedavgg'. Did you mean 'fedavg"),
        (Setup(), "fedprox", {"mu": -1.0}, "mu is -1; it must be 0 or more"),
        (Setup(), "fedavgm", {"momentum": 1.0}, r"momentum is 1; it must lie in \[0, 1\)"),
        (Setup(), "scaffold", {"alpha": 1.0}, "scaffold has no option 'alpha'"),
        (Setup(eta_global=2.0), "feddyn", {}, "eta_global is 2; feddyn has no server_rate: leave it at 1"),
        (Setup(eta_global=2.0), "fedavg", {"server_rate": 1.0}, "eta_global is 2 and server_rate 1.0; both are the"),
    ],
)
def test_bad_requests_are_refused(setup, method, options, message):
    with pytest.raises(ValueError, match=message):
        kernel_regime(ragged((2, 2)), setup, None, method, options)


def test_a_residual_where_the_gram_matrix_is_zero_stays():
    problem = ragged((3, 3), repeated=True)
    regime = kernel_regime(problem, Setup(eta_local=0.3), None, "fedavgm", {"momentum": 0.5})
    assert regime.step_warning is None
    with pytest.raises(ValueError, match=r"the residual norm does not fall to .* of it stays"):
        regime.rounds_to(1e-9)
    with pytest.raises(ValueError, match="eps is 0"):
        regime.rounds_to(0)
