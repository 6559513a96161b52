"""Statements on the distance between FedAvg and gradient descent on all the data, for deep networks.

The distance depends on the width and on the step size.
On a ladder the same quantity is measured at several widths or step sizes, the rungs of the ladder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import Case, Claim, Family, Kind, Nature, Outcome, Statement
from bounds.case import described, prepared
from bounds.deep.cases.deep_ladder import ERF, RELU, deep_ladder, deep_ladders, equal_points, pooled
from bounds.deep.cases.network_stack import NetworkStack
from bounds.deep.premises import SEVERAL_CLIENTS, SEVERAL_STEPS
from bounds.fl_ntk.premises import EQUAL, SERVER_ONE
from bounds.fl_ntk.sources import reported
from bounds.ladders.rungs import OTHER
from bounds.ladders.slopes import slope
from bounds.mutants import replaced, shifted
from ntkfl.problem import Problem, Setup

# LARGEST and ROUNDS are eta_l and the rounds of the first rung; each further rung has half the step and twice the
# rounds
LARGEST, LOCAL_STEPS, ROUNDS, RUNGS = 0.06, 3, 6, 5
NETWORKS = 2


@dataclass(frozen=True, eq=False)
class StepLadder(Case):
    """Networks of one width that start from the residual problem.y, on a ladder of step sizes.

    From rung to rung eta_l is halved and the number of rounds is doubled.
    """

    problem: Problem  # data whose clients have equal weight
    network: str  # the network's name, as `WideNetwork.named` takes it
    width: int  # number of neurons of each layer
    seed: int  # seed of the first network
    largest: float = LARGEST  # eta_l of the first rung

    @property
    def setup(self) -> Setup:
        """The setup of the first rung."""
        return Setup(eta_local=self.largest, local_steps=LOCAL_STEPS, rounds=ROUNDS)

    @property
    def n_runs(self) -> int:
        """The number of networks."""
        return NETWORKS

    @property
    def sizes(self) -> np.ndarray:
        """eta_l at each rung, ascending."""
        return self.largest * 0.5 ** np.arange(RUNGS)[::-1]

    @prepared
    def differences(self) -> np.ndarray:
        """The root mean square over networks of max_t |y_FedAvg(t) - y_GD(K t)| / |r_0|, for each rung, (rungs,).

        The networks are the same on every rung.
        """
        seeds = range(self.seed, self.seed + NETWORKS)
        stacks = list(NetworkStack.of_seeds(self.network, self.problem, self.width, seeds))
        gaps = [np.concatenate([self._apart(stack, float(eta)) for stack in stacks]) for eta in self.sizes]
        return np.sqrt((np.array(gaps) ** 2).mean(axis=1))

    def _apart(self, stack: NetworkStack, eta: float) -> np.ndarray:
        setup = replace(self.setup, eta_local=eta, rounds=round(self.setup.rounds * self.largest / eta))
        federated, central = stack.run(self.problem, setup), stack.run(*pooled(self.problem, setup))
        distances = np.linalg.norm(federated.outputs - central.outputs, axis=2)
        return distances.max(axis=1) / np.linalg.norm(self.problem.y)

    def fresh(self) -> StepLadder:
        """The ladder with other networks on the same data, on which a failure is checked again."""
        return replace(self, seed=self.seed + OTHER)

    describe = described("problem", "network", m="width", seed="seed", eta_local="largest")


def _ladder(network: str, width: int, seed: int, largest: float = LARGEST) -> StepLadder:
    """The ladder whose first network has this seed."""
    return StepLadder(equal_points(seed), network, width, seed, largest)


STEP_LADDERS = tuple(
    Family(
        f"sphere, n=12, d=8, N=2, {network}:{width}, eta_l from {LARGEST} down",
        _ladder,
        lambda *of: st.builds(partial(_ladder, *of), st.integers(0, 99), st.floats(0.03, 0.08)),
        (network, width),
        trials=1,
        needs=NETWORKS,  # this is a number of runs, not of ladders
        fixed=True,
    )
    for network, width in ((RELU, 256), (ERF, 64))
)


HALF, ZERO = -sp.Rational(1, 2), sp.Integer(0)
q = sp.Symbol("q", positive=True)
APART = "max_t |y_{FedAvg}(t) - y_{GD}(K t)| / |r_0|"

STATEMENTS = (
    Statement(
        id="deep/centralised",
        title="No width brings FedAvg on a deep network to gradient descent on all the data",
        kind=Kind.RATE,
        source=reported("T3, Eq 42; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="reported: at infinite width t rounds of FedAvg with K local steps lead where K t steps of gradient "
        "descent on the mean over clients lead. Both have a limit, and the limits differ (fl-ntk/centralised): the "
        "distance of the two networks tends to the distance of the limits. The authors' public code (kkhuge/ICML2025, "
        "fedavg11) trains such networks, with three ReLU layers and biases, by FedAvg and by gradient descent from "
        "one start. A run has one width; the released figure reads files named for width 4096 and shows losses. The "
        "code stores the distance of the two outputs in each round, and no released script draws this distance or "
        "compares widths",
        hypotheses=(SEVERAL_CLIENTS, SEVERAL_STEPS, SERVER_ONE),
        stated=Claim(
            HALF,
            recorded=Outcome.VIOLATED,
            nature=Nature.REPORTED,
            measure=lambda ladder: ladder.exponent("pooled"),
            left_formula=f"exponent in m of {APART}",
            witness=lambda: deep_ladder(ERF, 0).first_look(1 / 4),
            hypotheses=(EQUAL,),
            reading="a report, not the text: the text may require steps that go to 0, and then the claim is true",
            note="this form has the exponent that equal limits would give: both networks would approach one limit as "
            "m^(-1/2)",
            consequence="the step size, not the width, decides how far FedAvg is from centralised descent: see "
            "deep/centralised-steps",
        ),
        repaired=Claim(
            (ZERO, sp.log(q)),
            note="the exponent of max_t |y_FedAvg(t) - y_GD(K t)| / |r_0|, and the logarithm of its limit",
        ),
        constants=lambda ladder: {q: ladder.limit_pooled},
        measure=lambda ladder: ladder.tends_to("pooled"),
        symbols={q: "max_t |y_FedAvg(t) - y_GD(K t)| / |r_0| in the kernel regime of the limit"},
        left_formula=(f"exponent in m of {APART}", f"log lim_{{m -> inf}} {APART}"),
        says_left="log-log slope over widths of the RMS over networks trained by the engine, and the logarithm of its "
        "limit, extrapolated",
        families=deep_ladders(RELU, ERF),
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            replaced(q, q / 2, "half as far"),
            replaced(q, 2 * q, "twice as far"),
        ),
        uses=("fl-ntk/centralised", "deep/linearised"),
    ),
    Statement(
        id="deep/centralised-steps",
        title="Small steps bring FedAvg on a deep network near gradient descent: the distance is proportional to the "
        "step",
        kind=Kind.RATE,
        source=reported("T3; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="the reported claim T3 is true in the limit of gradient flow, at any width. The maps of a round differ in "
        "the second order of the step, and a run takes of the order of 1/eta_l rounds",
        hypotheses=(SEVERAL_CLIENTS, SEVERAL_STEPS, SERVER_ONE),
        new=Claim(sp.Integer(1)),
        measure=lambda ladder: slope(ladder.sizes, ladder.differences, biased=False),
        left_formula=f"exponent in eta_l of {APART}",
        says_left="log-log slope over eta_l of the RMS over networks of max_t |y_FedAvg(t) - y_GD(K t)| / |r_0|, with "
        "the same time eta_l T at every step",
        families=STEP_LADDERS,
        mutants=(shifted(sp.Rational(1, 2)), shifted(-sp.Rational(1, 2)), shifted(1)),
        uses=("fl-ntk/centralised-order", "deep/centralised"),
    ),
)
