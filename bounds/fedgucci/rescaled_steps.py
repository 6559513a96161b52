"""Statements on models whose outputs are linear in the weights: for them FedGuCci is FedAvg with rescaled steps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Change, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.federated_run import FederatedFamily, federated_families
from bounds.fedgucci.cases.linear_case import (
    BETA,
    NO_DECAY,
    ONE_ANCHOR,
    SQUARED_LOSS,
    LinearCase,
    beta,
    quartic_loss,
    small_case,
    weight_decay,
)
from bounds.formula import PRECISION, Constants
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, scaled, sign_flipped, without
from bounds.statement import Mutant
from bounds.symbols import K, eta_global, eta_local, n
from ntkfl.connectivity.linear_rounds import LinearRounds
from ntkfl.estimate import Estimate
from ntkfl.initialisation import draw

NEURONS = 8  # number of hidden neurons of the linearised networks; a sample then has NEURONS * d tangent features
MOST = 150  # largest number of samples of the data of a family


def _linear(base: FederatedFamily | None, anchors: int, reach: int, seed: int) -> LinearCase:
    """A case of a seed, with data, start, step sizes, participants, and beta from 1/8 to 8.

    eta_l (1 + beta/3) lambda is at most 1.2, where lambda is the largest curvature of a client's loss.
    """
    rng = np.random.default_rng([seed, 17])
    if base is None:
        count = int(rng.integers(1, 4))
        owner = np.concatenate([np.arange(count), rng.integers(0, count, rng.integers(0, 4))])
        features = _eighths(rng, (len(owner), int(rng.integers(1, 4))))
        # no sample has only zeros as features, since it would have no curvature
        features[:, 0] += np.where(features.any(axis=1), 0, 1)
        labels, start = _eighths(rng, len(owner)), _eighths(rng, features.shape[1])
    else:
        problem = base.problem(seed)
        kept = np.arange(min(problem.n, MOST))
        x, labels = problem.x[kept], np.asarray(problem.y, float).reshape(problem.n, -1)[kept, 0]
        owner = np.unique(problem.owner[kept], return_inverse=True)[1]
        features, start = _tangents(x, seed)
    sizes = np.bincount(owner)
    beta = float(np.exp2(rng.integers(-3, 4)))
    scale = 2 / sizes if rng.integers(2) else np.ones(len(sizes))
    largest = max(scale[c] * np.linalg.norm(features[owner == c], 2) ** 2 for c in range(len(sizes)))
    step = rng.uniform(0.05, 1.2) / (largest * (1 + beta / 3))
    rounds = int(rng.integers(1, 4)) + anchors - 1
    run = LinearRounds(
        features,
        labels,
        owner,
        scale,
        sizes.astype(float) if rng.integers(2) else rng.integers(1, 9, len(sizes)) / 4,
        start,
        tuple(_some(rng, len(sizes)) for _ in range(rounds)),
        float(np.float32(step)),
        float(rng.integers(2, 11) / 8),
        int(rng.integers(1, reach + 1)),
    )
    kind = "samples of eighths" if base is None else f"{base.name}, linearised network"
    return LinearCase(run, beta, int(rng.integers(1, anchors + 1)), base is None, kind)


def _tiny(base: FederatedFamily | None, most: int, reach: int) -> SearchStrategy[LinearCase]:
    """Small cases in rational arithmetic.

    Some have the fourth power of the residual as loss, weight decay, or more than one anchor.
    """

    def tiny(seed: int, degree: int, decay: float, anchors: int) -> LinearCase:
        case = _linear(None, most, reach, seed)
        run = replace(case.run, degree=degree, decay=decay)
        if degree > 2:  # only one step, since each step multiplies the number of digits of a rational
            run = replace(run, local_steps=1, participants=run.participants[:2])
        return replace(case, run=run, anchors=anchors)

    decays = st.sampled_from([0.0, 0.0, 0.125, 1.0])
    return st.builds(tiny, st.integers(0, 2**31), st.sampled_from([2, 2, 4]), decays, st.sampled_from([1, 1, 2, 3]))


def _eighths(rng: np.random.Generator, shape) -> np.ndarray:
    return rng.integers(-8, 9, shape) / 8


def _some(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """The clients of one round: one client, all clients, or any number between."""
    return tuple(int(c) for c in np.sort(rng.permutation(count)[: rng.integers(1, count + 1)]))


def _tangents(x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of a ReLU network's outputs in its initial hidden weights, (n, p), and these weights, (p,).

    Their product is the network's output, since the output is homogeneous of degree one in the hidden weights.
    """
    weights = draw(NEURONS, x.shape[1], seed)
    active = (x @ weights.hidden.T >= 0) * weights.signs / np.sqrt(NEURONS)
    return (active[:, :, None] * x[:, None, :]).reshape(len(x), -1), weights.hidden.ravel()


