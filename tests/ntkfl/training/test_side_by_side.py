"""Every method that only takes means trains networks side by side in one model as each alone, to rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ntkfl import data
from ntkfl.problem import Setup
from ntkfl.training.methods import build
from ntkfl.training.models.wide_networks import WideNetwork
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.tree import stacked
from ntkfl.training.wide_training import network_federation, side_by_side

SETUP = Setup(eta_local=0.2, local_steps=3, rounds=3)


@pytest.mark.parametrize("method", ["fl-ntk", "fedavg", "fedavgm", "scaffold"])
@pytest.mark.parametrize("spec", ["fc:2:relu", "fc:3:erf"])
def test_each_copy_is_trained_as_alone(spec, method):
    problem, copies = data.sphere(7, 4, seed=2, clients=3), 3
    network = WideNetwork.named(spec)[0].model((problem.d,), 6)
    starts = [network.initial(seed) for seed in range(copies)]
    labels = np.random.default_rng(0).standard_normal((problem.n, copies))
    rule = build(method, HalfSquares("sum"))

    def trained(model, y, start):
        run = network_federation(replace(problem, y=y), SETUP, model, method=rule)
        state = run.start(start)
        for _ in range(SETUP.rounds):
            state = run.round(state).state
        return state.model

    together = trained(side_by_side(network, copies), labels, stacked(starts))
    for copy, start in enumerate(starts):
        alone = trained(network, labels[:, copy], start)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][copy], value, rtol=0, atol=1e-13)
            assert not torch.equal(value, start[name])


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("outputs", [None, 2])
def test_outputs_are_those_of_each_copy_from_seeds_of_its_own(outputs, stacks):
    network = replace(WideNetwork.named("fc:3:relu:bias=0.2")[0].model((3,), 5, outputs), stacks=stacks)
    model, x = side_by_side(network, 4), torch.randn(6, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    params = model.initial(2)
    together = model.outputs(params, x)
    assert together.shape == (6, 4) if outputs is None else (6, 4, 2)
    for copy in range(4):
        own = {name: value[copy] for name, value in params.items()}
        assert torch.equal(own["readout.weight"], network.initial(8 + copy)["readout.weight"])
        torch.testing.assert_close(together[:, copy], network.outputs(own, x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("spec", ["fc:2:relu", "fc:3:erf:bias=0.3", "fc:3:gelu:standard"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_products_of_all_clients_at_once_train_as_mapped_ones(spec, outputs, reduction):
    problem = data.sphere(7, 4, seed=2, clients=3)  # clients of unequal sizes: batches are filled up
    alone = WideNetwork.named(spec)[0].model((problem.d,), 6, outputs)
    models = [alone] if outputs else [alone, side_by_side(alone, 3)]
    for network, columns in zip(models, (outputs, 3), strict=False):
        shape = (problem.n,) if columns is None else (problem.n, columns)
        labelled = replace(problem, y=np.random.default_rng(0).standard_normal(shape))
        ends = []
        for model in (network, replace(network, stacks=False)):
            run = network_federation(labelled, SETUP, model, method=build("fedavg", HalfSquares(reduction)))
            run = replace(run, at_once=3)
            state = run.start(network.initial(1))
            for _ in range(SETUP.rounds):
                state = run.round(state).state
            ends.append(state.model)
        assert network.stacks
        for name, value in ends[0].items():
            torch.testing.assert_close(value, ends[1][name], rtol=0, atol=1e-13)
            assert not torch.equal(value, network.initial(1)[name])


class Doubled(HalfSquares):
    """A loss that is twice the halved squares."""

    def __call__(self, model, params, batch, step):
        return 2 * super().__call__(model, params, batch, step)


def test_a_loss_derived_from_halved_squares_is_the_one_that_is_trained():
    problem = data.sphere(7, 4, seed=2, clients=3)
    network = WideNetwork.named("fc:2:erf")[0].model((problem.d,), 6)
    assert network.stacks

    def trained(objective, eta):
        setup = replace(SETUP, eta_local=eta)
        run = replace(network_federation(problem, setup, network, method=build("fedavg", objective)), at_once=3)
        return run.round(run.start(network.initial(1))).state.model

    twice, plain = trained(Doubled("sum"), 0.1), trained(HalfSquares("sum"), 0.2)
    for name, value in twice.items():
        torch.testing.assert_close(value, plain[name], rtol=0, atol=1e-14)
