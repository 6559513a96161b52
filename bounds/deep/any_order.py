"""Statements on smooth networks that are trained from a certified checkpoint.

A checkpoint is certified if the theorem's inequalities hold there, with proven errors. Two statements are on training
in any order of the samples, on squares and on other losses. The third is on the rate of methods with memory. Training
in any order consists of windows: in a window every sample is used in at least one step. With losses other than squares,
a sample whose loss stays minimal need not be used. Comments beside the formulas have the proof's symbols.
"""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Hypothesis, Kind, Source, Statement
from bounds.deep.cases.method_rounds import ROUNDS, SMALL_METHOD_ROUNDS, MethodRounds, method_case
from bounds.deep.cases.ordered_windows import (
    OTHER_LOSSES,
    SMALL_NETWORKS,
    OrderedWindows,
    loss_case,
    small_case,
    uneven_case,
)
from bounds.mutants import Mutant, power, replaced
from ntkfl.estimate import Estimate
from ntkfl.limit.convex_loss import band, huber
from ntkfl.smooth_networks.window import Window

size, rate, reach, rounds = sp.symbols("s_0 q R t", positive=True)
SHRUNK = rate**rounds * size


def _method_constants(case: MethodRounds) -> dict:
    claimed, linear = case.claimed, case.known.linear
    return {
        size: (Estimate.exact(linear.fit_factor) * linear.start).hi,
        rate: claimed.rate,
        reach: claimed.reach,
        rounds: ROUNDS,
    }


def _measure_method(case: MethodRounds) -> tuple[Estimate, Estimate]:
    run = case.run
    return (
        Estimate(run.sizes[-1], run.sizes_off, "rounding, generous"),
        Estimate(run.moved, run.moved_off, "rounding, generous"),
    )


# A window's change of the distance to a fit is measured if the distance before it exceeds this many rounding errors.
ABOVE_ROUNDING = 1e4

sigma, largest, entries, jacobian = sp.symbols("sigma_0 Lambda M_0 J_F", positive=True)
bend, turn, radius, residual = sp.symbols("L L_J rho r", positive=True)
eta, least, share = sp.symbols("eta eta_0 p", positive=True)

root = sigma - turn * radius
eps = 2 - eta * (sp.sqrt(largest) + turn * radius) ** 2
spread = 1 + eta * (entries + 2 * radius * jacobian * bend + radius**2 * bend**2)
distance = residual / root
away = 2 / (1 + sp.sqrt(1 - 2 * eta * bend**2 * distance**2 / eps))  # E^2 / d^2
farthest = distance * sp.sqrt(away)
gain = eps * root**2 / (2 * spread**2)
loss = bend**2 * away**2 * distance**2 / (2 * eps)
drift = bend * distance**2 * sp.sqrt(2 * away * gain / eps) / (gain - loss) / (1 - 2 * turn * farthest / root)
FALL, REACH = 1 - share * least * (gain - loss), distance + drift + farthest
# For losses other than squares, `added` is x and REACH_OF_LOSSES contains X of the proof. There (2 gain / eps)^(1/2) is
# root / spread.
added = 2 * bend * distance * root / spread / (gain - loss)
under = (1 - added) ** 2 - 2 * eta * bend**2 * distance**2 / eps
REACH_OF_LOSSES = distance + distance * sp.sqrt(2) / sp.sqrt(1 - added + sp.sqrt(under))


def _constants(case: OrderedWindows) -> dict:
    start, rho = case.known, case.radius
    return {
        sigma: start.least_root,
        largest: start.largest,
        entries: start.entries,
        jacobian: start.gradients,
        bend: Estimate.exact(start.curvature.of_each(rho)).norm(),
        turn: start.curvature.of_all(rho),
        radius: rho,
        residual: case.certificate.residual,
        eta: case.step,
        least: case.least,
        share: case.share,
    }


def _measure(case: OrderedWindows) -> tuple[Estimate, ...]:
    """Three quantities of the windows: ratios of squared distances, the first distance, and the largest movement.

    The ratios are (distance to a fit after / before)^2 of each window. The movement is the largest distance of a model
    from the checkpoint.
    """
    run, off = case.run, case.run.rounding
    before, after = run.distance[:-1], run.distance[1:]
    told = before > ABOVE_ROUNDING * off  # once a fit is reached, training stays there
    ratio = np.where(told, (after / np.where(told, before, 1)) ** 2, 0)
    error = np.where(told, ((after + off) / np.where(told, before - off, 1)) ** 2 * (1 + 1e-9) - ratio, 0)
    return (
        Estimate(ratio, error, "rounding, generous"),
        Estimate(run.distance[0], off, "rounding, generous"),
        Estimate(run.moved, off, "rounding, generous"),
    )


