"""Tests of the study of stable step sizes.

One cell (one measurement of the study) is compared with a plain loop. Claims hold for invented cells with the boundary
of theory, and are violated by cells with another boundary.
"""

import numpy as np
import pytest
import torch
from planted import planted

from bounds import Outcome
from experiments.studies.questions import stability_map
from experiments.studies.questions.stability_map import CLIENTS, FEATURES, MOST, N_SAMPLES, STUDY, measure
from experiments.studies.running.measuring import as_arrays
from ntkfl import data, gram, networks
from ntkfl.initialisation import draw

POINT = {
    "data": "sphere",
    "network": "two-layer",
    "eta_local": 0.5,
    "eta_global": 2.0,
    "local_steps": 2,
    "residual": 0.001,
    "seed": 0,
}


def test_a_cell_is_what_a_plain_loop_finds(monkeypatch):
    monkeypatch.setattr(stability_map, "WIDTH", 256)
    monkeypatch.setattr(stability_map, "ROUNDS", 30)
    measured = as_arrays(STUDY, measure(POINT))
    drawn, weights = data.sphere(N_SAMPLES, FEATURES, seed=0, clients=CLIENTS), draw(256, FEATURES, 0)
    x, signs, u = drawn.x, weights.signs / np.sqrt(256), weights.hidden.copy()
    y = np.maximum(x @ u.T, 0) @ signs + 0.001 * drawn.y
    residual = []
    for _ in range(30):
        residual.append(np.linalg.norm(y - np.maximum(x @ u.T, 0) @ signs))
        moves = np.zeros_like(u)
        for own in drawn.members:
            local = u.copy()
            for _ in range(2):
                z = x[own] @ local.T
                local += 0.5 * ((z >= 0) * (y[own] - np.maximum(z, 0) @ signs)[:, None] * signs).T @ x[own]
            moves += local - u
        u = u + 2.0 / CLIENTS * moves
    residual.append(np.linalg.norm(y - np.maximum(x @ u.T, 0) @ signs))
    assert measured["last"] == pytest.approx(residual[-1] / residual[0], rel=1e-4)
    assert measured["peak"] == pytest.approx(max(residual) / residual[0], rel=1e-9)
    own = gram.finite(x, weights.hidden)
    response = np.zeros_like(own)
    for members in drawn.members:
        block = np.ix_(members, members)
        response[block] = 0.5 * (2 * np.eye(len(members)) - 0.5 * own[block])
    largest = np.linalg.eigvals(own @ response).real.max()
    assert measured["own_limit"] == pytest.approx(2 * CLIENTS / largest, rel=1e-9)


@pytest.mark.parametrize("server", [0.6, 60.0])
def test_a_deep_network_is_trained_and_judged_by_its_own_kernel(monkeypatch, server):
    """A cell agrees with a plain loop that trains the network as one long vector of parameters."""
    monkeypatch.setattr(stability_map, "DEEP_WIDTH", 24)
    monkeypatch.setattr(stability_map, "ROUNDS", 6)
    measured = measure(POINT | {"network": "fc:3:erf", "eta_local": 0.05, "eta_global": server})
    drawn, wide = data.sphere(N_SAMPLES, FEATURES, seed=0, clients=CLIENTS), networks.wide("fc:3:erf")
    network, x = wide.model((FEATURES,), 24), torch.tensor(drawn.x.copy())
    params, residual = network.initial(0), []
    own = gram.empirical(drawn.x, network, params)
    y = network.outputs(params, x) + 0.001 * torch.tensor(drawn.y.copy())
    for _ in range(7):
        residual.append((y - network.outputs(params, x)).norm().item())
        ends = []
        for members in drawn.members:
            local = params
            for _ in range(2):
                local = {name: value.clone().requires_grad_() for name, value in local.items()}
                loss = ((network.outputs(local, x[members]) - y[members]) ** 2).sum() / 2
                steps = torch.autograd.grad(loss, list(local.values()))
                local = {
                    name: (value - 0.05 * step).detach()
                    for (name, value), step in zip(local.items(), steps, strict=True)
                }
            ends.append(local)
        moved = {name: sum(end[name] - params[name] for end in ends) for name in params}
        params = {name: params[name] + server / CLIENTS * moved[name] for name in params}
    assert measured["last"] == pytest.approx(residual[-1] / residual[0], rel=1e-6)
    assert (measured["peak"] > 3) == (server > measured["own_limit"]) == (measured["own_rate"] > 1)
    response = np.zeros_like(own)
    for members in drawn.members:
        block = np.ix_(members, members)
        response[block] = 0.05 * (2 * np.eye(len(members)) - 0.05 * own[block])
    assert measured["own_limit"] == pytest.approx(2 * CLIENTS / np.linalg.eigvals(own @ response).real.max(), rel=1e-9)


