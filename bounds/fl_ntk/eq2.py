"""Eq (2): a round's change of the outputs through the averaged update."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import WeightRound, small_run, weight_families, weight_path
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import m
from ntkfl.balls import ball
from ntkfl.estimate import Estimate

after, after_printed, before = sp.symbols("s_{t+1} s' s_t", real=True)


def _constants(case: FederatedRun) -> dict:
    path, setup = weight_path(case), case.setup

    def step(round_: WeightRound) -> np.ndarray:
        """eta_g Delta u(t), Delta u(t) from the display below Eq (2) with k = 0..K-1."""
        total = path.pulls(round_, range(setup.local_steps))
        return ball(setup.eta_global) * ball(setup.eta_local) / (path.root_m * case.problem.n_clients) * total

    return {
        after: path.each(lambda round_: path.sums(round_.start + step(round_))),
        after_printed: path.each(lambda round_: path.sums(round_.end + step(round_))),
        before: path.each(lambda round_: path.sums(round_.start)),
        m: setup.width,
    }


def _measure(case: FederatedRun) -> Estimate:
    outputs = case.observed("outputs")
    return outputs[1:] - outputs[:-1]


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq2",
        title="A round's change of the outputs through Delta u_r(t)",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Eq (2)",
            note="the scan reads u_r(t+1) + eta_g Delta u_r(t) in its last line, which would add the update twice, and "
            "x for x_i. (3) and section 6 have u_r(t) + eta_g Delta u_r(t); this is meant, and may well be printed "
            "here too",
        ),
        forms={
            Form.STATED: Claim(
                (after_printed - before) / sp.sqrt(m),
                recorded=Outcome.VIOLATED,
                nature=Nature.SCAN,
                witness=lambda: small_run(4),
                reading="the line occurs once; the same bracket has u_r(t) in (3), in section 6 and in the appendix",
                consequence="none: read u_r(t) for u_r(t+1) and x_i for x",
            ),
            Form.REPAIRED: Claim((after - before) / sp.sqrt(m)),
        },
        constants=_constants,
        measure=_measure,
        symbols={
            before: "sum_r a_r relu(u_r(t).x_i)",
            after: "sum_r a_r relu((u_r(t) + eta_g Delta u_r(t)).x_i)",
            after_printed: "sum_r a_r relu((u_r(t+1) + eta_g Delta u_r(t)).x_i), as printed",
        },
        left_formula="y_i(t+1) - y_i(t)",
        says_left="y_i(t+1) - y_i(t) from the outputs of a run in balls, every sample, two rounds",
        families=weight_families,
        mutants=(
            MILLIONTH_MORE,
            power(m, sp.Rational(1, 2)),
            replaced(after, after_printed, "the update added twice", Change.INDEX),
            sign_flipped(before, "the old outputs"),
        ),
        uses=("fl-ntk/Alg1-update",),
    ),
)
