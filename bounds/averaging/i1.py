"""Eq (1): the global loss as the weighted sum of the clients' losses."""

import numpy as np
import sympy as sp

from bounds import IMA, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.cases.ensembles import Ensemble, ensemble_families, estimated, squared
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import n
from ntkfl.balls import precision
from ntkfl.problem import Problem

clients = sp.Symbol("k", positive=True)
counts = sp.MatrixSymbol("c", clients, 1)
sums = sp.MatrixSymbol("s", clients, 1)
means = sp.MatrixSymbol("L", clients, 1)
ones = sp.MatrixSymbol("e", clients, 1)


def _constants(case: Ensemble) -> dict:
    with precision():
        losses = squared(case.labels - case.fma_outputs[0])
        total = np.array([losses[own].sum() for own in case.problem.members], dtype=object)
        mean = total / case.sizes
    return {
        counts: case.sizes.astype(float),
        sums: estimated(total),
        means: estimated(mean),
        ones: np.ones(case.clients),
        n: case.problem.n,
    }


def three_and_seven() -> Ensemble:
    """Two clients with 3 and 7 samples x = 1, labels 1 and 2, and the network f(x) = x, whose losses are 0 and 1."""
    labels = np.repeat([1.0, 2.0], [3, 7])
    problem = Problem(np.ones((10, 1)), labels, np.repeat([0, 1], [3, 7]), name="3 and 7 samples")
    return Ensemble(problem, np.ones((1, 2, 1, 1)), np.ones((1, 2, 1)))


STATEMENTS = (
    Statement(
        id="averaging/I1",
        title="The global loss is the clients' losses weighted by their sizes",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Eq (1)",
            note="the first expression, sum (n_k/n) L_k with L_k the client's expected loss, is right. The second "
            "writes the sum of the client's sample losses for L_k, without 1/n_k. That 1/n_k was meant follows from "
            "the definition of L_k as an expectation. The line above (1) has n = sum up to N, where K is meant",
        ),
        forms={
            Form.STATED: Claim(
                sp.Trace(counts.T * sums) / n,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISPRINT,
                witness=three_and_seven,
                reading="printed once, in (1)",
                consequence="Nothing in the paper uses the expanded form; code that follows it as printed weights "
                "clients by the square of their sizes.",
            ),
            Form.REPAIRED: Claim(sp.Trace(counts.T * means) / n),
        },
        constants=_constants,
        measure=lambda case: case.mean_loss(case.fma_outputs[:1]),
        symbols={
            counts: "n_k, one entry a client",
            sums: "sum over the client's samples of the loss",
            means: "mean over the client's samples of the loss",
            ones: "1 for every client",
        },
        left_formula="L(w_FMA)",
        says_left="squared loss of the averaged network of one round, averaged over all samples",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            power(n, sp.Rational(1, 2)),
            replaced(counts, ones, "the clients' sizes dropped", Change.FACTOR),
            replaced(n, n + 1, "n off by one", Change.INDEX),
            sign_flipped(counts, "the weights"),
        ),
    ),
)
