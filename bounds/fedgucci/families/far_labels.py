"""Cases with a barrier of both losses: labels are far from the outputs, on the side opposite to the gap at the
midpoint."""

from dataclasses import replace

import numpy as np

from bounds import Family, Options
from bounds.case import changed
from bounds.cases.cube_networks import CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import gap, pair

HALF = np.array([0.5])


def far_labels(case: CubeNetworks) -> np.ndarray:
    """-sign(z(1/2)) R, (n,), with R so large that the mean square at 1/2 exceeds the mean of its values at the ends."""
    z = gap(case, HALF).value[0]
    first, second = (net.outputs(case.x) for net in pair(case))
    size = 1 + max(np.abs(first).max(), np.abs(second).max())
    needed = ((first - second) ** 2).mean() / max(float(np.abs(z).mean()), 1e-3 * size)
    return np.where(z > 0, -1.0, 1.0) * (2 * size + needed)


def _moved(case: CubeNetworks) -> CubeNetworks:
    return replace(case, y=far_labels(case))


def with_far_labels(base: CubeFamily) -> Family:
    """Another family's networks with far labels."""
    return changed(base, f"{base.name}, far labels", _moved)


def far_label_families(options: Options, **chosen) -> tuple[Family, ...]:
    """The default families, or the user's inputs, with far labels."""
    return tuple(map(with_far_labels, cube_families(options, **chosen)))


def small_families(options: Options) -> tuple[Family, ...]:
    """Families of few inputs and units, since every piece is evaluated point by point."""
    families = cube_families(options, side=1.5, n=6, trials=10)
    return tuple(with_far_labels(family) for family in families if family.h <= 32)
