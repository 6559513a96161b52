"""Tests of many equal rounds that are computed at once: they equal these rounds one after the other.

Computations that would take too long are refused before they begin. Usually the amount of work decides how many rounds
are taken at once. The tests overrule this choice, so that they compute rounds both at once and one by one.
"""

import re

import numpy as np
import pytest
from linear_methods import ragged

from ntkfl import Setup, data, kernel_regime, random_rounds, sampled_rounds
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit.random_regime import RandomRegime
from ntkfl.limit.shuffled_pass import ShuffledPass
from ntkfl.privacy import private_rounds, private_settings
from ntkfl.tuned_outer import Drawn, tune_outer
from ntkfl.work import MOST, require_work

pytestmark = pytest.mark.filterwarnings("ignore::ntkfl.limit.infinite_width.UnstableSteps")
SMALL = ragged((2, 1, 2), seed=3)
SETUP = Setup(eta_local=0.3, local_steps=2)
NESTEROV = {"momentum": 0.6, "nesterov": True}
RANDOM = {
    "noise": ("fl-ntk", {}, {"noise": 0.1}),
    "batches": ("fedavg", {}, {"batch_size": 1}),
    "clients by size": ("fedavg", {}, {"participation": 0.67, "noise": 0.1}),
    "nesterov, cohorts in turn, a schedule": (
        "fedavgm",
        NESTEROV,
        {"cohorts": [[0], [1, 2], [2]], "batch_size": 1, "noise": 0.1, "eta_global": [2.0, 1.5, 1.0, 0.5]},
    ),
    "momentum without draws": ("fedavgm", {"momentum": 0.6}, {"noise": 0.1, "cohorts": [[0, 1], [2]]}),
    "scaffold": ("scaffold", {}, {"participation": 0.67, "batch_size": 1, "noise": 0.1, "eta_local": [0.4, 0.2]}),
    "scaffold without draws": ("scaffold", {}, {"noise": 0.1}),
    "feddyn": ("feddyn", {"alpha": 0.5}, {"participation": 0.67}),
    "shuffled passes": ("fedavg", {}, {"batch_size": 1, "shuffled": True, "eta_local": [0.3, 0.1]}),
}
LINEAR = {
    "momentum, a schedule": ("fedavgm", {"momentum": 0.5}, {"eta_global": [2.0, 1.0, 0.5], "eta_local": [0.3, 0.2]}),
    "scaffold": ("scaffold", {}, {}),
    "feddyn": ("feddyn", {"alpha": 0.5}, {}),
    "cyclic": ("cyclic", {}, {}),
}
# The rounds may come in any order. From round 3 on the steps of every case are constant. The cohorts of one case repeat
# in cycles of three rounds; 40 - 3 is no multiple of three.
T = np.array([40, 0, 3, 1, 7, 13, 40])


def two_outputs(problem):
    return type(problem)(problem.x, np.stack([problem.y, problem.y**2], axis=1), problem.owner)


def both_ways(monkeypatch, owner, make, answers):
    """Returns the answers of a regime, with many rounds at once and one by one."""
    given = []
    for at_once in (True, False):
        monkeypatch.setattr(owner, "_takes_at_once", lambda *_, at_once=at_once: at_once)
        monkeypatch.setattr(LinearRegime, "_takes_at_once", lambda *_, at_once=at_once: at_once)
        regime = make()
        given.append([answer(regime) for answer in answers])
    return zip(*given, strict=True)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("name", RANDOM)
