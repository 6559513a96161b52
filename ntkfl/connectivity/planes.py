"""The plane through three points of weight space, and losses on a grid of points of the plane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.losses import checked_labels, named_loss
from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs
from ntkfl.memory import require
from ntkfl.problem import finite_array

BLOCK = 2**16  # number of pairs of unit and sample in one block


@dataclass(frozen=True, eq=False)
class Plane:
    """The plane of the points origin + s first + t second of weight space. The two directions are orthonormal.

    Args:
        origin: the first of the three points, shape (S,).
        first: unit vector of the first axis, shape (S,).
        second: unit vector of the second axis, shape (S,).
        corners: coordinates (s, t) of the three points through which the plane was laid, (3, 2).
    """

    origin: Float[np.ndarray, " S"]
    first: Float[np.ndarray, " S"]
    second: Float[np.ndarray, " S"]
    corners: Float[np.ndarray, "3 2"]

    def point(self, s: float, t: float) -> Float[np.ndarray, " S"]:
        """The weights at these coordinates.

        Args:
            s: first coordinate.
            t: second coordinate.
        """
        return self.origin + s * self.first + t * self.second

    def coordinates(self, vector: Float[np.ndarray, " S"]) -> Float[np.ndarray, " 2"]:
        """The coordinates of the point of the plane that is nearest to these weights.

        Args:
            vector: the weights, shape (S,).
        """
        offset = finite_array("vector", vector) - self.origin
        return np.array([offset @ self.first, offset @ self.second])

    def axes(self, points: int, margin: float = 0.25) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Equally spaced values of s and of t that cover the corners and a margin of their extent on each side.

        Args:
            points: the number of values of each coordinate.
            margin: share of the corners' extent that is added on each side, default .25.

        Returns: the values of s, shape (p,), and the values of t, shape (p,).
        """
        low, high = self.corners.min(axis=0), self.corners.max(axis=0)
        reach = margin * (high - low)
        s, t = (np.linspace(a, b, points) for a, b in zip(low - reach, high + reach, strict=True))
        return s, t


def plane_through(vectors: Sequence[Float[np.ndarray, " S"]]) -> Plane:
    """The plane through three points. The first point is the origin, and the second lies on the first axis.

    Args:
        vectors: three points, shape (S,) each.

    Raises:
        ValueError: there are not three points; their lengths differ; an entry is not finite; or the points lie on one
            line.
    """
    if len(vectors) != 3:
        raise ValueError(f"a plane goes through 3 points, got {len(vectors)}")
    points = [finite_array(f"point {k}", vector) for k, vector in enumerate(vectors)]
    shapes = [point.shape for point in points]
    if len(set(shapes)) > 1 or points[0].ndim != 1:
        raise ValueError(f"the points have shapes {shapes}; they must be vectors of one length")
    across, up = points[1] - points[0], points[2] - points[0]
    width, length = np.linalg.norm(across), np.linalg.norm(up)
    first = across / width if width > 0 else across
    rest = up - (up @ first) * first
    # the part along the first axis is subtracted twice, since rounding leaves some of it after the first subtraction
    rest = rest - (rest @ first) * first
    height = np.linalg.norm(rest)
    if not width > 0 or not height > 1e-12 * length:
        raise ValueError(f"the points lie on one line (height {height:.3g} over it); a plane needs three that do not")
    return Plane(points[0], first, rest / height, np.array([[0.0, 0.0], [width, 0.0], [up @ first, height]]))


def plane_losses(
    networks: Sequence[TwoLayer],
    x: Float[np.ndarray, "n l"],
    y: np.ndarray,
    s: Float[np.ndarray, " p"],
    t: Float[np.ndarray, " q"],
    loss: str = "squared",
) -> Float[np.ndarray, "p q"]:
    """The mean loss at every point (s_i, t_j) of the plane through three networks, (p, q).

    The pre-activations U x are affine in the coordinates, so three matrix products are enough for all points.

    Args:
        networks: three networks of one shape.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        s: first coordinates, shape (p,), see `Plane`.
        t: second coordinates, shape (q,), see `Plane`.
        loss: "squared", "absolute", "logistic" or "cross-entropy"; default squared.

    Raises:
        ValueError: as `plane_through`; the networks, the inputs and the labels do not fit each other; the networks or
            the labels do not fit the loss; or the products do not fit into memory.
    """
    check_shapes(networks)
    plane = plane_through([network.vector() for network in networks])
    shape, x, chosen = networks[0], checked_inputs(networks[0], x), named_loss(loss)
    y = checked_labels(chosen, y, len(x), shape.n_outputs)
    require("the losses in the plane", lambda n: 8 * 3 * n * len(shape.hidden), n=len(x))  # the three products
    parts = [shape.at(part) for part in (plane.origin, plane.first, plane.second)]
    products = [x @ part.hidden.T for part in parts]
    readouts = [np.atleast_2d(part.readout) for part in parts]
    s, t = finite_array("s", s), finite_array("t", t)
    total = np.zeros((len(s), len(t)))
    rows = max(1, BLOCK // len(shape.hidden))
    for begin in range(0, len(x), rows):
        origin, across, up = (product[begin : begin + rows] for product in products)
        labels, gate = y[begin : begin + rows], np.empty_like(origin)
        bases = [origin + a * across for a in s]
        outputs = np.empty((len(s), len(origin), len(readouts[0])))
        for j, b in enumerate(t):
            # relu(base + rise) is computed as max(base, -rise) + rise, which takes two passes for each point instead of
            # four
            rise = b * up
            below = -rise
            for i, a in enumerate(s):
                weights = (readouts[0] + a * readouts[1] + b * readouts[2]).T
                np.matmul(np.maximum(bases[i], below, out=gate), weights, out=outputs[i])
            slopes = [rise @ part.T for part in readouts]
            outputs += slopes[0] + s[:, None, None] * slopes[1] + b * slopes[2]
            total[:, j] += chosen.value(outputs if shape.n_outputs > 1 else outputs[..., 0], labels).sum(axis=1)
    return total / len(x)


def plane_grid(
    plane: Plane,
    evaluate: Callable[[Float[np.ndarray, " S"]], float],
    s: Float[np.ndarray, " p"],
    t: Float[np.ndarray, " q"],
) -> Float[np.ndarray, "p q"]:
    """Any function of the weights at every point (s_i, t_j) of a plane, (p, q), for models of any kind.

    Args:
        plane: the plane of the weights.
        evaluate: the function of the weights, shape (S,).
        s: first coordinates, shape (p,), see `Plane`.
        t: second coordinates, shape (q,), see `Plane`.
    """
    s, t = finite_array("s", s), finite_array("t", t)
    return np.array([[float(evaluate(plane.point(a, b))) for b in t] for a in s])
