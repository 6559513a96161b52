"""Cases with labels so far out, against the gap at the middle, that both losses have a barrier."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.cases.cube_networks import CubeDraw, CubeNetworks, cube_draws
from bounds.draw_counts import DerivedDraw
from bounds.fedgucci.cases.segment_terms import gap, pair
from bounds.options import Options

HALF = np.array([0.5])


def far_labels(case: CubeNetworks) -> np.ndarray:
    """-sign(z(1/2)) R, (n,): the mean square at 1/2 less its line is 2 R E|z| less at most E(f_1 - f_2)^2 and E z^2."""
    z = gap(case, HALF).value[0]
    first, second = (net.outputs(case.x) for net in pair(case))
    size = 1 + max(np.abs(first).max(), np.abs(second).max())
    needed = ((first - second) ** 2).mean() / max(float(np.abs(z).mean()), 1e-3 * size)
    return np.where(z > 0, -1.0, 1.0) * (2 * size + needed)


@dataclass(frozen=True)
class FarLabelDraw(DerivedDraw):
    """The networks of a CubeDraw with `far_labels`."""

    base: CubeDraw

    @property
    def name(self) -> str:
        """What reports call the family."""
        return f"{self.base.name}, far labels"

    def case(self, seed: int) -> CubeNetworks:
        """The networks of one seed."""
        case = self.base.case(seed)
        return replace(case, y=far_labels(case))

    def strategy(self) -> SearchStrategy[CubeNetworks]:
        """Any small cube, with such labels."""
        return self.base.strategy().map(lambda case: replace(case, y=far_labels(case)))


def far_label_draws(options: Options, **chosen) -> tuple[FarLabelDraw, ...]:
    """The default families, or the user's inputs, with such labels."""
    return tuple(FarLabelDraw(family) for family in cube_draws(options, **chosen))