def linear_families(options: Options, *, anchors: int = 1, reach: int = 4) -> tuple[Family, ...]:
    """Small cases in rational arithmetic (60 seeds), and linearised networks (20 seeds each).

    The linearised networks are on digits and sphere, or on the user's data.
    """
    families = [Family("samples of eighths, in rationals", _linear, _tiny, (None, anchors, reach), trials=60)]
    families += [
        Family(f"{base.name}, linearised, float64", _linear, _tiny, (base, anchors, reach))
        for base in federated_families(options)
    ]
    return tuple(family.with_trials(options.trials) for family in families)


# the key of FedAvg among the constants; its value is a function that maps the step sizes to the weights
RUN = sp.Symbol("FedAvg")

LOCAL = eta_local * (1 + beta / 3)
EXTRA = beta / (6 + 2 * beta)
SERVER = eta_global * (1 + EXTRA)


@dataclass(frozen=True)
class RescaledFedAvg(Claim):
    """A claim whose right side is a run of FedAvg.

    The parts of the claim's formula are the local step, the server step and sometimes a third number.

    The third number says how far the clients' starts move towards the anchors.
    """

    def evaluate(self, constants: Constants, *, bits: int = PRECISION) -> tuple[Estimate, ...]:
        """The global weights of every round of FedAvg with these steps, (T, p).

        Raises:
            KeyError: no FedAvg among the constants, or a symbol of a step without a value.
        """
        if RUN not in constants:
            raise KeyError("no value for FedAvg, a function of the local and the server's step that runs it")
        return (constants[RUN](*(_exactly(part, constants) for part in self.parts)),)


def _exactly(part: sp.Expr, constants: Mapping[Any, Any]) -> sp.Expr:
    """The value of a step size as an exact number. The float values of its symbols are taken as exact."""
    missing = sorted(str(s) for s in part.free_symbols if s not in constants)
    if missing:
        raise KeyError(f"no value for {', '.join(missing)} in the step {part}")
    return part.subs({s: sp.Rational(*float(constants[s]).as_integer_ratio()) for s in part.free_symbols})


def run_constants(case: LinearCase) -> dict:
    """The values of beta and of the step sizes, and FedAvg on the case's data."""
    return case.steps | {RUN: case.fedavg_weights}


NOTE = (
    "the gradient of L + beta L_connect at w is (1 + beta/3)(A w - b) + (beta/6)(A w_a - b); in u = (w + c w_a) / (1 + "
    "c) it is the gradient of L alone, times (1 + beta/3)(1 + c). This needs outputs that are affine in the weights, "
    "the squared loss (with any factor), the full integral over alpha on the same samples, and server weights that sum "
    "to one; unequal clients, partial participation and any number of local steps are allowed. With an alpha drawn at "
    "random the equality holds in the mean only. The paper trains networks with cross-entropy and momentum and does "
    "not claim this equality. Source: Eqs (7), (11), (12) with N = 1"
)


PULL = beta / (6 + 3 * beta)  # c / (1 + c) with c = EXTRA


move = sp.Symbol("D", positive=True)


NO_OVERSHOOT = Hypothesis(
    "no-local-overshoot",
    "eta_l (1 + beta/3) lambda <= 1, lambda the largest curvature of a client's loss",
    lambda case: 1 - case.run.eta_local * (1 + case.beta / 3) * case.largest_curvature,
)


