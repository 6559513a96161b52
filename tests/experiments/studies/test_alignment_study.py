"""Tests of the study of alignment.

One cell, the measurement at one point of the study's grid, is compared with networks trained by hand and with barriers
on a grid. Invented cells with known answers give these answers: claims that agree with them hold, and other claims do
not.
"""

from functools import cache

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.alignment import (
    AFTER,
    CONNECTED,
    FEDAVG,
    FEDGUCCI,
    INDEPENDENT,
    ONE_START,
    STUDY,
    measure,
    models,
)
from experiments.studies.running.measuring import as_arrays
from ntkfl.connectivity.network import between
from ntkfl.estimate import Estimate


def point(kind, **changes):
    return {"data": "digits", "models": kind, "passes": 4, "width": 12, "seed": 1} | changes


@cache
def independent():
    return models(point(INDEPENDENT))


def cross_entropy(network, x, y):
    z = network.outputs(x)
    z = z - z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]).mean())


def test_a_cell_is_the_barrier_on_a_fine_grid_and_alignment_lowers_the_distance():
    measured = as_arrays(STUDY, measure(point(INDEPENDENT)))
    (first, second), x, y = independent()
    ends = cross_entropy(first, x, y), cross_entropy(second, x, y)
    alphas = np.linspace(0, 1, 401)
    rises = [cross_entropy(between(first, second, a), x, y) - a * ends[0] - (1 - a) * ends[1] for a in alphas]
    assert measured["barrier"] == pytest.approx(max(rises), rel=1e-3) and measured["barrier"] >= max(rises) - 1e-9
    far = np.linalg.norm(first.vector() - second.vector())
    assert measured["distance"] == pytest.approx(far, rel=1e-9) and measured["aligned_distance"] < 0.95 * far
    assert 0.5 < measured["moved"] <= 1 and max(ends) < np.log(10)


@pytest.mark.parametrize("kind", [CONNECTED, ONE_START, FEDAVG, FEDGUCCI])
def test_the_other_kinds_differ_from_it_and_are_the_same_when_repeated(kind):
    (first, second), x, y = models(point(kind))
    (one, other), again, _ = independent()
    assert not np.array_equal(first.vector(), one.vector()) or not np.array_equal(second.vector(), other.vector())
    # The first model is that of the independent models. The second model starts from the initial model of the first,
    # but takes the images in another order.
    if kind == ONE_START:
        assert np.array_equal(first.vector(), one.vector()) and np.array_equal(x, again)
        near, far = np.linalg.norm(first.vector() - second.vector()), np.linalg.norm(one.vector() - other.vector())
        assert near < far / 3
    repeated, _, _ = models(point(kind))
    assert np.array_equal(second.vector(), repeated[1].vector()) and len(y) == len(x) == 200


def cell(at, lower=0.2, power=-0.5, training=-0.2):
    rng = np.random.default_rng([at["width"], at["seed"], len(at["models"]), len(at["data"]), at["passes"]])
    scale = (
        at["width"] ** power
        * at["passes"] ** training
        * rng.uniform(0.9, 1.1)
        * {INDEPENDENT: 1.0, CONNECTED: 0.5 * lower}.get(at["models"], 0.01)
    )
    after = {"barrier": 1.0, "by_weights": lower, "by_activations": lower**2}
    return {name: Estimate(scale * after[name], 1e-11) for name in AFTER}


def test_planted_barriers_are_told_apart():
    answers = STUDY.answers(planted(STUDY, cell, seed=range(6)))
    fallen, matching, lower, longer = answers[:8], answers[8:12], answers[12:-1], answers[-1]
    assert {answer.outcome for answer in fallen} == {Outcome.HOLDS}
    assert all(abs(answer.measured.value + 0.5) < 0.1 for answer in fallen)
    wrong = [number for number, answer in enumerate(lower) if answer.outcome is Outcome.VIOLATED]
    assert wrong == [3, 6] and [answer.outcome for answer in lower].count(Outcome.HOLDS) == 5
    assert {(answer.outcome, answer.surprises) for answer in matching} == {(Outcome.VIOLATED, False)}
    assert longer.outcome is Outcome.HOLDS and "after 20 passes than after 4" in longer.claim
    assert longer.note == "of 60 pairs of cells lower in 60, higher in 0"
    rising = STUDY.answers(planted(STUDY, lambda at: cell(at, 1.5, 0.3, 0.2), seed=range(6)))
    assert {answer.outcome for answer in rising[:8]} == {Outcome.VIOLATED}
    assert {answer.outcome for answer in rising[8:12]} == {Outcome.HOLDS}
    assert [answer.outcome for answer in rising[12:14]] == [Outcome.VIOLATED, Outcome.VIOLATED]
    assert "of 120 pairs of cells lower in 0, higher in 120" in rising[12].note
    assert (
        rising[-1].outcome is Outcome.VIOLATED and "higher in 60; on average higher at width 16, 64" in rising[-1].note
    )


