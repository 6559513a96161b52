"""Statements on training from a certified checkpoint.

Training in any order of the samples fits the data, and methods with memory converge, each at its own rate. The weights
W* are near the checkpoint, and with these weights the network fits all data. A is a set of pairs (neuron, sample). The
neuron of a pair in A is held at its kink on the sample.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Case, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.fl_ntk.cases.certified_method import ROUNDS, SMALL_METHODS, MethodTraining, method_case
from bounds.fl_ntk.certificates.certified_run import certified
from bounds.fl_ntk.certificates.checkpoint_draw import checkpoint_families
from bounds.mutants import Mutant, power, replaced
from ntkfl import AnyOrderCertificate, Estimate, Problem, Weights, certify_any_order
from ntkfl.any_order.adversary import Aim, FurtherTraining, train_further
from ntkfl.any_order.constraint_rows import Nearest
from ntkfl.limit.convex_loss import HINGE, SQUARES, ConvexLoss, band, huber
from ntkfl.rounding import LONG_EPS

radius, wide, rate, rounds = sp.symbols("R R_q q t", positive=True)
SHRUNK = rate**rounds * wide


def _constants(case: MethodTraining) -> dict:
    norms = case.certificate.norms
    if not norms:
        raise ArithmeticError(case.certificate.why)
    return {radius: norms[0].radius, wide: norms[-1].radius, rate: norms[-1].rate, rounds: ROUNDS - 1}


def _measure_method(case: MethodTraining) -> tuple[Estimate, Estimate, Estimate]:
    farthest, changes, off = case.distances
    return (
        Estimate(farthest.max(), off, "long precision"),
        Estimate(farthest[-1], off, "long precision"),
        Estimate(changes.max(), off, "long precision"),
    )


STEPS_RUN = 24
BELOW_LIMIT = 2e-3  # eps of the steps: the norm of E J J' E (docs/proofs/any_order.md) is at most 2 - eps in every step
PROBES = 5
# An adversary chooses each batch among TRIES batches, or among FEW_TRIES if there are more than SMALL neurons.
SMALL, TRIES, FEW_TRIES = 100, 6, 2
TRAINED = 5  # number of seeds for which a network is trained first
LOSSES = (HINGE, band(0.2), huber(1e-3), HINGE)
NEWTON = 8  # number of Newton steps towards given outputs
AIMS: tuple[Aim, ...] = ("random", "distance", "residual", "probe")


@dataclass(frozen=True, eq=False)
class OrderedTraining(Case):
    """A network and 24 training steps on any batches with any sample weights.

    Every fifth step is a mean of three models.
    """

    problem: Problem
    weights: Weights
    aim: Aim  # the quantity that the adversary tries to enlarge
    seed: int
    # the factors `longer` and `server` have the meaning that they have in `train_further`; above 1 they break a
    # hypothesis
    longer: float = 1.0
    server: float = 1.0
    loss: ConvexLoss = SQUARES
    # the theorem is applied with this share of the steps' eps, so that no comparison is an equality
    claimed: float = 0.5

    @cached_property
    def certificate(self) -> AnyOrderCertificate:
        """The certificate of the network before these steps."""
        return certify_any_order(self.problem, self.weights, loss=self.loss)

    @cached_property
    def probes(self) -> np.ndarray:
        """Unit inputs at which the changes of predictions are measured."""
        x = np.random.default_rng([self.seed, 7]).standard_normal((PROBES, self.problem.d))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    @cached_property
    def fit(self) -> tuple[np.ndarray, Nearest]:
        """W* in long precision, with its distance D, as the certificate computes it.

        If the certificate fails, W* is computed for the empty set A.

        Raises:
            ArithmeticError: there is no W*.
        """
        try:
            return self.certificate.claimed_point()
        except ValueError as error:
            raise ArithmeticError(str(error)) from None

    @cached_property
    def run(self) -> FurtherTraining:
        """The steps in long precision, with the distances to W*."""
        return train_further(
            self.problem,
            self.weights,
            self.fit[0],
            steps=STEPS_RUN,
            aim=self.aim,
            eps=BELOW_LIMIT,
            probes=self.probes,
            tries=TRIES if len(self.weights.signs) <= SMALL else FEW_TRIES,
            seed=self.seed,
            longer=self.longer,
            server=self.server,
            loss=self.loss,
        )

    @cached_property
    def rounding(self) -> float:
        """A bound on the errors of distances to W*, from long precision and from rounding W* to float64."""
        point, nearest = self.fit
        return float(64 * LONG_EPS * np.sqrt((point**2).sum())) + 2 * nearest.slack

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "n": self.problem.n, "m": len(self.weights.signs), "aim": self.aim} | (
            {} if self.loss is SQUARES else {"loss": self.loss.name}
        )


def _small(seed: int) -> OrderedTraining:
    """Two to four samples and 64 neurons, with labels of size 1 to 100 near the outputs.

    A few neurons are near kinks.
    """
    return small_case(seed, 10.0 ** -(2 + seed % 3), 64, AIMS[seed % 4])


def small_case(seed: int, distance: float, width: int, aim: Aim, **broken: Any) -> OrderedTraining:
    """A case whose labels, as a vector, are at the distance `distance` times s from the outputs.

    s is a random number from 1 to 100, the standard deviation of the hidden weights. Some cases have nearly equal
    samples. A few neurons are near kinks.
    """
    rng = np.random.default_rng([seed, 11])
    n, d, size = int(rng.integers(2, 5)), 5, 10.0 ** rng.uniform(0, 2)
    x = rng.standard_normal((n, d))
    if seed % 5 == 1:
        x[-1] = x[0] + 0.1 * rng.standard_normal(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hidden = size * rng.standard_normal((width, d))
    for r, i in zip(rng.integers(width, size=3), rng.integers(n, size=3), strict=True):
        hidden[r] -= (hidden[r] @ x[i] - 0.01 * distance * size * rng.standard_normal()) * x[i]
    weights = Weights(hidden, rng.choice([-1.0, 1.0], width))
    direction = rng.standard_normal(n)
    y = weights.outputs(x) + distance * size * direction / np.linalg.norm(direction)
    problem = Problem(x, y, np.minimum(np.arange(n), 1), name="small networks in any order")
    return OrderedTraining(problem, weights, aim, seed, **broken)


def _small_with_loss(seed: int) -> OrderedTraining:
    return loss_case(seed, LOSSES[seed % 4], 10.0 ** -(1.5 + seed % 3), 64, AIMS[seed // 4 % 4])


def loss_case(seed: int, loss: ConvexLoss, distance: float, width: int, aim: Aim, **broken: float) -> OrderedTraining:
    """Three to six labels +-1.

    Some outputs are off the minimisers by up to `distance`, and the others are minimisers.
    """
    rng = np.random.default_rng([seed, 17])
    n, d = int(rng.integers(3, 7)), 6
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(rng.standard_normal((width, d)), rng.choice([-1.0, 1.0], width))
    y = rng.choice([-1.0, 1.0], n)
    assert loss.minimisers is not None
    low, high = loss.minimisers(y)
    inside = y * (1 + rng.uniform(0, 0.5, n)) if loss is HINGE else y + (high - low) * rng.uniform(-0.5, 0.5, n)
    missed = np.where(y > 0, low, high) - y * distance * rng.random(n)
    wanted = np.where(rng.random(n) < 0.6, missed, inside)
    for _ in range(NEWTON):
        active = (weights.hidden @ x.T >= 0) * weights.signs[:, None] / np.sqrt(width)
        step = np.linalg.lstsq((active.T @ active) * (x @ x.T), wanted - weights.outputs(x), rcond=None)[0]
        weights = Weights(weights.hidden + (active * step) @ x, weights.signs)
    problem = Problem(x, y, np.minimum(np.arange(n), 1), name="small networks, other losses")
    return OrderedTraining(problem, weights, aim, seed, loss=loss, **broken)


def _trained(base: Family, seed: int) -> OrderedTraining:
    """A network as another family has trained it, which is then trained in any order."""
    run = base.case(seed)
    return OrderedTraining(run.problem, run.weights, AIMS[seed % 4], seed)


# The counterexample search has few neurons, and labels at any distance from the outputs.
ANY_SMALL = st.builds(
    small_case, st.integers(0, 2**31), st.floats(1e-5, 1.0), st.integers(4, 64), st.sampled_from(AIMS)
)
ANY_LOSS = st.builds(
    loss_case,
    st.integers(0, 2**31),
    st.sampled_from(LOSSES),
    st.floats(1e-5, 1.0),
    st.integers(8, 64),
    st.sampled_from(AIMS),
)
OTHER_LOSSES = Family("small networks, other losses", _small_with_loss, ANY_LOSS)
SMALL_NETWORKS = Family("small networks in any order", _small, ANY_SMALL)


def ordered_families(options: Options) -> tuple[Family, ...]:
    """Small networks, and a few larger networks on digits (n=8) or on the user's data.

    The larger networks have the width 1000, and are trained for 300 rounds first.
    """
    return SMALL_NETWORKS, *(
        Family(f"{base.name}, then in any order", _trained, ANY_SMALL, (base,), min(base.trials, TRAINED), needs=5)
        for base in checkpoint_families(options)
    )


# the ratio of a step is computed only if its eps eta r^2 is above this multiple of the rounding error
ABOVE_ROUNDING = 1e6
NEVER = 1e9  # the value that stands for the ratio of a step without a decrease

D = sp.Symbol("D", positive=True)


def _measure(case: OrderedTraining) -> tuple[Estimate, Estimate, Estimate]:
    """Three quantities: a largest ratio, a sum, and changes of outputs.

    The ratio is a step's claimed decrease divided by its real decrease. The sum is |W - W*|^2 plus all claimed
    decreases.
    """
    run, off = case.run, case.rounding
    distance, spent = run.distance, case.claimed * run.spent
    step, lowered = np.diff(spent), distance[:-1] ** 2 - distance[1:] ** 2
    doubt = 2 * off * (distance[:-1] + distance[1:]) + 2 * off**2
    told = step > ABOVE_ROUNDING * doubt  # in the other steps the residual is of the size of rounding errors
    surely = lowered > doubt
    ratio = np.where(surely, step / np.where(surely, lowered, 1), NEVER)[told].astype(float)
    error = np.where(surely, 2 * doubt * step / np.where(surely, lowered, 1) ** 2, 0)[told].astype(float)
    changes = np.abs(run.outputs - run.outputs[0]).astype(float)[1:, :, 0]
    return (
        Estimate(ratio.max(initial=0), error.max(initial=0), "long precision"),
        Estimate(float(distance[-1] ** 2 + spent[-1]), float(2 * off * (distance[-1] + off)), "long precision"),
        Estimate(changes / np.linalg.norm(case.probes, axis=1), off, "long precision"),
    )


ANY_ORDER = Statement(
    id="fl-ntk/any-order",
    title="A certified checkpoint converges in any order, and its predictions are final to within 2 D |x|",
    kind=Kind.UPPER,
    source=Source(BEYOND, "docs/proofs/any_order.md#the-theorem"),
    note="one point W* suffices for every order. A is the set of pairs (r, i) that are held at kinks. relu is "
    "homogeneous, so <grad f_i, W* - W> is exactly the residual as long as W and W* give w_r.x_i the same sign for "
    "every pair outside A; steps along gradients cannot change these signs. In a mean of models each step counts with "
    "its model's weight. The argument covers several outputs unchanged, but not the training of both layers.",
    hypotheses=(
        certified(
            "|w*_r.x_i| > D kappa_ri, with the sign that the checkpoint has, for every pair (r, i) outside A, with "
            "proven errors; kappa_ri <= |x_i|",
            lambda case: case.certificate,
        ),
        Hypothesis(
            "steps",
            "|E J J' E| <= 2 - eps at every step, for an eps > 0; J the gradients of its batch, E = diag(sqrt eta_i), "
            "eta_i the step of sample i",
            lambda case: 1 - case.longer,
        ),
        Hypothesis("server", "the server's step on a mean is at most 1", lambda case: 1 - case.server),
    ),
    new=Claim((sp.Integer(1), D**2, 2 * D)),
    constants=lambda case: {D: case.fit[1].distance},
    measure=_measure,
    symbols={
        D: "|W0 - W*|, the distance from the checkpoint W0 to W*, a point that fits all labels and holds the pairs of A"
    },
    left_formula=(
        "max_t eps sum_{in step t} eta r^2 / (|W(t) - W^*|^2 - |W(t+1) - W^*|^2)",
        "|W(T) - W^*|^2 + eps sum_{all steps} eta r^2",
        "|f(x,t) - f(x,0)| / |x|",
    ),
    says_left="left 1: eps sum eta r^2 of a step divided by the step's decrease of |W - W*|^2; left 2: |W - W*|^2 + "
    "eps sum eta r^2 in the end; left 3: changes of outputs divided by |x|; all in long precision, in an order that is "
    "random or chosen against the claim",
    families=ordered_families,
    mutants=(
        power(D, sp.Rational(11, 10)),
        replaced(D, D / 2, "half of the distance"),
        Mutant("predictions that do not move", lambda part: part / 100 if part == 2 * D else part),
    ),
    necessity={
        # There are 16 neurons, and the outputs are off the labels by the size of the labels. Neurons cross kinks, and
        # then have another sign on a sample than at W*.
        "certified": lambda: small_case(2, 1.0, 16, "distance"),
        # The network is certified, but steps are 1.5 times as long as allowed.
        "steps": lambda: small_case(0, 1e-3, 64, "distance", longer=1.5),
        # The network is certified, but the server goes three times as far as the clients' mean.
        "server": lambda: small_case(0, 1e-3, 64, "distance", server=3.0),
    },
)


STATEMENTS = (
    Statement(
        id="fl-ntk/any-method",
        title="From a certified checkpoint momentum, SCAFFOLD, FedDyn and FedProx converge at their own rate",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/any_method.md#the-theorem"),
        note="z is the state, residual and memory. The certificate has matrices S and numbers e: every round "
        "multiplies the norm |S z| by q or less, and e |S z| bounds the distance of every model from W*, a point "
        "that fits all labels. No neuron's pattern can change in the ball, so that the network trains as a linear "
        "model does. R is e |S z_0| in the norm with the smallest ball; R_q and q belong to the norm with the fastest "
        "rate.",
        hypotheses=(
            certified(
                "sign_ri w*_r.x_i > kappa_ri B for every neuron and sample, where B bounds |U - W*| over all models U "
                "whose gradients are used, and |S T S^-1| <= q < 1 for the round's map T, with proven errors",
                lambda case: case.certificate,
            ),
            Hypothesis("steps", "the steps are those of the certificate", lambda case: 1 - case.longer),
            Hypothesis("memory", "server and clients remember nothing at the start", lambda case: -case.remembered),
        ),
        new=Claim((radius, SHRUNK, radius)),
        constants=_constants,
        measure=_measure_method,
        symbols={
            radius: "bound on the distance of every model from W*",
            wide: "the same bound in the norm with the fastest rate",
            rate: "bound on the factor by which that norm of the state falls in a round",
            rounds: "rounds",
        },
        left_formula=("max_{t,j} |U_{t,j} - W^*|", "max_j |U_{t,j} - W^*|", "|f(x,t) - f^*(x)| / |x|"),
        says_left="left 1: the largest distance from W* of a model of the server or a client in 40 rounds; left "
        "2: the same in the last round; left 3: outputs of the server's models less those of W*, divided by |x|; in "
        "long precision",
        families=(SMALL_METHODS,),
        mutants=(
            replaced(radius, radius / 2, "half of the ball"),
            power(rate, 2),
            Mutant("predictions a hundredth as far", lambda part: part / 100 if part == radius else part),
        ),
        necessity={
            # With 16 neurons, and labels far from the outputs, neurons cross their kinks.
            "certified": lambda: method_case(0, "fedavgm", 3.0, 16),
            # The network is certified, but steps are twenty times as long as the certified steps.
            "steps": lambda: method_case(0, "fedavgm", 1e-4, 64, longer=20.0),
            # The network is certified, but training begins with a velocity that is not 0.
            "memory": lambda: method_case(0, "fedavgm", 1e-4, 64, remembered=1.0),
        },
    ),
    ANY_ORDER,
    replace(
        ANY_ORDER,
        id="fl-ntk/any-order-losses",
        title="A certified checkpoint converges in any order under Huber's loss, squared hinges, squares with a band",
        source=Source(BEYOND, "docs/proofs/losses_in_any_order.md#the-theorem"),
        note="r_i = -l_i'(f_i) in place of the residual. W* minimises the loss of every sample; samples whose "
        "outputs stay where their loss is least need no row of the matrix C of docs/proofs/any_order.md and no "
        "condition on signs.",
        hypotheses=(
            certified(
                "the certificate for targets that minimise the losses of the kept samples, and the outputs of all "
                "others stay where their losses are least at every W with |W - W*| <= D, with proven errors",
                lambda case: case.certificate,
            ),
            *ANY_ORDER.hypotheses[1:],
        ),
        symbols={
            D: "|W0 - W*|, the distance from the checkpoint W0 to W*, a point that minimises all losses and holds "
            "the pairs of A"
        },
        says_left=ANY_ORDER.says_left.replace("eta r^2 of a step", "eta r^2 of a step, r the slope of the loss,"),
        families=(OTHER_LOSSES,),
        necessity={
            # With 8 neurons, and outputs up to 3 below their margin, training moves neurons across kinks, although W*
            # has these neurons on the same side of the kinks as the checkpoint.
            "certified": lambda: loss_case(9, HINGE, 3.0, 8, "distance"),
            # The network is certified, but steps are 1.5 times as long as allowed.
            "steps": lambda: loss_case(6, HINGE, 1e-3, 64, "distance", longer=1.5),
            # The network is certified, but the server goes three times as far as the clients' mean.
            "server": lambda: loss_case(3, HINGE, 1e-3, 64, "distance", server=3.0),
        },
    ),
)
