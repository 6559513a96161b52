"""Tests of the training engine: training does not depend on how clients are grouped, and equals a plain loop."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Average, LocalRule, Method
from ntkfl.training.methods import fed_avg
from ntkfl.training.model import from_modules
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD, Adam
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import flatten, tree_map

SIZES = (5, 1, 9, 4, 7, 2)  # The clients' numbers of samples differ on purpose.


def some_data(sizes=SIZES, clients=None, seed=0):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = torch.tensor(rng.standard_normal((len(owner), 4)))
    y = torch.tensor(rng.integers(0, 3, len(owner)))
    return FederatedData(x, y, owner, clients or len(sizes), classes=3)


def mlp():
    def make():
        body = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh())
        return body, torch.nn.Linear(6, 3)

    return from_modules("mlp", make, torch.float64, "cpu")


def federation(**changes):
    given = {"work": LocalWork(epochs=2, batch_size=3), "optimizer": SGD(momentum=0.9, weight_decay=1e-3), "seed": 3}
    return Federation(mlp(), some_data(), fed_avg.method(CrossEntropy()), Exponential(0.2, 0.9), **given | changes)


def after(run, rounds=3):
    state = run.start()
    for _ in range(rounds):
        state = run.round(state).state
    return state


def distance(first, second):
    return max(float((a - b).detach().abs().max()) for a, b in zip(first.values(), second.values(), strict=True))


def loop_over_clients(run, rounds=3):
    """Runs FedAvg with autograd and torch's own optimizers, one client after the other."""
    model, data, members = run.model, run.data, run.data.members()
    server = {name: value.clone() for name, value in model.initial(run.seed).items()}
    for number in range(rounds):
        clients = cohort(data.clients, run.participation, run.seed, number)
        total = sum(len(members[c]) for c in clients)
        mean = {name: torch.zeros_like(value) for name, value in server.items()}
        for c in clients:
            own = {name: value.clone().requires_grad_() for name, value in server.items()}
            rate = run.schedule(number)
            if isinstance(run.optimizer, Adam):
                steps = torch.optim.Adam(own.values(), lr=rate, weight_decay=run.optimizer.weight_decay)
            else:
                o = run.optimizer
                steps = torch.optim.SGD(own.values(), lr=rate, momentum=o.momentum, weight_decay=o.weight_decay)
            plan = local_plan(members, [c], run.work, run.seed, number, 0)
            for batch, real in zip(plan.index[0], plan.real[0], strict=True):
                rows = torch.tensor(batch[real])
                steps.zero_grad()
                torch.nn.functional.cross_entropy(model.outputs(own, data.x[rows]), data.y[rows]).backward()
                steps.step()
            for name in server:
                mean[name] += len(members[c]) / total * (own[name].detach() - server[name])
        server = {name: value + mean[name] for name, value in server.items()}
    return server


@pytest.mark.parametrize("at_once", [1, 2, 4, 16])
@pytest.mark.parametrize("optimizer", [SGD(), SGD(0.9, 1e-3), Adam(), Adam(weight_decay=0.1)], ids=repr)
def test_rounds_are_those_of_a_plain_loop_over_clients(at_once, optimizer):
    run = federation(at_once=at_once, optimizer=optimizer, participation=0.7)
    assert distance(after(run).model, loop_over_clients(run)) < 1e-12


def test_full_batches_are_those_of_a_plain_loop():
    run = federation(work=LocalWork(batch_size=None, steps=4))
    assert distance(after(run).model, loop_over_clients(run)) < 1e-12


def test_grouping_clients_changes_nothing_but_rounding():
    alone = after(federation(at_once=1)).model
    for at_once in (2, 3, 5, 100):
        assert distance(after(federation(at_once=at_once)).model, alone) < 1e-12


def test_numbering_the_clients_otherwise_changes_nothing_but_the_order_of_the_sum():
    data, order = some_data(), np.array([3, 1, 5, 0, 2, 4])
    renumbered = replace(data, owner=order[data.owner])
    full = LocalWork(batch_size=None, steps=3)  # Batches are full, since batches depend on a client's number.
    first = after(federation(work=full))
    second = after(replace(federation(work=full), data=renumbered))
    assert distance(first.model, second.model) < 1e-12