ANY_ORDER = Statement(
    id="deep/any-order",
    title="From a certified checkpoint every window of training brings a smooth network nearer to a fit",
    kind=Kind.UPPER,
    source=Source(BEYOND, "docs/proofs/smooth_networks.md#the-theorem"),
    note="all layers are trained; L and L_J bound second derivatives in a ball of radius rho, and come from norms "
    "of layers. Windows visit each sample once (v = 1); with two clients a model has the weight p = 1/2 in the "
    "mean.",
    hypotheses=(
        Hypothesis(
            "certified",
            "s > 0, eps > 0, 4 c d^2 < 1, alpha > beta, 2 L_J E < s and d + D + 2 E < rho, with proven errors",
            lambda case: 0.0 if isinstance(case.judged, Window) else -1.0,
        ),
        Hypothesis("steps", "every step is at most eta", lambda case: 1 - case.longer),
        Hypothesis("visits", "every window visits each sample", lambda case: -float(case.left_out)),
        Hypothesis("server", "the server's step on a mean is at most 1", lambda case: 1 - case.server),
        Hypothesis("often", "in a window no sample's steps sum to more than another's", lambda case: 1 - case.uneven),
    ),
    new=Claim((FALL, distance, REACH)),
    constants=_constants,
    measure=_measure,
    symbols={
        sigma: "smallest singular value of J, the Jacobian of all outputs at the checkpoint",
        largest: "largest eigenvalue of J J'",
        entries: "largest eigenvalue of the matrix of the absolute values of J J'",
        jacobian: "Frobenius norm of J",
        bend: "(sum L_i^2)^(1/2), L_i at least the norm of the Hessian of output i in the ball",
        turn: "at least |J(t) - J(t')| / |t - t'| in the ball",
        radius: "radius of the ball about the checkpoint in which L and L_J are bounds",
        residual: "|y - f| at the checkpoint",
        eta: "the longest step on half the sum of squares",
        least: "the least sum of a sample's steps in a window",
        share: "weight of each model in a mean",
    },
    left_formula=(
        "|theta_+ - theta_+^*|^2 / |theta - theta^*|^2",
        "|theta_0 - theta_0^*|",
        "max_{k,c} |theta_{k,c} - theta_0|",
    ),
    says_left="left 1: the factor by which each of 4 windows multiplies the squared distance to the nearest fit; "
    "left 2: distance of the checkpoint to the nearest fit; left 3: the largest distance of a "
    "model from the checkpoint at the end of a window; in float64, samples in random order or by their residuals",
    families=(SMALL_NETWORKS,),
    mutants=(
        replaced(residual, residual / 2, "half of the residual"),
        replaced(sigma, 2 * sigma, "twice the smallest singular value"),
        Mutant("a fall 100 times as fast", lambda part: 1 - 100 * (1 - part) if part == FALL else part),
        Mutant("models that stay within a third", lambda part: part / 3 if part == REACH else part),
    ),
    necessity={
        # The residual has 10 times the certifiable length, so that the ball around the checkpoint contains no fit. On
        # the way to a fit the gradients change their direction.
        "certified": lambda: small_case(4, 10.0, "fc:3:erf", 20, "random", ball=1e-9),
        # The network is certified, but steps are 4 times as long as allowed.
        "steps": lambda: small_case(2, 0.01, "fc:3:erf", 40, "largest", longer=4.0),
        # The network is certified, but the windows never use one of the samples.
        "visits": lambda: small_case(2, 0.01, "fc:3:erf", 40, "largest", left_out=True),
        # The network is certified, but the server moves six times as far as the mean of two clients.
        "server": lambda: small_case(2, 0.01, "fc:3:erf", 40, "largest", 2, server=6.0),
        # The network is certified, but in a window one of the two samples is used in twenty steps. The other sample is
        # used in a single step, which is far shorter.
        "often": lambda: uneven_case(2, "fc:2:erf", 20),
    },
)


