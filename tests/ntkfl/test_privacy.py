"""Private rounds: the accountant against the exact curve, clipping norms against simulated displacements."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_methods import ragged
from scipy.stats import norm

from ntkfl import Problem, Setup, gram, privacy, random_rounds
from ntkfl.privacy import best_choices, noise_multiplier, private_rounds, private_settings


def even(clients=6, samples=2, d=18, seed=0, outputs=None):
    """A problem of clients with as many samples each."""
    problem = ragged((samples,) * clients, d=d, seed=seed)
    y = np.random.default_rng(seed).choice([-1.0, 1.0], (problem.n, outputs) if outputs else problem.n)
    return Problem(problem.x, y, problem.owner)


@settings(deadline=None, max_examples=20)
@given(epsilon=st.floats(0.1, 10), rounds=st.integers(1, 300))
def test_the_noise_of_whole_rounds_is_that_of_the_exact_curve_of_gaussian_noise(epsilon, rounds):
    """delta = Phi(1/2s - e s) - exp(e) Phi(-1/2s - e s) of s = sigma / sqrt(T) (Balle and Wang, Theorem 8)."""
    s = noise_multiplier(epsilon, 1e-5, rounds) / rounds**0.5
    delta = norm.cdf(0.5 / s - epsilon * s) - np.exp(epsilon + norm.logcdf(-0.5 / s - epsilon * s))
    assert delta == pytest.approx(1e-5, rel=1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0; it must be a positive number"),
        ({"epsilon": float("nan")}, "epsilon is nan; it must be a positive number"),
        ({"delta": 1.0}, "delta is 1.0; it must lie between 0 and 1"),
        ({"rounds": 0}, "rounds is 0; it must be 1 or more"),
    ],
)
def test_a_budget_that_is_none_is_refused(changed, message):
    given = {"epsilon": 1.0, "delta": 1e-5, "rounds": 1}
    with pytest.raises(ValueError, match=message):
        noise_multiplier(**(given | changed))


def test_without_the_accountant_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        noise_multiplier(1.23, 1e-5, 1)


@pytest.mark.parametrize("outputs", [None, 2])
def test_a_plan_is_the_random_rounds_with_its_noise(outputs):
    problem, setup = even(outputs=outputs), Setup(eta_local=0.4, local_steps=3)
    options = {"server_rate": 0.7}
    done = private_rounds(problem, setup, None, "fl-ntk", options, rounds=12)
    for rounds in (1, 5, 12):
        plan = done.plan(20.0, 1e-3, rounds)
        assert plan.noise == pytest.approx(plan.noise_multiplier * plan.clip / 6, rel=1e-14)
        regime = random_rounds(problem, setup, None, "fl-ntk", options, noise=plan.noise)
        assert plan.mean_square == pytest.approx(regime.root_mean_square(rounds) ** 2 / problem.n, rel=1e-10)


def longest(problem, setup, server_rate, noise, rounds, rng, cohort=None):
    """The longest displacement of a training without clipping, in the features of the Gram matrix."""
    values, basis = np.linalg.eigh(gram.infinite(problem.x))
    features = basis * np.sqrt(values)
    weights, length = np.zeros((problem.n, 1)), 0.0
    for _ in range(rounds):
        mean = np.zeros_like(weights)
        drawn = rng.permutation(problem.n_clients)[:cohort]
        for own in [problem.clients()[c] for c in drawn]:
            local = weights.copy()
            for _ in range(setup.local_steps):
                local += setup.eta_local * features[own].T @ (problem.y[own, None] - features[own] @ local)
            length = max(length, float(np.linalg.norm(local - weights)))
            mean += (local - weights) / len(drawn)
        weights += server_rate * (mean + noise * rng.standard_normal(weights.shape))
    return length


def test_displacements_pass_the_clipping_norm_as_rarely_as_is_said():
    problem, setup, rate, rounds = even(), Setup(eta_local=0.4, local_steps=2), 0.9, 15
    done = private_rounds(problem, setup, None, "fl-ntk", {"server_rate": rate}, rounds=rounds)
    plan = done.plan(60.0, 1e-3, rounds, clipped=0.2)
    rng = np.random.default_rng(0)
    lengths = np.array([longest(problem, setup, rate, plan.noise, rounds, rng) for _ in range(60)])
    assert np.mean(lengths > plan.clip) <= 0.2
    assert np.mean(lengths > 0.6 * plan.clip) > 0.2  # a norm so much smaller would break the promise


def test_the_norms_of_the_first_round_are_those_of_the_displacements():
    problem, setup = even(), Setup(eta_local=0.4, local_steps=2)
    done = private_rounds(problem, setup, None, "fl-ntk", {"server_rate": 1.0}, rounds=2)
    rng = np.random.default_rng(0)
    assert done.displacements.mean[0].max() == pytest.approx(longest(problem, setup, 1.0, 0.0, 1, rng), rel=1e-12)
    assert not done.displacements.trace[0].any()


def test_the_best_choice_is_the_best_of_all_and_better_with_a_larger_budget():
    settings_ = private_settings(even(20, 1, 30), local_steps=(1, 3), rounds=20)
    squares = {}
    for epsilon in (2.0, 8.0, 500.0):
        choices = best_choices(settings_, epsilon, 1e-5)
        assert [choice.local_steps for choice in choices] != [] and len(choices) == 2
        every = [plan.mean_square for setting in settings_ for plan in setting.plans(epsilon, 1e-5)]
        assert choices[0].plan.mean_square == min(every)
        squares[epsilon] = choices[0].plan.mean_square
    assert squares[2.0] > squares[8.0] > squares[500.0]


def test_what_private_rounds_cannot_be_is_refused():
    unequal, setup = ragged((1, 3, 2)), Setup(eta_local=0.2, local_steps=2)
    with pytest.raises(ValueError, match="fedavg weighs clients by their samples, which differ here"):
        private_rounds(unequal, setup, None, "fedavg")
    with pytest.raises(ValueError, match="rounds is 0; it must be 1 or more"):
        private_rounds(even(), setup, rounds=0)
    done = private_rounds(even(), setup, rounds=3)
    with pytest.raises(ValueError, match="rounds is 4; it must be from 1 to 3, which were computed"):
        done.plan(1.0, 1e-5, 4)
    with pytest.raises(ValueError, match=r"clipped is 0\.0; it is a chance"):
        done.plan(1.0, 1e-5, 3, clipped=0.0)


@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
def test_methods_whose_clients_remember_are_refused(method):
    with pytest.raises(ValueError, match=f"{method}'s clients remember: .* use a method without memory"):
        private_rounds(even(), Setup(eta_local=0.1), method=method)


def test_a_falling_rate_is_that_of_random_rounds_and_is_chosen_where_it_helps():
    problem, setup, rates = even(), Setup(eta_local=0.3, local_steps=2), [2.0, 1.0, 0.5]
    done = private_rounds(problem, setup, rounds=5, eta_global=rates)
    plan = done.plan(50.0, 1e-5, 5)
    noisy = random_rounds(problem, setup, noise=plan.noise, eta_global=rates)
    assert plan.mean_square == pytest.approx(noisy.root_mean_square(5) ** 2 / problem.n, rel=1e-10)
    constant = private_rounds(problem, setup, None, "fl-ntk", {"server_rate": 2.0}, rounds=5)
    assert abs(done.gain[5] / constant.gain[5] - 1) > 0.1 and done.gain[1] == pytest.approx(constant.gain[1])
    with pytest.raises(ValueError, match="scaffold's clients remember"):
        private_rounds(problem, setup, method="scaffold", eta_global=rates)
    settings = private_settings(problem, local_steps=(2,), rounds=30, falls=(1.0, 0.1))
    steady = [setting for setting in settings if not setting.eta_global]
    assert best_choices(settings, 50.0, 1e-5) == best_choices(steady, 50.0, 1e-5)  # few rounds: a fall is no help
    ((best,), (plain,)) = best_choices(settings, 500.0, 1e-5), best_choices(steady, 500.0, 1e-5)
    assert best.plan.mean_square < plain.plan.mean_square and plain.last_rate == plain.server_rate
    assert best.last_rate == pytest.approx(best.server_rate * 0.1 ** ((best.plan.rounds - 1) / 29))
    with pytest.raises(ValueError, match=r"falls has 1\.5; the server rate falls to a share in \(0, 1\]"):
        private_settings(problem, falls=(1.5,))


def test_noise_that_would_clip_everything_has_no_finite_plan():
    done = private_rounds(even(), Setup(eta_local=0.4, local_steps=2), rounds=50)
    assert done.plan(0.01, 1e-5, 50).mean_square == np.inf and done.plan(0.01, 1e-5, 1).mean_square < np.inf


def told(epsilon, one, other, sigma):
    """The least delta of a release under one law of means or the other, each a list of (chance, mean), by a sum."""
    at = np.linspace(-40 * sigma, 40 * sigma, 400_001)
    p, q = (sum(chance * norm.pdf(at, mean, sigma) for chance, mean in law) for law in (one, other))
    step = at[1] - at[0]
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum(), np.maximum(q - np.exp(epsilon) * p, 0).sum()) * step


@pytest.mark.parametrize(("clients", "cohort"), [(2, 1), (10, 1), (3, 2)])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_one_round_of_drawn_clients_tells_no_more_than_the_budget(epsilon, clients, cohort):
    """Displacements of norm 1 are summed; in the other data set one client's is 0, and the rest help the attacker."""
    sigma, others = noise_multiplier(epsilon, 1e-3, 1, clients, cohort), clients - 1
    worst = 0.0
    for rest in (-1.0, 0.0, 1.0):  # what all the others send
        for own in (-1.0, 1.0):
            share = cohort / clients
            without = (1 - share, min(cohort, others) * rest)
            one, other = [without, (share, (cohort - 1) * rest + own)], [without, (share, (cohort - 1) * rest)]
            worst = max(worst, told(epsilon, one, other, sigma))
    assert worst <= 1e-3
    assert told(epsilon, [(1 - share, 0.0), (share, 1.0)], [(1.0, 0.0)], 0.3 * sigma) > 1e-3