def test_a_run_is_the_same_to_the_bit_when_it_is_repeated():
    first, second = after(federation()), after(federation())
    assert all(torch.equal(a, b) for a, b in zip(first.model.values(), second.model.values(), strict=True))


class Keeps(LocalRule):
    """FedAvg whose clients remember their number of rounds and their last model."""

    def initial(self, model, broadcast):
        return {"rounds": torch.zeros((), dtype=torch.float64), "end": broadcast["model"]}

    def finish(self, client, broadcast, end):
        return {"difference": end.difference}, {"rounds": client["rounds"] + 1, "end": end.end}


def keeping(**changes):
    run = federation(participation=0.5, **changes)
    return replace(run, method=Method("keeps", CrossEntropy(), local=Keeps()))


@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_what_a_client_keeps_stays_with_it(at_once):
    run = keeping(at_once=at_once)
    state, counts, last = run.start(), np.zeros(len(SIZES)), {}
    for _ in range(5):
        result = run.round(state, keep_ends=True)
        state = result.state
        counts[result.cohort] += 1
        for place, client in enumerate(result.cohort):
            last[client] = {name: value[place] for name, value in result.ends.items()}
    assert (state.clients["rule"]["rounds"].numpy() == counts).all()
    assert (state.has_trained.numpy() == (counts > 0)).all()
    for client, end in last.items():
        kept = {name: value[client] for name, value in state.clients["rule"]["end"].items()}
        assert distance(kept, end) == 0


def test_a_round_leaves_the_state_that_it_was_given():
    run = keeping(keep_optimizer=True)
    state = run.round(run.start()).state
    saved = {path: value.clone() for path, value in flatten(state.clients).items()}
    run.round(state)
    assert all(torch.equal(value, saved[path]) for path, value in flatten(state.clients).items())


def test_a_kept_momentum_goes_on_from_round_to_round():
    """A kept momentum continues from round to round.

    With one client, one step in each round and a constant rate, such rounds are SGD with momentum.
    """
    data = some_data((6,))
    given = {"data": data, "schedule": Exponential(0.2), "work": LocalWork(batch_size=None), "keep_optimizer": True}
    run = replace(federation(optimizer=SGD(0.9)), **given)
    own = {name: value.clone().requires_grad_() for name, value in run.model.initial(run.seed).items()}
    steps = torch.optim.SGD(own.values(), lr=0.2, momentum=0.9)
    for _ in range(4):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(run.model.outputs(own, data.x), data.y).backward()
        steps.step()
    assert distance(after(run, 4).model, own) < 1e-12
    assert distance(after(replace(run, keep_optimizer=False), 4).model, own) > 1e-3


@pytest.mark.parametrize("at_once", [1, 16])
def test_a_client_without_samples_returns_the_model_it_received(at_once):
    run = replace(federation(at_once=at_once), data=some_data(clients=len(SIZES) + 1))
    result = run.round(run.start(), keep_ends=True)
    start = run.model.initial(run.seed)
    assert result.steps[-1] == 0 and result.squared_drift[-1] == 0
    assert all(torch.equal(result.ends[name][-1], start[name]) for name in start)