def test_networks_go_by_their_names():
    assert stability_map.network_name("two-layer") == "two-layer"
    assert stability_map.network_name("fc:3:relu") == "fc:3:relu"
    for word, said in (("mlp", "'mlp' is not understood"), ("fc:3:relu:64", "names a width")):
        with pytest.raises(ValueError, match=said):
            stability_map.network_name(word)


def test_steps_far_beyond_the_limit_overflow_and_are_cut_off():
    measured = measure(POINT | {"eta_global": 1e9})
    assert measured["peak"] == measured["last"] == MOST and measured["own_limit"] > 0


def cell(point, shift=1.0, wild=False):
    """Returns an invented cell.

    Its run grows if eta_global exceeds `shift` times the limit 3 / eta_local, or if eta_local exceeds 2, the limit of a
    client.
    """
    limit, server = 3 / point["eta_local"], point["eta_global"]
    beyond = point["eta_local"] > 2
    grown = server > shift * limit or beyond or wild
    rate = 1.5 if server > limit or beyond else 0.5
    measured = {"limit": 0.0 if beyond else limit, "limit_local": 2.0, "own_limit": 0.0 if beyond else limit}
    measured |= {"own_limit_local": 2.0, "own_rate": rate, "finite_width": 0.01}
    return measured | {"last": 100.0 if grown else 1e-3, "peak": 100.0 if grown else 1.0}


def test_a_planted_boundary_holds():
    answers = STUDY.answers(planted(STUDY, cell))
    assert [answer.outcome for answer in answers] == [Outcome.HOLDS] * 4
    assert answers[0].measured is not None and answers[0].measured.lo <= 1 <= answers[0].measured.hi


def test_growth_too_slow_to_be_seen_does_not_move_the_boundary():
    """Growth that is too slow to be noticed does not move the boundary.

    Runs just beyond the limit grow by 1.02 a round, in a mode that has a hundredth of the residual.
    """

    def slow(point):
        rate = 2 * point["eta_global"] * point["eta_local"] / 3 - 1
        peak = max(1.0, min(1e6, 0.01 * abs(rate) ** stability_map.ROUNDS))
        return cell(point) | {"own_rate": abs(rate), "peak": peak, "last": peak}

    axes = {"eta_local": (0.5, 0.6, 0.7), "eta_global": (2.0, 4.0, 4.31, 5.02, 6.05, 8.0, 16.0), "residual": (0.001,)}
    cells = planted(STUDY, slow, **axes)
    assert (cells.peak < 3).sel(eta_global=6.05, eta_local=0.5).all(), "beyond the limit of 6, and not grown"
    begins, *_ = STUDY.answers(cells)
    assert begins.outcome is Outcome.HOLDS


def test_a_boundary_elsewhere_and_growth_everywhere_are_violated():
    begins, predicted, later, small = STUDY.answers(planted(STUDY, lambda point: cell(point, shift=0.6)))
    assert [answer.outcome for answer in (begins, predicted, later)] == [Outcome.VIOLATED] * 3
    assert small.outcome is Outcome.HOLDS
    *_, small = STUDY.answers(planted(STUDY, lambda point: cell(point, wild=True)))
    assert small.outcome is Outcome.VIOLATED and small.measured is not None and small.measured.value == 0


def one_column_apart(point, shift):
    """Returns an invented cell.

    In one column of the map, runs grow as soon as the server's step exceeds `shift` times the column's limit.
    """
    return cell(point, shift=shift if (point["eta_local"], point["local_steps"]) == (0.5, 2) else 1.0)


