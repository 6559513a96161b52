"""Tests of methods that differ from FedAvg on the server only: FedAdam, FedYogi, FedGMA."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny_federations import case_of, classes, flat, models, on_classes, states

from ntkfl.conformance import loops
from ntkfl.training.method import Round
from ntkfl.training.methods import build, fed_adam, fed_yogi
from ntkfl.training.objectives import CrossEntropy

ADAPTIVE = pytest.mark.parametrize("name", ["fedadam", "fedyogi"])


@ADAPTIVE
@pytest.mark.parametrize("tau", [1e-3, 0.5])
def test_with_frozen_moments_they_are_fedavg(name, tau):
    """With frozen moments FedAdam and FedYogi are FedAvg.

    first = 0, second = 1, v = 0 and server_rate = tau give w + tau D / (0 + tau).
    """
    run = on_classes(name, options={"first": 0.0, "second": 1.0, "tau": tau, "server_rate": tau}, participation=0.6)
    assert np.abs(models(run, 3) - models(on_classes(participation=0.6), 3)).max() < 1e-12


def first_difference(run):
    fedavg = replace(run, method=on_classes().method)
    return models(fedavg, 1)[0] - flat(run.start().model)


@ADAPTIVE
def test_without_memory_the_first_step_is_a_softened_sign(name):
    run = on_classes(name, options={"first": 0.0, "second": 0.0, "tau": 0.01, "server_rate": 0.3})
    d = first_difference(run)
    assert np.abs(models(run, 1)[0] - (flat(run.start().model) + 0.3 * d / (abs(d) + 0.01))).max() < 1e-12


@pytest.mark.method("fedadam")
def test_without_memory_fedadam_is_always_one():
    run = on_classes("fedadam", options={"first": 0.0, "second": 0.0, "tau": 0.01, "server_rate": 0.3})
    for state in states(run, 3):
        d = flat(
            replace(run, method=on_classes().method).round(replace(state, server={"model": state.model})).state.model
        )
        d = d - flat(state.model)
        after = flat(run.round(state).state.model)
        assert np.abs(after - (flat(state.model) + 0.3 * d / (abs(d) + 0.01))).max() < 1e-12


@ADAPTIVE
def test_the_first_moments_are_shares_of_the_difference_and_of_its_square(name):
    run = on_classes(name, options={"first": 0.7, "second": 0.9})
    d, state = first_difference(run), states(run, 1)[-1]
    assert np.abs(flat(state.server["first"]) - 0.3 * d).max() < 1e-14
    assert np.abs(flat(state.server["second"]) - 0.1 * d**2).max() < 1e-14


@pytest.mark.method("fedyogi")
def test_yogis_first_round_is_adams_and_its_second_is_not():
    adam, yogi = (models(on_classes(name), 2) for name in ("fedadam", "fedyogi"))
    assert np.abs(adam[0] - yogi[0]).max() < 1e-14 and np.abs(adam[1] - yogi[1]).max() > 1e-6


@ADAPTIVE
def test_no_coordinate_moves_farther_than_its_moment_over_tau(name):
    run = on_classes(name, options={"server_rate": 0.2, "tau": 0.05, "second": 0.5})
    history = states(run, 4)
    for before, after in pairwise(history):
        moved, m, v = (flat(after.model) - flat(before.model), *(flat(after.server[k]) for k in ("first", "second")))
        assert (abs(moved) <= 0.2 * abs(m) / 0.05 + 1e-15).all()
        assert (v >= 0).all() and np.abs(moved - 0.2 * m / (np.sqrt(v) + 0.05)).max() < 1e-14


@pytest.mark.method("fedyogi")
def test_yogis_second_moment_moves_by_its_share_of_the_square_and_adams_towards_it():
    v, squares = torch.tensor([4.0, 1.0, 0.0, 2.0]), torch.tensor([1.0, 4.0, 2.0, 2.0])
    assert torch.allclose(fed_yogi.towards_squares(v, squares, 0.1), torch.tensor([3.9, 1.4, 0.2, 2.0]))
    assert torch.allclose(fed_adam.mean_of_squares(v, squares, 0.1), torch.tensor([3.7, 1.3, 0.2, 2.0]))


@pytest.mark.method("fedgma")
def test_fedgma_with_threshold_zero_is_fedavg():
    for mask in ("soft", "hard"):
        run = on_classes("fedgma", options={"threshold": 0.0, "mask": mask, "server_rate": 0.7}, participation=0.6)
        assert (models(run, 3) == models(on_classes(options={"server_rate": 0.7}, participation=0.6), 3)).all()


@pytest.mark.parametrize("mask", ["soft", "hard"])
@pytest.mark.method("fedgma")
def test_fedgma_of_one_client_is_fedavg(mask):
    data = classes((7,))
    run = on_classes("fedgma", options={"threshold": 1.0, "mask": mask}, data=data)
    assert (models(run, 3) == models(on_classes(data=data), 3)).all()


@pytest.mark.method("fedgma")
def test_above_one_the_soft_mask_is_the_agreement_everywhere():
    run = on_classes("fedgma", options={"threshold": 1.5})
    start = run.start()
    ends = run.round(start, keep_ends=True).ends
    moves = np.concatenate([value.numpy().reshape(5, -1) for value in ends.values()], axis=1) - flat(start.model)
    agreement = abs(np.sign(moves).mean(axis=0))
    assert set(np.round(agreement * 5)) == {1, 3, 5}  # Every degree of agreement of five clients' signs occurs.
    expected = flat(start.model) + agreement * first_difference(run)
    assert np.abs(models(run, 1)[0] - expected).max() < 1e-12
    hard = replace(run, method=build("fedgma", CrossEntropy(), threshold=1.5, mask="hard"))
    assert (models(hard, 2) == flat(start.model)).all()


@pytest.mark.method("fedgma")
@pytest.mark.parametrize("clients", range(1, 40))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mean_of_signs_meets_its_threshold_exactly(clients, dtype):
    """If the exact mean of signs is at the threshold, the computed mean counts as being at the threshold too.

    The computed mean is a sum of rounded shares 1/|S|, so that it may be slightly below the exact mean.
    """
    for agreeing in range(clients + 1):
        signs = [1.0] * agreeing + [-1.0] * (clients - agreeing)
        mean = torch.zeros((), dtype=dtype)
        for sign in signs:
            mean = mean + (1 / clients) * torch.tensor(sign, dtype=dtype)
        threshold = abs(2 * agreeing - clients) / clients
        server = build("fedgma", CrossEntropy(), threshold=threshold, mask="hard").server
        start, one = {"w": torch.zeros((), dtype=dtype)}, {"w": torch.ones((), dtype=dtype)}
        state = server.step({"model": start}, {"difference": one, "sign": {"w": mean}}, Round(0, clients, clients, 0.1))
        assert state["model"]["w"] == 1


@pytest.mark.method("fedgma")
def test_as_released_fedgma_is_nearly_fedavg():
    """The released FedGMA is nearly FedAvg: only 1e-4 times a mean is subtracted from FedAvg's step.

    The literal loop of the released code also replaces the received model while it runs over the clients.
    """
    run = on_classes("fedgma", options={"released": True, "threshold": 0.4})
    fedavg, released = models(on_classes(), 1)[0], models(run, 1)[0]
    literal = next(loops.fed_gma_released(case_of(run, 1), 0.4))["model"]
    start = run.start()
    ends = run.round(start, keep_ends=True).ends
    largest = max(float((ends[name] - start.model[name]).abs().max()) for name in ends)
    assert 0 < np.abs(released - fedavg).max() <= 1e-4 * largest
    assert np.abs(released - literal).max() <= 2e-4 * largest


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("fedadam", {"first": 1.5}, r"fedadam: first, a decay of the server's, is 1.5; it must lie in \[0, 1\]"),
        ("fedyogi", {"second": -1}, r"fedyogi: second, a decay of the server's, is -1; it must lie in \[0, 1\]"),
        ("fedadam", {"tau": 0}, "fedadam: tau is 0; it must be positive"),
        ("fedyogi", {"server_rate": -0.1}, "fedyogi: server_rate is -0.1; it must be positive"),
        ("fedavg", {"server_rate": 0}, "fedavg: server_rate is 0; it must be positive"),
        ("scaffold", {"server_rate": -1}, "scaffold: server_rate is -1; it must be positive"),
        ("fedgma", {"server_rate": -1}, "fedgma: server_rate is -1; it must be positive"),
        ("fedgma", {"threshold": -0.5}, "fedgma: threshold is -0.5; it must be 0 or more"),
        ("fedgma", {"released": True, "mask": "hard"}, "fedgma: released has a mask and a rate of its own; leave out"),
        ("fedgma", {"released": True, "server_rate": 0.5}, "fedgma: released has a mask and a rate of its own"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        build(name, CrossEntropy(), **options)


@pytest.mark.method("fedavgm")
@pytest.mark.parametrize("nesterov", [False, True])
def test_without_momentum_it_is_fedavg(nesterov):
    run = on_classes("fedavgm", options={"momentum": 0.0, "nesterov": nesterov}, participation=0.6)
    assert np.array_equal(models(run, 3), models(on_classes(participation=0.6), 3))


@pytest.mark.method("fedavgm")
@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_a_momentum_that_never_fades_is_refused(momentum):
    with pytest.raises(ValueError, match=rf"momentum is {momentum:g}; it must lie in \[0, 1\)"):
        on_classes("fedavgm", options={"momentum": momentum})
