"""Tests of MOON, FedRoD and FedFA: they equal FedAvg in their limits.

The states of each method are compared with states that are computed by hand.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import classes, flat, models, network, on_classes, rows, states

from ntkfl.training.engine.federation import State
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Batch, LocalRule, Step
from ntkfl.training.methods import build, fed_fa, moon
from ntkfl.training.methods.fed_rod import personal_outputs
from ntkfl.training.model import Model
from ntkfl.training.objectives import CrossEntropy, HalfSquares
from ntkfl.training.tree import tree_map


def distance(one, other, rounds=2):
    return np.abs(models(one, rounds) - models(other, rounds)).max()


def with_labels(*labels):
    """Returns data with one client for each list of labels."""
    y, owner = np.concatenate(labels), np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    x = np.random.default_rng(7).standard_normal((len(y), 4))
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, len(labels), classes=3)


def step(model, client, counts=(1, 1, 1), **broadcast):
    nothing = torch.zeros(0, dtype=torch.float64)
    sizes = torch.tensor(counts, dtype=torch.float64)
    return Step({"model": model} | broadcast, client, sizes, nothing, torch.tensor(False), 0.1)


@pytest.mark.parametrize(
    "method, options",
    [
        ("moon", {"mu": 0.0}),
        ("fedrod", {"gamma": 0.0}),
        ("fedfa", {"strength": 0.0, "calibration_rate": 0.0}),
    ],
)
@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_without_its_own_term_each_is_fed_avg(method, options, participation):
    run = on_classes(method, options=options, participation=participation)
    assert distance(run, on_classes(participation=participation)) < 1e-14


# MOON


@pytest.mark.method("moon")
def test_moon_is_fed_avg_at_a_client_s_first_participation_and_only_then():
    run = on_classes("moon", options={"mu": 5.0}, participation=0.6)
    average = replace(run, method=build("fedavg", CrossEntropy()))
    new = old = 0
    for state in states(run, 3):
        result = run.round(state, keep_ends=True)
        plain = average.round(State(state.rounds, {"model": state.model}, {}, state.has_trained), keep_ends=True)
        apart = np.abs(rows(result.ends) - rows(plain.ends)).max(axis=1)
        known = state.has_trained[result.cohort].numpy()
        assert (apart[~known] < 1e-14).all() and (apart[known] > 1e-4).all()
        new, old = new + (~known).sum(), old + known.sum()
    assert new == 5 and old > 0


@pytest.mark.method("moon")
def test_moon_adds_mu_log_2_without_gradient_where_previous_and_global_model_agree():
    model, data = network(), classes()
    w, other = model.initial(0), model.initial(1)
    batch = Batch(data.x, data.y, torch.ones(len(data.y), dtype=torch.float64))
    objective = moon.method(CrossEntropy(), mu=3.0).objective
    now = step(other, {"previous": other})
    gradient, value = torch.func.grad_and_value(lambda v: objective(model, v, batch, now))(w)
    plain, loss = torch.func.grad_and_value(lambda v: CrossEntropy()(model, v, batch, now))(w)
    assert abs(value - loss - 3 * np.log(2)) < 1e-14
    assert max((gradient[name] - plain[name]).abs().max() for name in w) < 1e-15


@pytest.mark.method("moon")
def test_moon_s_contrast_falls_towards_the_global_model_and_away_from_the_previous_one():
    model, data = network(), classes()
    near, far = model.initial(0), model.initial(1)
    batch = Batch(data.x, data.y, torch.ones(len(data.y), dtype=torch.float64))
    objective = moon.method(CrossEntropy(), mu=1.0).objective

    def contrast(sent, previous):
        loss = objective(model, near, batch, step(sent, {"previous": previous}))
        return loss - CrossEntropy()(model, near, batch, step(sent, {}))

    assert contrast(near, far) < np.log(2) < contrast(far, near)


@pytest.mark.method("moon")
def test_moon_has_a_finite_gradient_where_all_features_are_0():
    dead = Model("dead", None, lambda p, x: torch.relu(x @ p["w"] - 100), lambda p, z: z @ p["head"], ("head",))
    w = {"w": torch.ones(4, 5, dtype=torch.float64), "head": torch.ones(5, 3, dtype=torch.float64)}
    data = classes()
    batch = Batch(data.x, data.y, torch.ones(len(data.y), dtype=torch.float64))
    objective = moon.method(CrossEntropy(), mu=1.0).objective
    gradient = torch.func.grad(lambda v: objective(dead, v, batch, step(w, {"previous": w})))(w)
    assert all(torch.isfinite(value).all() for value in gradient.values())


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.method("moon")
def test_moon_keeps_the_last_end_or_as_released_the_first_model(released):
    run = on_classes("moon", options={"released": released})
    first = run.start()
    middle = run.round(first).state
    last = run.round(middle, keep_ends=True)
    kept = last.state.clients["rule"]["previous"]
    expected = tree_map(lambda w: w.expand(5, *w.shape), first.model) if released else last.ends
    assert all(torch.equal(kept[name], expected[name]) for name in kept)


# FedRoD


@pytest.mark.method("fedrod")
def test_fed_rod_with_equal_counts_is_fed_avg_for_body_and_shared_head():
    data = with_labels([0, 1, 2], [0, 1, 2] * 3, [0, 1, 2] * 2)
    assert distance(on_classes("fedrod", data=data), on_classes(data=data)) < 1e-12
    unequal = with_labels([0, 0, 2], [0, 1, 2] * 3, [0, 1, 2] * 2)
    assert distance(on_classes("fedrod", data=unequal), on_classes(data=unequal)) > 1e-3


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.method("fedrod")
def test_fed_rod_s_personal_heads_do_not_touch_what_is_shared(at_once):
    run = on_classes("fedrod", participation=0.6, at_once=at_once)
    off = replace(run, method=replace(run.method, local=LocalRule()))
    assert np.array_equal(models(run, 3), models(off, 3))


@pytest.mark.method("fedrod")
def test_fed_rod_s_personal_heads_stay_with_their_clients_and_help_them():
    run = on_classes("fedrod", participation=0.6, rate=0.1, decay=1.0)
    before, after = states(run, 4)[-2:]
    cohort = run.round(before).cohort
    head = after.clients["rule"]["head"]["head.weight"]
    same = (head == before.clients["rule"]["head"]["head.weight"]).flatten(1).all(1)
    assert [c for c in range(5) if not same[c]] == cohort
    gain = []
    for client in after.has_trained.nonzero()[:, 0].tolist():
        own = tree_map(lambda value, client=client: value[client], after.clients["rule"]["head"])
        x, y = run.data.x[run.data.members()[client]], run.data.y[run.data.members()[client]]
        first = tree_map(lambda w: w, {name: run.start().model[name] for name in own})
        personal, initial = (personal_outputs(run.model, after.model, h, x) for h in (own, first))
        cross_entropy = torch.nn.functional.cross_entropy
        gain.append(cross_entropy(initial, y) - cross_entropy(personal, y))
    assert min(gain) > 0


@pytest.mark.method("fedrod")
def test_fed_rod_s_client_is_tested_with_the_sum_of_both_heads():
    model, x = network(), classes().x
    w, own = model.initial(0), {name: value for name, value in model.initial(1).items() if name.startswith("head.")}
    z = torch.tanh(x @ w["body.0.weight"].T + w["body.0.bias"])
    weight, bias = (w[f"head.{part}"] + own[f"head.{part}"] for part in ("weight", "bias"))
    assert (personal_outputs(model, w, own, x) - (z @ weight.T + bias)).abs().max() < 1e-14


# FedFA

STILL = {"rate": 0.0, "options": {"anchor_momentum": 0.7, "calibration_rate": 0.0}}


def features_of(run, state):
    return run.model.features(state.model, run.data.x)


@pytest.mark.method("fedfa")
def test_fed_fa_s_anchors_move_though_unused():
    run = on_classes("fedfa", options={"strength": 0.0, "calibration_rate": 0.0})
    first, last = (state.server["anchors"] for state in states(run, 1))
    assert torch.equal(first, torch.eye(3, 5, dtype=torch.float64)) and (first != last).any(1).all()


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("size", [2, 3, None])
@pytest.mark.method("fedfa")
def test_fed_fa_s_anchor_of_one_class_and_client_by_hand(epochs, size):
    run = on_classes("fedfa", data=with_labels([1] * 5), work=LocalWork(epochs=epochs, batch_size=size), **STILL)
    first, last = states(run, 1)
    mean, anchor = features_of(run, first).mean(0), first.server["anchors"][1]
    for _ in range(epochs):
        anchor = 0.7 * anchor + 0.3 * mean
    assert (last.server["anchors"][1] - anchor).abs().max() < 1e-14
    assert torch.equal(last.server["anchors"][[0, 2]], first.server["anchors"][[0, 2]])


@pytest.mark.method("fedfa")
def test_fed_fa_as_released_divides_by_all_batches_also_those_without_the_class():
    data = with_labels([0, 0, 1, 1, 1])
    options = STILL["options"] | {"released": True}
    run = on_classes("fedfa", data=data, work=LocalWork(batch_size=1), rate=0.0, options=options)
    first, last = states(run, 1)
    z, anchors = features_of(run, first), first.server["anchors"]
    for c in (0, 1):
        expected = 0.7 * anchors[c] + 0.3 * z[data.y == c].sum(0) / 5
        assert (last.server["anchors"][c] - expected).abs().max() < 1e-14


@pytest.mark.method("fedfa")
def test_fed_fa_s_clients_without_a_class_damp_its_anchor_unless_only_those_present_count():
    data = with_labels([0, 0, 1], [1, 1, 1, 1, 1, 1], [0, 1, 1])
    for choice in ("size", "present_only"):
        options = STILL["options"] | {"anchor_avg": choice}
        run = on_classes("fedfa", data=data, options=options, rate=0.0)
        first, last = states(run, 1)
        z, anchors = features_of(run, first), first.server["anchors"]
        own = [
            0.7**2 * anchors[0] + (1 - 0.7**2) * z[(data.y == 0).numpy() & (data.owner == c)].mean(0) for c in (0, 2)
        ]
        expected = own[0] / 4 + anchors[0] / 2 + own[1] / 4 if choice == "size" else (own[0] + own[1]) / 2
        assert (last.server["anchors"][0] - expected).abs().max() < 1e-14
        assert (last.server["anchors"][2] - anchors[2]).abs().max() < 1e-14  # No client has class 2.


@pytest.mark.method("fedfa")
def test_fed_fa_s_anchors_wait_for_the_end_of_a_pass():
    run = on_classes("fedfa", data=with_labels([0, 1, 2, 0, 1]), work=LocalWork(batch_size=2, steps=2), **STILL)
    first, last = states(run, 1)
    assert torch.equal(first.server["anchors"], last.server["anchors"])


@pytest.mark.method("fedfa")
def test_fed_fa_draws_features_from_round_1_on_and_never_the_head():
    strong, weak = (
        on_classes("fedfa", options={"strength": strength, "calibration_rate": 0.0}) for strength in (0.5, 0.0)
    )
    one, other = models(strong, 2), models(weak, 2)
    assert np.abs(one[0] - other[0]).max() < 1e-14 < 1e-4 < np.abs(one[1] - other[1]).max()
    model, data = network(), classes()
    w = model.initial(0)
    batch = Batch(data.x, data.y, torch.ones(len(data.y), dtype=torch.float64))
    now = step(w, {"anchors": torch.eye(3, 5, dtype=torch.float64)}, attracts=torch.tensor(1.0, dtype=torch.float64))
    losses = [fed_fa.method(CrossEntropy(), strength=strength).objective for strength in (1.0, 0.0)]
    pulled, plain = (torch.func.grad(lambda v, loss=loss: loss(model, v, batch, now))(w) for loss in losses)
    for name in w:
        assert torch.equal(pulled[name], plain[name]) == name.startswith("head.")


@pytest.mark.method("fedfa")
def test_fed_fa_calibrates_only_the_head_and_only_from_the_round_named():
    late, never = (
        on_classes("fedfa", rate=0.0, options={"calibration_rate": rate, "calibrate_from": 1}) for rate in (0.1, 0.0)
    )
    first, one, two = states(late, 2)
    assert np.array_equal(flat(one.model), models(never, 1)[0])
    for name in first.model:
        assert torch.equal(two.model[name], first.model[name]) != name.startswith("head.")
    # Steps on the cross-entropy of the anchors lower this cross-entropy.
    losses = [
        torch.nn.functional.cross_entropy(late.model.head(state.model, one.server["anchors"]), torch.arange(3))
        for state in (one, two)
    ]
    assert losses[1] < losses[0]


@pytest.mark.method("fedfa")
def test_fed_fa_s_first_anchors_are_distinct_unit_vectors_in_any_number():
    wide, narrow = fed_fa._first_anchors(3, 5), fed_fa._first_anchors(6, 2)
    assert torch.equal(wide @ wide.T, torch.eye(3, dtype=torch.float64))
    cosines = narrow @ narrow.T
    assert (cosines.diagonal() - 1).abs().max() < 1e-14 and (cosines.fill_diagonal_(0) < 1 - 1e-6).all()
    assert torch.equal(narrow, fed_fa._first_anchors(6, 2))


@pytest.mark.parametrize(
    "method, options, message",
    [
        ("moon", {"mu": -1.0}, "mu, the weight of the contrast, is -1; it must be 0 or more"),
        ("moon", {"temperature": 0.0}, "the temperature of the contrast is 0; it must be positive"),
        ("fedfa", {"strength": -0.5}, "strength is -0.5; it must be 0 or more"),
        ("fedfa", {"calibration_rate": -0.5}, "calibration_rate is -0.5; it must be 0 or more"),
        ("fedfa", {"anchor_momentum": 1.5}, r"anchor_momentum is 1.5; it must lie in \[0, 1\]"),
        ("fedfa", {"calibrate_from": -1}, "calibrate_from is -1; it must be an integer, 0 or more"),
    ],
)
def test_options_out_of_range_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message):
        build(method, CrossEntropy(), **options)


def test_what_shifts_logits_wants_a_cross_entropy():
    with pytest.raises(ValueError, match=r"the objective is HalfSquares\(.*in a cross-entropy only: CrossEntropy\(\)"):
        build("fedrod", HalfSquares())


@pytest.mark.parametrize("method", ["moon", "fedrod", "fedfa"])
def test_a_model_without_a_head_is_refused(method):
    with pytest.raises(ValueError, match="needs a model with a head of its own"):
        replace(on_classes(method), model=replace(network(), head_names=()))