def test_several_rounds_of_known_cohorts_tell_what_the_count_says():
    """Three rounds with one of four clients: a client is drawn k times, and k rounds are one with less noise."""
    multiplier, epsilon = 0.9, 1.5
    known = privacy._delta_by_count(multiplier, epsilon, 3, 0.25)
    exact = 0.0
    for drawn in itertools.product((True, False), repeat=3):
        times = sum(drawn)
        shift = [(1.0, times**0.5)], [(1.0, 0.0)]
        exact += 0.25**times * 0.75 ** (3 - times) * told(epsilon, *shift, multiplier)
    assert known == pytest.approx(exact, rel=1e-4)


def test_drawn_clients_ask_for_less_noise_on_the_sum_the_fewer_are_drawn():
    needed = [noise_multiplier(2.0, 1e-5, 40, 100, cohort) for cohort in (2, 10, 50, 100)]
    assert needed == sorted(needed) and needed[0] < needed[-1] / 4
    assert needed[-1] == noise_multiplier(2.0, 1e-5, 40)
    with pytest.raises(ValueError, match="the cohort is 5 of 4 clients; it must be from 1 to all of them"):
        noise_multiplier(1.0, 1e-5, 1, 4, 5)


def test_a_client_that_is_drawn_less_often_than_delta_asks_for_next_to_no_noise():
    assert 0 < noise_multiplier(1.0, 0.01, 5, 1000, 1) < 0.01 < noise_multiplier(1.0, 0.01, 5, 100, 1)


