"""Tests of cyclic training: clients train one after the other, each from the model after the previous turn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import classes, flat, on_classes, on_quadratics, optimum, states

from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy

pytestmark = pytest.mark.method("cyclic")


@pytest.mark.parametrize("changes", [{"data": classes((9,))}, {"participation": 0.2}])
def test_with_one_client_a_round_it_is_fedavg_to_the_bit(changes):
    run = on_classes("cyclic", options={"server_rate": 0.7}, **changes)
    plain = replace(run, method=build("fedavg", CrossEntropy(), server_rate=0.7))
    for state, two in zip(states(run, 3), states(plain, 3), strict=True):
        assert all(torch.equal(state.model[name], two.model[name]) for name in state.model)


def test_a_round_is_a_turn_of_each_client_on_the_model_that_it_finds():
    run = on_quadratics("cyclic", options={"server_rate": 0.8})
    result = run.round(run.start(), keep_ends=True)
    model = run.start().model
    for place, client in enumerate(result.cohort):
        # FedAvg from this model gives the client's last model.
        alone = replace(run, method=build("fedavg", run.method.objective))
        ends = alone.round(alone.start(model), keep_ends=True).ends
        assert (ends["w"][client] - result.ends["w"][place]).abs().max() < 1e-12
        model = {"w": model["w"] + 0.8 * (ends["w"][client] - model["w"])}
    assert np.abs(flat(result.state.model) - model["w"].numpy()).max() < 1e-12
    assert len(result.steps) == len(result.squared_drift) == len(result.cohort)


def test_with_short_steps_it_ends_near_the_uniform_optimum():
    def end(rate, rounds):
        run = on_quadratics("cyclic", rate=rate, steps=1, at_once=1)
        return flat(states(run, rounds)[-1].model), optimum(run.data, np.full(run.data.clients, 1 / run.data.clients))

    (far, goal), (near, _) = end(0.2, 20), end(0.04, 100)
    # The distance from the optimum is of the order of the step.
    assert np.abs(near - goal).max() < 0.2 * np.abs(far - goal).max()


def test_clients_that_train_in_turn_are_watched_and_their_moves_add_up():
    run = on_quadratics("cyclic", rate=0.1, steps=2)
    result = replace(run, watch=lambda params, batch: {"w": params["w"]}).round(run.start(), keep_ends=True)
    assert [len(records["w"]) for records in result.records] == result.steps.tolist()
    assert not torch.equal(result.records[0]["w"][0], result.records[0]["w"][-1])
    assert torch.equal(torch.stack([records["w"][-1] for records in result.records]), result.ends["w"])
    assert torch.allclose(result.move["w"], result.state.model["w"] - run.start().model["w"], rtol=1e-12)
