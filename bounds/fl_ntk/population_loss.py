"""Statements on the population loss of the trained network: Theorems C.11 and 4.3.

On a ladder the same quantity is measured on samples of growing size n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import (
    FL_NTK,
    Case,
    Change,
    Claim,
    Family,
    Hypothesis,
    Kind,
    Limit,
    Nature,
    Options,
    Outcome,
    Source,
    Statement,
)
from bounds.fl_ntk.cases.generalisation_case import (
    LINEAR,
    Loss,
    SphereDistribution,
    TrainedOnSample,
    UserData,
    distributions,
    losses,
    sample_families,
)
from bounds.fl_ntk.premises import BOUNDED, FAILURE_PROBABILITY, LIPSCHITZ, NON_DEGENERATE, UNIT_ROWS
from bounds.mutants import power, replaced
from bounds.symbols import delta, lam, m, n
from ntkfl.estimate import Estimate

quadratic, index = sp.symbols("Q i", positive=True)
MAIN = sp.sqrt(2 * quadratic / n)

PREMISE = {m: n**16 / lam**2}  # this is sigma^-2 n^14 at sigma = lambda/n, without powers of logarithms


def constants(case: TrainedOnSample) -> dict:
    """The values of n, delta, lambda_min(H_inf), Q = y^T H_inf^-1 y, and i.

    i is the smallest integer that is at least 1 and at least sqrt(Q). The proof counts balls of the radii 1, 2, ...
    """
    complexity = case.complexity
    return {
        n: case.problem.n,
        delta: case.delta,
        lam: case.smallest_eigenvalue,
        quadratic: complexity,
        index: max(1.0, float(np.ceil(np.sqrt(complexity.hi)))),
    }


REST = 5 / sp.sqrt(n) + 3 * sp.sqrt(sp.log(6 * index * (index + 1) / delta) / (2 * n))

ZERO_AT_LABEL = Hypothesis("zero-at-label", "l(y, y) = 0 for every y", lambda case: -case.loss.at_label)
BOUNDED_LABELS = Hypothesis(
    "bounded-labels", "|y| <= 1", Limit("max |y|", lambda case: case.largest_label, at_most=1.0)
)


def constant_loss() -> TrainedOnSample:
    """A linear target, which is learnt well, and the constant loss 1."""
    return TrainedOnSample(SphereDistribution(), 120, Loss(slope=0.0, floor=1.0), seed=0, delta=0.5, in_balls=True)


SIZES = (16, 32, 64, 128, 256)


@dataclass(frozen=True, eq=False)
class SampleLadder(Case):
    """Samples of growing size n, for an O() claim in n."""

    source: SphereDistribution | UserData
    loss: Loss
    seed: int
    steps: tuple[int, ...] = SIZES
    delta: float = 0.01

    @cached_property
    def samples(self) -> list[TrainedOnSample]:
        """One trained network for each size."""
        return [TrainedOnSample(self.source, n, self.loss, self.seed, self.delta) for n in self.steps]

    @property
    def sizes(self) -> np.ndarray:
        """The n of every sample. The user's data may have fewer samples than asked for."""
        return np.array([sample.problem.n for sample in self.samples], float)

    @property
    def n_runs(self) -> int:
        """The number of trained networks."""
        return len(self.steps)

    def fresh(self) -> SampleLadder:
        """The same ladder with other samples, on which a failure is checked again."""
        return self.redrawn(self.seed + 10_000)

    def redrawn(self, seed: int) -> SampleLadder:
        """The same ladder with other samples."""
        return replace(self, seed=seed)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"source": str(self.source), "loss": str(self.loss), "sizes": list(self.steps), "seed": self.seed}


def _ladder(source: SphereDistribution | UserData, steps: tuple[int, ...], seed: int) -> SampleLadder:
    """The ladder of one seed, for a loss that vanishes at the label."""
    slope = float(np.random.default_rng([seed, 10]).uniform(0.8, 1))
    return SampleLadder(source, Loss(slope=slope), seed, steps)


# Ladders of any distribution on a sphere and any 1-Lipschitz loss with values in [0, 1].
SMALL_LADDERS = st.builds(
    SampleLadder,
    source=distributions(),
    loss=losses(),
    seed=st.integers(0, 2**16),
    steps=st.sampled_from([(8, 16, 32, 64), (16, 32, 64, 128)]),
    delta=st.floats(0.01, 0.5),
)


def sample_ladder_families(options: Options) -> tuple[Family, ...]:
    """Three ladders on the sphere with y = x_1/2, or on the user's data."""
    source: SphereDistribution | UserData = LINEAR
    steps: tuple[int, ...] = SIZES
    name = "sphere, n = 16..256"
    if options.data is not None:
        source = UserData(options.data, options.unit)
        top = source.sample(SIZES[-1], 1, options.seed, 1).n
        steps = tuple(max(2, round(top * 2.0**-k)) for k in (4, 3, 2, 1, 0))
        name = f"{options.data}, n = {steps[0]}..{top}"
    trials = min(options.trials or 3, 3)  # a ladder has five samples
    return (Family(f"{name}, infinite width", _ladder, SMALL_LADDERS, (source, steps), trials),)


SAMPLES = attrgetter("samples")  # the samples of a ladder, one for each n