@pytest.mark.parametrize("outputs", [None, 2])
def test_a_plan_with_drawn_clients_is_the_random_rounds_with_its_noise(outputs):
    problem, setup, options = even(outputs=outputs), Setup(eta_local=0.4, local_steps=2), {"server_rate": 0.7}
    done = private_rounds(problem, setup, None, "fl-ntk", options, rounds=4, participation=0.5)
    plan = done.plan(300.0, 1e-2, 4)
    assert plan.noise == pytest.approx(plan.noise_multiplier * plan.clip / 3, rel=1e-14)
    regime = random_rounds(problem, setup, None, "fl-ntk", options, noise=plan.noise, participation=0.5)
    assert plan.mean_square == pytest.approx(regime.root_mean_square(4) ** 2 / problem.n, rel=1e-10)


def test_every_draw_of_a_small_training_keeps_to_what_is_said_of_displacements():
    """Three clients, one in each of five rounds: every draw is trained in weights, on features of the Gram matrix."""
    problem, setup, rate, rounds = even(3, 2, 9), Setup(eta_local=0.4, local_steps=2), 1.3, 5
    done = private_rounds(problem, setup, None, "fl-ntk", {"server_rate": rate}, rounds=rounds, participation=1 / 3)
    own = done.displacements
    values, basis = np.linalg.eigh(gram.infinite(problem.x))
    features = basis * np.sqrt(values)
    maps = []
    for rows in problem.clients():
        phi = features[rows]
        kept = np.eye(len(phi)) - setup.eta_local * phi @ phi.T
        maps.append(phi.T @ sum(np.linalg.matrix_power(kept, k) for k in range(2)) @ phi * setup.eta_local)
    start = np.linalg.solve(features, problem.y)
    displaced, longest = [[[] for _ in range(3)] for _ in range(rounds)], []
    for draws in itertools.product(range(3), repeat=rounds):
        error, noise, sent = start, np.zeros((len(start), len(start))), []
        for t, client in enumerate(draws):
            for c in range(3):
                displaced[t][c].append(maps[c] @ error)
                assert np.linalg.norm(displaced[t][c][-1]) <= own.most[t, c] * (1 + 1e-9)
            assert np.linalg.eigvalsh(noise)[-1] <= own.walk[t] * (1 + 1e-9)
            sent.append(np.linalg.norm(maps[client] @ error))
            step = np.eye(len(start)) - rate * maps[client]
            error, noise = step @ error, step @ noise @ step + rate**2 * np.eye(len(start))
        longest.append(max(sent))
    for t, c in itertools.product(range(rounds), range(3)):
        moves = np.array(displaced[t][c])
        mean = moves.mean(axis=0)
        assert own.mean[t, c] == pytest.approx(np.linalg.norm(mean), rel=1e-9)
        assert own.spread[t, c] == pytest.approx(((moves - mean) ** 2).sum(axis=1).mean(), rel=1e-7, abs=1e-14)
    for chance in (0.5, 0.1, 0.01):
        level = own.level(rounds, chance)
        assert np.mean(np.array(longest) > level) <= chance
        able = own.most > level  # the others do not pass the level in any draw
        by_chebyshev = (own.spread / (level - own.mean) ** 2)[able].sum() / 3
        assert by_chebyshev == pytest.approx(chance, rel=1e-6) or able.sum() < (own.most > 0.999 * level).sum()
    assert np.mean(np.array(longest) > 0.98 * own.mean.max()) > 0.3  # a level as low as the means would not do
    assert own.level(rounds, 1e-9) == pytest.approx(own.most.max(), rel=1e-6)