def test_moments_of_many_rounds_at_once_are_those_of_one_after_the_other(name, monkeypatch):
    method, options, drawn = RANDOM[name]
    problem, points = two_outputs(SMALL), ragged((2,), seed=4).x
    answers = (
        lambda regime: regime.root_mean_square(T),
        lambda regime: regime.deviation(T),
        lambda regime: regime.covariance(13),
        lambda regime: regime.prediction_covariance(points, 13),
        lambda regime: regime.predict(points, T),
        lambda regime: regime.movement(T),
        lambda regime: regime.residual(T),
    )
    make = lambda: random_rounds(problem, SETUP, None, method, options, **drawn)  # noqa: E731
    for ours, other in both_ways(monkeypatch, RandomRegime, make, answers):
        assert ours.shape == other.shape and np.abs(other).max() > 1e-6
        assert np.abs(ours - other).max() <= 1e-11 * np.abs(other).max()


def test_few_rounds_in_turn_need_no_map(monkeypatch):
    regime = random_rounds(SMALL, SETUP, cohorts=[[0], [1]])
    monkeypatch.setattr(LinearRegime, "as_map", lambda self: pytest.fail("a map of few rounds is made"))
    assert regime.residual(5).shape == (SMALL.n,)


@pytest.mark.parametrize("name", LINEAR)
def test_outputs_of_many_rounds_at_once_are_those_of_one_after_the_other(name, monkeypatch):
    method, options, schedules = LINEAR[name]
    problem, points = two_outputs(SMALL), ragged((2,), seed=4).x
    answers = (
        lambda regime: regime.residual(T),
        lambda regime: regime.predict(points, T),
        lambda regime: regime.movement(T),
    )
    make = lambda: kernel_regime(problem, SETUP, None, method, options, **schedules)  # noqa: E731
    for ours, other in both_ways(monkeypatch, LinearRegime, make, answers):
        assert np.abs(ours - other).max() <= 1e-12 * np.abs(other).max() > 0


@pytest.mark.parametrize(
    "name", ["noise", "clients by size", "momentum without draws", "scaffold", "scaffold without draws"]
)
def test_after_a_hundred_million_rounds_the_mean_square_is_the_stationary_one(name):
    method, options, drawn = RANDOM[name]
    regime = random_rounds(SMALL, Setup(eta_local=0.2, local_steps=2), None, method, options, **drawn)
    period = len(drawn.get("cohorts", [0]))
    late = regime.root_mean_square(10**8 + np.arange(period)) ** 2
    assert regime.stable and late.mean() == pytest.approx(regime.stationary_mean_square(), rel=1e-9)
    assert np.abs(regime.residual(10**8)).max() < 1e-100


def test_a_hundred_million_slow_rounds_fall_by_the_rate():
    regime = random_rounds(SMALL, Setup(eta_local=2e-6), None, "fedavg", batch_size=1)
    early, late = regime.root_mean_square([90_000_000, 100_000_000])
    assert 1 - 1e-4 < regime.rate < 1 - 1e-8 and 0 < late < early
    assert late / early == pytest.approx(regime.rate**10_000_000, rel=1e-3)


def test_passes_are_composed_as_one_after_the_other():
    once = ShuffledPass.of(np.array([[1.0, 0.3], [0.3, 0.8]]), 0.2, 1)
    moved, unit = np.zeros((2, 2)), np.eye(2)
    for passes in range(12):
        assert np.abs(once.after(passes) - moved).max() <= 1e-15
        moved = moved + once.after(1) @ (unit - once.own @ moved)


def refused(call):
    """Returns the message of a call that is refused, and the number of rounds or steps that would fit."""
    with pytest.raises(ValueError, match=r"would take some .e\+[0-9]+ operations; 1e\+[0-9]+ are the most") as error:
        call()
    return str(error.value), int(re.search(r"up to ([0-9]+) would fit", str(error.value))[1])


def test_what_would_fit_is_the_most_that_does():
    def counts(rounds, steps):
        return 1e9 * rounds * steps**2

    message, fits = refused(lambda: require_work("runs", counts, rounds=10**7, steps=1))
    assert message.startswith("runs would take some 1e+16 operations; 1e+15 are the most") and fits == 10**6
    require_work("runs", counts, rounds=fits, steps=1)
    assert refused(lambda: require_work("runs", counts, rounds=fits + 1, steps=1))[1] == fits
    assert "steps up to 31 would fit" in refused(lambda: require_work("runs", counts, rounds=1000, steps=100))[0]
    with pytest.raises(ValueError, match=r"are the most, and a core does 1e10 a second$"):
        require_work("runs", lambda rounds: 2 * MOST, rounds=5)