STATEMENTS = (
    Statement(
        id="deep/any-method",
        title="From a certified checkpoint of a smooth network momentum, SCAFFOLD, FedDyn and FedProx fit the data",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/any_method.md#smooth-networks"),
        note="all layers are trained. z is the state, residual and memory; every round of the linear model at the "
        "checkpoint contracts the norm |S z|. The network's curvature changes gradients by at most L_J times the "
        "movement. s_0 is |S z_0| times a number e_0; S, e_0, q and R are the certificate's.",
        hypotheses=(
            Hypothesis(
                "certified",
                "eta mu < 1, eta G_c^2 <= 2 (1 - eta mu), A (1, lambda) <= q (1, lambda) with q < 1, and delta + d "
                "|S z_0| < rho, with proven errors",
                lambda case: 0.0 if case.certificate.certified else -1.0,
            ),
            Hypothesis("steps", "the steps are those of the certificate", lambda case: -abs(case.longer - 1)),
            Hypothesis("memory", "server and clients remember nothing at the start", lambda case: -case.remembered),
        ),
        new=Claim((SHRUNK, reach)),
        constants=_method_constants,
        measure=_measure_method,
        symbols={
            size: "bound on (r' K^-1 r)^(1/2) at the checkpoint, by the norm of states",
            rate: "bound on the factor by which the norm of states falls in a round",
            reach: "bound on the distance of every model from the checkpoint",
            rounds: "rounds",
        },
        left_formula=("(r_t' K^{-1} r_t)^{1/2}", "max_{t,c,k} |theta_{t,c,k} - theta_0|"),
        says_left=f"left 1: the residual after {ROUNDS} rounds, by the kernel K of the checkpoint; left 2: the "
        "largest distance of a model of the server or of a client from the checkpoint; in float64",
        families=(SMALL_METHOD_ROUNDS,),
        mutants=(
            power(rate, 2),
            Mutant("models that stay within an eighth", lambda part: part / 8 if part == reach else part),
        ),
        necessity={
            # The residual has 20,000 times the certifiable length. The gradients change their direction in training, so
            # that the network does not have the linear model's rate.
            "certified": lambda: method_case(2, "fedavgm", 2e4, "fc:3:erf", 8, 2, 0.6),
            # The network is certified, but local steps are six times as long as the certified steps.
            "steps": lambda: method_case(2, "fedavgm", 0.01, "fc:3:erf", 40, 2, 0.6, longer=6.0),
            # The network is certified, but training begins with a velocity that is not 0.
            "memory": lambda: method_case(2, "fedavgm", 0.01, "fc:3:erf", 40, 2, 0.6, remembered=1.0),
        },
    ),
    ANY_ORDER,
    replace(
        ANY_ORDER,
        id="deep/any-order-losses",
        title="Every window brings a certified smooth network nearer to a fit for Huber's loss, squared hinges, bands",
        source=Source(BEYOND, "docs/proofs/smooth_networks.md#other-losses"),
        note="squared hinges, squares with a band, and Huber's loss where it is quadratic. A fit is a model at which "
        "the losses of all kept samples are minimal; the losses of the other samples stay minimal, and do not enter "
        "the formulas. Windows visit each kept sample once (v = 1); with two clients a model has the weight p = 1/2. "
        "The inequalities of the first hypothesis are sufficient, not necessary: each bounds a sum of terms by the "
        "largest value that the ball allows.",
        hypotheses=(
            Hypothesis(
                "certified",
                "s > 0, eps > 0, 4 c d^2 < 1, alpha > beta, L_J d < s, x < 1, (1 - x)^2 > 4 c d^2, 2 d + X < rho and "
                "d + X / q + E < rho, with proven errors",
                ANY_ORDER.hypotheses[0].margin,
            ),
            ANY_ORDER.hypotheses[1],
            Hypothesis("visits", "every window visits each kept sample", ANY_ORDER.hypotheses[2].margin),
            *ANY_ORDER.hypotheses[3:],
            Hypothesis(
                "loss",
                "at every output met the loss is half the squared distance to the interval of its minimisers",
                lambda case: case.loss.halved - case.run.farthest,
            ),
        ),
        new=Claim((FALL, distance, REACH_OF_LOSSES)),
        symbols={
            **ANY_ORDER.symbols,
            residual: "distance of the kept outputs from the minimisers of their losses at the checkpoint",
            eta: "the longest step on the sum of losses",
        },
        says_left=ANY_ORDER.says_left.replace("their residuals", "the slopes of their losses"),
        families=(OTHER_LOSSES,),
        mutants=(
            power(residual, sp.Rational(11, 10)),
            *ANY_ORDER.mutants[:3],
            Mutant("models that stay within a quarter", lambda part: part / 4 if part == REACH_OF_LOSSES else part),
        ),
        necessity={
            # The outputs are 10 times the certifiable distance from the loss's interval of minimisers, so that the ball
            # around the checkpoint contains no fit. On the way to a fit the gradients change their direction.
            "certified": lambda: loss_case(0, 10.0, "fc:3:erf", 20, "random", loss=band(0.2), ball=1e-9),
            # The network is certified, but steps are 4 times as long as allowed, so that outputs jump across a narrow
            # band.
            "steps": lambda: loss_case(2, 0.01, "fc:3:erf", 40, "largest", loss=band(1e-6), longer=4.0),
            # The network is certified, but the windows never use one sample whose loss is not minimal.
            "visits": lambda: loss_case(2, 0.01, "fc:3:erf", 40, "largest", loss=band(0.2), left_out=True),
            # The network is certified, but the server moves six times as far as the mean of two clients.
            "server": lambda: loss_case(2, 0.01, "fc:3:erf", 40, "largest", 2, loss=band(1e-6), server=6.0),
            # The network is certified, but in a window one of the two samples is used in twenty steps. The other sample
            # is used in a single step, which is far shorter.
            "often": lambda: uneven_case(2, "fc:2:erf", 20, band(0.01), 0.01),
            # The outputs are where Huber's loss is linear: its slope is far smaller than their distance from the
            # labels.
            "loss": lambda: loss_case(2, 0.01, "fc:3:erf", 40, "largest", loss=huber(1e-9)),
        },
    ),
)