def test_padded_steps_leave_moments_and_counters():
    run = replace(federation(optimizer=Adam()), keep_optimizer=True)
    state = run.round(run.start()).state
    taken = [2 * -(-size // 3) for size in SIZES]
    assert state.clients["optimizer"]["count"].tolist() == taken


def test_the_drift_is_the_distance_of_the_ends():
    run = federation(at_once=4)
    result = run.round(run.start(), keep_ends=True)
    moved = tree_map(torch.sub, result.ends, run.model.initial(run.seed))
    squares = sum((value**2).flatten(1).sum(1) for value in moved.values())
    assert np.allclose(result.squared_drift, squares.numpy(), rtol=1e-12)


def test_single_uploads_may_have_another_weighting():
    class Sends(LocalRule):
        def finish(self, client, broadcast, end):
            size = end.counts.sum()
            return {"difference": end.difference, "size": size, "also": size}, client

    class Notes(Average):
        def step(self, state, means, now):
            return super().step(state, means, now) | {"size": means["size"], "also": means["also"]}

    method = Method("sends", CrossEntropy(), local=Sends(), server=Notes(), weighting_of={"also": "uniform"})
    run = replace(federation(at_once=4), method=method)
    server = run.round(run.start()).state.server
    sizes = np.array(SIZES, float)
    assert np.isclose(server["size"], (sizes**2).sum() / sizes.sum(), rtol=1e-14)
    assert np.isclose(server["also"], sizes.mean(), rtol=1e-14)


def test_a_run_that_overflows_says_in_which_round():
    run = replace(federation(), schedule=Exponential(1e200))
    with pytest.raises(FloatingPointError, match=r"round 0: the weights .* the local rate 1e\+200 is too large"):
        after(run)


def test_a_group_has_at_least_one_client():
    with pytest.raises(ValueError, match="at_once is 0; it must be a positive integer"):
        federation(at_once=0)


def test_steps_and_their_factors_must_fit_the_federation():
    with pytest.raises(ValueError, match=f"steps names 1 clients; there are {len(SIZES)}$"):
        replace(federation(), work=LocalWork(batch_size=None, steps=(2,)))
    with pytest.raises(ValueError, match="the factors of sgd's steps begin anew"):
        replace(federation(), optimizer=SGD(factors=(1.0, 0.5)), keep_optimizer=True)
    with pytest.raises(ValueError, match=r"the factors of the steps are \(1.0, 0.0\); each must be positive"):
        SGD(factors=(1.0, 0.0))


def test_the_factors_of_sgd_s_steps_are_those_of_torchs_schedulers():
    data, model, factors = some_data((6,)), mlp(), (1.0, 0.25, 0.5)
    optimizer = SGD(momentum=0.9, weight_decay=0.3, factors=factors)
    work = LocalWork(batch_size=None, steps=5)
    run = Federation(model, data, fed_avg.method(CrossEntropy()), Exponential(0.2), optimizer, work)
    own = {name: value.clone().requires_grad_() for name, value in model.initial(run.seed).items()}
    steps = torch.optim.SGD(own.values(), lr=0.2, momentum=0.9, weight_decay=0.3)
    schedule = torch.optim.lr_scheduler.LambdaLR(steps, lambda k: factors[min(k, 2)])
    for _ in range(5):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(model.outputs(own, data.x), data.y).backward()
        steps.step()
        schedule.step()
    trained = after(run, 1).model
    assert all((trained[name] - value.detach()).abs().max() < 1e-12 for name, value in own.items())


def test_methods_that_need_classes_refuse_real_labels():
    data = some_data()
    real = FederatedData(data.x, data.x[:, 0], data.owner, data.clients, name="heights")
    method = Method("fedlc", CrossEntropy(), needs=frozenset({"classes"}))
    with pytest.raises(ValueError, match="fedlc needs classes; the labels of heights are real numbers"):
        replace(federation(), data=real, method=method)


def test_methods_that_need_a_split_refuse_a_model_without_head():
    headless = replace(mlp(), head_names=())
    method = Method("moon", CrossEntropy(), needs=frozenset({"split"}))
    with pytest.raises(ValueError, match="moon needs a model with a head of its own; mlp has none"):
        replace(federation(), model=headless, method=method)


def test_clipping_is_of_the_gradient_alone_as_with_torchs_optimizers():
    data, model = some_data((6,)), mlp()
    optimizer = SGD(momentum=0.9, weight_decay=0.3, clip=0.05)
    run = Federation(
        model, data, fed_avg.method(CrossEntropy()), Exponential(0.2), optimizer, LocalWork(batch_size=None)
    )
    run = replace(run, keep_optimizer=True)
    own = {name: value.clone().requires_grad_() for name, value in model.initial(run.seed).items()}
    steps = torch.optim.SGD(own.values(), lr=0.2, momentum=0.9, weight_decay=0.3)
    for _ in range(3):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(model.outputs(own, data.x), data.y).backward()
        assert float(torch.nn.utils.clip_grad_norm_(own.values(), 0.05)) > 0.05  # The gradient is clipped.
        steps.step()
    assert distance(after(run).model, own) < 1e-7  # torch divides by the norm + 1e-6.


def test_clients_trained_together_are_clipped_each_by_its_own_norm():
    clipped = SGD(clip=0.3)
    alone = after(federation(at_once=1, optimizer=clipped)).model
    assert distance(after(federation(at_once=100, optimizer=clipped)).model, alone) < 1e-12
    # Gradients are clipped, so that the result differs.
    assert distance(after(federation(at_once=1, optimizer=SGD())).model, alone) > 1e-3