MANY, SOME = 10**11, data.sphere(40, 5, clients=2)
DRAWN = {"batch_size": 1, "participation": 0.5}


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda t: random_rounds(SOME, SETUP, **DRAWN).sampled(t, runs=2), 10**9),
        (lambda t: sampled_rounds(SOME, SETUP, t, runs=2, **DRAWN), 10**9),
        (lambda t: random_rounds(SMALL, SETUP, **DRAWN).square_variance(t), 10**9),
        (lambda t: tune_outer(SOME, rounds=t, local_steps=(1, 2), outer=("falling",), drawn=Drawn(1)), 10**7),
        (lambda t: private_rounds(SMALL, SETUP, rounds=t), 10**9),
        (lambda t: private_settings(SMALL, local_steps=(1, 2), rounds=t, falls=(1.0, 0.1)), 10**8),
        (lambda t: private_settings(SMALL, rounds=t, participation=0.67), 10**8),
        (lambda t: random_rounds(SMALL, Setup(eta_local=0.1, local_steps=t), batch_size=1), 10**6),
        (lambda t: tune_outer(SMALL, rounds=2, local_steps=(t,), drawn=Drawn(1)), 10**6),
        (lambda t: random_rounds(SMALL, Setup(eta_local=0.01, local_steps=t), batch_size=1, shuffled=True), 10**6),
        (lambda t: kernel_regime(SMALL, Setup(eta_local=0.1, local_steps=t), method="scaffold"), 10**7),
        (lambda t: kernel_regime(SMALL, Setup(eta_local=0.1, local_steps=t), step_factors=[1, 2]), 10**7),
    ],
    ids=[
        *("sampled", "sampled_rounds", "square_variance", "tune_outer", "private_rounds", "private_settings"),
        *("private_cohorts", "steps_on_batches", "tuned_steps", "shuffled_steps", "scaffold_steps", "unequal_steps"),
    ],
)
def test_what_takes_more_than_a_day_is_refused_with_what_would_fit(call, most):
    assert 1000 < refused(lambda: call(MANY))[1] < most


def test_rounds_that_have_no_memory_at_once_are_refused_with_what_would_fit_one_by_one(monkeypatch):
    regime = random_rounds(SMALL, SETUP, batch_size=1)
    assert np.isfinite(regime.root_mean_square(MANY))
    # Free memory is as large as the request, but only half of the free memory may be taken.
    monkeypatch.setattr("ntkfl.limit.random_regime.left_for", lambda needed: needed)
    message, fits = refused(lambda: regime.root_mean_square(MANY))
    assert message.startswith("the moments of random rounds") and "stationary_mean_square" in message and fits > 10**6


def test_a_budget_of_many_rounds_is_tuned_where_rounds_are_taken_at_once():
    (one,) = tune_outer(SMALL, rounds=10**9, local_steps=(2,), outer=("average",), drawn=Drawn(noise=0.1))
    setup = Setup(eta_local=one.eta_local, local_steps=2)
    regime = random_rounds(SMALL, setup, None, "fedavg", one.options, noise=0.1)
    assert one.mean_square == pytest.approx(regime.root_mean_square(one.rounds) ** 2 / SMALL.n, rel=1e-9)
    # Small steps leave the least noise, but steps must still be large enough to train in time.
    for factor in (0.5, 2.0):
        other = random_rounds(SMALL, setup, None, "fedavg", {"server_rate": factor * one.server_rate}, noise=0.1)
        assert one.mean_square <= other.root_mean_square(one.rounds) ** 2 / SMALL.n * (1 + 1e-9)
