"""Tests of linear limits that are found by differentiating the training engine's round.

The limits equal the closed forms. The limits of methods with IMA's moving windows of models are tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import EACH, METHODS, quietly, ragged

from ntkfl import gram, kernel_regime
from ntkfl.exact_dynamics import MovingWindow, of_method
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.problem import Setup
from ntkfl.training.engine.differentiated_round import differentiated
from ntkfl.training.engine.ima import averaged
from ntkfl.training.methods import build, catalogue, module_of
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.wide_training import wide_federation

WITHOUT_A_FORMULA = (
    ("fedgucci", {"alpha": "gauss2", "beta": 0.5}, 0.0),
    ("fedgucci", {"alpha": "half", "step": "sequential"}, 0.0),
    ("fedgucci", {"alpha": "half", "anchor_history": "client"}, 0.0),
    ("fl-ntk", {}, 0.5),
    ("fednova", {}, 0.5),
    ("scaffold", {"server_rate": 0.8}, 0.7),
    ("feddyn", {"alpha": 2.0}, 0.3),
    ("fedavgm", {"nesterov": True, "momentum": 0.4}, 0.5),
)
OWN = '''
from ntkfl.training.method import Average, Method, moved
from ntkfl.training.tree import tree_map

NAME = "late"


def method(objective, *, power: float = 1.0, unit: float = 1.0):
    """The server goes by the mean of this round's and the last round's differences, the latter to a power."""
    return Method(NAME, objective, server=Late(power=power, unit=unit))


class Late(Average):
    def __init__(self, power, unit):
        super().__init__()
        object.__setattr__(self, "power", power)
        object.__setattr__(self, "unit", unit)

    def initial(self, params):
        return {"model": params, "last": tree_map(lambda w: 0 * w, params)}

    def step(self, state, means, now):
        mean = tree_map(lambda d: self.unit * d.sign() * d.abs() ** self.power, means["difference"])
        both = tree_map(lambda new, old: (new + old / self.unit) / 2, means["difference"], state["last"])
        return super().step(state, {"difference": both}, now) | {"last": mean}
'''

BOUNDED = '''
from ntkfl.training.method import Average, Method
from ntkfl.training.tree import tree_map

NAME = "bounded"


def method(objective):
    """The server keeps every weight within 3."""
    return Method(NAME, objective, server=Bounded())


class Bounded(Average):
    def step(self, state, means, now):
        after = super().step(state, means, now)
        return after | {"model": tree_map(lambda w: w.clamp(-3, 3), after["model"])}
'''


def engine(problem, setup, method, momentum=0.0):
    """Returns the outputs of the engine's rounds on the network linearised at its drawn weights, and these weights."""
    weights = draw(setup.width, problem.d, setup.seed)
    optimizer = SGD(momentum)
    run = wide_federation(problem, setup, weights, method=method, linearised=True, optimizer=optimizer)
    state, outputs = run.start(), []
    for _ in range(setup.rounds + 1):
        outputs.append(run.model.outputs(state.model, run.data.x).numpy())
        state = run.round(state).state
    return np.array(outputs), weights


@pytest.mark.quick_rows(4)
@EACH
@settings(deadline=None, max_examples=6)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    eta=st.floats(0.02, 0.6),
    steps=st.integers(1, 5),
    uneven=st.booleans(),
    factors=st.lists(st.floats(0.1, 1.5), max_size=4),
    repeated=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_closed_forms_are_the_derivative_of_the_engine_s_round(
    method, options, sizes, eta, steps, uneven, factors, repeated, seed
):
    base = algorithm1_limit(ragged(sizes, seed=seed, repeated=repeated), Setup(eta_local=eta, local_steps=steps))
    own = tuple(1 + (steps + client) % 4 for client in range(len(sizes))) if uneven else ()
    closed = of_method(base, method, options, client_steps=own or None, step_factors=factors)
    blocks = replace(base.blocks, steps=max(own, default=steps), client_steps=own, factors=tuple(factors))
    step = differentiated(build(method, HalfSquares("sum"), **options), blocks)
    other = LinearRegime(base.problem, base.setup, base.gram, method=method, round=step)
    t = np.arange(25)
    expected = closed.residual(t)
    assert np.abs(other.residual(t) - expected).max() <= 1e-10 * max(1, np.abs(expected).max())
    if not repeated:  # Double roots are found to 1e-8 only.
        assert other.rate == pytest.approx(closed.rate, abs=1e-7)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("method", "options", "momentum"), WITHOUT_A_FORMULA)