def one_sample(**changed) -> LinearCase:
    """A case with one client, one sample of feature 1 and label 1, one weight, two local steps, and beta = 3.

    The weight starts at 0.
    """
    one, client = np.ones(1), np.zeros(1, int)
    fields: dict[str, Any] = {"features": np.ones((1, 1)), "labels": one, "owner": client, "scale": one, "weights": one}
    return small_case(3.0, **(fields | {"start": np.zeros(1), "participants": ((0,),)} | changed))


G = sp.MatrixSymbol("G", n, n)
r = sp.MatrixSymbol("r", n, 1)
IDENTITY = sp.Identity(n)


def _constants(case: LinearCase) -> dict:
    run = case.run
    client = run.participants[0][0]
    phi = run.features[np.asarray(run.owner) == client]
    gram = float(run.scale[client]) * (Estimate.exact(phi) @ phi.T)
    return case.steps | {G: gram, r: case.client_residual(trained=False)[:, None]}


STATEMENTS = (
    Statement(
        id="fedgucci/X4",
        title="FedGuCci(beta) is FedAvg with local step x (1 + beta/3), server step x (1 + beta/(6 + 2 beta))",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime"),
        note=NOTE,
        hypotheses=(ONE_ANCHOR, SQUARED_LOSS, NO_DECAY),
        new=RescaledFedAvg((LOCAL, SERVER), note="the two steps of the FedAvg run whose weights are compared"),
        constants=run_constants,
        measure=lambda case: case.global_weights,
        symbols=BETA,
        left_formula=("eta_l^{FedAvg}", "eta_g^{FedAvg}"),
        says_left="every global weight of every round of FedGuCci, with the connectivity loss integrated by an exact "
        "rule: in rationals on a few samples, in float64 on linearised networks",
        families=linear_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            replaced(EXTRA, beta / 6, "beta/6 for beta/(6 + 2 beta)", Change.FACTOR),
            sign_flipped(EXTRA, "the server's excess"),
            power(beta, 2),
            without(beta),
            replaced(LOCAL, SERVER * LOCAL / SERVER.subs(beta, 0), "local and server factor both local", Change.OTHER),
        ),
        necessity={
            # from the second round on, the previous global model is an anchor too
            "one-anchor": lambda: small_case(anchors=2),
            "squared-loss": quartic_loss,
            "no-weight-decay": weight_decay,
        },
    ),
    Statement(
        id="fedgucci/X4-anchors",
        title="With several anchors, FedGuCci(beta) is FedAvg with clients that start nearer to the anchors' mean",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime"),
        note="clients start at s = (w_t + c a) / (1 + c) = w_t + beta/(6 + 3 beta) (a - w_t), where a is the mean "
        "of the anchors of Eq (11), and take steps times (1 + beta/3). The server adds (1 + c) times the mean of "
        "their displacements from s to w_t. The objective (12) is affine in the anchors, so only their mean "
        "counts. Since s is a mean of past models it acts as a negative momentum",
        hypotheses=(SQUARED_LOSS, NO_DECAY),
        new=RescaledFedAvg(
            (LOCAL, SERVER, PULL),
            note="the two steps of FedAvg, and the pull of the clients' start to the anchors' mean",
        ),
        constants=run_constants,
        measure=lambda case: case.global_weights,
        symbols=BETA,
        left_formula=("eta_l^{FedAvg}", "eta_g^{FedAvg}", "share of a in s"),
        says_left="every global weight of every round of FedGuCci with one to four anchors, in rationals or in float64",
        families=partial(linear_families, anchors=4),
        mutants=(
            MILLIONTH_MORE,
            replaced(PULL, EXTRA, "c for c / (1 + c)", Change.FACTOR),
            sign_flipped(PULL, "the pull"),
            replaced(PULL, sp.Integer(0), "no pull: plain FedAvg", Change.FACTOR),
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            power(beta, 2),
        ),
        necessity={"squared-loss": quartic_loss, "no-weight-decay": weight_decay},
        uses=("fedgucci/X4",),
    ),
    Statement(
        id="fedgucci/X4-drift",
        title="The connectivity loss moves a client farther from its anchor, by 1 + beta/(6 + 2 beta) to 1 + beta/2",
        kind=Kind.TWO_SIDED,
        source=Source(BEYOND, "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime"),
        note="in a mode of curvature q the ratio of the moves is (1 + c) g((1 + beta/3) eta_l q) / g(eta_l q), "
        "where g(z) = 1 - (1 - z)^K is concave and increasing on [0, 1]. The upper bound, (1 + c)(1 + beta/3) = 1 "
        "+ beta/2, is attained with one step, the lower bound by clients that converge. With longer steps the "
        "ratio can be below 1 (.45 at eta_l q = .9, beta = 3, K = 2). A longer way from the global model does not "
        "imply a larger spread of the clients: the spread may fall. The paper's claim is about the barrier between "
        "clients",
        hypotheses=(SQUARED_LOSS, NO_DECAY, NO_OVERSHOOT),
        new=Claim((1 + beta / 2) * move, lower=(1 + EXTRA) * move),
        constants=lambda case: case.steps | {move: case.client_moves(connected=False).norm(axis=1)},
        measure=lambda case: case.client_moves(connected=True).norm(axis=1),
        symbols=BETA
        | {move: "|w_c - w_0| of the client under FedAvg, after the same number of steps of the same size"},
        left_formula="|w_c^{FedGuCci} - w_0|",
        says_left="|w_c - w_0| of each client of FedGuCci after its local steps of the first round",
        families=partial(linear_families, reach=30),
        mutants=(
            scaled(sp.Rational(101, 100)),
            scaled(sp.Rational(9, 10)),
            replaced(EXTRA, beta / 6, "1 + beta/6 below", Change.FACTOR),
            replaced(beta / 2, beta / 3, "1 + beta/3 above", Change.CONSTANT),
            sign_flipped(beta / 2, "beta/2"),
            power(move, sp.Rational(1, 2)),
        ),
        necessity={
            # With eta_l = .9 and beta = 3 the first step overshoots the label, and the second step brings the client
            # back.
            "no-local-overshoot": lambda: one_sample(eta_local=0.9),
            # At a residual of 4 the loss of fourth power has the slope 64, where the square has the slope 4.
            "squared-loss": lambda: one_sample(degree=4, labels=np.array([4.0]), eta_local=0.05),
            # In the only step weight decay and the loss's slope nearly cancel. The connectivity loss raises only the
            # slope.
            "no-weight-decay": lambda: one_sample(
                decay=1.0, labels=np.array([1.9]), start=np.array([1.0]), local_steps=1
            ),
        },
        uses=("fedgucci/X4",),
    ),
    Statement(
        id="fedgucci/X4-overshoot",
        title="After k local steps a client's residual is -c r + (1 + c) (I - eta_l (1 + beta/3) G)^k r",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime"),
        note="r = f - y of the global model on the client's samples, c = beta/(6 + 2 beta) < 1/2. A client that "
        "converges ends at the residual r' = -c r, which minimises r'^2 + beta (r'^2 + r' r + r^2)/3, its loss "
        "plus beta times the mean loss on the line to the anchor. If f = 0 at the start, its outputs end at (1 + "
        "c) y, which is 1.125 y at beta = 1",
        hypotheses=(SQUARED_LOSS, NO_DECAY),
        new=Claim((1 + EXTRA) * (IDENTITY - LOCAL * G) ** K * r - EXTRA * r),
        constants=_constants,
        measure=lambda case: case.client_residual(trained=True),
        symbols=BETA
        | {
            G: "phi phi^T of the client's samples, times the scale of its loss",
            r: "f - y of the global model on these samples, at the start of the round",
        },
        left_formula="f^{(K)} - y",
        says_left="f - y of a client of FedGuCci on its own samples after its local steps of the first round",
        families=partial(linear_families, reach=30),
        mutants=(
            MILLIONTH_MORE,
            index_shifted(K, 1),
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            Mutant("sign of the overshoot flipped", lambda expression: expression + 2 * EXTRA * r, Change.SIGN),
            power(beta, 2),
        ),
        necessity={
            "squared-loss": quartic_loss,
            "no-weight-decay": weight_decay,
        },
        uses=("fedgucci/X4",),
    ),
)
