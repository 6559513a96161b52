"""Families of samples that generalisation bounds are checked on."""

from functools import cache

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.family import Family
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


def _sample(sources: tuple[SphereDistribution | UserData, ...], sizes: tuple[int, int], seed: int) -> TrainedOnSample:
    """n log-uniform in `sizes`, a 1-Lipschitz loss that vanishes at the label; the sources take turns."""
    rng = np.random.default_rng([seed, 9])
    n = round(float(np.exp(rng.uniform(*np.log(sizes)))))
    return TrainedOnSample(sources[seed % len(sources)], n, Loss(slope=float(rng.uniform(0.8, 1))), seed)


SAMPLES = (
    Family("sphere, y = x_1/2, n = 150..400, infinite width", _sample, samples(), ((LINEAR,), (150, 400)), 12, 5),
    Family("sphere, random signs, n = 150..400, infinite width", _sample, samples(), ((SIGNS,), (150, 400)), 12, 5),
    Family("sphere, n = 10..60, infinite width", _sample, samples(), ((SIGNS, LINEAR), (10, 60)), trials=40),
)


def sample_families(options: Options) -> tuple[Family, ...]:
    """y = x_1/2 at n that bring the bound below 1, random signs at the same n, small samples; or the user's data."""
    if options.data is None:
        return tuple(family.with_trials(options.trials) for family in SAMPLES)
    user, size = UserData(options.data, options.unit), options.n or 100
    name, of = f"{options.data}, infinite width", ((user,), (size, size))
    return (Family(name, _sample, samples(), of, options.trials or 12, needs=5),)
