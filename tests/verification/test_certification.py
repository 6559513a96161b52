"""Tests of `certify`: it runs the given certificate on the given network, or on the network that the seed draws."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bounds.fl_ntk.certificates.certificate import a_priori_certificate
from ntkfl.algorithm1.simulation import simulate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from verification.certification import best_certificate, certify, certify_after, checkpoints, searched, watch

PROBLEM = Problem(np.random.default_rng(0).standard_normal((4, 8)), np.ones(4), np.arange(4) % 2).unit()


def test_without_weights_the_network_is_the_one_of_the_seed():
    setup = Setup(width=3000, eta_local=0.02, seed=5, sigma=0.5)
    weights = draw(3000, 8, 5, 0.5)
    assert certify(PROBLEM, setup).to_dict() == a_priori_certificate(PROBLEM, setup, weights).to_dict()
    assert certify(PROBLEM, setup).to_dict() != certify(PROBLEM, setup, draw(3000, 8, 6, 0.5)).to_dict()


def test_any_certificate_can_be_run():
    setup, weights = Setup(width=16), draw(16, 8, 0)
    assert certify(PROBLEM, setup, weights, certificate=lambda *given: given) == (PROBLEM, setup, weights)


SETUP = Setup(256, eta_local=0.1, seed=3)


def test_checkpoints_are_those_of_one_long_run():
    """Checkpoints are those of one long run.

    A run in parts agrees with a whole run up to rounding, stops at the wanted rounds, and repeats to the bit.
    """
    whole = simulate(PROBLEM, replace(SETUP, rounds=25), keep=[0, 10, 20, 25])
    seen = list(checkpoints(PROBLEM, SETUP, 25, 10))
    assert [reached for reached, _ in seen] == [0, 10, 20, 25]
    for (reached, weights), (_, again) in zip(seen, checkpoints(PROBLEM, SETUP, 25, 10), strict=True):
        assert weights.hidden == pytest.approx(whole.weights[reached], abs=1e-12)
        assert (weights.hidden == again.hidden).all() and (weights.signs == again.signs).all()
    with pytest.raises(ValueError, match="rounds is 5 and every is 0"):
        list(checkpoints(PROBLEM, SETUP, 5, 0))


def record(certified, factor, shortfall):
    return lambda *network: SimpleNamespace(certified=certified, residual_factor=factor, shortfall=shortfall)


def test_the_better_certificate_is_the_faster_one_and_else_the_nearer_one():
    weights = draw(256, 8, 3)

    def best(**theorems):
        return best_certificate(PROBLEM, SETUP, weights, 7, theorems).theorem

    slow, fast, far, near = record(True, 0.99, 0.1), record(True, 0.9, 0.9), record(False, 0.1, 9), record(False, 1, 2)
    assert best(a=slow, b=fast) == "b" and best(a=fast, b=slow) == "a"
    assert best(a=far, b=near) == "b" and best(a=near, b=far) == "a"
    assert best(a=slow, b=near) == "a" and best(a=far, b=slow) == "b"
    assert best_certificate(PROBLEM, SETUP, weights, 7, {"a": slow}).round == 7


@pytest.mark.parametrize("limit", [60.0, 1000.0, 30_000.0])
def test_the_search_ends_at_the_smallest_width_and_the_largest_step_that_certify(limit, monkeypatch):
    def certified_up_to(value):
        return SimpleNamespace(certificate=SimpleNamespace(certified=value <= 1))

    def of_width(problem, setup, after, every):
        return certified_up_to(limit / setup.width)

    def of_step(problem, setup, after, every):
        return certified_up_to(setup.eta_local * limit)

    monkeypatch.setattr("verification.certification.certify_after", of_width)
    search = searched(PROBLEM, SETUP)
    assert (
        search.certified.certificate.certified
        and search.failing_value < limit <= search.setup.width <= 1.15 * search.failing_value
    )
    assert replace(search.setup, width=SETUP.width) == SETUP
    monkeypatch.setattr("verification.certification.certify_after", of_step)
    search = searched(PROBLEM, SETUP, steps=True)
    assert search.certified.certificate.certified and search.setup.eta_local <= 1 / limit < search.failing_value
    assert (
        search.failing_value <= 1.1 * search.setup.eta_local
        and replace(search.setup, eta_local=SETUP.eta_local) == SETUP
    )


def test_watching_stops_at_the_first_round_that_certifies():
    """Watching stops at the first round whose network is certified.

    If a round is certified in float64, ball arithmetic decides about it. The result equals the certificate of this
    round alone.
    """
    setup = replace(SETUP, width=1000)
    *before, (reached, shortfall, judged) = watch(PROBLEM, setup, 600, 50)
    assert judged.certificate.certified and judged.round == reached > 0 and shortfall <= 1
    assert all(certification is None or not certification.certificate.certified for _, _, certification in before)
    alone = certify_after(PROBLEM, setup, reached, 50)
    assert (
        alone.certificate.certified
        and alone.theorem == judged.theorem
        and alone.certificate.rate == judged.certificate.rate
    )
    assert not certify_after(PROBLEM, setup, reached - 50, 50).certificate.certified


def test_watching_judges_the_last_round():
    (*_, (reached, _, judged)) = watch(PROBLEM, SETUP, 3, 2)
    assert reached == 3 and not judged.certificate.certified
