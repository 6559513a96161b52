"""Tests of FedGuCci and FedGuCci+.

With some options these methods equal other methods. The anchors, and closed forms for quadratic losses, are tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import classes, flat, models, on_classes, on_quadratics, quadratics, rows, states

from ntkfl.training.engine.federation import State
from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import tree_map

pytestmark = pytest.mark.method("fedgucci", "fedgucci+")

ONE_STEP = {"work": LocalWork(batch_size=None, steps=1), "optimizer": SGD(0.9)}


def small(method="fedavg", **changes):
    return on_classes(method, **{"work": LocalWork(batch_size=4)} | changes)


def distance(one, other, rounds=3):
    return np.abs(models(one, rounds) - models(other, rounds)).max()


@pytest.mark.parametrize("alpha", ["uniform", "gauss2"])
@pytest.mark.parametrize("history", ["server", "client"])
def test_joint_without_connectivity_is_fed_avg(alpha, history):
    options = {"beta": 0.0, "anchors": 2, "alpha": alpha, "anchor_history": history}
    assert distance(small("fedgucci", options=options, participation=0.6), small(participation=0.6)) == 0


def test_sequential_without_connectivity_is_fed_avg_only_without_momentum_and_weight_decay():
    options = {"beta": 0.0, "anchors": 2, "step": "sequential"}
    for optimizer, is_same in ((SGD(), True), (SGD(0.5), False), (SGD(0.0, 0.1), False)):
        run = small("fedgucci", options=options, optimizer=optimizer)
        assert (distance(run, small(optimizer=optimizer), 2) < 1e-14) == is_same


@pytest.mark.parametrize("alpha", ["half", "gauss2"])
@pytest.mark.parametrize("anchors", [1, 3])
def test_the_first_step_of_all_is_fed_avg_s_with_a_larger_rate(alpha, anchors):
    run = small("fedgucci", options={"beta": 0.8, "alpha": alpha, "anchors": anchors}, **ONE_STEP)
    assert distance(run, small(rate=0.2 * (1 + 0.8 / 2), **ONE_STEP), 1) < 1e-14


def test_with_one_uniform_draw_that_rate_is_the_draw_s():
    run, average = small("fedgucci", options={"beta": 0.8}, **ONE_STEP), small(**ONE_STEP)
    start = run.start()
    moved, plain = (
        rows(tree_map(torch.sub, r.round(r.start(), keep_ends=True).ends, start.model)) for r in (run, average)
    )
    draws = local_plan(run.data.members(), range(5), run.work, run.seed, 0, 1).draws[:, 0, 0]
    assert len(set(draws)) == 5
    assert np.abs(moved - (1 + 0.8 * draws)[:, None] * plain).max() < 1e-14


@pytest.mark.parametrize("alpha", ["half", "gauss2"])
def test_with_all_anchors_equal_their_number_does_not_matter(alpha):
    ends = []
    for anchors in (1, 2, 5):
        run = small("fedgucci", options={"beta": 0.8, "alpha": alpha, "anchors": anchors})
        start = run.start()
        sent = tree_map(lambda w, n=anchors: w.expand(n - 1, *w.shape), start.model)
        ends.append(flat(run.round(State(5, {"model": start.model, "sent": sent}, {}, start.has_trained)).state.model))
    assert max(np.abs(end - ends[0]).max() for end in ends) < 1e-14


@pytest.mark.parametrize("anchors", [1, 3, 5])
def test_anchors_are_the_last_models_received_the_current_one_first(anchors):
    run = small("fedgucci", options={"anchors": anchors}, participation=0.4)
    history = states(run, 5)
    for t, state in enumerate(history):
        held = run.method.server.broadcast(state.server, t)["anchors"]
        expected = [flat(earlier.model) for earlier in reversed(history[: t + 1])][:anchors]
        assert len(expected) == min(t + 1, anchors) and np.array_equal(rows(held), np.array(expected))


def test_before_there_are_as_many_models_a_larger_number_of_anchors_changes_nothing():
    five, nine = (small("fedgucci", options={"anchors": n, "alpha": "half"}) for n in (3, 9))
    one, other = models(five, 4), models(nine, 4)
    assert np.array_equal(one[:3], other[:3]) and np.abs(one[3] - other[3]).max() > 1e-6


def test_a_client_s_own_history_is_the_server_s_under_full_participation_only():
    options = {"beta": 0.8, "anchors": 2}
    for participation, is_same in ((1.0, True), (0.4, False)):
        server, client = (
            small("fedgucci", options=options | {"anchor_history": history}, participation=participation)
            for history in ("server", "client")
        )
        assert (distance(server, client) < 1e-14) == is_same


def test_clients_own_anchors_are_the_models_of_their_rounds():
    run = small("fedgucci", options={"anchors": 2, "anchor_history": "client"}, participation=0.4)
    received = {}
    state = run.start()
    for _ in range(6):
        result = run.round(state)
        for client in result.cohort:
            received.setdefault(client, []).insert(0, flat(state.model))
        state = result.state
    kept = state.clients["rule"]
    assert max(len(own) for own in received.values()) > 2
    for client, own in received.items():
        assert kept["held"][client] == min(len(own), 2)
        anchors = rows(tree_map(lambda value, client=client: value[client], kept["anchors"]))
        assert np.array_equal(anchors[: len(own)], np.array(own[:2]))


# For each choice of alpha: the means of alpha^2, alpha (1 - alpha) and alpha. For an anchor a and the loss w.H w / 2 -
# b.w, the connectivity loss has the gradient E alpha (H (alpha w + (1 - alpha) a) - b), in which these means occur.
EXPECTED = {
    "gauss2": (1 / 3, 1 / 6, 1 / 2),
    "half": (1 / 4, 1 / 4, 1 / 2),
}


@pytest.mark.parametrize("alpha", EXPECTED)
def test_on_quadratics_the_path_is_that_of_the_closed_form(alpha):
    beta, steps, rate = 0.9, 4, 0.2
    run = on_quadratics(
        "fedgucci", rate, steps, options={"beta": beta, "alpha": alpha, "anchors": 2}, participation=0.6
    )
    squared, mixed, mean = EXPECTED[alpha]
    (hessians, linear), sizes = quadratics(run.data), np.array([len(own) for own in run.data.members()])
    w, received = flat(run.start().model), []
    state = run.start()
    for _ in range(3):
        received = [w, *received][:2]
        result = run.round(state)
        ends = []
        for i in result.cohort:
            v, (h, b) = w, (hessians[i], linear[i])
            for _ in range(steps):
                pulls = [squared * h @ v + mixed * h @ a - mean * b for a in received]
                v = v - rate * (h @ v - b + beta * np.mean(pulls, axis=0))
            ends.append(v)
        w, state = np.average(ends, axis=0, weights=sizes[result.cohort]), result.state
        assert np.abs(flat(state.model) - w).max() < 1e-12


def test_a_large_beta_leads_to_the_minimiser_of_the_mean_loss_between():
    beta = 1e7
    run = on_quadratics("fedgucci", 2 / beta, 60, options={"beta": beta, "alpha": "gauss2"})
    start = flat(run.start().model)
    ends = rows(run.round(run.start(), keep_ends=True).ends)
    hessians, linear = quadratics(run.data)
    own = np.array([np.linalg.solve(h, b) for h, b in zip(hessians, linear, strict=True)])
    assert np.abs(ends - (1.5 * own - start / 2)).max() < 1e-6  # the minimiser of w'Hw/6 + a'Hw/6 - b'w/2, a = start


@pytest.mark.parametrize("step", ["joint", "sequential"])
@pytest.mark.parametrize(
    "off, other, left",
    [
        ({"rho": 0.0, "tau": 0.0}, "fedgucci", {"beta": 0.8, "anchors": 2}),
        ({"beta": 0.0, "tau": 0.0, "rho": 0.1}, "fedsam", {"rho": 0.1}),
        ({"beta": 0.0, "rho": 0.0, "tau": 0.5}, "fedlc", {"tau": 0.5}),
    ],
)
def test_plus_without_two_of_its_parts_is_the_third(step, off, other, left):
    given = {"beta": 0.8, "anchors": 2, "tau": 0.3, "rho": 0.2, "step": step} | off
    left = left | ({"step": step} if other == "fedgucci" else {})
    optimizer = SGD(0.9, 1e-2) if step == "joint" or other == "fedgucci" else SGD()
    plus, third = (
        small(name, options=options, optimizer=optimizer) for name, options in (("fedgucci+", given), (other, left))
    )
    assert distance(plus, third, 2) < 1e-13


def test_plus_without_one_of_its_parts_is_neither_of_the_ablations_nor_the_whole():
    runs = [
        small("fedgucci+", options={"beta": 0.8, "rho": rho, "tau": tau})
        for rho, tau in ((0.1, 0.5), (0.0, 0.5), (0.1, 0.0), (0.0, 0.0))
    ]
    ends = [models(run, 1)[-1] for run in runs]
    assert min(np.abs(a - b).max() for i, a in enumerate(ends) for b in ends[:i]) > 1e-4


def test_as_released_is_sequential_at_half():
    released = small("fedgucci", options={"released": True})
    spelt = small("fedgucci", options={"step": "sequential", "alpha": "half"})
    assert distance(released, spelt, 2) == 0
    mixed = small("fedgucci", options={"released": True, "alpha": "gauss2"})
    assert distance(released, mixed, 2) > 1e-6


def test_plus_as_released_counts_an_anchor_s_gradient_at_w_too():
    """As released, FedGuCci+ adds the gradient of an anchor's term at w to the gradient of this term at w + e.

    Here e is the perturbation, of length rho. Without calibration and with rho = 0, both gradients are at w. The result
    then equals the result of the released FedGuCci with twice the beta.
    """

    def plus(rho, **options):
        return small("fedgucci+", options={"tau": 0.0, "rho": rho} | options, optimizer=SGD(0.9, 1e-2))

    twice = small("fedgucci", options={"beta": 0.8, "released": True}, optimizer=SGD(0.9, 1e-2))
    assert distance(plus(0.0, beta=0.4, released=True), twice) < 1e-13
    cleared = plus(0.1, beta=0.4, step="sequential", alpha="half")
    assert distance(plus(0.1, beta=0.4, released=True), cleared) > 1e-3
    none = [plus(0.1, beta=0.0, step="sequential", released=released) for released in (False, True)]
    assert distance(*none) == 0  # The gradient of the objective itself is cleared.


@pytest.mark.parametrize("method", ["fedgucci", "fedgucci+"])
def test_options_out_of_range_are_refused(method):
    with pytest.raises(ValueError, match="beta, the weight of the connectivity loss, is -1; it must be 0 or more"):
        build(method, CrossEntropy(), beta=-1.0)
    with pytest.raises(ValueError, match="anchors is 0; it must be a positive integer"):
        build(method, CrossEntropy(), anchors=0)
    with pytest.raises(ValueError, match="anchor_history is 'client' and step 'sequential'"):
        build(method, CrossEntropy(), anchor_history="client", step="sequential")


def test_regression_has_connectivity_but_no_calibration():
    assert not build("fedgucci", CrossEntropy()).needs
    with pytest.raises(ValueError, match=r"fedgucci\+ needs classes"):
        data = replace(classes(), y=classes().y.double(), classes=None)
        replace(small("fedgucci+"), data=data)
