"""Tests of properties of every method, with and without IMA.

Methods whose local steps or states are of a special kind are compared with plain loops.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tiny_federations import case_of, flat, models, network, on_classes, rows, states

from ntkfl import data
from ntkfl.conformance import split_loops as loops
from ntkfl.problem import Setup
from ntkfl.training.engine.ima import averaged
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import build, catalogue
from ntkfl.training.models.wide_networks import WideNetwork
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import flatten, stacked, tree_map
from ntkfl.training.wide_training import network_federation, side_by_side

OPTIONS = {
    # The threshold is 0, because signs of values that are nearly 0 depend on the order of sums.
    "fedgma": {"threshold": 0.0},
    "fedgucci": {"anchors": 2},
    "fedgucci+": {"anchors": 2},
}
every_method = pytest.mark.parametrize("method", [*catalogue(), "ima"])


def run_of(method, **changes):
    name = "fedadam" if method == "ima" else method  # IMA wraps FedAdam here, because FedAdam's server has a state.
    options = OPTIONS.get(name, {}) | changes.pop("options", {})
    run = on_classes(name, options=options, **{"optimizer": SGD(0.9), "participation": 0.6, "at_once": 16} | changes)
    return replace(run, method=averaged(run.method, 2, 1)) if method == "ima" else run


@cache
def together(method):
    """Returns the states of a run of 3 rounds whose clients train together."""
    return states(run_of(method), 3)


def everything(state):
    return flatten({"server": state.server, "clients": state.clients})


def close(first, second):
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)


@pytest.mark.quick_rows(4)
@pytest.mark.kind("clients grouped")
@every_method
def test_grouping_clients_changes_nothing_but_rounding(method):
    close(everything(states(run_of(method, at_once=1), 3)[-1]), everything(together(method)[-1]))


@pytest.mark.quick_rows(4)
@pytest.mark.kind("clients renumbered")
# Cyclic training is left out, because the clients' turns follow their numbers.
@pytest.mark.parametrize("method", [*sorted(set(catalogue()) - {"cyclic"}), "ima"])
def test_numbering_the_clients_otherwise_changes_nothing_but_rounding(method):
    """Numbering the clients differently changes nothing but rounding.

    Batches are full and no random numbers are drawn, since smaller batches and random numbers would depend on a
    client's number.
    """
    options = {"alpha": "half"} if method.startswith("fedgucci") else {}
    run = run_of(method, options=options, work=LocalWork(batch_size=None, steps=3), participation=1.0)
    order = np.array([3, 1, 4, 0, 2])
    renumbered = replace(run, data=replace(run.data, owner=order[run.data.owner]))
    state, other = (states(training, 3)[-1] for training in (run, renumbered))
    close(state.server, other.server)
    close(state.clients, tree_map(lambda rows: rows[order], other.clients))


@pytest.mark.kind("same bits")
@every_method
def test_a_run_is_the_same_to_the_bit_when_it_is_repeated(method):
    first, second = everything(together(method)[2]), everything(states(run_of(method), 2)[-1])
    assert all(torch.equal(first[path], second[path]) for path in first)


@pytest.mark.quick_rows(4)
@pytest.mark.kind("no samples")
@every_method
def test_a_client_without_samples_keeps_everything_finite(method):
    run = run_of(method, participation=1.0)
    empty = replace(run, data=replace(run.data, clients=run.data.clients + 1))
    history = states(empty, 3)
    assert all(torch.isfinite(value).all() for value in everything(history[-1]).values())
    result = empty.round(history[0], keep_ends=True)
    start = {name: w[-1] for name, w in empty.own_models(history[0], [5]).items()}
    # In methods that train in turn, the client without samples starts from the model after all other clients' turns.
    start = result.state.model if run.method.in_turn else start
    assert result.steps[-1] == 0 and all(torch.equal(w[-1], start[name]) for name, w in result.ends.items())


@pytest.mark.kind("float32")
@every_method
def test_in_single_precision_it_is_the_same_but_for_rounding(method):
    run = run_of(method)
    single = replace(run, data=run.data.to("cpu", torch.float32))
    start = {name: value.float() for name, value in run.model.initial(run.seed).items()}
    state, double = states(single, 2, start)[-1], together(method)[2]
    assert all(value.dtype == torch.float32 for value in everything(state).values())
    assert all((state.model[name] - double.model[name]).abs().max() < 1e-3 for name in double.model)


FA = {"strength": 0.3, "anchor_momentum": 0.4, "calibration_rate": 0.05}
GUCCI = {"beta": 0.7, "anchors": 2}
PLUS = {"tau": 0.5, "rho": 0.1}
CASES = {
    "moon": ("moon", {"mu": 2.0, "temperature": 0.7}),
    "moon-released": ("moon", {"mu": 2.0, "temperature": 0.7, "released": True}),
    "fedrod": ("fedrod", {"gamma": 0.8}),
    "fedlc": ("fedlc", {"tau": 0.5}),
    "fedsam": ("fedsam", {"rho": 0.2}),
    "fedasam": ("fedasam", {"rho": 0.5, "eta": 0.1}),
    "fedfa": ("fedfa", FA),
    "fedfa-present": ("fedfa", FA | {"anchor_avg": "present_only", "calibrate_from": 1}),
    "fedfa-released": ("fedfa", FA | {"released": True}),
    "gucci": ("fedgucci", GUCCI),
    "gucci-gauss2": ("fedgucci", GUCCI | {"alpha": "gauss2"}),
    "gucci-released": ("fedgucci", GUCCI | {"released": True}),
    "gucci-sequential": ("fedgucci", GUCCI | {"step": "sequential"}),
    "gucci-client": ("fedgucci", GUCCI | {"anchor_history": "client"}),
    "gucci+": ("fedgucci+", GUCCI | PLUS),
    "gucci+released": ("fedgucci+", GUCCI | PLUS | {"released": True}),
}
WORK = LocalWork(batch_size=3)
each_case = pytest.mark.parametrize("case", CASES)


def lacking_classes():
    """Returns clients of different sizes, of whom two lack a class.

    One of them lacks the class of sample 0. Padding repeats sample 0.
    """
    labels = [[0, 1, 2, 0], [1, 2], [0, 0, 1, 2, 2], [0, 0, 2]]
    y, owner = np.concatenate(labels), np.repeat(np.arange(4), [len(own) for own in labels])
    x = np.random.default_rng(5).standard_normal((len(y), 4)) + y[:, None]
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, 4, classes=3)


def at(case, **changes):
    method, options = CASES[case]
    return on_classes(method, options=options, data=lacking_classes(), **changes)


@pytest.mark.quick_rows(4)
@pytest.mark.kind("equals a plain loop")
@each_case
@pytest.mark.parametrize("optimizer, participation", [(SGD(), 1.0), (SGD(0.9, 1e-2), 0.75)], ids=["plain", "momentum"])
def test_equals_the_plain_loop_however_clients_are_grouped(case, optimizer, participation):
    run, options = at(case, optimizer=optimizer, participation=participation), CASES[case][1]
    expected = loops.LOOPS[run.method.name](case_of(run, 3, options), **options)
    alone, grouped = (states(replace(run, at_once=at_once), 3)[1:] for at_once in (1, 2))
    for state, kept, other in zip(grouped, expected, alone, strict=True):
        assert np.abs(flat(state.model) - kept.pop("model")).max() < 1e-10
        assert np.abs(flat(state.model) - flat(other.model)).max() < 1e-12
        for name, value in kept.items():
            if name == "anchors":
                assert np.abs(state.server["anchors"].numpy() - value).max() < 1e-10
            else:  # All other values are states of the clients.
                (own,) = state.clients["rule"].values()
                has_trained = state.has_trained.numpy()
                assert (
                    np.abs(rows(own)[has_trained] - value[has_trained]).max() < 1e-10 and not value[~has_trained].any()
                )


@pytest.mark.quick_rows(4)
@pytest.mark.kind("float32")
@each_case
def test_is_the_same_in_single_precision_but_for_rounding(case):
    run = at(case, work=WORK)
    double = models(run, 2)
    assert np.abs(double - fed_avg()).max() > 1e-4
    single = replace(run, model=network(torch.float32), data=run.data.to("cpu", torch.float32))
    for at_once in (1, 4):
        state = states(replace(single, at_once=at_once), 2)[-1]
        assert all(value.dtype == torch.float32 for value in state.model.values())
        assert np.abs(flat(state.model) - double[-1]).max() < 1e-4


@cache
def fed_avg():
    return models(on_classes("fedavg", data=lacking_classes(), work=WORK), 2)


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
    problem = data.sphere(7, 4, seed=2, clients=3)  # Clients differ in size, so batches are padded.
    alone = WideNetwork.named(spec)[0].model((problem.d,), 6, outputs)
    models = [alone] if outputs else [alone, side_by_side(alone, 3)]
    for several, columns in zip(models, (outputs, 3), strict=False):
        shape = (problem.n,) if columns is None else (problem.n, columns)
        labelled = replace(problem, y=np.random.default_rng(0).standard_normal(shape))
        ends = []
        for model in (several, replace(several, stacks=False)):
            run = network_federation(labelled, SETUP, model, method=build("fedavg", HalfSquares(reduction)))
            run = replace(run, at_once=3)
            state = run.start(several.initial(1))
            for _ in range(SETUP.rounds):
                state = run.round(state).state
            ends.append(state.model)
        assert several.stacks
        for name, value in ends[0].items():
            torch.testing.assert_close(value, ends[1][name], rtol=0, atol=1e-13)
            assert not torch.equal(value, several.initial(1)[name])


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