def test_drawn_displacements_pass_the_clipping_norm_as_rarely_as_is_said():
    problem, setup, rate, rounds = even(8, 1, 12), Setup(eta_local=0.4, local_steps=2), 0.9, 6
    options = {"server_rate": rate}
    done = private_rounds(problem, setup, None, "fl-ntk", options, rounds=rounds, participation=0.5)
    plan = done.plan(400.0, 1e-2, rounds, clipped=0.2)
    assert 0.05 < plan.moved < 1
    rng = np.random.default_rng(0)
    runs = [longest(problem, setup, rate, plan.noise, rounds, rng, cohort=4) for _ in range(200)]
    assert np.mean(np.array(runs) > plan.clip) <= 0.2 and plan.clip < 8 * np.max(runs)


def test_what_is_not_proved_of_drawn_clients_is_refused():
    problem = even()
    with pytest.raises(ValueError, match="fedavgm's server has momentum: where clients are drawn"):
        private_rounds(problem, Setup(eta_local=0.1), method="fedavgm", participation=0.5)
    limit = random_rounds(problem, Setup(eta_local=0.1)).step_limits.eta_local
    far = Setup(eta_local=1.02 * limit, local_steps=2)
    with pytest.raises(ValueError, match="at which a client alone diverges; where clients are drawn it must be below"):
        private_rounds(problem, far, None, "fl-ntk", {"server_rate": 0.1}, rounds=2, participation=0.5)
    done = private_rounds(problem, Setup(eta_local=0.1), rounds=9, participation=0.5)
    plan = done.plan(0.1, 1e-5, 9)
    assert plan.clip == plan.mean_square == np.inf and plan.moved > 1