@pytest.mark.parametrize("shift", [0.1, 0.5, 2.0, 100.0])
def test_one_column_that_contradicts_the_others_violates(shift):
    """A claim is violated by one column whose runs begin to grow at a wrong step of the grid, at all steps, or
    at none.
    """
    axes = {"eta_local": (0.5, 0.6, 0.7), "eta_global": (2.0, 4.0, 5.5, 6.5, 8.0, 16.0), "residual": (0.001,)}
    begins, *_ = STUDY.answers(planted(STUDY, lambda point: one_column_apart(point, shift), **axes))
    assert begins.outcome is Outcome.VIOLATED
    begins, *_ = STUDY.answers(planted(STUDY, cell, **axes))
    assert begins.outcome is Outcome.HOLDS


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_columns_that_grow_at_every_step_or_at_none_are_judged(shift):
    etas = (0.4, 0.45, 0.5, 0.55, 0.6)
    begins, _, later, _ = STUDY.answers(planted(STUDY, lambda point: cell(point, shift=shift), eta_local=etas))
    assert begins.outcome is Outcome.VIOLATED
    assert later.outcome is (Outcome.HOLDS if shift else Outcome.VIOLATED)


def test_columns_without_a_step_below_the_limit_do_not_speak_for_it():
    steps = (8.0, 16.0)
    *_, later, _ = STUDY.answers(planted(STUDY, cell, eta_local=(0.4, 0.45, 0.5, 0.55, 0.6), eta_global=steps))
    assert later.outcome is Outcome.UNTESTED


def test_a_grid_without_a_limit_within_says_nothing():
    begins, *_ = STUDY.answers(planted(STUDY, cell, eta_local=(0.1, 0.2), eta_global=(0.25, 0.5, 1.0)))
    assert begins.outcome is Outcome.UNTESTED and begins.measured is None and begins.settled_by == ("eta_global",)


def test_large_residuals_are_not_held_to_the_kernel_regime():
    late = planted(STUDY, lambda point: cell(point, shift=3.0), residual=(1.0,))
    begins, predicted, later, small = STUDY.answers(late)
    assert begins.outcome is Outcome.UNTESTED and predicted.outcome is Outcome.UNTESTED
    assert begins.settled_by == predicted.settled_by == ("residual",)
    assert later.outcome is Outcome.HOLDS and small.outcome is Outcome.HOLDS


def test_a_share_takes_some_runs_of_each_kind_and_parity_to_hold():
    few = {"eta_local": (0.5, 0.6, 0.7), "eta_global": (0.5, 1.0, 12.0, 16.0), "residual": (0.001,)}

    def outcomes(wild=False, **axes):
        _, predicted, small = STUDY.answers(planted(STUDY, lambda point: cell(point, wild=wild), **(few | axes)))
        return predicted.outcome, small.outcome

    assert outcomes() == (Outcome.HOLDS, Outcome.HOLDS)
    assert outcomes(local_steps=(2,)) == outcomes(eta_local=(0.5,)) == (Outcome.UNTESTED, Outcome.UNTESTED)
    assert outcomes(eta_global=(0.5, 1.0)) == (Outcome.UNTESTED, Outcome.HOLDS)
    assert outcomes(eta_global=(12.0, 16.0)) == (Outcome.UNTESTED, Outcome.UNTESTED)
    _, predicted, small = STUDY.answers(planted(STUDY, cell, **few, local_steps=(2,)))
    assert predicted.settled_by == small.settled_by == ("local_steps",)
    one = {"eta_local": (0.5,), "eta_global": (0.5,), "local_steps": (2,)}
    assert outcomes(wild=True, **one) == (Outcome.VIOLATED, Outcome.VIOLATED)


def test_missing_cells_are_left_out():
    cells = planted(STUDY, lambda p: None if p["eta_local"] < 0.2 else cell(p), local_steps=(2, 3))
    assert {answer.outcome for answer in STUDY.answers(cells)} == {Outcome.HOLDS}
    (chart,) = STUDY.charts(cells)
    _, panel = chart.panels
    assert np.isnan(np.array(panel.values)[:, 0]).all() and np.isfinite(np.array(panel.values)[:, -1]).all()
    assert panel.over[0].y[5] == pytest.approx(3 / panel.x_values[5])
