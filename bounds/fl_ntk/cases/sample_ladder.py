"""Case: a ladder of sample sizes, trained on at infinite width, with one loss and one distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options
from bounds.case import Case
from bounds.fl_ntk.cases.generalisation_case import LINEAR, TrainedOnSample, distributions
from bounds.fl_ntk.cases.lipschitz_loss import Loss, losses
from bounds.fl_ntk.cases.sampled_problem import SphereDistribution, UserData

SIZES = (16, 32, 64, 128, 256)


@dataclass(frozen=True, eq=False)
class SampleLadder(Case):
    """Samples of growing size n; `sizes` is the abscissa of an O() claim in n."""

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
        """n, as the data allow it."""
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


# Of any distribution on a sphere and any 1-Lipschitz loss with values in [0, 1].
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