def _constants(case: SampleLadder) -> dict:
    by_sample = [constants(sample) for sample in case.samples]
    return {
        symbol: Estimate.stacked(constants[symbol] for constants in by_sample) for symbol in (n, delta, lam, quadratic)
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/C.11",
        title="Generalisation of the trained network",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Theorem C.11"),
        note="the proof concludes a small training loss from small training residuals; this needs l(y,y) = 0, "
        "which is nowhere assumed. The constant loss 1 is 1-Lipschitz with values in [0,1] and has L_D = 1, while "
        "the bound tends to 0. The repaired form assumes l(y,y) = 0, |y| = O(1) and unit rows. The O() is written "
        "out with the proof's own constants. The proof takes the union over i up to a fixed O(sqrt(n)/lambda). "
        "Here the ball of radius i has the failure probability delta/(3 i (i+1)), which allows the i that the data "
        "need, ceil(sqrt(Q)), and gives the same ln(6 i (i+1)/delta). (A union bound with equal shares does not "
        "allow an i_max that depends on the data, as ceil(B+1) does; for B <= 1 both give ln(12/delta)). "
        "Misprints: Pr[E_1] <= eps/3 for delta/3, Pr[E_4] <= 1 - delta/9 for delta/9. The step to 2/sqrt n needs "
        "sigma below lambda/(n polylog), and drops the term (2 log/m)^(1/4)",
        hypotheses=(FAILURE_PROBABILITY, NON_DEGENERATE, LIPSCHITZ, BOUNDED),
        stated=Claim(
            MAIN + REST,
            failure=delta,
            premise=PREMISE,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISSING_HYPOTHESIS,
            witness=constant_loss,
            reading="no sign is in question: both theorems require only a 1-Lipschitz loss with values in [0, 1]; "
            "Arora et al., whose theorem this one follows, require l(y,y) = 0 as well",
            consequence="assume l(y, y) = 0 (as the usual losses have), bounded labels and unit rows",
        ),
        repaired=Claim(
            MAIN + REST,
            failure=delta,
            premise=PREMISE,
            hypotheses=(ZERO_AT_LABEL, BOUNDED_LABELS, UNIT_ROWS),
            note="not proved here; checked at infinite width, where the premise on m is no restriction. At delta = "
            ".01 and y = x_1/2 the bound is below the trivial bound 1 from n of about 150 on. For random signs it "
            "stays above 1 at every n, because y^T H^-1 y >= |y|^4 / y^T H y, whose mean is 2n or more",
        ),
        constants=constants,
        measure=lambda case: case.population_loss,
        symbols={
            quadratic: "y^T H_inf^-1 y",
            index: "the smallest integer that is at least 1 and at least sqrt(Q)",
            lam: "smallest eigenvalue of H_inf",
        },
        left_formula="L_D(f_T)",
        says_left="the loss of the infinite-width predictor after T rounds on 2000 held-out samples",
        families=sample_families,
        mutants=(
            power(n, 2),
            replaced(MAIN, -MAIN, "main term subtracted", Change.SIGN),
            replaced(REST, -REST, "remainder subtracted", Change.SIGN),
        ),
        necessity={
            "zero-at-label": constant_loss,
            # The loss counts an output as wrong unless it is right to a millionth.
            "1-Lipschitz": lambda: TrainedOnSample(SphereDistribution(), 200, Loss(slope=1e6), seed=0, delta=0.5),
            # Labels are random signs at points of length 1000, so that y^T H^-1 y is a millionth of its value on the
            # unit sphere.
            "unit-rows": lambda: TrainedOnSample(
                SphereDistribution(signal=0.0, noise=1.0, length=1000.0), 300, Loss(), seed=0, delta=0.5
            ),
        },
        uses=("fl-ntk/C.4", "fl-ntk/C.5", "fl-ntk/C.7-norm", "fl-ntk/B.3"),
    ),
    Statement(
        id="fl-ntk/T4.3",
        title="Generalisation of the trained network, O() form",
        kind=Kind.ORDER,
        source=Source(FL_NTK, "Theorem 4.3"),
        note="the informal version of Theorem C.11, with the same fault: l(y,y) = 0 is nowhere assumed. For the "
        "constant loss 1 the left side stays 1 while the right side tends to 0 as n grows, so no O-constant saves "
        "the claim. Definition 4.2 asks for lambda_min(H(0)), which depends on the network as well as on the data "
        "and is therefore no property of a distribution; Definition C.1 has H_inf, which is used here. The repair "
        "is that of C.11",
        hypotheses=(
            FAILURE_PROBABILITY,
            *(h.of_every("sample", SAMPLES) for h in (NON_DEGENERATE, LIPSCHITZ, BOUNDED)),
        ),
        stated=Claim(
            MAIN + sp.sqrt(sp.log(n / (lam * delta)) / n),
            premise=PREMISE,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISSING_HYPOTHESIS,
            # A linear target, which is learnt better from more samples, and the constant loss 1.
            witness=lambda: SampleLadder(LINEAR, Loss(slope=0.0, floor=1.0), seed=0),
            reading="no sign is in question, as for C.11",
            note="O(): the ratio of the two sides must not grow with n; the O-constant is taken as 1",
            consequence="as for C.11: assume l(y, y) = 0",
        ),
        constants=_constants,
        measure=lambda case: Estimate.stacked(sample.held_out_loss for sample in case.samples),
        symbols={quadratic: "y^T H_inf^-1 y", lam: "smallest eigenvalue of H_inf"},
        left_formula="L_D(f_T)",
        says_left="the loss of the infinite-width predictor after T rounds on held-out samples, for growing n",
        families=sample_ladder_families,
        mutants=(power(n, 2), power(n, 4), replaced(n, 1, "n dropped", Change.FACTOR)),
        uses=("fl-ntk/C.11",),
    ),
)
