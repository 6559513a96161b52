"""Algorithm 1's averaged update Delta u_r(t), written out as a sum over clients, local steps and samples."""

import sympy as sp

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import small_run, updates, weight_families, weight_path
from bounds.fl_ntk.families.own import with_own
from bounds.fl_ntk.terms.round_parts import times
from bounds.fl_ntk.ways import WAYS_DRAWS, updates_by_all_ways
from bounds.mutants import power, replaced, scaled, without
from bounds.statement import FL_NTK, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.symbols import N, eta_local, m
from ntkfl.estimate import Estimate

pull, pull_printed = sp.symbols("p p'", real=True)
AVERAGED = eta_local / (N * sp.sqrt(m))


def _constants(case: FederatedRun) -> dict:
    path, steps = weight_path(case), case.setup.local_steps
    return run_values(case, eta_local, N, m) | {
        pull: path.each(lambda round_: path.pulls(round_, range(steps))),
        pull_printed: path.each(lambda round_: path.pulls(round_, range(1, steps + 1))),
    }


def _measure(case: FederatedRun) -> Estimate:
    """(u(t+1) - u(t))/eta_g by the plain run in balls, then by each of the ways: (1 + ways, T, m, d)."""
    return times(1 / case.setup.eta_global, Estimate.stacked([updates(case), *updates_by_all_ways(case)]))


STATEMENTS = (
    Statement(
        id="fl-ntk/Alg1-update",
        title="The averaged update as a sum over local gradients",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Algorithm 1, lines 4-19, and the display of Delta u_r(t) below Eq (2)",
            note="lines 5-14 let k run over 1..K, evaluate at w_k and update w_{k-1}; section 3.1 has w_{k+1} = w_k - "
            "eta_l dL_c(w_k)/dw_k. With the latter the sum over k in [K] runs over 0..K-1, and Lemma B.10 does use "
            "(15) for k = 0; [K] is nowhere defined. Read as 1..K, as [n] is, the display is false. y_c^{(k)}(t) "
            "there lacks its index j, and dL_c/du_r is printed with a sum over all n, meant over S_c",
        ),
        forms={
            Form.STATED: Claim(
                AVERAGED * pull_printed,
                recorded=Outcome.VIOLATED,
                nature=Nature.READING,
                witness=small_run,
                note="k in [K] read as 1..K",
                reading="the indices come alike in Algorithm 1 and in six displays",
                consequence="index local steps from 0 to K-1; with 1..K the update of a round comes out wrong "
                "by the size of one local step",
            ),
            Form.REPAIRED: Claim(AVERAGED * pull, note="k = 0..K-1"),
        },
        constants=_constants,
        measure=_measure,
        symbols={
            pull: "an entry of a_r sum_c sum_{j in S_c} sum_k (y_j - y_c^{(k)}(t)_j) x_j 1{w_{k,c,r}(t).x_j >= 0}, "
            "k = 0..K-1",
            pull_printed: "the same with k = 1..K",
        },
        left_formula="(u_r(t+1) - u_r(t))/eta_g",
        says_left="every entry of (u(t+1) - u(t))/eta_g in two rounds: by the plain run in balls and, of networks of "
        "64 neurons or more, in arrays, compiled, by the host's threads, tracking switches, on JAX devices and by the "
        "training engine",
        families=with_own(weight_families, *WAYS_DRAWS),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            power(m, sp.Rational(1, 2)),
            without(N),
            replaced(pull, pull_printed, "k = 1..K for 0..K-1", Change.INDEX),
        ),
    ),
)
