"""Tests of the adversary that searches for orders of steps that lead away from W*, the fit of the certificate.

The adversary finds such orders if a hypothesis is missing, and finds none on certified networks. The notation is that
of docs/proofs/any_order.md.
"""

import os
from itertools import pairwise

import numpy as np
import pytest
from exact_certificate import fitted

from ntkfl import Problem, Weights, certify_any_order
from ntkfl.any_order.adversary import Batch, Round, attack_any_order, replayed

NETWORKS = int(os.environ.get("ANY_ORDER_NETWORKS", "6"))  # the number of networks that the slow test attacks
# the number of steps that the slow test tries on each network
LONG_STEPS = int(os.environ.get("ANY_ORDER_TRIALS", "5000"))


def certified(count, first=0, **shape):
    """Returns `count` certificates of `fitted` networks of successive seeds; networks that are not certified are
    skipped.
    """
    certificates, seed = [], first
    while len(certificates) < count:
        one = certify_any_order(*fitted(seed, **{"n": 4, "d": 5, "width": 64, "distance": 1e-3} | shape))
        certificates += [one] if one.certified else []
        seed += 1
    return certificates


def not_certified(count, **shape):
    certificates = (certify_any_order(*fitted(seed, **{"n": 4, "d": 5} | shape)) for seed in range(10 * count))
    return [
        certificate
        for certificate in certificates
        if not certificate.certified and certificate.smallest_eigenvalue is not None
    ][:count]


