"""Clients' distance from their mean: it falls with the width as every movement of a parameter does, no faster."""

from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import Claim, Family, Form, Kind, Statement
from bounds.case import described, prepared
from bounds.fl_ntk.sources import reported
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.ladders.rungs import Rungs
from bounds.ladders.slopes import slope
from bounds.mutants import replaced, shifted
from ntkfl import Estimate, Problem, Setup, data
from ntkfl.initialisation import draw
from ntkfl.limit.algorithm1_limit import algorithm1_limit

WIDTHS, NETWORKS, ROUNDS = tuple(2**k for k in range(7, 13)), 6, 2

q = sp.Symbol("q", positive=True)
OF_A_NEURON = "exponent in m of mean_c |w_c - u(t+1)| / sqrt(m)"
OF_A_ROUND = "mean_c |w_c - u(t+1)| / |u(t+1) - u(t)|"


@dataclass(frozen=True, eq=False)
class DivergenceLadder(Rungs):
    """The last of ROUNDS rounds of Algorithm 1, by the training engine, on networks of several widths.

    Labels are y_m(0) + r_0, r_0 = problem.y, so that every run starts from the same residual.
    """

    problem: Problem
    setup: Setup
    seed: int
    widths: tuple[int, ...] = WIDTHS
    counts: tuple[int, ...] = (NETWORKS,) * len(WIDTHS)

    @prepared
    def seen(self) -> list[list[tuple[float, float]]]:
        """For each network and width, mean_c |w_c - u'|/sqrt(m), and mean_c |w_c - u'| over |u' - u|."""
        return self.in_rungs(
            "seen", lambda row, places: [self._run(self.widths[row], self.seeds(row)[i]) for i in places]
        )

    def _run(self, width: int, seed: int) -> tuple[float, float]:
        from ntkfl.training.wide_training import MOVED, wide_federation  # torch is slow to load

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
        """mean_c |w_c - u'| over |u' - u| at infinite width: clients move by P_c r_c along their own features."""
        regime = algorithm1_limit(self.problem, self.setup)
        residual = regime.residual(self.setup.rounds - 1)
        moved = regime.blocks.apply(regime.blocks.response(), residual[:, None])[:, 0]
        clients, owner = self.problem.n_clients, self.problem.owner
        mean = moved / clients

        def size(c: np.ndarray) -> float:
            return float(np.sqrt(c @ regime.gram @ c))

        return float(np.mean([size(np.where(owner == c, moved, 0) - mean) for c in range(clients)])) / size(mean)

    describe = described("problem", "N", "K", "seed")


def _ladder(partition: str, local_steps: int, seed: int) -> DivergenceLadder:
    """The ladder on digits of four clients whose first network has this seed."""
    problem = data.digits(n=20, seed=seed, clients=4, partition=partition)
    return DivergenceLadder(problem, Setup(eta_local=0.3, local_steps=local_steps, rounds=ROUNDS), seed)


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
    neurons, whole = ([np.array(row)[:, i] for row in ladder.seen] for i in range(2))
    return slope(ladder.sizes, neurons), slope(ladder.sizes, whole), leading_coefficient(ladder.sizes, whole, 0.0).log()


STATEMENTS = (
    Statement(
        id="fl-ntk/client-divergence",
        title="Clients' divergence falls as width^(-1/2) as all movements do, and not at all beside the round's own",
        kind=Kind.RATE,
        source=reported(
            "T1; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent",
            note="reported: sum_c p_c |theta_c - theta| = O(width^-1/2). This holds for a neuron; but in this "
            "parametrisation a round also moves a neuron by that order. The ratio of the two tends to a number that "
            "depends on data, partition and steps, 1.3 to 1.9 here. Width does not bring the clients together",
        ),
        forms={
            Form.STATED: Claim(
                -sp.Rational(1, 2),
                measure=lambda ladder: _measure(ladder)[0],
                left_formula=OF_A_NEURON,
                note="for a neuron: the root mean square over all neurons",
            ),
            Form.NEW: Claim(
                (-sp.Rational(1, 2), sp.Integer(0), sp.log(q)),
                note="exponents in the width of mean_c |w_c - u(t+1)|/sqrt(m), and of mean_c |w_c - u(t+1)| over "
                "|u(t+1) - u(t)|; the logarithm of the second quantity's limit",
            ),
        },
        constants=lambda ladder: {q: ladder.limit},
        measure=_measure,
        symbols={q: "mean_c |w_c - u(t+1)| over |u(t+1) - u(t)| at infinite width"},
        left_formula=(OF_A_NEURON, f"exponent in m of {OF_A_ROUND}", f"log lim_{{m -> inf}} {OF_A_ROUND}"),
        says_left="log-log slopes over networks trained by the engine, and the logarithm of the ratio, extrapolated",
        families=LADDERS,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            replaced(q, q / 2, "half as far"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
