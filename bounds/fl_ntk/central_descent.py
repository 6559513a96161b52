"""Statements on the distance of clients from their mean, and of FedAvg from gradient descent on all the data.

On a ladder the same quantity is measured at several step sizes, the rungs of the ladder.
"""

from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Case, Claim, Family, Kind, Nature, Options, Outcome, Source, Statement
from bounds.case import AnyFamily, described, prepared
from bounds.cases.kernel_case import BITS, KernelCase, kernel_cases, kernel_families
from bounds.fl_ntk.premises import EQUAL, POSITIVE_LIMIT, SERVER_ONE, at_most
from bounds.fl_ntk.sources import reported
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.fl_ntk.terms.limit_kernel import limit_divergence, train_features
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, ROUND_MAP, H, exact_gram, map_constants, start
from bounds.ladders.rungs import Rungs
from bounds.ladders.slopes import slope
from bounds.mutants import MILLIONTH_MORE, power, replaced, shifted
from bounds.symbols import K, N, T, eta_local
from ntkfl import Estimate, Problem, Setup, data
from ntkfl.balls import ball_matrix, enclosure, precision
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit

POOLED_ROUNDS, TRIALS = 4, 12

CENTRALISED = IDENTITY - eta_local / N * H


def _trained(case: KernelCase) -> Estimate:
    """y(T) - y of FedAvg on the features L, in ball arithmetic.

    The steps of every client are taken one by one, from w = 0.
    """
    with precision(BITS):
        left = ball_matrix(case.factor) * train_features(case, case.setup.rounds) - ball_matrix(case.problem.y)
        return enclosure([left[i, 0] for i in range(case.problem.n)])


def _constants(case: KernelCase) -> dict:
    return map_constants(case, exact_gram(case)) | {start: -case.problem.y[:, None], T: case.setup.rounds}


def _equal(base: AnyFamily, seed: int) -> KernelCase:
    """A case of another family with two or four clients of equal size, or on the user's data.

    The server step is 1, and there are four rounds.
    """
    case = base.case(2 * seed + 1)  # for odd seeds the other family has two or four clients
    return replace(case, setup=replace(case.setup, eta_global=1.0, rounds=POOLED_ROUNDS))


SERVER_STEP_ONE = kernel_cases().map(lambda case: replace(case, setup=replace(case.setup, eta_global=1.0)))


def _families(options: Options) -> tuple[Family, ...]:
    return tuple(
        Family(f"{base.name}, server step 1", _equal, SERVER_STEP_ONE, (base,), base.trials)
        for base in kernel_families(options, reach=1.9, most=TRIALS)
    )


def _two_samples() -> KernelCase:
    """Two orthogonal samples on two clients, with two local steps.

    In a local step each client fits its sample twice as fast as in a step of gradient descent on all the data.
    """
    problem = Problem(np.eye(2), np.ones(2), np.arange(2), name="two orthogonal points, a client each")
    return KernelCase(problem, Setup(eta_local=1.0, local_steps=2, rounds=1))


