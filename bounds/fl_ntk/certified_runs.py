"""Statements on certificates: from the initial weights (B.3-certificate), from later weights (X.11), and X.12.

The certificate of X.12 is for any stable step.
"""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Family, Kind, Source, Statement
from bounds.federated_run import FederatedRun, federated_families, federated_run, federated_runs
from bounds.fl_ntk.certificates.certificate_record import StableStepCertificate
from bounds.fl_ntk.certificates.certified_run import certificate, certified, need, rate, residuals_and_movements
from bounds.fl_ntk.certificates.checkpoint_draw import checkpoint_families
from bounds.fl_ntk.certificates.stable_step_certificate import stable_step_certificate
from bounds.fl_ntk.terms.round_map import residuals
from bounds.mutants import Mutant, index_shifted, power, replaced, without
from bounds.symbols import R, r0, t
from ntkfl import Setup, data
from ntkfl.estimate import Estimate
from ntkfl.rounding import row_norms


def _certifiable(seed: int) -> FederatedRun:
    """Random unit data of three sizes in turn, for which most runs are certified.

    Labels are +-1 or uniform in (-1, 1).
    """
    n, d, width = ((8, 64, 16000), (6, 24, 32000), (4, 8, 64000))[seed % 3]
    problem = data.sphere(n, d, seed=seed, labels=("sign", "uniform")[seed // 3 % 2], clients=2)
    return federated_run(problem, Setup(width, eta_local=0.02, local_steps=2, rounds=40, seed=seed))


# The counterexample search draws small runs. The runs with tiny residuals are certified.
CERTIFIABLE = Family("sphere, small steps, wide", _certifiable, federated_runs(), trials=9, needs=5)


def _families(options) -> tuple:
    if options.data is not None:
        return federated_families(options, label="eta_l=.02", movements=True, eta_local=0.02)
    return (CERTIFIABLE.with_trials(options.trials),)


def _constants_b_3(case: FederatedRun) -> dict:
    constants = certificate(case)
    return {rate: constants.rate, r0: case.initial_residual, t: case.rounds[1:], R: constants.radius}


def _constants_x_11(case: FederatedRun) -> dict:
    constants = certificate(case)
    return {rate: constants.rate, r0: case.initial_residual, t: case.rounds[1:], need: constants.need}


weighted_rate = sp.Symbol("q", positive=True)
z0 = sp.Symbol("z_0", positive=True)


@lru_cache(maxsize=4)
def _certificate(case: FederatedRun) -> StableStepCertificate:
    return stable_step_certificate(case.problem, case.setup, case.weights)


def _constants_x_12(case: FederatedRun) -> dict:
    constants = _certificate(case)
    return {weighted_rate: constants.rate, z0: constants.norm, t: case.rounds[1:], need: constants.need}


def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    """|S^-1 (y - y(t))| for t >= 1, and the movements of all global and of all local weight vectors."""
    _, *movements = residuals_and_movements(case)
    return weighted_norm(_certificate(case).root, residuals(case)[:, 1:]), *movements


def weighted_norm(root: np.ndarray, vectors: Estimate) -> Estimate:
    """|S^-1 v| for each column v of (n, T).

    The error of the result includes the errors of the columns and the rounding of the solution.
    """
    inverse = np.linalg.inv(root)
    value = row_norms((inverse @ vectors.value).T)
    # The solution is backward stable. So its relative error is n eps times the condition number of S, which is at most
    # the condition number of H.
    rounding = 20 * len(root) ** 1.5 * np.finfo(float).eps * np.linalg.cond(root)
    error = np.linalg.norm(inverse, 2) * (row_norms(vectors.error.T) + rounding * row_norms(vectors.value.T))
    return Estimate(value, error, vectors.method, vectors.rigour)


STATEMENTS = (
    Statement(
        id="fl-ntk/B.3-certificate",
        title="A certified network contracts in every round and no neuron leaves its ball",
        kind=Kind.UPPER,
        source=Source(BEYOND, "repairs Theorem B.3, docs/proofs/certificates.md#the-a-priori-certificate"),
        note="needs no probability and no sets Q_i, and no more neurons than the given network's own numbers require",
        hypotheses=(certified("the certificate's three conditions hold, in balls", certificate),),
        new=Claim((rate**t * r0**2, R, R)),
        constants=_constants_b_3,
        measure=residuals_and_movements,
        symbols={rate: "1 - beta rho lambda, from the certificate"},
        left_formula=("|y - y(t)|^2", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="the simulated residual, every round, and the largest movement of any global or local weight vector",
        families=_families,
        mutants=(power(rate, sp.Rational(3, 2)), index_shifted(t, 1), without(r0)),
        uses=("fl-ntk/mean-slope",),
    ),
    Statement(
        id="fl-ntk/X.11",
        title="The certificate B.3' from a checkpoint holds for all later rounds",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/certificates.md#the-a-priori-certificate"),
        note="B.3' is B.3-certificate; it nowhere uses that the weights are Gaussian, so it may start at the "
        "weights of round T0. The residual shrinks geometrically while lambda hardly changes, so real images that "
        "do not certify at round 0 certify later. The claim is about Algorithm 1 in exact arithmetic, from the "
        "stored float64 weights.",
        hypotheses=(certified("the certificate's three conditions hold at the checkpoint, in balls", certificate),),
        new=Claim((rate**t * r0**2, need, need)),
        constants=_constants_x_11,
        measure=residuals_and_movements,
        symbols={
            rate: "1 - beta rho lambda, of the checkpoint's certificate",
            need: "the certificate's bound on the movement since the checkpoint, at most its radius R",
            t: "rounds since the checkpoint",
            r0: "|y - y(0)|_2 at the checkpoint",
        },
        left_formula=("|y - y(t)|^2", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="the residual and the largest movements of the run that continues, relative to the checkpoint",
        families=checkpoint_families,
        mutants=(
            power(rate, 2),
            power(r0, 2),
            replaced(t, t + 1, "one round ahead"),
            Mutant("the movement of one round only", lambda part: part * (1 - rate)),
        ),
        uses=("fl-ntk/B.3-certificate", "fl-ntk/mean-slope"),
    ),
    Statement(
        id="fl-ntk/X.12",
        title="The stable-step certificate: contraction in the H^-1 norm, or in one between it and the Euclidean norm",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/certificates.md#any-stable-step"),
        note="holds for any norm |S^-1 r| and any symmetric H from which the kernels of the run differ by at most "
        "E. H is the matrix in the middle of the possible counts: with H(0) in its place E would be at least as large, "
        "and up to twice as large. On the nine default checkpoints the largest E with q < 1, computed "
        "approximately in float64, is 1.3 to 1.5 times as large in the norm |H^(-1/4) r| (p = 1/2) as for p = 1",
        hypotheses=(
            certified(
                "the certificate's three conditions (stability, contraction, movement) hold at the start, in ball "
                "arithmetic",
                _certificate,
            ),
        ),
        new=Claim((weighted_rate**t * z0, need, need)),
        constants=_constants_x_12,
        measure=_measure,
        symbols={
            weighted_rate: "the certificate's factor per round",
            z0: "|S^-1 (y - y(0))|, S = H^(p/2) in float64",
            need: "the certificate's bound on the movement, at most its radius R",
            t: "rounds since the checkpoint",
        },
        left_formula=("|S^{-1} (y - y(t))|", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="of the run from the checkpoint on: left 1 is the residual in the certificate's norm, left 2 and 3 "
        "are the largest movements of the global and of the local weights",
        families=checkpoint_families,
        mutants=(
            power(weighted_rate, 4),
            power(z0, 2),
            replaced(t, t + 8, "eight rounds ahead"),
            Mutant("the movement of one round only", lambda part: part * (1 - weighted_rate)),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.2", "fl-ntk/X.3", "fl-ntk/mean-slope"),
    ),
)
