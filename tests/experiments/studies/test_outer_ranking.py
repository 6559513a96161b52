"""Tests of the study that ranks servers' optimizers.

One cell (one measurement of the study) is compared with a plain loop over the weights. The known orders, regrets
and gains of invented cells are recovered. A regret is the number of rounds that a choice loses.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions import outer_ranking
from experiments.studies.questions.outer_ranking import BATCH, CLIENTS, ROUNDS, SAMPLES, STUDY, TWO_LAYER, measure
from experiments.studies.random_seed import own_seed
from ntkfl.initialisation import draw
from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.tuned_outer import OuterChoice

NESTEROV = OuterChoice("nesterov", 2, ROUNDS, 0.05, 1.2, 0.4, 0.5, 0.0, "falls")


def test_a_cell_is_what_a_plain_loop_finds(monkeypatch):
    monkeypatch.setattr(outer_ranking, "tuned", lambda *_: {"nesterov": NESTEROV})
    point = {"network": "two-layer:16", "tuned_for": "batches", "outer": "nesterov", "local_steps": 2, "seed": 3}
    outer_ranking.predicted.cache_clear()
    measured = measure(point)
    outer_ranking.predicted.cache_clear()
    given, (hidden, signs) = outer_ranking.problem(), draw(16, 64, own_seed(3, 16, STUDY.name))
    w, velocity, v = hidden.copy(), 0.0, signs / 4
    start = np.maximum(given.x @ hidden.T, 0) @ v
    members = [np.flatnonzero(given.owner == c) for c in range(CLIENTS)]
    for t in range(ROUNDS + 1):
        left = given.y + start - np.maximum(given.x @ w.T, 0) @ v
        assert measured["loss"][t] == pytest.approx((left**2).mean(), rel=1e-9)
        work = LocalWork(batch_size=BATCH, steps=2, independent=True)
        plan, mean = local_plan(members, range(CLIENTS), work, 3, t, 0), 0.0
        for client, own in enumerate(members):
            local = w.copy()
            for rows in plan.index[client]:
                x, before = given.x[rows], given.x[rows] @ local.T
                error = given.y[rows] + start[rows] - np.maximum(before, 0) @ v
                local += 0.05 * len(own) / BATCH * ((error[:, None] * (before >= 0)) * v).T @ x
            mean = mean + (local - w) / CLIENTS
        velocity = 0.4 * velocity + mean
        w = w + 1.2 * (mean + 0.4 * velocity)
    regime_start = float((given.y**2).mean())
    assert [measured["predicted"][0], measured["loss"][0]] == pytest.approx([regime_start] * 2)
    assert measured["predicted"][-1] < regime_start and measured["spread"] > 0 and measured["tuned"] == 0.5
    assert len(set(np.bincount(given.owner))) == 1 and given.n == SAMPLES


def cell(point, swapped=False, noise=0.05):
    """Returns an invented cell whose loss falls to 2^-k for the k-th candidate.

    With `swapped`, two candidates exchange their places in training.
    """
    place = ["average", "momentum", "nesterov"].index(point["outer"]) + 3 * (point["local_steps"] == 4)
    batches = point["tuned_for"] == "batches"
    known = 2.0 ** -(place if batches else place - 8)
    trained = known
    if swapped and batches and place >= 4:
        trained = 2.0 ** -(9 - place)
    rng = np.random.default_rng([point["seed"], place, batches])
    curve = trained ** (np.arange(ROUNDS + 1) / ROUNDS) * rng.lognormal(sigma=noise)
    at = np.linspace(1, known, ROUNDS + 1)
    return {"loss": curve, "predicted": at, "tuned": known if batches else 2.0**-place, "spread": 0.1}


def test_planted_orders_are_told():
    order, regret, gain = STUDY.answers(planted(STUDY, cell, network=("two-layer:4096",)))
    assert {answer.outcome for answer in (order, regret, gain)} == {Outcome.HOLDS}
    assert order.measured.value == 1 and "66 of 66 pairs" in order.note and "tau 1.00" in order.note
    assert regret.measured.value == 0 and "none is seen to be better" in regret.note
    assert gain.measured.hi < 0 and gain.measured.value == pytest.approx(-8 * np.log(2), abs=0.3)


def test_a_planted_swap_is_seen_and_its_regret_is_counted():
    def changed(point):
        return cell(point, swapped=True)

    order, regret, _ = STUDY.answers(planted(STUDY, changed, network=("two-layer:4096",)))
    assert order.outcome is regret.outcome is Outcome.UNRESOLVED
    assert "65 of 66" in order.note and "within a factor of 2" in order.note
    # A run that ends at 2^-5 reaches a loss of 2^-4 after 4/5 of its rounds.
    assert regret.measured.value == pytest.approx(ROUNDS / 5, abs=1)
    assert "seen to be better: momentum, K = 4, tuned for batches" in regret.note


def test_what_noise_hides_is_not_seen():
    loud = planted(
        STUDY, lambda point: cell(point, swapped=True, noise=3.0), network=("two-layer:4096",), seed=range(5)
    )
    order, regret, _ = STUDY.answers(loud)
    assert order.outcome in (Outcome.UNTESTED, Outcome.HOLDS) and regret.outcome is Outcome.HOLDS
    few = planted(STUDY, cell, network=("two-layer:4096",), seed=range(3))
    assert {answer.outcome for answer in STUDY.answers(few)} == {Outcome.UNTESTED}


def test_a_network_that_is_none_is_refused():
    assert outer_ranking.network_name("cnn:8") == "cnn:8"
    for word in ("cnn", "two-layer:0", "mlp:8"):
        with pytest.raises(ValueError, match=f"there is no network '{word}'; it must be {TWO_LAYER}:WIDTH or cnn:"):
            outer_ranking.network_name(word)
