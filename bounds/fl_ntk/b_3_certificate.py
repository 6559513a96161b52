"""The a-priori certificate, which repairs Theorem B.3: a certified network converges and stays inside its ball."""

import sympy as sp

from bounds import BEYOND, Claim, Family, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun, federated_families, federated_run, federated_runs
from bounds.fl_ntk.certificates.certified_run import certificate, certified, rate, residuals_and_movements
from bounds.mutants import index_shifted, power, without
from bounds.symbols import R, r0, t
from ntkfl import Setup, data


def _certifiable(seed: int) -> FederatedRun:
    """Random unit data of three sizes in turn, at which most draws certify; labels +-1 or uniform in (-1, 1)."""
    n, d, width = ((8, 64, 16000), (6, 24, 32000), (4, 8, 64000))[seed % 3]
    problem = data.sphere(n, d, seed=seed, labels=("sign", "uniform")[seed // 3 % 2], clients=2)
    return federated_run(problem, Setup(width, eta_local=0.02, local_steps=2, rounds=40, seed=seed))


# The search draws small runs; those with tiny residuals certify.
CERTIFIABLE = Family("sphere, small steps, wide", _certifiable, federated_runs(), trials=9, needs=5)


def _families(options) -> tuple:
    if options.data is not None:
        return federated_families(options, label="eta_l=.02", movements=True, eta_local=0.02)
    return (CERTIFIABLE.with_trials(options.trials),)


def _constants(case: FederatedRun) -> dict:
    known = certificate(case)
    return {rate: known.rate, r0: case.initial_residual, t: case.rounds[1:], R: known.radius}


STATEMENTS = (
    Statement(
        id="fl-ntk/B.3-certificate",
        title="A certified network contracts in every round and no neuron leaves its ball",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "repairs Theorem B.3, docs/proofs/certificates.md#the-a-priori-certificate",
            note="needs no probability and no sets Q_i, and no more neurons than the given network's own numbers "
            "require",
        ),
        hypotheses=(certified("the certificate's three conditions hold, in balls", certificate),),
        forms={Form.NEW: Claim((rate**t * r0**2, R, R))},
        constants=_constants,
        measure=residuals_and_movements,
        symbols={rate: "1 - beta rho lambda, from the certificate"},
        left_formula=("|y - y(t)|^2", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="the simulated residual, every round, and the largest movement of any global or local weight vector",
        families=_families,
        mutants=(
            power(rate, sp.Rational(3, 2)),
            index_shifted(t, 1),
            without(r0),
        ),
        uses=("fl-ntk/mean-slope",),
    ),
)
