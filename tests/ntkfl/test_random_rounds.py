"""Tests of random rounds, whose moments are compared with means over every choice of clients and batches.

The moments are also compared with runs of the training engine. H is the Gram matrix, r the residual, v the velocity, g
the server rate and b the momentum.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from linear_methods import ragged

from ntkfl import Problem, Setup, gram, kernel_regime, random_rounds, sampled_rounds
from ntkfl.exact_dynamics import UnstableSteps
from ntkfl.initialisation import draw
from ntkfl.limit import draws as draw_counts
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.limit.shuffled_pass import ShuffledPass
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.methods import build
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.schedules import Exponential
from ntkfl.training.wide_training import wide_federation

METHODS = (
    ("fl-ntk", {"server_rate": 1.3}),
    ("fedavg", {"server_rate": 0.9}),
    ("fednova", {"mu": 0.4}),
    ("fedprox", {"mu": 0.7, "server_rate": 1.2}),
    ("fedavgm", {"momentum": 0.6}),
    ("fedavgm", {"momentum": 0.6, "nesterov": True, "server_rate": 0.7}),
)
EACH = pytest.mark.parametrize(("method", "options"), METHODS, ids=[f"{m}-{len(o)}" for m, o in METHODS])
quietly = pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")


def sequences(size, batch, steps, shuffled=False):
    """Returns every sequence of the batches of `steps` local steps, independent or by shuffled passes."""
    if not shuffled:
        return itertools.product(itertools.combinations(range(size), batch), repeat=steps)
    orders = {
        tuple(tuple(sorted(order[start : start + batch])) for start in range(0, size, batch))
        for order in itertools.permutations(range(size))
    }
    return (sum(passes, ()) for passes in itertools.product(sorted(orders), repeat=steps))


def choices(problem, method, options, cohort, batch, setup, shuffled=False):
    """Yields every outcome of a round's draws: its chance, and a map (n, n).

    The map leads from r to the clients' mean displacement. `cohort` is the number of drawn clients (an integer), or the
    list of the clients that take part.
    """
    h, clients = gram.infinite(problem.x), problem.members
    pull, eta, n = options.get("mu", 0.0), setup.eta_local, problem.n
    every_client = []
    for owned in clients:
        size = min(batch or len(owned), len(owned))
        own = h[np.ix_(owned, owned)]
        maps = []
        for taken in sequences(len(owned), size, setup.local_steps, shuffled):
            a = np.zeros_like(own)  # the displacement as a map of the client's own residual
            for picked in taken:
                drawn = np.zeros(len(owned))
                drawn[list(picked)] = len(owned) / len(picked)
                a = a + eta * (drawn[:, None] * (np.eye(len(owned)) - own @ a) - pull * a)
            maps.append(a)
        every_client.append(maps)
    drawn = isinstance(cohort, int)
    cohorts = list(itertools.combinations(range(len(clients)), cohort)) if drawn else [cohort]
    for chosen in cohorts:
        sizes = np.array([len(clients[c]) for c in chosen], float)
        weights = np.full(len(chosen), 1 / len(chosen)) if method == "fl-ntk" else sizes / sizes.sum()
        outcomes = list(itertools.product(*(every_client[c] for c in chosen)))
        for outcome in outcomes:
            mean = np.zeros((n, n))
            for c, weight, a in zip(chosen, weights, outcome, strict=True):
                mean[np.ix_(clients[c], clients[c])] += weight * a
            yield 1 / (len(cohorts) * len(outcomes)), mean


def round_maps(problem, method, options, cohort, batch, setup, shuffled=False):
    """Yields every outcome of a round: its chance, and its map of residual and velocity, (2n, 2n).

    Without momentum the velocity is 0.
    """
    h, n = gram.infinite(problem.x), problem.n
    g, b = options.get("server_rate", 1.0), options.get("momentum", 0.0)
    for chance, mean in choices(problem, method, options, cohort, batch, setup, shuffled):
        velocity = np.hstack([mean, b * np.eye(n)])
        move = g * (np.hstack([mean, np.zeros((n, n))]) + b * velocity if options.get("nesterov") else velocity)
        yield chance, np.vstack([np.hstack([np.eye(n), np.zeros((n, n))]) - h @ move, velocity])


@EACH
@settings(deadline=None, max_examples=6)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    data=st.data(),
    eta=st.floats(0.02, 0.6),
    seed=st.integers(0, 2**16),
)
@quietly
def test_every_choice_of_clients_and_batches_adds_up_to_it(method, options, sizes, data, eta, seed):
    cohort, batch = data.draw(st.integers(1, len(sizes))), data.draw(st.sampled_from([None, 1, 2][: 1 + max(sizes)]))
    problem = ragged(sizes, seed=seed, repeated=seed % 3 == 0)
    setup = Setup(eta_local=eta, local_steps=2 if sum(sizes) < 7 else 1)
    regime = random_rounds(problem, setup, None, method, options, participation=cohort / len(sizes), batch_size=batch)
    n, start = problem.n, np.concatenate([problem.y, np.zeros(problem.n)])
    mean, second = start, np.outer(start, start)
    maps = list(round_maps(problem, method, options, cohort, batch, setup))
    assert sum(chance for chance, _ in maps) == pytest.approx(1, abs=1e-12)
    for t in range(4):
        scale = max(1.0, np.abs(second).max())
        own = regime.covariance(t)
        assert np.abs(regime.residual(t) - mean[:n]).max() <= 1e-12 * scale
        assert np.abs(own + np.outer(mean, mean)[:n, :n] - second[:n, :n]).max() <= 1e-12 * scale
        assert regime.root_mean_square(t) ** 2 == pytest.approx(np.trace(second[:n, :n]), abs=1e-12 * scale)
        assert np.abs(regime.deviation(t) ** 2 - np.diag(own)).max() <= 1e-12 * scale
        mean = sum(chance * m @ mean for chance, m in maps)
        second = sum(chance * m @ second @ m.T for chance, m in maps)


@pytest.mark.parametrize(
    ("method", "options"),
    [METHODS[0], METHODS[1], METHODS[5], ("fedprox", {"mu": 0.9, "server_rate": 1.3})],
    ids=["fl-ntk", "fedavg", "nesterov", "fedprox"],
)
@pytest.mark.parametrize(
    ("sizes", "batch", "passes"),
    [((2, 4), 2, 1), ((1, 3), 1, 1), ((2, 2), 1, 2), ((3, 1), 1, 2), ((4, 1), 2, 2), ((5, 3), 2, 1)],
)
@quietly
def test_every_order_of_shuffled_passes_adds_up_to_it(method, options, sizes, batch, passes):
    problem, setup = ragged(sizes, d=9, seed=5), Setup(eta_local=0.3, local_steps=passes)
    drawn = {"participation": 0.5, "batch_size": batch, "shuffled": True}
    regime = random_rounds(problem, setup, None, method, options, **drawn)
    maps = list(round_maps(problem, method, options, 1, batch, setup, shuffled=True))
    n, mean = problem.n, np.concatenate([problem.y, np.zeros(problem.n)])
    second = np.outer(mean, mean)
    for t in range(4):
        own = regime.covariance(t) + np.outer(regime.residual(t), regime.residual(t))
        assert np.abs(regime.residual(t) - mean[:n]).max() <= 1e-12
        assert np.abs(own - second[:n, :n]).max() <= 1e-12
        mean = sum(chance * m @ mean for chance, m in maps)
        second = sum(chance * m @ second @ m.T for chance, m in maps)
    assert regime.rate**2 == pytest.approx(_radius(maps), rel=1e-8)
    limit = regime.step_limits.eta_global
    # In several passes FedProx's response is not symmetric.
    assert np.isnan(limit) == (method == "fedprox" and passes > 1)
    if method == "fedprox" and passes == 1:
        for factor, stable in ((1 - 1e-6, True), (1 + 1e-6, False)):
            at = options | {"server_rate": limit * factor}
            assert (_radius(round_maps(problem, method, at, 1, batch, setup, shuffled=True)) < 1) == stable


def _radius(maps):
    """Returns the spectral radius of the map of all second moments."""
    return np.abs(np.linalg.eigvals(sum(chance * np.kron(m, m) for chance, m in maps))).max()


@pytest.mark.parametrize("pull", [0.0, 0.7])
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 6])
def test_a_pass_over_six_samples_has_the_moments_of_its_720_orders(batch, pull):
    rng = np.random.default_rng(batch)
    x, step = rng.standard_normal((6, 7)), 0.4
    own, second = x @ x.T / 7, np.diag(rng.uniform(1, 2, 6)) + 1
    maps = []
    for batches in sequences(6, batch, 1, shuffled=True):
        moved = np.zeros((6, 6))
        for taken in map(list, batches):
            unfitted = np.eye(6) - own @ moved
            moved *= 1 - step * batch / 6 * pull
            moved[taken] += step * batch / len(taken) * unfitted[taken]
        maps.append(moved)
    mean = np.mean(maps, axis=0)
    spread = np.mean([(m - mean) @ second @ (m - mean).T for m in maps], axis=0)
    shuffled = ShuffledPass.of(own, step * batch / 6, batch, pull)
    assert np.abs(shuffled.after(1)[:, :6] - mean).max() <= 1e-13 and np.abs(mean - mean.T).max() <= 1e-13
    assert np.abs(shuffled.noise_after(1, second) - spread).max() <= 1e-12 * max(spread.max(), 1e-12)
    assert (batch == 6) == (not spread.max() > 1e-20)


def test_over_one_pass_shuffled_batches_are_quieter_by_the_square_of_the_step():
    """The variance of one shuffled pass, divided by that of independent batches, has the order of the squared step.

    To first order in the step, passes in batches of one size weigh all samples equally. Passes in batches of several
    sizes do not.
    """
    problem, noise = ragged((4, 4), d=9, seed=2), []
    for eta in (1e-3, 5e-4):
        for shuffled in (True, False):
            setup = Setup(eta_local=eta, local_steps=1 if shuffled else 2)
            regime = random_rounds(problem, setup, batch_size=2, shuffled=shuffled)
            noise.append(np.trace(regime.covariance(1)))
    assert noise[0] / noise[2] == pytest.approx(16, rel=1e-2)
    assert noise[1] / noise[3] == pytest.approx(4, rel=1e-2)
    uneven = [random_rounds(problem, Setup(eta_local=eta), batch_size=3, shuffled=True) for eta in (1e-3, 5e-4)]
    first, second = (np.trace(regime.covariance(1)) for regime in uneven)
    # The last batch is one sample, which counts three times as much as a sample of a whole batch.
    assert first / second == pytest.approx(4, rel=1e-2)


@pytest.mark.parametrize(
    ("method", "options", "drawn", "message"),
    [
        ("fedavg", {}, {}, "shuffled passes need a batch_size"),
        ("fednova", {"mu": 0.5}, {"batch_size": 1}, "fednova has no exact second moments here: it weighs"),
        ("fednova", {}, {"batch_size": 1}, "fednova has no exact second moments here: it weighs displacements by more"),
        ("cyclic", {}, {"batch_size": 1}, "cyclic has no exact second moments here"),
    ],
)
def test_shuffled_passes_without_exact_moments_are_refused(method, options, drawn, message):
    sizes = (3, 1) if method == "fednova" else (3, 3)
    with pytest.raises(ValueError, match=message):
        random_rounds(ragged(sizes), Setup(), None, method, options, shuffled=True, **drawn)


@quietly
def test_eigenvalues_of_blocks_do_not_meet_eigenvectors_of_passes(tmp_path):
    """Eigenvalues of the clients' blocks may not be combined with eigenvectors of passes over batches.

    Passes over single samples diverge at .9 of the largest stable step of full batches. A round that combines such
    eigenvalues and eigenvectors is refused.
    """
    problem = ragged((4, 4), d=9, seed=2)
    limit = kernel_regime(problem, Setup(), None, "fedavg").step_limits.eta_local
    passes = random_rounds(problem, Setup(eta_local=0.9 * limit), batch_size=1, shuffled=True)
    assert np.isnan(passes.step_limits.eta_local) and passes.rate > 1
    mixed = tmp_path / "mixed.py"
    mixed.write_text(
        "from ntkfl.limit.linear_round import averaging\n"
        "from ntkfl.training.method import Method\n\nNAME = 'mixed'\n\n\n"
        "def method(objective):\n    return Method(NAME, objective)\n\n\n"
        "def linear(method, blocks):\n    return averaging(blocks, blocks.shares('size') * mixed(blocks))\n\n\n"
        "def mixed(blocks):\n    return blocks.response() * blocks.clients.values / blocks.clients.values\n"
    )
    assert random_rounds(problem, Setup(), None, str(mixed), batch_size=1).deviation(2).any()
    with pytest.raises(ValueError, match=r"have no eigenvectors in common; a linear round may apply blocks.response"):
        random_rounds(problem, Setup(), None, str(mixed), batch_size=1, shuffled=True)


def test_too_many_orders_are_refused():
    with pytest.raises(
        ValueError, match=r"a client has 16 samples in batches of 1: .* drawn independently work with any"
    ):
        random_rounds(ragged((16,)), Setup(), batch_size=1, shuffled=True)


def scheduled(options):
    """Returns schedules of both steps, and the options without the server's step.

    A method whose options have neither server_rate nor momentum has a schedule of the local step only.
    """
    rates = {"eta_local": (0.3, 0.05, 0.2)}
    if "server_rate" not in options and "momentum" not in options:
        return options, rates
    return {k: v for k, v in options.items() if k != "server_rate"}, rates | {"eta_global": (1.3, 0.6)}


@EACH
@pytest.mark.parametrize("cohorts", [None, [(0,), (2, 1)], [(1,), (0,), (2,)]], ids=["drawn", "pairs", "alone"])
@quietly
def test_every_choice_adds_up_to_it_where_steps_and_clients_change_by_round(method, options, cohorts):
    problem, setup, batch = ragged((2, 1, 3), d=9, seed=4), Setup(eta_local=0.4, local_steps=2), 1
    options, rates = scheduled(options)
    clients = {"participation": 0.67} if cohorts is None else {"cohorts": cohorts}
    regime = random_rounds(problem, setup, None, method, options, batch_size=batch, **rates, **clients)
    n, mean = problem.n, np.concatenate([problem.y, np.zeros(problem.n)])
    second, largest, cycle = np.outer(mean, mean), 0.0, []
    for t in range(6):
        own = regime.covariance(t) + np.outer(regime.residual(t), regime.residual(t))
        largest = max(largest, np.abs(own - second[:n, :n]).max(), np.abs(regime.residual(t) - mean[:n]).max())
        assert np.abs(regime.gram @ regime._coefficients(problem.y[:, None], np.array([t]))[0, :, 0] + mean[:n]
                      - problem.y).max() <= 1e-12  # fmt: skip
        local, rate = rates["eta_local"], rates.get("eta_global", (1.0,))
        steps = replace(setup, eta_local=local[min(t, len(local) - 1)])
        now = options | ({"server_rate": rate[min(t, len(rate) - 1)]} if "eta_global" in rates else {})
        cohort = 2 if cohorts is None else cohorts[t % len(cohorts)]
        maps = list(round_maps(problem, method, now, cohort, batch, steps))
        mean = sum(chance * m @ mean for chance, m in maps)
        second = sum(chance * m @ second @ m.T for chance, m in maps)
        cycle.append(sum(chance * np.kron(m, m) for chance, m in maps))
    assert largest <= 1e-13
    period = len(cohorts or [()])
    whole = np.linalg.multi_dot([np.eye(4 * n * n), *cycle[6 - period :][::-1], np.eye(4 * n * n)])
    assert regime.rate ** (2 * period) == pytest.approx(np.abs(np.linalg.eigvals(whole)).max(), rel=1e-7)


@pytest.mark.parametrize("rate", [1.0, 0.8])
def test_one_client_after_the_other_is_cyclic_training(rate):
    problem, setup = ragged((2, 3, 1), seed=5), Setup(eta_local=0.3, local_steps=3)
    cyclic = kernel_regime(problem, setup, None, "cyclic", {"server_rate": rate})
    regime = random_rounds(problem, setup, None, "fedavg", {"server_rate": rate}, cohorts=range(3))
    points, rounds = np.random.default_rng(1).standard_normal((2, problem.d)), np.arange(5)
    assert np.abs(regime.outputs(3 * rounds) - cyclic.outputs(rounds)).max() <= 1e-14
    assert np.abs(regime.predict(points, 3 * rounds) - cyclic.predict(points, rounds)).max() <= 1e-14
    assert not regime.covariance(9).any()
    assert regime.rate**3 == pytest.approx(cyclic.rate, rel=1e-8)


@pytest.mark.parametrize(("method", "options"), [("fedavg", {}), ("fedavgm", {"momentum": 0.6}), ("scaffold", {})])
def test_rounds_of_the_engine_with_a_schedule_are_these(method, options):
    problem, setup = ragged((3, 3), seed=2), Setup(width=60, eta_local=0.5, local_steps=3, rounds=6)
    weights, rate = draw(setup.width, problem.d, 0), Exponential(0.5, 0.7)
    built = build(method, HalfSquares("sum"), **options)
    run = replace(wide_federation(problem, setup, weights, method=built, linearised=True), schedule=rate)
    state = run.start()
    for _ in range(setup.rounds):
        state = run.round(state).state
    h, start = gram.finite(problem.x, weights.hidden), weights.outputs(problem.x)
    regime = random_rounds(problem, setup, h, method, options, eta_local=[rate(t) for t in range(6)])
    trained = run.model.outputs(state.model, run.data.x).numpy()
    assert np.abs(regime.outputs(6, start) - trained).max() <= 1e-12
    assert (
        np.abs(regime.outputs(6, start) - random_rounds(problem, setup, h, method, options).outputs(6, start)).max()
        > 1e-2
    )


def test_noise_after_a_schedule_rests_where_the_last_steps_say():
    problem, setup = ragged((2, 1, 3), d=12, seed=2), Setup(eta_local=0.3)
    drawn = {"participation": 0.67, "batch_size": 2, "noise": 0.2}
    last = random_rounds(problem, setup, None, "fedavgm", {"momentum": 0.5}, **drawn)
    regime = random_rounds(problem, setup, None, "fedavgm", {"momentum": 0.5}, eta_local=(0.05, 0.9, 0.3), **drawn)
    assert regime.stationary_mean_square() == last.stationary_mean_square()
    assert regime.root_mean_square(900) ** 2 == pytest.approx(last.stationary_mean_square(), rel=1e-7)
    assert abs(regime.root_mean_square(3) / last.root_mean_square(3) - 1) > 1e-2
    quiet = {"cohorts": [(0,), (1,), (2,)], "batch_size": 1}
    assert random_rounds(problem, setup, None, "fedavg", **quiet).stationary_mean_square() == 0
    singular = random_rounds(ragged((2, 1, 3), repeated=True), setup, None, "fedavg", noise=0.1, **quiet)
    with pytest.raises(ValueError, match="is not known if part of the residual stays after scheduled rounds"):
        singular.stationary_mean_square()


@pytest.mark.parametrize(
    ("method", "options"), [METHODS[0], METHODS[4], METHODS[5]], ids=["fl-ntk", "ball", "nesterov"]
)
@pytest.mark.parametrize("batch", [None, 1])
def test_noise_while_cohorts_take_turns_rests_at_the_mean_over_a_cycle(method, options, batch):
    problem = ragged((2, 1, 3), d=12, seed=2)
    problem = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    turns = {"cohorts": [(0, 2), (1,)], "eta_local": [0.7, 0.3], "batch_size": batch}
    regime = random_rounds(problem, Setup(eta_local=0.3), None, method, options, noise=0.2, **turns)
    late = regime.root_mean_square([600, 601, 602]) ** 2
    assert late[2] == pytest.approx(late[0], rel=1e-8) and abs(late[1] / late[0] - 1) > 1e-3
    assert regime.stationary_mean_square() == pytest.approx(late[:2].mean(), rel=1e-7)


@pytest.mark.parametrize(
    ("method", "options", "asked", "message"),
    [
        ("fedavg", {}, {"cohorts": [(0,), ()]}, r"a cohort is \[\]; it must name some of the clients 0 to 1, once"),
        ("fedavg", {}, {"cohorts": []}, r"a cohort is \[\]; it must name some"),
        ("fedavg", {}, {"cohorts": [(0, 0)]}, r"a cohort is \[0, 0\]; .* once"),
        ("fedavg", {}, {"cohorts": [(2,)]}, r"a cohort is \[2\]; it must name some of the clients 0 to 1"),
        ("fedavg", {}, {"cohorts": [(0.5,)]}, r"a cohort is \[0.5\]; it must name some of the clients 0 to 1"),
        ("fedavg", {}, {"cohorts": [(0,)], "participation": 0.5}, "participation is 0.5 and cohorts are given"),
        ("fedavg", {}, {"eta_local": []}, r"eta_local is \[\]; a schedule is a sequence of at least one step"),
        ("fedavg", {}, {"eta_local": 0.3}, "eta_local is 0.3; a schedule is a sequence of at least one step"),
        ("fedavg", {}, {"eta_local": [0.3, -1.0]}, "eta_local is -1; it must be a positive finite number"),
        ("fedavg", {}, {"eta_global": [float("nan")]}, "eta_global is nan; it must be a positive finite number"),
        ("fedavg", {"server_rate": 2.0}, {"eta_global": [1.0]}, "eta_global is a schedule and server_rate 2.0"),
        ("feddyn", {"alpha": 1.0}, {"eta_global": [1.0, 2.0]}, "eta_global is 2; feddyn has no server_rate"),
        ("cyclic", {}, {"cohorts": [(0,)]}, "one after the other. fedavg with `cohorts` of one client each, in turn"),
        ("moon", {}, {"eta_local": [0.3]}, "moon has no exact linear limit"),
    ],
)
def test_schedules_and_cohorts_that_are_none_are_refused(method, options, asked, message):
    with pytest.raises(ValueError, match=message):
        random_rounds(ragged((2, 2)), Setup(), None, method, options, **asked)


def weight_moments(features, problem, method, options, drawn, setup, noise, rounds):
    """Returns E z z^T for z = (weights moved, velocity, 1) after the rounds, by enumeration on the weights.

    `features` (n, p) have the Gram matrix of `choices`. `noise` is added to each of the p weights of the mean.
    """
    p, g, b = features.shape[1], options.get("server_rate", 1.0), options.get("momentum", 0.0)
    maps = []
    for chance, mean in choices(problem, method, options, *drawn, setup):
        displaced = np.hstack(
            [-features.T @ mean @ features, np.zeros((p, p)), (features.T @ mean @ problem.y)[:, None]]
        )
        velocity = displaced + b * np.eye(p, 2 * p + 1, p)
        move = g * (displaced + b * velocity if options.get("nesterov") else velocity)
        maps.append((chance, np.vstack([np.eye(p, 2 * p + 1) + move, velocity, np.eye(1, 2 * p + 1, 2 * p)])))
    once = g * (1 + b if options.get("nesterov") else 1)
    inject = np.vstack([once * np.eye(p), np.eye(p), np.zeros((1, p))])
    second = np.zeros((2 * p + 1, 2 * p + 1))
    second[-1, -1] = 1
    for _ in range(rounds):
        second = sum(chance * m @ second @ m.T for chance, m in maps) + noise**2 * inject @ inject.T
    return second


@EACH
@pytest.mark.parametrize("repeated", [False, True])
@quietly
def test_with_gaussian_noise_it_is_the_enumeration_in_the_weights(method, options, repeated):
    problem = ragged((2, 1, 2), seed=3, repeated=repeated)
    setup, drawn, noise = Setup(eta_local=0.3, local_steps=2), (2, 1), 0.35
    points = np.concatenate([problem.x, np.random.default_rng(7).standard_normal((2, problem.d))])
    both = gram.infinite(points)
    values, basis = np.linalg.eigh(both)
    features = basis * np.sqrt(np.maximum(values, 0))  # The rows are features of the samples, then of two other points.
    n, p = problem.n, features.shape[1]
    regime = random_rounds(
        problem, setup, None, method, options, participation=2 / 3, batch_size=1, noise=noise
    )  # fmt: skip
    for rounds in (1, 4):
        second = weight_moments(features[:n], problem, method, options, drawn, setup, noise, rounds)
        mean = second[:p, -1]
        covariance = features @ (second[:p, :p] - np.outer(mean, mean)) @ features.T
        scale = 1e-11 * max(1.0, np.abs(second).max())
        assert np.abs(regime.covariance(rounds) - covariance[:n, :n]).max() <= scale
        assert np.abs(regime.prediction_covariance(points[n:], rounds) - covariance[n:, n:]).max() <= scale
        assert np.abs(regime.predict(points[n:], rounds) - features[n:] @ mean).max() <= scale
        assert regime.root_mean_square(rounds) ** 2 == pytest.approx(
            ((problem.y - features[:n] @ mean) ** 2).sum() + np.trace(covariance[:n, :n]), abs=10 * scale
        )


@EACH
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(("cohort", "batch"), [(3, None), (2, 2)])
def test_the_mean_square_tends_to_what_is_said(method, options, repeated, cohort, batch):
    problem = ragged((2, 1, 3), d=12, seed=2, repeated=repeated)
    setup = Setup(eta_local=0.3, local_steps=2)
    drawn = {"participation": cohort / 3, "batch_size": batch, "noise": 0.2}
    regime = random_rounds(problem, setup, None, method, options, **drawn)
    start = np.linspace(-1, 1, problem.n)
    late = regime.root_mean_square([350, 700], start) ** 2
    assert late[0] == pytest.approx(late[1], rel=1e-7)
    assert regime.stationary_mean_square(start) == pytest.approx(late[1], rel=1e-7)
    quiet = random_rounds(problem, setup, None, method, options, **(drawn | {"noise": 0.0}))
    if not repeated:
        assert quiet.stationary_mean_square() == pytest.approx(0, abs=1e-14)


def test_noise_with_one_step_on_all_data_has_its_closed_form():
    """With one step on all data, noise has a closed form.

    In the long run it has the variance s^2 q g^2 / (1 - (1 - g eta q)^2) for each eigenvalue q.
    """
    problem = ragged((4,), d=9)
    regime = random_rounds(
        problem, Setup(eta_local=0.2, local_steps=1), None, "fedavg", {"server_rate": 1.5}, noise=0.7
    )
    q = np.linalg.eigvalsh(gram.infinite(problem.x))
    variance = 1.5**2 * 0.7**2 * q / (1 - (1 - 1.5 * 0.2 * q) ** 2)
    assert regime.stationary_mean_square() == pytest.approx(variance.sum(), rel=1e-12)


def test_noise_moves_the_outputs_of_a_network_of_several_independently_and_alike():
    problem, setup = ragged((2, 3), seed=6), Setup(eta_local=0.3, local_steps=2)
    points = np.random.default_rng(8).standard_normal((3, problem.d))
    one = random_rounds(problem, setup, method="fl-ntk", noise=0.4)
    both = random_rounds(
        replace(problem, y=np.stack([problem.y, -problem.y], axis=1)).per_output(), setup, method="fl-ntk", noise=0.4
    )
    expected = np.kron(one.prediction_covariance(points, 5), np.eye(2))
    assert np.abs(both.prediction_covariance(points, 5) - expected).max() <= 1e-14 * np.abs(expected).max()


@quietly
def test_beyond_the_limit_the_mean_square_is_infinite():
    regime = random_rounds(ragged((2, 2)), Setup(eta_local=5.0), None, "fedavg", {}, noise=0.1)
    assert regime.stationary_mean_square() == np.inf


@pytest.mark.parametrize("noise", [-0.1, float("nan"), float("inf"), 1e160, "much", None])
def test_a_noise_that_is_no_standard_deviation_is_refused(noise):
    with pytest.raises(ValueError, match="it is a standard deviation: a finite number, 0 or more"):
        random_rounds(ragged((2, 2)), Setup(), noise=noise)


def test_covariances_of_predictions_need_the_kernel_between_the_points():
    problem = ragged((2, 2))
    h = gram.infinite(problem.x)
    regime = random_rounds(problem, Setup(eta_local=0.1), h, noise=0.1)
    cross = np.ones((2, 4))
    with pytest.raises(ValueError, match=r"own_gram is missing: .*shape \(2, 2\)"):
        regime.prediction_covariance(None, 3, cross_gram=cross)
    with pytest.raises(ValueError, match=r"own_gram has shape \(3, 3\); it must be \(2, 2\)"):
        regime.prediction_covariance(None, 3, cross_gram=cross, own_gram=np.eye(3))
    with pytest.raises(ValueError, match="cross_gram is missing"):
        regime.prediction_covariance(None, 3)


@pytest.mark.quick_rows(2)
@EACH
@pytest.mark.parametrize(
    ("cohort", "batch"),
    [(2, 2), pytest.param(1, None, marks=pytest.mark.slow), pytest.param(3, 1, marks=pytest.mark.slow)],
)
def test_rate_and_limit_are_those_of_the_whole_map_of_second_moments(method, options, cohort, batch):
    problem, setup = ragged((3, 1, 2), d=9, seed=4), Setup(eta_local=0.4, local_steps=2)

    def dense(options):
        maps = round_maps(problem, method, options, cohort, batch, setup)
        return np.abs(np.linalg.eigvals(sum(chance * np.kron(m, m) for chance, m in maps))).max()

    def regime(options):
        return random_rounds(problem, setup, None, method, options, participation=cohort / 3, batch_size=batch)

    of_rounds = regime(options)
    assert of_rounds.rate**2 == pytest.approx(dense(options), rel=1e-8)
    assert of_rounds.stable and of_rounds.step_warning is None and of_rounds.rate > of_rounds.mean.rate
    if method == "fednova":
        assert np.isnan(of_rounds.step_limits.eta_global)
        return
    limit = of_rounds.step_limits.eta_global
    for factor, stable in ((1 - 1e-6, True), (1 + 1e-6, False)):
        at = options | {"server_rate": limit * factor}
        assert bool(dense(at) < 1) is stable
        if stable:
            assert regime(at).stable and regime(at).rate < 1
        else:
            with pytest.warns(UnstableSteps, match=f"in the mean square for a server rate below {limit:.6g} only"):
                above = regime(at)
            assert not above.stable and above.rate > 1
            with pytest.raises(ValueError, match="no number of rounds brings the residual to"):
                above.rounds_to(1e-3)


def test_the_mean_square_falls_at_that_rate_and_reaches_what_it_is_said_to():
    problem, setup = ragged((2, 1, 3), d=12), Setup(eta_local=0.3, local_steps=3)
    for method, options in METHODS:
        regime = random_rounds(problem, setup, None, method, options, participation=0.6, batch_size=2)
        late = regime.root_mean_square(np.array([100, 150]))
        assert (late[1] / late[0]) ** (1 / 50) == pytest.approx(regime.rate, rel=1e-5)
        first = regime.rounds_to(1e-2)
        with pytest.raises(ValueError, match="at_most is -1; it must be an integer, 0 or more"):
            regime.rounds_to(1e-2, at_most=-1)
        at = regime.root_mean_square([0, first - 1, first])
        assert at[2] <= 1e-2 * at[0] < at[1]


@EACH
def test_where_nothing_is_drawn_it_is_the_kernel_regime(method, options):
    problem, setup = ragged((3, 1, 4)), Setup(eta_local=0.3, local_steps=3)
    known = kernel_regime(problem, setup, None, method, options)
    for drawn in ({}, {"batch_size": 4}, {"participation": 0.9}):
        regime = random_rounds(problem, setup, None, method, options, **drawn)
        assert np.abs(regime.outputs([0, 3, 9]) - known.outputs([0, 3, 9])).max() <= 1e-14
        assert not regime.deviation(9).any()
        assert regime.rate == pytest.approx(known.rate, abs=1e-9)
        limits = regime.step_limits, known.step_limits
        assert limits[0] == pytest.approx(limits[1], rel=1e-9, nan_ok=True)


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), data=st.data(), weighting=st.sampled_from("us"))
@example(sizes=[1, 1, 3, 3, 2], data=None, weighting="s")
def test_the_weights_of_cohorts_are_those_of_all_cohorts(sizes, data, weighting):
    cohort = 2 if data is None else data.draw(st.integers(1, len(sizes)))
    rows = []
    for chosen in itertools.combinations(range(len(sizes)), cohort):
        row = np.zeros(len(sizes))
        row[list(chosen)] = 1 if weighting == "u" else np.array(sizes)[list(chosen)]
        rows.append(row / row.sum())
    rows = np.array(rows)
    weights = CohortWeights.of(np.array(sizes), cohort, {"u": "uniform", "s": "size"}[weighting])
    assert np.abs(weights.mean - rows.mean(axis=0)).max() <= 1e-15
    assert np.abs(weights.covariance - np.cov(rows.T, bias=True).reshape(len(sizes), -1)).max() <= 1e-15
    assert np.abs(weights.second - (rows**2).mean(axis=0)).max() <= 1e-15
    assert cohort < len(sizes) or not weights.covariance.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "sizes", "batch"),
    [
        ("fedavgm", {"momentum": 0.7}, (1, 4, 2, 3), None),
        ("fedavg", {"server_rate": 1.5}, (1, 4, 2, 3), None),
        ("fedprox", {"mu": 0.5}, (1, 4, 2, 3), None),
        ("fl-ntk", {}, (1, 4, 2, 3), None),
        ("fedavg", {}, (4, 4, 4), 2),
    ],
)
def test_runs_of_the_engine_have_these_moments(method, options, sizes, batch):
    """Runs of the engine have these moments.

    There are 200 runs on the linearised network. The engine's batches are those of shuffled passes, two in a round.
    """
    runs, problem = 200, ragged(sizes, seed=1)
    setup = Setup(width=40, eta_local=0.6, local_steps=2, rounds=5 if batch is None else 3)
    weights = draw(setup.width, problem.d, 0)
    ends = []
    for seed in range(runs):
        run = wide_federation(
            problem, replace(setup, seed=seed), weights, method=build(method, HalfSquares("sum"), **options),
            linearised=True, participation=0.5,
        )  # fmt: skip
        if batch is not None:
            rate = Exponential(setup.eta_local * sizes[0] / batch)
            run = replace(run, work=LocalWork(batch_size=batch, epochs=2), schedule=rate)
        state = run.start()
        for _ in range(setup.rounds):
            state = run.round(state).state
        ends.append(run.model.outputs(state.model, run.data.x).numpy())
    ends = np.array(ends)
    h, start = gram.finite(problem.x, weights.hidden), weights.outputs(problem.x)
    drawn = {"participation": 0.5, "batch_size": batch, "shuffled": batch is not None}
    regime = random_rounds(problem, setup, h, method, options, **drawn)
    deviation = regime.deviation(setup.rounds, start)
    off = (ends.mean(axis=0) - regime.outputs(setup.rounds, start)) / (deviation / np.sqrt(runs))
    assert np.abs(off).max() <= 4.5
    squares = ((problem.y - ends) ** 2).sum(axis=1)
    expected = regime.root_mean_square(setup.rounds, start) ** 2
    assert abs(squares.mean() - expected) <= 4.5 * squares.std() / np.sqrt(runs)
    # The runs determine the mean square well enough to expose a wrong value.
    assert squares.std() / np.sqrt(runs) <= 0.15 * expected
    assert np.abs(ends.std(axis=0) / deviation - 1).max() <= 0.18


def test_several_outputs_are_each_of_them():
    problem, setup = ragged((3, 1, 4)), Setup(eta_local=0.3, local_steps=2)
    both = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    drawn = {"participation": 0.6, "batch_size": 2}
    together = random_rounds(both, setup, None, "fedavgm", {"momentum": 0.5}, **drawn)
    square = 0
    for k in range(2):
        one = random_rounds(replace(problem, y=both.y[:, k]), setup, None, "fedavgm", {"momentum": 0.5}, **drawn)
        assert np.abs(together.deviation([2, 7])[:, :, k] - one.deviation([2, 7])).max() <= 1e-14
        assert np.abs(together.covariance(7)[k] - one.covariance(7)).max() <= 1e-14
        square += one.root_mean_square(7) ** 2
    assert together.root_mean_square(7) ** 2 == pytest.approx(square, rel=1e-13)


def test_a_residual_where_the_gram_matrix_is_zero_stays():
    problem, setup = ragged((3, 3), repeated=True), Setup(eta_local=0.3)
    regime = random_rounds(problem, setup, participation=0.5)
    assert regime.rate == 1 and not regime.stable and regime.step_warning is None
    with pytest.raises(
        ValueError, match=r"residual norm does not fall to .* of it stays, where the Gram matrix is zero"
    ):
        regime.rounds_to(1e-9)
    with pytest.raises(ValueError, match=r"does not fall to .* within 3 rounds: .* the rate in the long run is"):
        random_rounds(ragged((3, 3)), setup, participation=0.5).rounds_to(1e-9, at_most=3)
    nothing = random_rounds(problem, setup, np.zeros((6, 6)), participation=0.5)
    assert nothing.rate == 1 and not nothing.stable and not nothing.deviation(3).any()


def test_larger_problems_have_the_rate_of_the_whole_map(monkeypatch):
    """For larger problems, Arnoldi's method and the power method give the rate of the map's whole matrix."""
    problem, setup = ragged((3, 3, 1, 2), d=20), Setup(eta_local=0.3, local_steps=2)  # Nine samples have nine modes.
    numbers = []
    for name, value in ((None, None), ("DENSE", 100), ("eigs", refuses)):
        if name:
            monkeypatch.setattr(f"ntkfl.limit.mean_square.{name}", value)
        regime = random_rounds(problem, setup, None, "fedavg", {}, participation=0.5, batch_size=2)
        numbers.append([regime.rate, regime.step_limits.eta_global])
        monkeypatch.undo()
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-7)
    assert numbers[2] == pytest.approx(numbers[0], rel=1e-6)


def refuses(*arguments, **options):
    from scipy.sparse.linalg import ArpackError

    raise ArpackError(-9999)


@pytest.mark.parametrize(
    ("method", "options", "drawn", "message"),
    [
        ("fedavg", {}, {"participation": 0.0}, r"participation is 0; it must lie in \(0, 1\]"),
        ("fedavg", {}, {"participation": float("nan")}, r"participation is nan; it must lie in \(0, 1\]"),
        ("fedavg", {}, {"participation": "all"}, "participation is 'all'; it must be a number"),
        ("fedavg", {}, {"batch_size": 0}, "batch_size is 0; it must be a positive integer"),
        ("fedavg", {}, {"batch_size": 1.5}, "batch_size is 1.5; it must be a positive integer"),
        ("fedavg", {}, {"batch_size": 3}, "batch_size is 3, and no client has so many samples: the largest has 2"),
        ("scaffold", {}, {"batch_size": 3}, "batch_size is 3, and no client has so many samples: the largest has 2"),
        ("fedadam", {}, {"noise": 0.1}, "fedadam has no exact linear limit: its server divides by roots"),
        ("fedlc", {}, {"noise": 0.1}, "fedlc has no exact linear limit: "),
        ("cyclic", {}, {"participation": 0.5}, "cyclic has no exact second moments here: its clients train one after"),
        ("moon", {}, {"participation": 0.5}, "moon has no exact linear limit"),
        ("fedprox", {"mu": -1.0}, {"participation": 0.5}, "mu is -1; it must be 0 or more"),
    ],
)
def test_bad_requests_are_refused(method, options, drawn, message):
    with pytest.raises(ValueError, match=message):
        random_rounds(ragged((2, 2)), Setup(), None, method, options, **drawn)


@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "scaffold", "feddyn"])
@pytest.mark.parametrize(("eta", "rate"), [(1e300, 1.0), (1e120, 1.0), (0.1, 1e300)])
def test_steps_that_leave_float64_within_a_round_are_said_so(method, eta, rate):
    options = {"alpha": 1.0} if method == "feddyn" else {"server_rate": rate}
    if method == "feddyn" and eta < 1:
        return
    for regime in (kernel_regime, random_rounds):
        with pytest.raises(
            OverflowError, match=f"^{method} at eta_local = .* overflows float64 within one round; eta_"
        ):
            regime(ragged((2, 2)), Setup(eta_local=eta), None, method, options)


@pytest.mark.parametrize("cohorts", [5, [[True]], [[0.0]], "01", [[0], []]])
def test_cohorts_that_are_no_clients_are_refused(cohorts):
    with pytest.raises(
        ValueError, match=r"cohorts is 5; it is a sequence|a cohort is .*; it must name some of the cli"
    ):
        random_rounds(ragged((2, 2)), Setup(eta_local=0.1), cohorts=cohorts)


def test_no_rounds_and_no_seed():
    regime = random_rounds(ragged((2, 2)), Setup(eta_local=0.1), participation=0.5)
    assert regime.deviation([]).shape == regime.outputs([]).shape == (0, 4)
    for seed in (-1, 1.5, None):
        with pytest.raises(ValueError, match=f"seed is {seed}; it must be an integer, 0 or more"):
            regime.sampled(1, seed=seed)


@quietly
def test_a_run_that_overflows_is_refused():
    problem = Problem(np.eye(4), np.ones(4), np.array([0, 0, 1, 1]))
    regime = random_rounds(problem, Setup(eta_local=40.0, local_steps=3), participation=0.5)
    with pytest.raises(OverflowError, match=r"the run overflows float64: fl-ntk at eta_local = 40 .*mean square"):
        regime.deviation(400)


def every_end(maps, start, rounds, pushed=None):
    """Returns chance, mean and covariance of the state after each sequence of outcomes.

    `pushed` is the covariance that the noise of each round adds.
    """
    ends = [(1.0, start, np.zeros((len(start),) * 2))]
    for _ in range(rounds):
        ends = [
            (p * chance, m @ mean, m @ own @ m.T + (0 if pushed is None else pushed))
            for p, mean, own in ends
            for chance, m in maps
        ]
    return ends


def loss_moments(ends, n):
    """Returns mean and variance of |r|^2, where r are the first n rows of states (s, C).

    The states are Gaussian for given outcomes.
    """
    mean = square = 0.0
    for chance, at, own in ends:
        own = own[:n, :n]
        given_outcomes = (at[:n] ** 2).sum() + at.shape[1] * np.trace(own)
        spread = at.shape[1] * 2 * (own**2).sum() + 4 * np.trace(at[:n].T @ own @ at[:n])
        mean, square = mean + chance * given_outcomes, square + chance * (spread + given_outcomes**2)
    return mean, square - mean**2


@EACH
@pytest.mark.parametrize(
    ("cohort", "batch", "shuffled", "noise"),
    [
        (2, None, False, 0.0),
        (2, None, False, 0.3),
        (1, 1, False, 0.0),
        (3, 1, False, 0.2),
        (2, 1, True, 0.0),
        (2, 2, True, 0.1),
    ],
)
@quietly
def test_the_variance_of_the_loss_is_that_of_every_sequence_of_draws(method, options, cohort, batch, shuffled, noise):
    # FedNova's passes need equal numbers of batches. With a pull or a smaller last batch, modes are not orthogonal.
    sizes, batch = (
        ((2, 2, 2), 1) if shuffled and method == "fednova" else ((3, 1, 2) if batch == 2 else (2, 1, 2), batch)
    )
    problem = ragged(sizes, d=9, seed=6)
    problem = replace(problem, y=np.stack([problem.y, np.sin(3 * problem.y)], axis=1))
    setup, n = Setup(eta_local=0.3, local_steps=1), problem.n
    drawn = {"participation": cohort / 3, "batch_size": batch, "shuffled": shuffled, "noise": noise}
    regime = random_rounds(problem, setup, None, method, options, **drawn)
    maps = list(round_maps(problem, method, options, cohort, batch, setup, shuffled))
    h, g = gram.infinite(problem.x), options.get("server_rate", 1.0)
    # Noise on the mean moves (r, v) by (-g H xi, xi), and with Nesterov's momentum b by (-g (1 + b) H xi, xi). Here v
    # is H^-1 times the library's memory.
    root = np.linalg.cholesky(np.linalg.inv(h))
    ahead = g * (1 + options["momentum"] if options.get("nesterov") else 1)
    jump = np.vstack([-ahead * h @ root, root])
    start = np.concatenate([problem.y, np.zeros_like(problem.y)])
    for rounds in (0, 1, 2):
        mean, variance = loss_moments(every_end(maps, start, rounds, noise**2 * jump @ jump.T), n)
        assert regime.root_mean_square(rounds) ** 2 == pytest.approx(mean, rel=1e-11)
        assert regime.square_variance(rounds) == pytest.approx(variance, rel=1e-9, abs=1e-13 * mean**2)
    assert variance > 1e-6 * mean**2
    assert draw_counts.choices(regime.noise) == len(maps)


def test_where_noise_alone_is_drawn_the_loss_has_the_variance_of_a_gaussian_square():
    problem = ragged((2, 1, 2), seed=6)
    problem = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    regime = random_rounds(problem, Setup(eta_local=0.3), None, "fedavgm", {"momentum": 0.4}, noise=0.4)
    tiny = np.random.default_rng(3)
    for t in (1, 5):
        own = regime.covariance(t)
        pieces = [np.linalg.cholesky(part) for part in own]
        drawn = np.stack([piece @ tiny.standard_normal((5, 200_000)) for piece in pieces], axis=1)
        squares = ((regime.residual(t)[:, :, None] - drawn) ** 2).sum(axis=(0, 1))
        assert regime.square_variance(t) == pytest.approx(squares.var(), rel=0.02)


@EACH
@pytest.mark.parametrize("given", [False, True], ids=["drawn", "in turn"])
@quietly
def test_runs_estimate_what_the_covariance_says(method, options, given):
    problem = ragged((3, 1, 4, 2), seed=4)
    problem = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    options = {name: value for name, value in options.items() if name != "server_rate"}
    drawn = {"cohorts": [[0, 1], [2], [3, 0]], "eta_local": [0.4, 0.2]} if given else {"participation": 0.5}
    setup, batch = Setup(eta_local=0.3, local_steps=2), 2
    regime = random_rounds(problem, setup, None, method, options, batch_size=batch, noise=0.1, **drawn)
    t = np.array([0, 1, 4])
    sampled = regime.sampled(t, runs=4000, seed=1)
    exact, estimate = regime.root_mean_square(t) ** 2, sampled.mean_square
    assert (np.abs(estimate.value - exact) <= 4 / 3 * estimate.error + 1e-13).all()
    assert (estimate.error[1:] > 0).all() and (estimate.error <= 0.1 * exact).all()
    assert np.abs(sampled.of_mean - (regime.residual(t) ** 2).sum(axis=(1, 2))).max() <= 1e-12
    again = regime.sampled(t, runs=4000, seed=1)
    assert np.array_equal(again.squares, sampled.squares)
    assert not np.array_equal(regime.sampled(4, runs=4000, seed=2).squares[0], sampled.squares[2])


@pytest.mark.parametrize("passes", [1, 2])
def test_runs_of_shuffled_passes_have_their_moments(passes):
    problem, setup = ragged((4, 2, 1), d=9, seed=5), Setup(eta_local=0.25, local_steps=passes)
    regime = random_rounds(problem, setup, None, "fedavg", batch_size=1 if passes == 1 else 2, shuffled=True)
    estimate = regime.sampled(3, runs=4000).mean_square
    exact = regime.root_mean_square(3) ** 2
    assert abs(estimate.value[0] - exact) <= 4 / 3 * estimate.error[0]
    spread = exact - (regime.residual(3) ** 2).sum()
    assert estimate.error[0] <= 0.15 * spread


@quietly
def test_runs_estimate_the_variance_of_the_loss_and_bounds_hold_for_chances():
    problem, setup = ragged((1, 2, 2), d=9, seed=6), Setup(eta_local=0.4, local_steps=1)
    regime = random_rounds(problem, setup, None, "fedavg", participation=0.67, batch_size=1)
    t = np.array([1, 3])
    sampled = regime.sampled(t, runs=6000)
    exact, estimate = regime.square_variance(t), sampled.square_variance
    assert (np.abs(estimate.value - exact) <= 4 / 3 * estimate.error).all()
    assert (estimate.error <= 0.2 * exact).all()
    maps = list(round_maps(problem, "fedavg", {}, 2, 1, setup))
    ends = every_end(maps, np.concatenate([problem.y, np.zeros(5)])[:, None], 3)
    chances, squares = np.array([p for p, *_ in ends]), np.array([(r[:5] ** 2).sum() for _, r, _ in ends])
    for level in np.quantile(squares, [0.1, 0.5, 0.9, 0.99, 1]) * (1 + 1e-12):
        true = chances[squares > level].sum()
        assert true <= regime.chance_above(level, 3) <= 1
        assert np.abs(sampled.chance_above(level).value[1] - true) <= 1.6 * sampled.chance_above(level).error[1]
    assert regime.chance_above(1e9, 3) < 1e-8 and regime.chance_above(1e-9, 3) == 1
    mean, square = (regime.residual(3) ** 2).sum(), regime.root_mean_square(3) ** 2
    level = 4 * square
    assert regime.chance_above(level, 3) == pytest.approx(
        min(0.25, (square - mean) / (level**0.5 - mean**0.5) ** 2), rel=1e-12
    )


def test_losses_without_exact_variance_or_runs_are_refused(monkeypatch):
    regime = random_rounds(ragged((4,) * 5, d=24), Setup(eta_local=0.1), participation=0.4, batch_size=2)
    with pytest.raises(
        ValueError,
        match=r"a round has 1.3e\+04 choices .* and a state has 20 .*; ntkfl.sampled_rounds has estimates",
    ):
        regime.square_variance(3)
    large = random_rounds(ragged((10,) * 10, d=200), Setup(eta_local=0.1), participation=0.4)
    with pytest.raises(ValueError, match=r"fourth moments .*; ntkfl\.sampled_rounds has estimates with their errors"):
        large.square_variance(3)
    with pytest.raises(ValueError, match="runs is 1; it must be an integer, 2 or more"):
        regime.sampled(3, runs=1)
    with pytest.raises(ValueError, match="level is 0; it must be positive"):
        regime.chance_above(0, 3)
    for unknown in ("particpation", "given"):  # The second name is an argument of an inner function.
        with pytest.raises(TypeError, match=f"sampled_rounds has no argument '{unknown}'; .* participation, "):
            sampled_rounds(ragged((4, 2)), Setup(), [3], **{unknown: (0,)})


def test_exact_moments_that_do_not_fit_the_memory_offer_the_estimate(monkeypatch):
    problem, setup = ragged((40, 40), d=100), Setup(eta_local=0.01)
    monkeypatch.setattr("ntkfl.memory.NEGLIGIBLE", 1e5)
    monkeypatch.setattr("ntkfl.memory.available", lambda: 6e5)
    offered = r"of memory and 600 kB are available; .*; ntkfl\.sampled_rounds has estimates with their errors"
    with pytest.raises(ValueError, match=f"what is stable in the mean square takes .* {offered}"):
        random_rounds(problem, setup, participation=0.5)
    sampled = sampled_rounds(problem, setup, [2, 5], runs=10, participation=0.5)
    monkeypatch.undo()
    regime = random_rounds(problem, setup, participation=0.5)
    assert np.array_equal(sampled.squares, regime.sampled([2, 5], runs=10).squares)
    monkeypatch.setattr("ntkfl.memory.NEGLIGIBLE", 1e5)
    monkeypatch.setattr("ntkfl.memory.available", lambda: 6e5)
    with pytest.raises(ValueError, match=f"the covariance of random rounds takes .* {offered}"):
        regime.root_mean_square(3)


@pytest.mark.parametrize(
    ("seed", "method", "cohorts"),
    [pytest.param(4, "fedavgm", [[0, 1], [1]], marks=pytest.mark.slow), (1, "scaffold", [[0], [1]])],
)
def test_a_client_that_never_takes_part_leaves_neither_no_residual_nor_an_infinite_one(seed, method, cohorts):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    x = rng.standard_normal((n, 6))
    owner = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
    problem = Problem(x / np.linalg.norm(x, axis=1)[:, None], rng.standard_normal(n), owner)
    rounds = random_rounds(problem, Setup(eta_local=0.2, local_steps=2), None, method, cohorts=cohorts, batch_size=1)
    earlier, later = rounds.root_mean_square([800, 1000])
    assert earlier == pytest.approx(later, rel=1e-6) and later > 0.1
    assert not rounds.mean_square.stable and not rounds.mean_square.grows
    with pytest.raises(ValueError, match="what the mean square tends to is not known"):
        rounds.stationary_mean_square()