@quietly
def test_without_a_formula_the_engine_trains_a_linearised_network_so(method, options, momentum):
    problem = ragged((3, 1, 4), seed=1)
    setup = Setup(width=60, eta_local=0.15, local_steps=4, rounds=12)
    outputs, weights = engine(problem, setup, build(method, HalfSquares("sum"), **options), momentum)
    h = gram.finite(problem.x, weights.hidden)
    regime = kernel_regime(problem, setup, h, method, options, momentum)
    predicted = regime.outputs(np.arange(13), weights.outputs(problem.x))
    assert np.abs(predicted - outputs).max() <= 1e-10 * np.abs(outputs).max()
    limits = regime.step_limits
    assert np.isnan(limits.eta_local)
    with_a_rate = method in ("scaffold", "fedavgm", "fl-ntk")
    assert np.isnan(limits.eta_global) != with_a_rate
    if with_a_rate:
        base = algorithm1_limit(problem, setup, h)
        at = [
            of_method(base, method, {**options, "server_rate": share * limits.eta_global}, momentum)
            for share in (0.9999, 1.0001)
        ]
        assert [np.abs(np.linalg.eigvals(place.round_map)).max() < 1 for place in at] == [True, False]


@quietly
@pytest.mark.parametrize("method", ["scaffold", "cyclic"])
def test_the_server_rate_that_is_searched_for_is_where_stability_ends(method):
    problem, setup = ragged((3, 1, 4), seed=1), Setup(eta_local=0.2, local_steps=3)
    limit = kernel_regime(problem, setup, None, method).step_limits.eta_global
    radii = []
    for share in (0.9999, 1.0001):
        at = kernel_regime(problem, setup, None, method, {"server_rate": share * limit})
        radii.append(np.abs(np.linalg.eigvals(at.round_map)).max())
    assert radii[0] < 1 < radii[1]
    again = ragged((3, 1, 4), seed=1, repeated=True)
    # The repeated sample gives H a null space.
    assert kernel_regime(again, setup, None, method).step_limits.eta_global == 0


def test_momentum_of_the_clients_is_heard():
    problem, setup = ragged((3, 1, 4), seed=1), Setup(eta_local=0.05, local_steps=4)
    slow, fast = (kernel_regime(problem, setup, momentum=b).rate for b in (0.0, 0.6))
    assert fast < slow and kernel_regime(problem, setup).rate == slow


def test_a_method_of_a_user_has_its_limit_too(tmp_path):
    file = tmp_path / "late.py"
    file.write_text(OWN)
    problem, setup = ragged((2, 3), seed=2), Setup(width=40, eta_local=0.2, local_steps=2, rounds=10)
    outputs, weights = engine(problem, setup, build(str(file), HalfSquares("sum")))
    regime = kernel_regime(problem, setup, gram.finite(problem.x, weights.hidden), str(file))
    predicted = regime.outputs(np.arange(11), weights.outputs(problem.x))
    assert np.abs(predicted - outputs).max() <= 1e-10 * np.abs(outputs).max()
    assert regime.method == "late" and regime.round_map.shape == (10, 10)
    with pytest.raises(ValueError, match="late has no linear limit with these options: from a random state its round"):
        kernel_regime(problem, setup, None, str(file), {"power": 1.1})
    small = kernel_regime(problem, setup, regime.gram, str(file), {"unit": 1e-11})
    assert small.outputs(9) == pytest.approx(regime.outputs(9), rel=1e-9)
    # With the unit 1e-30 the server's memory is below all rounding of the weights, and its effect appears a round
    # later.
    for unit in (1e-11, 1e-30):
        with pytest.raises(ValueError, match="late has no linear limit with these options: from a random state its ro"):
            kernel_regime(problem, setup, None, str(file), {"power": 1.1, "unit": unit})


@pytest.mark.parametrize("name", [name for name, module in catalogue().items() if hasattr(module, "NOT_LINEAR")])
def test_what_is_said_to_be_not_linear_is_not(name):
    base = algorithm1_limit(ragged((2, 3), seed=2), Setup(eta_local=0.2, local_steps=2))
    with pytest.raises(ValueError, match="has no exact linear limit"):
        of_method(base, name, {})
    try:
        step = differentiated(build(name, HalfSquares("sum")), base.blocks)
    except ValueError:
        return
    r = np.ones((5, 1))
    (after, *_) = step.step(r, (np.zeros((step.length or 0, 1)),) * step.memory)
    if name == "fedavg-aligned":  # A linear model has no units to permute.
        expected = differentiated(build("fedavg", HalfSquares("sum")), base.blocks).step(r, ())[0]
        assert np.abs(after - expected).max() <= 1e-14
    else:  # The method `local` leaves the global model unchanged.
        assert not after.any()


