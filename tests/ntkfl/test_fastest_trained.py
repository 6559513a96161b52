"""Tests of a network that is trained with the settings of the fastest methods.

The numbers of rounds are compared with plain loops, and the predicted numbers with the kernel regimes. Pairs of methods
whose order in training is not the predicted order are found.
"""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from ntkfl import data, fastest_trained, gram, kernel_regime
from ntkfl.exact_dynamics import of_method
from ntkfl.fastest_method import Fastest, Tuned, fastest
from ntkfl.fastest_trained import Trained, reversed_pairs, train_fastest
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.memory import TooLittleMemory
from ntkfl.problem import Setup
from ntkfl.training.engine.federation import Federation

EPS, WIDTH, SEED = 1e-2, 300, 4


@pytest.fixture(scope="module")
def problem():
    return data.sphere(10, 8, seed=1, clients=3, labels="uniform")


@pytest.fixture(scope="module")
def comparison(problem):
    return fastest(problem, local_steps=(1, 3), eps=EPS)


@pytest.fixture(scope="module")
def rows(problem, comparison):
    return {row.label: row for row in train_fastest(problem, comparison, WIDTH, SEED)}


def plain_rounds(problem, one):
    """Runs rounds that are written out, with server momentum (0 is FedAvg) and weights n_c/n."""
    weights = draw(WIDTH, problem.d, SEED)
    x, y, signs, u, velocity = problem.x, problem.y, weights.signs / np.sqrt(WIDTH), weights.hidden, 0.0
    first = np.linalg.norm(y - np.maximum(x @ u.T, 0) @ signs)
    for t in range(1000):
        if np.linalg.norm(y - np.maximum(x @ u.T, 0) @ signs) <= EPS * first:
            return t
        mean = 0.0
        for own in problem.members:
            w = u
            for _ in range(one.local_steps):
                z = x[own] @ w.T
                off = np.maximum(z, 0) @ signs - y[own]
                w = w - one.eta_local * ((z >= 0) * off[:, None] * signs).T @ x[own]
            mean = mean + len(own) / problem.n * (w - u)
        velocity = mean + one.options.get("momentum", 0.0) * velocity
        u = u + one.options["server_rate"] * velocity
    return None


def test_rounds_are_those_of_plain_loops_and_of_the_regimes(problem, comparison, rows):
    assert [tuned.label for tuned in comparison.best] == list(rows)
    start = draw(WIDTH, problem.d, SEED).outputs(problem.x)
    own = gram.finite(problem.x, draw(WIDTH, problem.d, SEED).hidden)
    for tuned in comparison.best:
        steps = Setup(eta_local=tuned.eta_local, local_steps=tuned.local_steps)
        for h, rounds in ((None, rows[tuned.label].predicted), (own, rows[tuned.label].linearised)):
            assert rounds == kernel_regime(problem, steps, h, tuned.method, tuned.options).rounds_to(EPS, start)
        if tuned.label in ("fedavg", "fedavg, server rate 1", "fedavgm"):
            assert rows[tuned.label].trained == rows[tuned.label].rounds_run == plain_rounds(problem, tuned)
            assert rows[tuned.label].residual_left <= EPS


def test_who_does_not_arrive_says_how_far_it_came(problem, comparison, monkeypatch):
    monkeypatch.setattr(fastest_trained, "PATIENCE", 0.5)
    told = []
    for row in train_fastest(problem, comparison, WIDTH, SEED, told.append):
        assert row.trained is None and row.rounds_run <= 0.5 * row.predicted + 1 and EPS < row.residual_left < 1, row
        assert f"{row.label}, {row.predicted} rounds predicted" in told


def test_a_wide_network_takes_the_predicted_rounds(problem, comparison):
    near, wide = (train_fastest(problem, comparison, width, SEED) for width in (WIDTH, 2**14))
    for trained, other in zip(near, wide, strict=True):
        assert other.trained is not None and abs(other.trained - other.predicted) <= 0.1 * other.predicted + 1, trained
        assert 0 < other.output_distance < trained.output_distance