KINDS = {
    "one output": {},
    "near-duplicates": {"near": True, "distance": 1e-4},
    "two outputs": {"outputs": 2},
    "norms from .1 to 9": {"unit": False},
    "labels of 100": {"size": 100.0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_found_on_certified_networks(kind):
    for certificate in certified(2, **KINDS[kind]):
        attack = attack_any_order(certificate, trials=400)
        assert attack.broken is None and attack.trials == 400 and not attack.order
        # A step that raises the distance to W* has a ratio above 1. The attack is strong: it finds steps that lower the
        # distance by less than half.
        assert 0.5 < attack.largest_ratio <= 1 + 1e-9
        assert str(attack).startswith("an adversary looked at 400 steps: none raised")


MISSING = {
    "certified": (lambda: not_certified(6, width=16, distance=1.0), {}),
    "steps": (lambda: certified(6), {"longer": 1.1}),
    "server": (lambda: certified(6), {"server": 2.0}),
}


@pytest.mark.parametrize("hypothesis", MISSING)
def test_one_is_found_where_a_hypothesis_is_missing(hypothesis):
    """If a hypothesis is missing, an order that leads away from W* is found, and independent code repeats this order.

    Every step keeps the rules that remain, and only the last round leads away from W*.
    """
    networks, broken_rule = MISSING[hypothesis]
    for certificate in networks():
        attack = attack_any_order(certificate, trials=2000, **broken_rule)
        assert attack.broken is not None, hypothesis
        w, rounds = replay(certificate, attack.order, **broken_rule)
        assert attack.to_dict()["rounds"] == len(attack.order) == len(rounds) - 1
        point, _ = certificate.claimed_point()
        distance = [float(np.linalg.norm((reached - point).astype(float))) for reached in rounds]
        if attack.broken == "distance":
            # If a client's local step breaks the claim, the last round has that client's model alone.
            assert distance[-1] > distance[-2] * (1 + 1e-12) or len(attack.order[-1].models[0]) > 1
            assert attack.after > attack.before and distance[-1] == pytest.approx(attack.after, rel=1e-9)
        assert all(now <= before * (1 + 1e-12) for before, now in pairwise(distance[:-1]))
        public = list(replayed(certificate.problem, certificate.weights, attack.order, broken_rule.get("server", 1.0)))
        assert np.abs((public[-1] - w).astype(float)).max() <= 1e-14


def replay(certificate, order, longer=1.0, server=1.0):
    """Returns the weights after each round, computed by a loop over samples.

    For every batch |E J J' E| < 2 must hold, where the rows of J are the samples' gradients, and E is diagonal. The
    entry of E for a sample is the square root of (the sample's step / `longer`).
    """
    x, y = certificate.problem.x, certificate.problem.y
    w, a = (
        certificate.weights.hidden.astype(np.longdouble),
        certificate.weights.signs / np.sqrt(np.longdouble(certificate.width)),
    )
    rounds = [w]
    for sent in order:
        ends = []
        for steps in sent.models:
            model = w
            for batch in steps:
                assert len(set(batch.samples.tolist())) == len(batch.samples) and (batch.steps > 0).all()
                active = model @ x[batch.samples].T >= 0
                j = (active * a[:, None]).T[:, :, None] * x[batch.samples][:, None, :]
                j = j.reshape(len(j), -1).astype(float) * np.sqrt(batch.steps / longer)[:, None]
                assert np.linalg.norm(j, 2) ** 2 < 2
                change = np.zeros_like(model)
                for i, eta in zip(batch.samples, batch.steps, strict=True):
                    on = (model @ x[i] >= 0) * a
                    change += eta * (y[i] - on @ (model @ x[i])) * on[:, None] * x[i]
                model = model + change
            ends.append(model)
        mean = sum((share * end for share, end in zip(sent.shares, ends, strict=True)), 0 * w)
        w = w + server * (mean - w) if len(ends) > 1 else mean
        rounds.append(w)
    return w, rounds


def test_the_same_seed_finds_the_same_order():
    (certificate,) = not_certified(1, width=16, distance=1.0)
    one, same, other = (attack_any_order(certificate, seed=seed) for seed in (3, 3, 4))
    assert one.to_dict() == same.to_dict() != other.to_dict()


def test_a_network_whose_neurons_are_all_off_moves_nowhere():
    problem = Problem(np.eye(2), np.ones(2))
    certificate = certify_any_order(problem, Weights(-np.ones((3, 2)), np.ones(3)))
    with pytest.raises(ValueError, match="there is no W\\*: C is not shown to have full row rank"):
        attack_any_order(certificate)
    contradiction = certify_any_order(
        Problem(np.ones((2, 1)), np.array([1.0, 2.0])), Weights(np.ones((3, 1)), np.ones(3))
    )
    with pytest.raises(ValueError, match="there is no W\\*: samples 0 and 1 have the same input"):
        attack_any_order(contradiction)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": 0}, "trials is 0; it must be a positive integer"),
        ({"trials": 1.5}, "trials is 1.5"),
        ({"longer": 0.0}, "longer is 0; it must be a positive finite number"),
        ({"server": np.nan}, "server is nan"),
    ],
)
def test_what_is_no_attack_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        attack_any_order(certified(1)[0], **given)


def test_a_mean_of_models_is_replayed_with_its_shares():
    (certificate,) = certified(1)
    one, two = (Batch(np.array([i]), np.array([0.1])) for i in (0, 1))
    start, first, second = replayed(certificate.problem, certificate.weights, (Round(np.ones(1), ((one,),)),) * 2)
    _, mean = replayed(certificate.problem, certificate.weights, (Round(np.array([0.25, 0.75]), ((one,), (one, two))),))
    assert np.abs(second - first).max() < np.abs(first - start).max()
    _, alone, further = replayed(
        certificate.problem, certificate.weights, (Round(np.ones(1), ((one,),)), Round(np.ones(1), ((two,),)))
    )
    assert np.abs(mean - (0.25 * alone + 0.75 * further)).max() < 1e-17


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_none_is_found_in_a_long_search(kind):
    for number, certificate in enumerate(certified(NETWORKS, 100, **KINDS[kind])):
        attack = attack_any_order(certificate, trials=LONG_STEPS, seed=number)
        assert attack.broken is None, (kind, number, str(attack))


@pytest.mark.slow
def test_one_is_found_on_nearly_every_network_that_misses_a_hypothesis():
    for hypothesis, (networks, broken_rule) in MISSING.items():
        broken = [attack_any_order(network, trials=LONG_STEPS, seed=7, **broken_rule).broken for network in networks()]
        assert None not in broken, hypothesis
