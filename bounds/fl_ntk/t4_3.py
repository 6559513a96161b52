"""Theorem 4.3 (informal): the order of the population loss in the number of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import FL_NTK, Case, Change, Claim, Family, Form, Kind, Nature, Options, Outcome, Source, Statement
from bounds.fl_ntk.cases.generalisation_case import (
    LINEAR,
    Loss,
    SphereDistribution,
    TrainedOnSample,
    UserData,
    distributions,
    losses,
)
from bounds.fl_ntk.premises import BOUNDED, FAILURE_PROBABILITY, LIPSCHITZ, NON_DEGENERATE
from bounds.fl_ntk.terms.generalisation import MAIN, PREMISE, quadratic
from bounds.fl_ntk.terms.generalisation import constants as sample_constants
from bounds.mutants import power, replaced
from bounds.symbols import delta, lam, n
from ntkfl.estimate import Estimate

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
        """The n of every sample, which the user's data may limit."""
        return np.array([sample.problem.n for sample in self.samples], float)

    @property
    def n_runs(self) -> int:
        """Number of trained networks."""
        return len(self.steps)

    def fresh(self) -> SampleLadder:
        """The same ladder with other samples, for a second opinion."""
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
    trials = min(options.trials or 3, 3)  # five samples each
    return (Family(f"{name}, infinite width", _ladder, SMALL_LADDERS, (source, steps), trials),)


SAMPLES = attrgetter("samples")  # the samples of a ladder, one for each n


def _constants(case: SampleLadder) -> dict:
    by_sample = [sample_constants(sample) for sample in case.samples]
    return {
        symbol: Estimate.stacked(constants[symbol] for constants in by_sample) for symbol in (n, delta, lam, quadratic)
    }


def constant_loss() -> SampleLadder:
    """A linear target, which is learnt better from more samples, and the constant loss 1."""
    return SampleLadder(LINEAR, Loss(slope=0.0, floor=1.0), seed=0)


STATEMENTS = (
    Statement(
        id="fl-ntk/T4.3",
        title="Generalisation of the trained network, O() form",
        kind=Kind.ORDER,
        source=Source(
            FL_NTK,
            "Theorem 4.3",
            note="the informal version of Theorem C.11, with the same fault: l(y,y) = 0 is nowhere assumed. For the "
            "constant loss 1 the left side stays 1 while the right side tends to 0 as n grows, so no O-constant saves "
            "the claim. Definition 4.2 asks for lambda_min(H(0)), which depends on the network as well as on the data "
            "and is therefore no property of a distribution; Definition C.1 has H_inf, which is used here. The repair "
            "is that of C.11",
        ),
        hypotheses=(
            FAILURE_PROBABILITY,
            *(h.of_every("sample", SAMPLES) for h in (NON_DEGENERATE, LIPSCHITZ, BOUNDED)),
        ),
        forms={
            Form.STATED: Claim(
                MAIN + sp.sqrt(sp.log(n / (lam * delta)) / n),
                premise=PREMISE,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISSING_HYPOTHESIS,
                witness=constant_loss,
                reading="no sign is in question, as for C.11",
                note="O(): the ratio of the two sides must not grow with n; the O-constant is taken as 1",
                consequence="as for C.11: assume l(y, y) = 0",
            )
        },
        constants=_constants,
        measure=lambda case: Estimate.stacked(sample.held_out_loss for sample in case.samples),
        symbols={quadratic: "y^T H_inf^-1 y", lam: "smallest eigenvalue of H_inf"},
        left_formula="L_D(f_T)",
        says_left="the loss of the infinite-width predictor after T rounds on held-out samples, for growing n",
        families=sample_ladder_families,
        mutants=(
            power(n, 2),
            power(n, 4),
            replaced(n, 1, "n dropped", Change.FACTOR),
        ),
        uses=("fl-ntk/C.11",),
    ),
)