@pytest.mark.parametrize(
    ("method", "options", "momentum", "message"),
    [
        ("fedgucci", {}, 0.0, "its local steps draw random numbers"),
        ("fedgucci", {"alpha": "half", "anchors": 3}, 0.0, r"'server/sent/w' grows from 1 to 2 numbers a sample"),
        ("fedavg", {}, 1.0, r"momentum is 1; it must lie in \[0, 1\)"),
        ("fedadam", {}, 0.5, "fedadam has no exact linear limit"),
        ("fedavg", {"steps": {"client_steps": (1, 2, 3)}}, 0.0, "each of 2 clients"),
        ("fedavg", {"steps": {"client_steps": (1, 0)}}, 0.0, r"client_steps are \[1, 0\]; there must be a positive"),
        ("fedavg", {"steps": {"client_steps": (1, 1.5)}}, 0.0, "there must be a positive integer for each"),
        ("fedavg", {"steps": {"step_factors": (1.0, 0.0)}}, 0.0, "each must be positive and finite"),
    ],
)
def test_bad_requests_are_refused(method, options, momentum, message):
    steps = options.pop("steps", {})
    with pytest.raises(ValueError, match=message):
        kernel_regime(ragged((2, 3)), Setup(eta_local=0.1), None, method, options, momentum, **steps)


@pytest.mark.parametrize("alpha", [1e-3, 1e6, 1e12])
def test_rounding_of_a_pull_far_above_the_kernel_is_not_called_nonlinear(alpha):
    base = algorithm1_limit(ragged((3, 1, 4)), Setup(eta_local=0.3 / (1 + alpha), local_steps=3))
    method = build("feddyn", HalfSquares("sum"), alpha=alpha)
    engine_s, formula = differentiated(method, base.blocks), module_of("feddyn").linear(method, base.blocks)
    assert engine_s.length == 8
    moves = []
    for of_one_round in (engine_s, formula):
        residual, memory = np.ones((8, 1)), (np.zeros((8, 1)),)
        for _ in range(5):
            move, memory = of_one_round.step(residual, memory)
            residual = residual - base.gram @ move
        moves.append(move)
    assert np.abs(moves[0] - moves[1]).max() <= 1e-12 * np.abs(moves[1]).max()


def test_a_bound_of_the_weights_is_not_linear_at_steps_far_shorter_than_it(tmp_path):
    file = tmp_path / "bounded.py"
    file.write_text(BOUNDED)
    base = algorithm1_limit(ragged((3, 1, 4)), Setup(eta_local=1e-4, local_steps=3))
    with pytest.raises(ValueError, match="bounded has no linear limit with these options: from a random state"):
        differentiated(build(str(file), HalfSquares("sum")), base.blocks)


def test_several_outputs_and_the_memory_of_a_long_state():
    problem, setup = ragged((3, 1, 4)), Setup(eta_local=0.15, local_steps=2)
    both = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    for method, options in METHODS[5:7]:
        together = kernel_regime(both, setup, None, method, options, momentum=0.5).outputs(7)
        for k in range(2):
            one = kernel_regime(replace(problem, y=both.y[:, k]), setup, None, method, options, momentum=0.5)
            assert np.abs(together[:, k] - one.outputs(7)).max() <= 1e-14


KINDS = pytest.mark.parametrize(
    ("method", "options", "momentum"),
    [
        ("fedavg", {"server_rate": 1.2}, 0.0),
        ("fl-ntk", {}, 0.5),
        ("fedavgm", {"momentum": 0.4}, 0.0),
        ("scaffold", {"server_rate": 0.9}, 0.0),
        ("feddyn", {"alpha": 2.0}, 0.3),
    ],
)


def models(problem, setup, weights, method, momentum):
    """Returns the outputs of the engine's rounds on the network linearised at these weights."""
    optimizer = SGD(momentum)
    run = wide_federation(problem, setup, weights, method=method, linearised=True, optimizer=optimizer)
    state, outputs = run.start(), []
    for _ in range(setup.rounds + 1):
        outputs.append(run.model.outputs(state.model, run.data.x).numpy())
        state = run.round(state).state
    return np.array(outputs)


