"""Tests of the study of methods' limits.

One cell (one measurement of the study) is compared with a plain loop. From invented cells with known powers these
powers are recovered, and a claim of another power is violated.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from bounds.fl_ntk.cases.method_ladder import PULL, variants
from experiments.studies.questions import method_limits
from experiments.studies.questions.method_limits import (
    METHODS,
    QUANTITIES,
    RATE,
    SETUP,
    SPHERE,
    STUDY,
    limit,
    measure,
    problem,
)
from experiments.studies.study_data import data_name
from ntkfl import gram
from ntkfl.initialisation import draw

WIDTH, SEED = 64, 3


def test_a_cell_is_what_a_plain_loop_finds():
    """The loop takes FedProx's proximal steps on the network, and the same steps on the coefficients of the limit."""
    measured = measure({"data": SPHERE, "method": "fedprox", "width": WIDTH, "seed": SEED})
    entropy = np.random.SeedSequence((SEED, WIDTH, *b"fedprox")).generate_state(1, np.uint64)[0] >> 1
    weights = draw(WIDTH, problem().d, int(entropy))
    x, r0, signs, h = problem().x, problem().y, weights.signs / np.sqrt(WIDTH), gram.infinite(problem().x)
    start = np.maximum(x @ weights.hidden.T, 0) @ signs
    y, u, c, eta = start + r0, weights.hidden.copy(), np.zeros(len(x)), SETUP.eta_local
    furthest = 0.0
    for t in range(SETUP.rounds + 1):
        off = np.maximum(x @ u.T, 0) @ signs - start - h @ c
        furthest = max(furthest, np.linalg.norm(off) / np.linalg.norm(r0))
        if t == SETUP.rounds:
            break
        move, turn = np.zeros_like(u), np.zeros_like(c)
        for own in problem().members:
            local, mine = u.copy(), np.zeros(len(own))
            for _ in range(SETUP.local_steps):
                z = x[own] @ local.T
                left = y[own] - np.maximum(z, 0) @ signs
                local = local + eta * (((z >= 0) * left[:, None] * signs).T @ x[own] - PULL * (local - u))
                limit_left = r0[own] - h[own] @ c - h[np.ix_(own, own)] @ mine
                mine = mine + eta * (limit_left - PULL * mine)
            move += len(own) / len(x) * (local - u)
            turn[own] = len(own) / len(x) * mine
        u, c = u + RATE * move, c + RATE * turn
    assert measured["outputs"] == pytest.approx(furthest, rel=1e-9)
    points = np.random.default_rng(1).normal(size=(method_limits.TEST_POINTS, problem().d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    after, before = (np.maximum(points @ w.T, 0) @ signs for w in (u, weights.hidden))
    off = after - before - gram.infinite(points, x) @ c
    assert measured["prediction"] == pytest.approx(np.sqrt((off**2).mean()), rel=1e-9)


def test_the_steps_are_stable_under_every_method_and_no_two_limits_are_one():
    ends = np.array([limit(method).outputs(SETUP.rounds) for method in METHODS])
    for method, end in zip(METHODS, ends, strict=True):
        assert limit(method).step_warning is None and limit(method).rate < 0.98, method
        apart = np.linalg.norm(ends - end, axis=1) / np.linalg.norm(problem().y)
        assert np.sum(apart < 1e-4) == 1, method  # No limit but `end` itself is as close to `end`.


def test_on_a_file_the_step_is_halved_until_the_method_is_stable_and_wide_networks_are_nearer(tmp_path):
    rng = np.random.default_rng(0)
    # The rows are nearly parallel, so the kernel has a large eigenvalue, for which 0.4 is too long a step.
    x = rng.normal(size=(24, 3)) + 2
    np.savez(tmp_path / "mine.npz", x=x, y=rng.uniform(-0.2, 0.2, 24), owner=np.arange(24) % 2)
    name = data_name(str(tmp_path / "mine.npz"))
    exact = limit("fedavg", name)
    assert exact.stable and exact.setup.eta_local < SETUP.eta_local and exact.problem.n == 24
    narrow, wide = (
        np.mean([measure({"data": name, "method": "fedavg", "width": width, "seed": s})["outputs"] for s in range(3)])
        for width in (64, 4096)
    )
    assert wide < narrow / 4  # Theory predicts a ratio of 1/8.


def test_no_two_cells_share_neurons(monkeypatch):
    seeds = []

    def watched(width, d, seed):
        seeds.append(seed)
        raise InterruptedError

    monkeypatch.setattr(method_limits, "draw", watched)
    points = [(m, w, s) for m in METHODS for w in (64, 128) for s in range(3)]
    for method, width, seed in points:
        with pytest.raises(InterruptedError):
            measure({"data": SPHERE, "method": method, "width": width, "seed": seed})
    assert len(set(seeds)) == len(points)


def cell(point, powers=None):
    """Returns an invented cell whose distances have the powers of theory, with a relative noise of a fifth.

    Of 960 answers from such cells one is violated by chance; of the 24 in the test of planted powers, none is.
    """
    rng = np.random.default_rng([1, point["width"], point["seed"], *point["method"].encode()])
    power = (powers or {}).get(point["method"], -0.5)
    return {name: 0.6 * point["width"] ** power * rng.lognormal(sigma=0.2) for name in QUANTITIES}


def test_planted_powers_hold_and_a_wrong_one_is_violated():
    answers = STUDY.answers(planted(STUDY, cell))
    assert len(answers) == 2 * len(METHODS) and {answer.outcome for answer in answers} == {Outcome.HOLDS}
    wrong = STUDY.answers(planted(STUDY, lambda point: cell(point, {"scaffold": 0.0, "feddyn": -1.0})))
    violated = {answer.claim.rsplit(" ", 1)[1] for answer in wrong if answer.outcome is Outcome.VIOLATED}
    assert violated == {"scaffold", "feddyn"}
    flat = [answer.measured.value for answer in wrong if answer.claim.endswith("under scaffold")]
    assert flat == pytest.approx([0.0, 0.0], abs=0.1)


def test_missing_cells_and_fewer_methods():
    gone = {(512, seed) for seed in range(5)} | {(1024, seed) for seed in range(10)}
    methods = ("fedavg", "feddyn")
    cells = planted(STUDY, lambda p: None if (p["width"], p["seed"]) in gone else cell(p), method=methods)
    answers = STUDY.answers(cells)
    assert len(answers) == 4 and {answer.outcome for answer in answers} == {Outcome.HOLDS}
    runs, exponents = STUDY.charts(cells)
    assert [series.name for series in runs.panels[0].series] == ["fedavg", "feddyn", "m^(-1/2)"]
    assert exponents.panels[0].x.names == ("fedavg", "feddyn")
    few = STUDY.answers(planted(STUDY, cell, width=(64, 128, 256)))
    assert {answer.outcome for answer in few} == {Outcome.UNTESTED}


def test_the_methods_are_those_of_the_statement():
    assert METHODS == tuple(variants()) and STUDY.axes[1].values == METHODS