def test_the_change_with_training_is_that_of_the_same_starts_and_says_at_which_widths_it_rises():
    def crossing(at):
        return cell(at, training=0.2 if at["width"] == 16 else -0.2)

    cells = planted(STUDY, crossing, seed=range(6), passes=(4, 12, 20))
    answer = STUDY.answers(cells)[-1]
    by_weights = cells.by_weights.sel(models=INDEPENDENT)
    change = (by_weights.sel(passes=20) - by_weights.sel(passes=4)).to_numpy().ravel()
    assert float(answer.measured.value) == pytest.approx(change.mean(), rel=1e-12)
    assert answer.note.endswith("on average higher at width 16")
    one = STUDY.answers(planted(STUDY, cell, seed=range(6), passes=(20,)))[-1]
    assert one.outcome is Outcome.UNTESTED and "two lengths of training are needed" in one.note


def test_a_run_of_some_kinds_of_models_is_answered_and_drawn():
    cells = planted(STUDY, cell, seed=range(6), models=(INDEPENDENT, CONNECTED))
    every = STUDY.answers(planted(STUDY, cell, seed=range(6)))
    for answer, full in zip(STUDY.answers(cells), every, strict=True):
        known = not any(kind in full.claim for kind in ("one start", "FedGuCci has"))
        assert answer.outcome is (full.outcome if known else Outcome.UNTESTED)
    (chart,) = STUDY.charts(cells)
    assert [panel.title for panel in chart.panels] == ["digits: trained alone", "fashion-mnist: trained alone"]
    assert all(len(panel.series) == 6 for panel in chart.panels)
    clients = planted(STUDY, cell, seed=range(6), models=(FEDAVG, FEDGUCCI))
    assert [answer.outcome for answer in STUDY.answers(clients)[:-2]] == [Outcome.UNTESTED] * 18


def test_barriers_that_cannot_be_told_from_zero_have_no_power():
    def none(at):
        return cell(at) | ({"by_weights": Estimate(1e-12, 1e-11)} if at["width"] > 256 else {})

    answers = STUDY.answers(planted(STUDY, none, seed=range(6)))
    assert answers[0].outcome is Outcome.UNTESTED and "no barrier can be told from 0" in answers[0].note
    assert answers[1].outcome is Outcome.HOLDS
    few = STUDY.answers(planted(STUDY, cell, seed=range(1), width=(16, 64), data=("digits",)))
    assert {answer.outcome for answer in few} == {Outcome.UNTESTED}


def test_an_infinite_barrier_leaves_open_what_it_takes_part_in_and_nothing_else():
    def one_diverged(at):
        measured = cell(at)
        if at == {"data": "digits", "models": INDEPENDENT, "passes": 4, "width": 16, "seed": 0}:
            return measured | {"by_weights": Estimate(np.inf, 0.0)}
        return measured

    answers = STUDY.answers(planted(STUDY, one_diverged, seed=range(6)))
    every = STUDY.answers(planted(STUDY, cell, seed=range(6)))
    open_ones = [number for number, answer in enumerate(answers) if answer.note == "a cell is infinite"]
    assert {answers[number].outcome for number in open_ones} == {Outcome.UNRESOLVED}
    assert [answers[number].claim.split(":")[0] for number in open_ones] == [
        every[number].claim.split(":")[0] for number in (0, 8, 12, 15, 17, 19)
    ]
    for number, (broken, other) in enumerate(zip(answers, every, strict=True)):
        same = (broken.outcome, str(broken.measured), broken.note) == (other.outcome, str(other.measured), other.note)
        assert same is (number not in open_ones), broken.claim