@pytest.mark.quick_rows(2)
@KINDS
@quietly
@settings(deadline=None, max_examples=4)
@given(size=st.integers(1, 4), start=st.integers(0, 6), seed=st.integers(0, 100))
def test_it_is_what_the_engine_does(method, options, momentum, size, start, seed):
    problem, setup = ragged((3, 1, 2), seed=seed), Setup(width=40, eta_local=0.2, local_steps=2, rounds=12)
    weights = draw(setup.width, problem.d, setup.seed)
    h, own = gram.finite(problem.x, weights.hidden), build(method, HalfSquares("sum"), **options)
    t, first = np.arange(13), weights.outputs(problem.x)
    regime = kernel_regime(problem, setup, h, method, options, momentum, ima=MovingWindow(size, start))
    expected = models(problem, setup, weights, averaged(own, size, start), momentum)
    assert np.abs(regime.outputs(t, first) - expected).max() <= 1e-10 * max(1, np.abs(expected).max())

    plain = models(problem, setup, weights, own, momentum)
    means = [
        plain[max(1, now - size + 1) : now + 1].mean(0) if now >= max(start, 1) else plain[now] for now in range(13)
    ]
    shown = kernel_regime(problem, setup, h, method, options, momentum, ima=MovingWindow(size, start, False))
    assert np.abs(shown.outputs(t, first) - means).max() <= 1e-10 * max(1, np.abs(plain).max())
    assert shown.rate == kernel_regime(problem, setup, h, method, options, momentum).rate


@KINDS
@quietly
def test_the_map_of_a_full_window_is_that_of_late_rounds(method, options, momentum):
    problem, setup = ragged((3, 1, 2), seed=3), Setup(eta_local=0.2, local_steps=2)
    regime = kernel_regime(problem, setup, None, method, options, momentum, ima=MovingWindow(3))
    eigenvalues = np.linalg.eigvals(regime.round_map)
    assert regime.rate == pytest.approx(np.abs(eigenvalues).max(), rel=1e-9)
    assert len(regime.spectrum) == len(eigenvalues)
    r = np.linalg.norm(regime.residual(np.arange(0, 1200, 100)), axis=1)
    late = r[6:] > 1e-200
    assert late.all() and regime.rate**100 == pytest.approx((r[-1] / r[-4]) ** (1 / 3), rel=0.3)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("share", [0.999, 1.001])
@quietly
def test_fed_back_a_window_of_q_models_lets_steps_be_longer(size, share):
    problem, setup = ragged((3, 1, 2), seed=5), Setup(eta_local=0.2, local_steps=3)
    once = kernel_regime(problem, setup, None, "fedavg", {"server_rate": 1.0}, ima=MovingWindow(size))
    limit = once.step_limits.eta_global
    assert limit == pytest.approx((1 + size) / 2 * kernel_regime(problem, setup, None, "fedavg").step_limits.eta_global)
    there = kernel_regime(problem, setup, None, "fedavg", {"server_rate": share * limit}, ima=MovingWindow(size))
    assert there.stable == (share < 1) == (np.abs(np.linalg.eigvals(there.round_map)).max() < 1)


def test_rounds_are_counted_of_what_is_reported():
    problem, setup = ragged((3, 1, 2), seed=5), Setup(eta_local=0.2, local_steps=3)
    for fed_back in (True, False):
        regime = kernel_regime(problem, setup, ima=MovingWindow(3, fed_back=fed_back))
        t = regime.rounds_to(1e-4)
        before, at = np.linalg.norm(regime.residual([t - 1, t]), axis=1) / np.linalg.norm(problem.y)
        assert at <= 1e-4 < before
    alone = kernel_regime(problem, setup).rounds_to(1e-4)
    # IMA's mean of the last three models reaches the target at most two rounds later than the models themselves.
    assert alone < t <= alone + 2
    fed_back = kernel_regime(problem, setup, ima=MovingWindow(3)).rounds_to(1e-4)
    # If many rounds are needed, feeding back the mean of the last Q = 3 models multiplies the number of rounds by about
    # (Q + 1) / 2.
    assert fed_back == pytest.approx(2 * alone, rel=0.02)


@pytest.mark.parametrize(
    ("values", "message"), [((0,), "the window of models is 0"), ((2, -1), "rounds before averaging is -1")]
)
def test_a_window_that_is_none_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        MovingWindow(*values)


def test_clients_in_turn_have_no_model_of_each_round_to_average():
    with pytest.raises(ValueError, match="cyclic makes a model for every client in turn"):
        kernel_regime(ragged((2, 2)), Setup(eta_local=0.1), None, "cyclic", ima=MovingWindow(2))
    with pytest.raises(ValueError, match="cyclic makes a model for every client in turn"):
        averaged(build("cyclic", HalfSquares("sum")), 2, 0)