@dataclass(frozen=True, eq=False)
class StepLadder(Case):
    """FedAvg and gradient descent on the same data, for a ladder of step sizes.

    eta_l max_c |H_cc| is `reach` at the largest step size; every other step size is half of the next larger one.
    """

    problem: Problem
    steps: int
    reach: float = 0.05
    rungs: int = 7

    @property
    def sizes(self) -> np.ndarray:
        """eta_l on each rung, ascending."""
        largest = float(algorithm1_limit(self.problem, Setup()).blocks.clients.values.max())
        return self.reach / largest * 0.5 ** np.arange(self.rungs)[::-1]

    def differences(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """On each rung |M - M_c|, |M - M_c - leading term| and sup_t |r - r_c| / |r_0|.

        The index c stands for gradient descent on all the data.
        """
        pooled = replace(self.problem, owner=np.zeros(self.problem.n, int))
        clients, columns = self.problem.n_clients, []
        for eta in self.sizes:
            setup = Setup(eta_local=float(eta), local_steps=self.steps)
            federated = algorithm1_limit(self.problem, setup)
            central = algorithm1_limit(pooled, replace(setup, eta_local=float(eta) / clients))
            h, a = federated.gram, eta / clients
            own = h * (self.problem.owner[:, None] == self.problem.owner)
            central_map = np.linalg.matrix_power(np.eye(len(h)) - a * h, self.steps)
            apart = federated.round_map - central_map
            leading = a**2 * self.steps * (self.steps - 1) / 2 * h @ (clients * own - h)
            slowest = -np.log(federated.rate)
            rounds = np.unique(np.geomspace(1, 8 / slowest, 200).astype(int))
            between = np.linalg.norm(federated.outputs(rounds) - central.outputs(rounds), axis=1)
            size = np.linalg.norm(self.problem.y)
            columns.append((np.linalg.norm(apart), np.linalg.norm(apart - leading), between.max() / size))
        return tuple(np.array(columns).T)

    describe = described("problem", "N", K="steps", reach="reach")


def _step_ladder(seed: int) -> StepLadder:
    """Digits on two, four or five clients, with three to six local steps.

    With two local steps the difference of the maps would have no term of third order.
    """
    return StepLadder(data.digits(n=20, seed=seed, clients=(2, 4, 5)[seed % 3]), 3 + seed % 4)


def _any_step_ladder(seed: int, clients: int, steps: int, reach: float) -> StepLadder:
    return StepLadder(data.digits(n=20, seed=seed, clients=clients), steps, reach)


STEP_LADDERS = Family(
    "digits, n=20, steps from .05/|H_cc| down",
    _step_ladder,
    st.builds(
        _any_step_ladder, st.integers(0, 2**16), st.sampled_from([2, 4, 5, 10]), st.integers(3, 6), st.floats(0.01, 0.1)
    ),
    trials=6,
    most=6,
)


WIDTHS, NETWORKS, CLIENT_ROUNDS = tuple(2**k for k in range(7, 13)), 6, 2

q = sp.Symbol("q", positive=True)
OF_A_NEURON = "exponent in m of mean_c |w_c - u(t+1)| / sqrt(m)"
OF_A_ROUND = "mean_c |w_c - u(t+1)| / |u(t+1) - u(t)|"


@dataclass(frozen=True, eq=False)
class DivergenceLadder(Rungs):
    """The last of several rounds of Algorithm 1, by the training engine, on networks of several widths.

    The labels are y_m(0) + r_0 with r_0 = problem.y, so that every run starts from the same residual.
    """

    problem: Problem
    setup: Setup
    seed: int
    widths: tuple[int, ...] = WIDTHS
    counts: tuple[int, ...] = (NETWORKS,) * len(WIDTHS)

    @prepared
    def client_displacements(self) -> list[list[tuple[float, float]]]:
        """For each width and network, mean_c |w_c - u'| / sqrt(m), and mean_c |w_c - u'| / |u' - u|."""
        return self.in_rungs(
            "client_displacements",
            lambda row, places: [self._run(self.widths[row], self.seeds(row)[i]) for i in places],
        )

    def _run(self, width: int, seed: int) -> tuple[float, float]:
        from ntkfl.training.wide_training import MOVED, wide_federation  # here, since torch loads slowly

        weights = draw(width, self.problem.d, seed)
        problem = replace(self.problem, y=weights.outputs(self.problem.x) + self.problem.y, x_test=None, y_test=None)
        run = wide_federation(problem, replace(self.setup, width=width, seed=seed), weights)
        state = run.start()
        for _ in range(self.setup.rounds - 1):
            state = run.round(state).state
        last = run.round(state, keep_ends=True)
        assert last.ends is not None
        before, after = (server_state.model[MOVED].cpu().numpy() for server_state in (state, last.state))
        apart = last.ends[MOVED].cpu().numpy() - after
        whole = np.linalg.norm(apart, axis=(1, 2)).mean()
        return float(whole / np.sqrt(width)), float(whole / np.linalg.norm(after - before))

    @property
    def limit(self) -> float:
        """mean_c |w_c - u'| / |u' - u| at infinite width."""
        return limit_divergence(algorithm1_limit(self.problem, self.setup))

    describe = described("problem", "N", "K", "seed")


def _ladder(partition: str, local_steps: int, seed: int) -> DivergenceLadder:
    """The ladder on digits of four clients. The seed is the seed of the digits and of the ladder's first network."""
    problem = data.digits(n=20, seed=seed, clients=4, partition=partition)
    return DivergenceLadder(problem, Setup(eta_local=0.3, local_steps=local_steps, rounds=CLIENT_ROUNDS), seed)


PARTITIONS = ("iid", "dirichlet:0.1")
ANY_LADDER = st.builds(
    lambda seed, partition, steps: _ladder(partition, steps, seed),
    st.integers(0, 2**16),
    st.sampled_from(PARTITIONS),
    st.integers(1, 6),
)
LADDERS = tuple(
    Family(
        f"digits, n=20, N=4, {partition}, widths {WIDTHS[0]} to {WIDTHS[-1]}",
        _ladder,
        ANY_LADDER,
        (partition, 5),
        trials=1,
        fixed=True,
    )
    for partition in PARTITIONS
)


def _measure(ladder: DivergenceLadder) -> tuple[Estimate, ...]:
    neurons, whole = ([np.array(row)[:, i] for row in ladder.client_displacements] for i in range(2))
    return slope(ladder.sizes, neurons), slope(ladder.sizes, whole), leading_coefficient(ladder.sizes, whole, 0.0).log()


STATEMENTS = (
    Statement(
        id="fl-ntk/centralised",
        title="At infinite width FedAvg is a linear map of its own, not gradient descent on all the data",
        kind=Kind.EQUALITY,
        source=reported("Eq 42; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="each client's loss is the mean over its n/N samples, with the step e = eta_l n/N; then eta_l/N = e/n "
        "is the step on the mean over all samples. With a = eta_l/N a round is I - a K H + a^2 K(K-1)/2 N H H_D - "
        "..., and K steps of gradient descent are I - a K H + a^2 K(K-1)/2 H^2 - .... For N, K >= 2 no data with H "
        "> 0 have H^2 = N H H_D, since the traces of H and N H_D differ by the factor N. FedAvg and gradient "
        "descent agree for K = 1, for N = 1, and in the limit of gradient flow. The authors' public code "
        "(kkhuge/ICML2025, fedavg11) trains FedAvg, ten clients with 2 or 5 local steps, and gradient descent on "
        "all the data from the same start, at width 4096 and one step size, with weight decay and clipped "
        "gradients. It draws both loss curves, with K steps of descent for each round. It computes no limit, and "
        "neither shows nor excludes the difference",
        hypotheses=(at_most(60), POSITIVE_LIMIT, EQUAL),
        stated=Claim(
            CENTRALISED ** (K * T) * start,
            recorded=Outcome.VIOLATED,
            nature=Nature.REPORTED,
            hypotheses=(SERVER_ONE,),
            witness=_two_samples,
            note="the reported claim: T rounds of K local steps are K T steps of gradient descent",
            reading="a report, not the text: the text may require steps that go to 0, and then the claim is true",
            consequence="heterogeneity, N and K change the rate and the stability limit at any width; the closed "
            "form without them describes gradient flow",
        ),
        repaired=Claim(ROUND_MAP**T * start),
        constants=_constants,
        measure=_trained,
        symbols=MAP_SYMBOLS | {H: "H_inf, as a product L L^T that is known exactly", start: "y(0) - y, from y(0) = 0"},
        left_formula="y(T) - y",
        says_left="y(T) - y after four rounds of FedAvg on features of H_inf, step by step, in balls",
        families=_families,
        mutants=(MILLIONTH_MORE, power(N, 2), power(eta_local, sp.Rational(1, 2))),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/centralised-order",
        title="FedAvg differs from gradient descent in the second order of the step, and along the run in the first",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="the maps differ by a^2 K(K-1)/2 H (N H_D - H) + O(a^3), a = eta_l/N; a run takes of the order of 1/a "
        "rounds",
        new=Claim(
            (sp.Integer(2), sp.Integer(3), sp.Integer(1)),
            note="exponents in eta_l of |M - (I - a H)^K|, of the norm of this difference less its leading term, "
            "and of sup_t of the residuals' distance",
        ),
        measure=lambda ladder: tuple(slope(ladder.sizes, values) for values in ladder.differences()),
        left_formula=(
            "exponent in eta_l of |M - M_{GD}|_F",
            "exponent in eta_l of |M - M_{GD} - (eta_l/N)^2 K (K - 1) H (N H_D - H)/2|_F",
            "exponent in eta_l of max_t |y_{FedAvg}(t) - y_{GD}(K t)| / |r_0|",
        ),
        says_left="log-log slopes over seven step sizes, by the library's kernel regime; M_GD = (I - (eta_l/N) H)^K",
        families=(STEP_LADDERS,),
        mutants=(shifted(sp.Rational(1, 2)), shifted(-sp.Rational(1, 2)), shifted(1)),
        uses=("fl-ntk/centralised",),
    ),
    Statement(
        id="fl-ntk/client-divergence",
        title="The clients' divergence falls as width^(-1/2), like every movement; relative to the round's movement it "
        "does not fall",
        kind=Kind.RATE,
        source=reported("T1; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="reported: sum_c p_c |theta_c - theta| = O(width^-1/2). This holds for a neuron; but in this "
        "parametrisation a round also moves a neuron by that order. The ratio of the two tends to a number that "
        "depends on data, partition and steps, 1.3 to 1.9 here. Width does not bring the clients together",
        stated=Claim(
            -sp.Rational(1, 2),
            measure=lambda ladder: _measure(ladder)[0],
            left_formula=OF_A_NEURON,
            note="for a neuron: the root mean square over all neurons",
        ),
        new=Claim(
            (-sp.Rational(1, 2), sp.Integer(0), sp.log(q)),
            note="exponents in the width of mean_c |w_c - u(t+1)|/sqrt(m), and of mean_c |w_c - u(t+1)| over "
            "|u(t+1) - u(t)|; the logarithm of the second quantity's limit",
        ),
        constants=lambda ladder: {q: ladder.limit},
        measure=_measure,
        symbols={q: "mean_c |w_c - u(t+1)| over |u(t+1) - u(t)| at infinite width"},
        left_formula=(OF_A_NEURON, f"exponent in m of {OF_A_ROUND}", f"log lim_{{m -> inf}} {OF_A_ROUND}"),
        says_left="log-log slopes over networks trained by the engine, and the logarithm of the ratio, extrapolated",
        families=LADDERS,
        mutants=(shifted(sp.Rational(1, 4)), shifted(-sp.Rational(1, 4)), replaced(q, q / 2, "half as far")),
        uses=("fl-ntk/X.1",),
    ),
)
