"""`certify` runs the certificate it is given on the network it is given, or on the one the seed draws."""

import numpy as np

from bounds.fl_ntk.certificate import a_priori_certificate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from verification.certification import certify

PROBLEM = Problem(np.random.default_rng(0).standard_normal((4, 8)), np.ones(4), np.arange(4) % 2).unit()


def test_without_weights_the_network_is_the_one_of_the_seed():
    setup = Setup(width=3000, eta_local=0.02, seed=5, sigma=0.5)
    weights = draw(3000, 8, 5, 0.5)
    assert certify(PROBLEM, setup).to_dict() == a_priori_certificate(PROBLEM, setup, weights).to_dict()
    assert certify(PROBLEM, setup).to_dict() != certify(PROBLEM, setup, draw(3000, 8, 6, 0.5)).to_dict()


def test_any_certificate_can_be_run():
    setup, weights = Setup(width=16), draw(16, 8, 0)
    assert certify(PROBLEM, setup, weights, certificate=lambda *given: given) == (PROBLEM, setup, weights)
