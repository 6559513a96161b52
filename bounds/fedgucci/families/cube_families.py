"""Families of networks drawn in a cube.

There are families for which bounds are sharpest, families for every loss, families with several outputs, and groups of
networks. In cases with far labels the absolute and the squared loss have a barrier. The gap at the midpoint of the
segment between two networks is the output of the averaged network minus the average of the two outputs. Far labels are
far from the outputs, on the side opposite to this gap.
"""

from dataclasses import replace

import numpy as np

from bounds import Family, Options
from bounds.case import changed
from bounds.cases.cube_networks import CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import gap, pair
from ntkfl.connectivity.network import TwoLayer

SHARP = (
    CubeFamily(h=4, l=1, side=1e-4, anchor_norm=1e4, n=1, at_origin=True),
    CubeFamily(h=6, l=1, side=1e-5, anchor_norm=1e4, n=2, at_origin=True),
    CubeFamily(h=4, l=2, side=1e-4, anchor_norm=1e5, n=1, at_origin=True),
    CubeFamily(h=4, l=1, side=1.0, anchor_norm=1e-4, n=1, at_origin=True),
)


def sharp_families(options: Options) -> tuple[CubeFamily, ...]:
    """The default shapes, and networks of few units at U_anc = 0 with a long or a short v_anc.

    The bounds are sharpest for these networks of few units. With the user's data there are only families on these data.
    """
    everyday = tuple(draw for draw in cube_families(options) if draw.h <= 32 or options.data is not None)
    if options.data is not None:
        return everyday
    return everyday[1:] + tuple(family.with_trials(options.trials) for family in SHARP)


FEW = 10  # number of seeds of a family with a loss other than the absolute loss
OTHER_LOSSES = (
    CubeFamily(h=8, l=4, side=0.5, loss="logistic", trials=FEW),
    CubeFamily(h=8, l=4, side=0.5, loss="squared", trials=FEW),
    CubeFamily(h=4, l=1, side=1e-4, anchor_norm=1e4, n=1, at_origin=True, loss="logistic", trials=FEW),
    CubeFamily(h=8, l=4, side=0.5, loss="cross-entropy", outputs=3, trials=FEW),
    CubeFamily(h=16, l=8, side=0.5, rows="ball", n=8, loss="cross-entropy", outputs=10, trials=FEW),
    CubeFamily(h=8, l=4, side=0.5, loss="squared", outputs=3, trials=FEW),
    CubeFamily(h=4, l=1, side=1e-4, anchor_norm=1e4, n=1, at_origin=True, loss="cross-entropy", outputs=2, trials=FEW),
)


def loss_families(options: Options) -> tuple[CubeFamily, ...]:
    """The families of `sharp_families` with absolute loss, and smaller families with the other losses and C outputs.

    With the user's inputs the absolute and the logistic loss get the signs of the user's labels as labels, and
    cross-entropy gets three classes, which are drawn.
    """
    absolute = sharp_families(options)
    if options.data is None:
        return absolute + tuple(family.with_trials(options.trials) for family in OTHER_LOSSES)
    (draw,) = absolute
    few = replace(draw, loss="logistic", trials=options.trials or FEW)
    return draw, few, replace(few, loss="cross-entropy", outputs=3)


def unit_loss_families(options: Options) -> tuple[CubeFamily, ...]:
    """The families of `loss_families` to which Assumption 3.2 applies: one output, and absolute or logistic loss."""
    return tuple(draw for draw in loss_families(options) if draw.outputs == 1 and draw.loss != "squared")


def gap_families(options: Options) -> tuple[CubeFamily, ...]:
    """The families for statements without a loss.

    They are all families of `sharp_families`, and the families of `loss_families` with several outputs.
    """
    return sharp_families(options) + tuple(draw for draw in loss_families(options) if draw.outputs > 1)


def group_families(options: Options) -> tuple[CubeFamily, ...]:
    """The families of `loss_families`, with 2 to 16 networks each."""
    return counted(loss_families(options))


def counted(families: tuple[CubeFamily, ...]) -> tuple[CubeFamily, ...]:
    """The given families, with 2, 4, 16, 2, 4, 16, ... networks in turn."""
    counts = (2, 4, 16)
    return tuple(replace(family, count=counts[i % len(counts)]) for i, family in enumerate(families))


def scattered() -> CubeNetworks:
    """A tiny cube and two networks far outside it. The hypothesis `in-the-cube` is not met, and the claim fails."""
    anchor = TwoLayer(np.zeros((1, 1)), np.array([1e-6]))
    networks = (TwoLayer(np.array([[1.0]]), np.array([1.0])), TwoLayer(np.array([[-1.0]]), np.array([1.0])))
    return CubeNetworks(anchor, networks, 1e-6, np.array([[1.0]]), np.array([2.0]))


def steep_loss() -> CubeNetworks:
    """The squared loss with a label of 10^9, and no bound R on |f - y|.

    The barrier is 10^9 times the bound with the constant 1.
    """
    corner = TwoLayer(np.array([[0.5]]), np.array([1.5])), TwoLayer(np.array([[-0.5]]), np.array([1.5]))
    anchor = TwoLayer(np.array([[0.0]]), np.array([1.0]))
    return CubeNetworks(anchor, corner, 1.0, np.array([[1.0]]), np.array([1e9]), loss="squared")


HALF = np.array([0.5])


def far_labels(case: CubeNetworks) -> np.ndarray:
    """Labels -sign(z(1/2)) R, (n,).

    R is so large that the mean square at alpha = 1/2 exceeds the mean of its values at the ends.
    """
    z = gap(case, HALF).value[0]
    first, second = (net.outputs(case.x) for net in pair(case))
    size = 1 + max(np.abs(first).max(), np.abs(second).max())
    needed = ((first - second) ** 2).mean() / max(float(np.abs(z).mean()), 1e-3 * size)
    return np.where(z > 0, -1.0, 1.0) * (2 * size + needed)


def _moved(case: CubeNetworks) -> CubeNetworks:
    return replace(case, y=far_labels(case))


def with_far_labels(base: CubeFamily) -> Family:
    """The networks of another family, with far labels."""
    return changed(base, f"{base.name}, far labels", _moved)


def far_label_families(options: Options, **chosen) -> tuple[Family, ...]:
    """The default families, or one family on the user's inputs, all with far labels."""
    return tuple(map(with_far_labels, cube_families(options, **chosen)))


def small_families(options: Options) -> tuple[Family, ...]:
    """Families of few inputs and units.

    The networks are small because every piece of the segment is evaluated point by point.
    """
    families = cube_families(options, side=1.5, n=6, trials=10)
    return tuple(with_far_labels(family) for family in families if family.h <= 32)
