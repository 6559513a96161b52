"""The loss on a grid of the plane through three networks, against an evaluation of the network at every point."""

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload
from experiments.benchmarks.workloads.exact_barrier import permuted_copies


def _given(sizes: Sizes):
    from ntkfl.connectivity import plane_through

    networks, x, y = permuted_copies(sizes["units"], sizes["n"], count=3)
    plane = plane_through([network.vector() for network in networks])
    return networks, x, y, plane, *plane.axes(sizes["points"])


def _ours(sizes: Sizes) -> Call:
    from ntkfl.connectivity import plane_losses

    networks, x, y, _, s, t = _given(sizes)
    return lambda: plane_losses(networks, x, y, s, t)


def _point_by_point(sizes: Sizes) -> Call:
    from ntkfl.connectivity.planes import plane_grid

    (first, *_), x, y, plane, s, t = _given(sizes)

    def loss(vector: np.ndarray) -> float:
        hidden, readout = vector[: first.hidden.size].reshape(first.hidden.shape), vector[first.hidden.size :]
        return float(((np.maximum(x @ hidden.T, 0) @ readout - y) ** 2).mean())

    return lambda: plane_grid(plane, loss, s, t)


WORKLOAD = Workload(
    name="loss-plane",
    says="squared loss on points x points of the plane of three networks of so many units, n samples of 20 features",
    sizes=({"n": 1000, "units": 1024, "points": 51},),
    candidates=(Candidate("ntkfl", _ours, "ours"), Candidate("point by point", _point_by_point)),
    along="points",
    tolerance=1e-9,
)