def edge(problem):
    """Returns FedAvg with a server rate a fiftieth below its limit at infinite width."""
    limits = of_method(algorithm1_limit(problem, Setup(eta_local=0.3, local_steps=2)), "fedavg", {}).step_limits
    tuned = Tuned("edge", "fedavg", {"server_rate": 0.98 * limits.eta_global}, 2, 0.3, 0.9, 1, 2)
    return Fastest(EPS, (tuned,), 1.0, 1)


def test_a_small_network_that_diverges_or_does_not_arrive_has_no_rounds(problem):
    """A small network that diverges or does not reach the target has no number of rounds.

    Its H(0) has a larger eigenvalue than H_inf, so that its linearisation diverges.
    """
    (row,) = train_fastest(problem, edge(problem), 10, seed=3)
    assert row.predicted < 100 and row.linearised is None and row.trained is None and row.output_distance > 0.5


def test_near_the_limit_a_network_may_be_faster_than_its_own_linearisation(problem):
    """Near the limit a network may be faster than its own linearisation.

    A round of the network linearised at round t multiplies the residual by 1 - (eta_g/N) H(t) P. Here H(t) is the
    kernel of the network's gradients, and P stands for the clients' local steps. At the start the largest eigenvalue of
    H(0) P is above the largest value at which a linearised network converges. As the network trains, the largest
    eigenvalue of H(t) P falls below this value.
    """
    (row,) = train_fastest(problem, edge(problem), 30, seed=1)
    assert row.linearised is None and row.trained is not None and row.trained < row.predicted / 3


def test_an_overflow_is_no_arrival(problem, monkeypatch):
    def blows_up(self, state):
        # The weights are finite, but squared outputs overflow.
        moved = {name: w + 1e160 for name, w in state.model.items()}
        return SimpleNamespace(state=replace(state, server=state.server | {"model": moved}))

    for after in (Mock(side_effect=FloatingPointError("round 0: the weights are no longer finite")), blows_up):
        monkeypatch.setattr(Federation, "round", after)
        (row,) = train_fastest(problem, edge(problem), 30)
        assert row.trained is None and (row.output_distance, row.rounds_run, row.residual_left) == (0, 0, 1), after


def test_what_is_not_predicted_to_arrive_is_left_out(problem, monkeypatch):
    monkeypatch.setattr(fastest_trained, "MOST_ROUNDS", 3)
    assert train_fastest(problem, Fastest(EPS, (Tuned("a", "fedavg", {}, 1, 0.1, 0.9, 1, 2),), 1.0, 1), 30) == ()


def test_orders_part_where_the_network_turns_a_pair_round():
    a, b, c, d = (
        Trained(*row, 0.1, 9, 0.01) for row in (("a", 5, 5, 9), ("b", 7, 7, 7), ("c", 7, 7, None), ("d", 8, 8, 9))
    )
    assert reversed_pairs((a, b)) == reversed_pairs((b, a)) == ((a, b),)
    assert reversed_pairs((b, c)) == ()  # Methods with equally many predicted rounds have no order.
    assert reversed_pairs((c, d)) == ((c, d),) and reversed_pairs((a, d)) == ()
    assert reversed_pairs((d, c, b, a)) == ((a, b), (c, d)) and reversed_pairs(()) == ()


def test_bad_input_is_refused(problem, comparison):
    with pytest.raises(ValueError, match="the width is 0; it must be a positive integer"):
        train_fastest(problem, comparison, 0)
    both = replace(problem, y=np.stack([problem.y, problem.y], axis=1))
    with pytest.raises(ValueError, match=r"labels have shape \(10, 2\); the network has one output"):
        train_fastest(both, comparison, 10)
    with pytest.raises(TooLittleMemory, match="width up to"):
        train_fastest(problem, comparison, 10**12)
