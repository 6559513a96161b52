"""The variance that averaging removes when the clients are identically distributed."""

import numpy as np
import sympy as sp

from bounds import Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.averaging.cases.shared_starts import SharedStarts, shared_start_families
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, without
from bounds.symbols import K
from bounds.vocabulary import IMA
from ntkfl.problem import Problem

single = sp.Symbol("V", real=True)
within = sp.Symbol("W", real=True)


def four_coins() -> SharedStarts:
    """Four independent clients with outputs +-1: each output has variance 1, their mean 1/4."""
    problem = Problem(np.ones((1, 1)), np.ones(1), name="one sample")
    return SharedStarts(problem, np.ones((1, 2, 1, 1)), np.array([[[1.0], [-1.0]]]), clients=4)


STATEMENTS = (
    Statement(
        id="averaging/I10",
        title="Variance of the mean of identically distributed clients",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "section 5.3.3 and appendix C",
            note="stated twice, in 5.3.3 and after Corollary 2, where the paper calls averaging more clients useless. "
            "Derived again from the text: if all clients have one law and every two of them the covariance C, their "
            "mean has the variance Var/K + (1 - 1/K) C. This is Var only if C = Var, and then the outputs agree almost "
            "surely. The paper says that identically distributed clients have Var = Cov, so that variance and "
            "covariance add up to the variance of one model. Equal laws give equal variances; Cov = Var needs equal "
            "outputs (correlation 1). Independent clients have Cov = 0, and their mean the variance Var/K. With a "
            "shared start Cov = Var E(f | start), and averaging gains (1 - 1/K) E Var(f | start), the part of Var that "
            "the start does not explain",
        ),
        forms={
            Form.STATED: Claim(
                single,
                recorded=Outcome.VIOLATED,
                nature=Nature.SUBSTANCE,
                witness=four_coins,
                reading="printed twice alike, in section 5.3.3 and in appendix C",
                consequence="Averaging more clients trained on homogeneous data does reduce the variance, down to "
                "the part that their common start explains. The claim that the gain flattens with K stands.",
            ),
            Form.REPAIRED: Claim(single - (1 - 1 / K) * within),
        },
        constants=lambda case: {
            single: case.single_variance,
            within: case.variance_given_start,
            K: case.clients,
        },
        measure=lambda case: case.averaged_variance,
        symbols={
            single: "variance of one client's output, averaged over the samples",
            within: "E Var(f | start), averaged over the samples",
            K: "number of clients",
        },
        left_formula="E_x Var(sum_k f_k(x) / K)",
        says_left="variance of the clients' mean output, averaged over the samples, over all I J^K draws of a round",
        families=shared_start_families,
        mutants=(
            MILLIONTH_MORE,
            index_shifted(K, -1),
            power(K, 2),
            replaced(within, -within, "sign of the gain flipped", Change.SIGN),
            without(K),
            replaced(within, single, "the whole variance gained, as if clients were independent", Change.FACTOR),
        ),
        uses=("averaging/I5",),
    ),
)
