"""Tests of FedAvg of aligned models: in some cases it equals FedAvg to the bit.

Cases in which it permutes units are tested too.
"""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from test_methods_against_loops import check
from tiny_federations import classes, flat, models, network, on_classes, on_quadratics, rows, states

from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import build
from ntkfl.training.model import Model, from_modules
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD, Adam

pytestmark = pytest.mark.method("fedavg-aligned")
# At this local rate, units of one client end nearer to other units of another client than to the corresponding units.
FAR = 2.5


def orders(w):
    """Returns the network in every order of its 5 hidden units.

    A linear network has no hidden units and is returned as it is.
    """
    if len(w) != 43:
        return [w]
    body, bias, head, offset = w[:20].reshape(5, 4), w[20:25], w[25:40].reshape(3, 5), w[40:]
    every = map(list, permutations(range(5)))
    return [np.concatenate([body[o].ravel(), bias[o], head[:, o].ravel(), offset]) for o in every]


def plain(run):
    return replace(run, method=build("fedavg", CrossEntropy(), server_rate=run.method.server.server_rate))


def same(run, other, rounds=3, start=None):
    return all(
        torch.equal(state.model[name], two.model[name])
        for state, two in zip(states(run, rounds, start), states(other, rounds, start), strict=True)
        for name in state.model
    )


@given(st.integers(0, 10**6), st.sampled_from([1, 16]), st.sampled_from([0.6, 1.0]))
@settings(max_examples=6)
def test_with_steps_too_short_to_change_places_it_is_fedavg_to_the_bit(seed, at_once, participation):
    run = on_classes("fedavg-aligned", rate=1e-3, seed=seed, at_once=at_once, participation=participation)
    assert same(run, plain(run))


@pytest.mark.parametrize("changes", [{"data": classes((9,))}, {"participation": 0.2}])
def test_with_one_client_it_is_fedavg_to_the_bit_however_far_it_goes(changes):
    run = on_classes("fedavg-aligned", rate=FAR, **changes)
    assert same(run, plain(run))


def test_a_model_without_hidden_units_is_averaged_as_it_is():
    run = on_quadratics("fedavg-aligned", rate=0.3)
    assert same(run, replace(run, method=build("fedavg", run.method.objective)))


@pytest.mark.parametrize("at_once", [1, 16])
@pytest.mark.parametrize("seed", range(3))
def test_where_units_change_places_it_is_the_loop_over_all_their_orders(seed, at_once):
    run = on_classes(
        "fedavg-aligned",
        rate=FAR,
        optimizer=SGD(),
        participation=0.6,
        at_once=at_once,
        seed=seed,
        options={"server_rate": 0.7},
    )
    check("server-rate-fedavg-aligned", run)
    assert np.abs(models(run, 3) - models(plain(run), 3)).max() > 0.1


def test_clients_send_models_of_the_same_function_no_farther_from_the_broadcast_one():
    run = on_classes("fedavg-aligned", rate=FAR)
    start = run.start()
    aligned, given_ends = (training.round(start, keep_ends=True) for training in (run, plain(run)))
    for client in range(run.data.clients):
        ends = [{name: value[client] for name, value in outcome.ends.items()} for outcome in (aligned, given_ends)]
        one, other = (run.model.outputs(end, run.data.x) for end in ends)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert (aligned.squared_drift <= given_ends.squared_drift * (1 + 1e-12)).all()
    assert (aligned.squared_drift < 0.99 * given_ends.squared_drift).any()


def test_the_order_of_the_first_models_units_is_of_no_account():
    run, order = on_classes("fedavg-aligned", rate=FAR), [3, 1, 4, 0, 2]
    first = run.model.initial(3)
    moved = dict(zip(first, (first["body.0.weight"][order], first["body.0.bias"][order]), strict=False))
    moved |= {"head.weight": first["head.weight"][:, order], "head.bias": first["head.bias"]}
    for state, other in zip(states(run, 3, first), states(run, 3, moved), strict=True):
        torch.testing.assert_close(state.model["body.0.weight"][order], other.model["body.0.weight"], rtol=0, atol=1e-8)
        torch.testing.assert_close(state.model["head.weight"][:, order], other.model["head.weight"], rtol=0, atol=1e-8)


@pytest.mark.parametrize("optimizer, key", [(SGD(0.9), "velocity"), (Adam(), "first")])
def test_momenta_that_stay_with_a_client_move_with_its_units(optimizer, key):
    rate = FAR if key == "velocity" else 0.5
    run = on_classes("fedavg-aligned", rate=rate, optimizer=optimizer, keep_optimizer=True, participation=1.0)
    moved, left = (training.round(training.start(), keep_ends=True) for training in (run, plain(run)))
    kept, given_momenta = (rows(outcome.state.clients["optimizer"][key]) for outcome in (moved, left))
    ends, given_ends = rows(moved.ends), rows(left.ends)
    for client in range(run.data.clients):
        (place,) = [k for k, outcome in enumerate(orders(given_ends[client])) if np.array_equal(outcome, ends[client])]
        np.testing.assert_array_equal(kept[client], orders(given_momenta[client])[place])
    assert not np.array_equal(kept, given_momenta)


def test_convolutions_and_several_layers_keep_their_functions():
    def make():
        body = torch.nn.Sequential(
            *(torch.nn.Conv2d(1, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.MaxPool2d(2), torch.nn.ReLU()),
            *(torch.nn.Flatten(), torch.nn.Linear(16, 5), torch.nn.ReLU()),
        )
        return body, torch.nn.Linear(5, 3)

    rng = np.random.default_rng(0)
    images = torch.tensor(rng.normal(size=(20, 1, 6, 6)))
    data = FederatedData(images, torch.tensor(rng.integers(0, 3, 20)), np.arange(20) % 4, 4, classes=3)
    model = from_modules("small images", make, torch.float64, "cpu")
    run = replace(on_classes("fedavg-aligned", rate=1.0, data=data), model=model)
    aligned, left = (training.round(training.start(), keep_ends=True) for training in (run, plain(run)))
    for client in range(4):
        ends = ({name: value[client] for name, value in outcome.ends.items()} for outcome in (aligned, left))
        torch.testing.assert_close(*(model.outputs(end, images) for end in ends), rtol=1e-10, atol=1e-10)
    assert (aligned.squared_drift < 0.999 * left.squared_drift).any()


def test_a_model_whose_units_cannot_be_followed_is_refused():
    known = network()
    sorted_units = Model("sorted", known.initial, lambda p, x: known.features(p, x).sort().values, known.head)
    run = replace(on_classes("fedavg-aligned", work=LocalWork(batch_size=None)), model=sorted_units)
    with pytest.raises(ValueError, match=r"through the operation sort, applied to results of 'body\.0\.weight'"):
        run.round(run.start())
    with pytest.raises(ValueError, match="fedavg-aligned: server_rate is 0; it must be positive"):
        build("fedavg-aligned", CrossEntropy(), server_rate=0)
    assert flat(run.start().model).size == 43
