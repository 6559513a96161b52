"""Terms of the proofs about the segment between the first two networks of a case, evaluated directly."""

import numpy as np

from bounds.cases.cube_networks import EPS, CubeNetworks
from ntkfl.connectivity.network import TwoLayer, between
from ntkfl.estimate import Estimate

ALPHAS = np.arange(1, 12) / 12  # interior points of the segment; the sixth is 1/2
ROUNDING = "rounding bound"


def pair(case: CubeNetworks) -> tuple[TwoLayer, TwoLayer]:
    """w_1 and w_2.

    Raises:
        ValueError: a case with one network.
    """
    if case.count < 2:
        raise ValueError(f"the case has {case.count} network; a segment needs 2")
    return case.networks[0], case.networks[1]


def end_preactivations(case: CubeNetworks) -> tuple[np.ndarray, np.ndarray]:
    """The pre-activations a = U_1 x and c = U_2 x of both networks, (n, h)."""
    first, second = pair(case)
    return case.x @ first.hidden.T, case.x @ second.hidden.T


def rounding(case: CubeNetworks) -> np.ndarray:
    """A bound on the rounding error of any output on the segment, (n,).

    No output is larger than sum_i |v_i| |u_i| |x|, where each weight is the larger one of both networks' weights.
    """
    first, second = pair(case)
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in (first, second)))
    reach = np.linalg.norm(case.x, axis=1) * float(rows @ np.maximum(np.abs(first.readout), np.abs(second.readout)))
    return 4 * (case.l + case.h + 8) * EPS * reach


def mean_loss(case: CubeNetworks, network: TwoLayer, loss: str = "squared") -> Estimate:
    """The mean of (f - y)^2 or of |f - y| for a network of the segment, computed from its outputs."""
    residual = Estimate(network.outputs(case.x), rounding(case), ROUNDING) - case.y
    return mean_of(abs(residual) if loss == "absolute" else residual.squared())


def mean_of(parts: Estimate) -> Estimate:
    """The mean of an array."""
    error = parts.error.mean() + (parts.value.size + 8) * EPS * np.abs(parts.value).mean()
    return Estimate(parts.value.mean(), error, parts.method, parts.rigour)


def loss_at(case: CubeNetworks, alpha: float, loss: str = "squared") -> Estimate:
    """The mean loss at alpha w_1 + (1 - alpha) w_2.

    alpha = 1 gives the first network, alpha = 0 the second.
    """
    return mean_loss(case, between(*pair(case), alpha), loss)


def gap(case: CubeNetworks, alphas: np.ndarray) -> Estimate:
    """z_x(alpha) = f_alpha(x) - alpha f_1(x) - (1 - alpha) f_2(x), (A, n)."""
    ends = [net.outputs(case.x) for net in pair(case)]
    value = [between(*pair(case), a).outputs(case.x) - a * ends[0] - (1 - a) * ends[1] for a in alphas]
    return Estimate(np.array(value), np.tile(3 * rounding(case), (len(alphas), 1)), ROUNDING)


def distance_of_sides(case: CubeNetworks, crossing_only: bool = False) -> Estimate:
    """|(U_2 - U_1) x|_2, (n,), over all units or only over the units whose sign differs between the networks.

    If rounding hides the sign of a unit at an end, the unit's contribution is added to the error.
    """
    first, second = (Estimate.exact(net.hidden.T) for net in pair(case))
    moved = case.x @ (second - first)
    if crossing_only:
        a, c = case.x @ first, case.x @ second
        doubtful = (np.abs(a.value) <= a.error) | (np.abs(c.value) <= c.error)
        share = np.where(doubtful, np.abs(moved.value) + moved.error, 0.0)
        moved = moved * (a.value * c.value < 0) + Estimate(np.zeros(share.shape), share, ROUNDING)
    return moved.norm(axis=1)


def accuracy(network: TwoLayer, x: np.ndarray, y: np.ndarray) -> float:
    """The share of samples with y f > 0, computed from the outputs.

    `y` is ±1, and f = 0 counts as wrong.
    """
    return float((network.outputs(x) * y > 0).mean())


def crossings(case: CubeNetworks) -> np.ndarray:
    """0, 1 and every alpha at which a unit changes its sign on an input, ascending."""
    a, c = end_preactivations(case)
    where = np.divide(-c, a - c, out=np.zeros_like(c), where=a != c)
    return np.unique(np.concatenate([[0.0, 1.0], where[(where > 0) & (where < 1)]]))


def mean_square(case: CubeNetworks, places: np.ndarray) -> np.ndarray:
    """The mean of (f - y)^2 at places of the segment, computed from the outputs."""
    first, second = pair(case)
    squares = [((between(first, second, place).outputs(case.x) - case.y) ** 2).mean() for place in places.ravel()]
    return np.array(squares).reshape(places.shape)


def kink_terms(case: CubeNetworks, alphas: np.ndarray) -> np.ndarray:
    """J = alpha relu(a) + (1 - alpha) relu(c) - relu(g), (A, n, h), where g = alpha a + (1 - alpha) c.

    J is min(alpha |a|, (1 - alpha) |c|) where a c < 0, and 0 elsewhere.
    """
    a, c = end_preactivations(case)
    shares = alphas[:, None, None]
    return np.minimum(shares * np.abs(a), (1 - shares) * np.abs(c)) * (a * c < 0)
