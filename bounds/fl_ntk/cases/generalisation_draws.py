"""Families of samples that generalisation bounds are checked on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.fl_ntk.cases.generalisation_case import TrainedOnSample
from bounds.fl_ntk.cases.lipschitz_loss import Loss, losses
from bounds.fl_ntk.cases.sampled_problem import SphereDistribution, UserData
from bounds.options import Options


def distributions() -> SearchStrategy[SphereDistribution]:
    """Distributions on spheres of 2 to 8 features, any mixture of a linear target and noise with |y| <= 1."""
    share = st.floats(0, 1, allow_subnormal=False)
    return st.builds(
        lambda d, size, mixture: SphereDistribution(d, size * mixture, size * (1 - mixture)),
        st.integers(2, 8),
        st.floats(0.01, 1),
        share,
    )


@cache
def samples() -> SearchStrategy[TrainedOnSample]:
    """Samples of 2 to 200 points of a distribution on a sphere, and 1-Lipschitz losses with values in [0, 1]."""
    return st.builds(
        TrainedOnSample,
        source=distributions(),
        n=st.integers(2, 200),
        loss=losses(),
        seed=st.integers(0, 2**16),
        delta=st.floats(0.01, 0.5),
        held_out=st.just(100),  # enough for a loss that is far off, and quick
    )


LINEAR, SIGNS = SphereDistribution(), SphereDistribution(signal=0.0, noise=1.0)


@dataclass(frozen=True)
class SampleDraw:
    """n log-uniform in `sizes`, a 1-Lipschitz loss that vanishes at the label; the sources take turns."""

    name: str
    sources: tuple[SphereDistribution | UserData, ...]
    sizes: tuple[int, int]
    trials: int
    required: int

    def case(self, seed: int) -> TrainedOnSample:
        """The sample of one seed."""
        rng = np.random.default_rng([seed, 9])
        n = round(float(np.exp(rng.uniform(*np.log(self.sizes)))))
        source = self.sources[seed % len(self.sources)]
        return TrainedOnSample(source, n, Loss(slope=float(rng.uniform(0.8, 1))), seed)

    def strategy(self) -> SearchStrategy[TrainedOnSample]:
        """Samples of 2 to 200 points of any such distribution, and any 1-Lipschitz loss with values in [0, 1]."""
        return samples()


def sample_draws(options: Options) -> tuple[SampleDraw, ...]:
    """y = x_1/2 at n that bring the bound below 1, random signs at the same n, small samples; or the user's data."""
    large, small = options.trials or 12, options.trials or 40
    if options.data is not None:
        size = options.n or 100
        user = UserData(options.data, options.unit)
        return (SampleDraw(f"{options.data}, infinite width", (user,), (size, size), large, 5),)
    return (
        SampleDraw("sphere, y = x_1/2, n = 150..400, infinite width", (LINEAR,), (150, 400), large, 5),
        SampleDraw("sphere, random signs, n = 150..400, infinite width", (SIGNS,), (150, 400), large, 5),
        SampleDraw("sphere, n = 10..60, infinite width", (SIGNS, LINEAR), (10, 60), small, 5 if small <= 20 else 20),
    )
