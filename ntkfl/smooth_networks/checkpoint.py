"""The quantities that a certificate needs of a network, on its data, at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from ntkfl.any_order.rounding import above, below
from ntkfl.estimate import Estimate, NotFinite
from ntkfl.gram.spectrum import smallest_eigenvalue
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.memory import require
from ntkfl.messages import labels_differ
from ntkfl.problem import Problem, require_features
from ntkfl.ranges import require_number
from ntkfl.smooth_networks.curvature import Curvature, sizes_of_all, sizes_of_each, weight_norms
from ntkfl.smooth_networks.layers import Layer
from ntkfl.smooth_networks.passes import passed


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What certificates need of a network and its data: enclosures of residuals, kernel and curvature."""

    layers: tuple[Layer, ...]  # layers of the network
    residual: Estimate  # y - f, (n, C)
    kernel: Estimate  # J J', (n C, n C)
    smallest_eigenvalue: Estimate  # smallest eigenvalue of J J'
    gradients: float  # at least |J| (Frobenius)
    curvature: Curvature  # bounds of the second derivatives

    @classmethod
    def of(cls, layers: tuple[Layer, ...], problem: Problem, memory: float | None = None) -> Checkpoint:
        """From a forward and a backward pass: the kernel, and the norms of the layers.

        Raises:
            ValueError: a network that does not fit the data. TooLittleMemory: the certificate does not fit.
        """
        require_fit(layers, problem)
        require_memory([(layer.weight.size, layer.gives, _copied(layer)) for layer in layers], problem, memory)
        try:
            norms = weight_norms(layers)
            done = passed(layers, problem.x, norms)
            products = [done.input_products(k) for k in range(len(layers))]
            kernel = done.kernel(products)
            return cls(
                layers,
                -(done.outputs - problem.y.reshape(problem.n, -1)),
                kernel,
                smallest_eigenvalue(kernel),
                float(np.sqrt(above((done.gradient_lengths() ** 2).sum()))),
                Curvature(layers, norms, sizes_of_each(done), sizes_of_all(done, products)),
            )
        except NotFinite as error:
            largest = max(layers, key=lambda layer: np.abs(layer.weight).max(initial=0.0))
            raise ValueError(
                f"outputs or gradients are beyond float64: data reach {np.abs(problem.x).max():.3g}, the weights of "
                f"layer {largest.name} {np.abs(largest.weight).max():.3g}; rescale them"
            ) from error

    @property
    def least_root(self) -> float:
        """A lower bound of the smallest singular value of J."""
        return float(below(np.sqrt(np.maximum(self.smallest_eigenvalue.lo, 0.0))))

    @property
    def depth(self) -> int:
        """Layers of weights."""
        return sum(not layer.stands_in for layer in self.layers)

    @property
    def width(self) -> int:
        """Neurons of the narrowest hidden layer."""
        widths = [len(layer.weight) for layer in self.layers if not layer.stands_in]
        return min(widths[:-1], default=widths[-1])

    def singular(self, problem: Problem, names: Int[np.ndarray, " n"] | None = None, loss: ConvexLoss = SQUARES) -> str:
        """The reason why J J' may be singular: two labels of one input that exclude each other, or dependent gradients.

        `names` of the samples are for messages; default their numbers.
        """
        names = np.arange(problem.n) if names is None else names
        assert loss.minimisers is not None
        low, high = (end.reshape(problem.n, -1) for end in loss.minimisers(problem.y))
        same = np.unique(problem.x, axis=0, return_inverse=True)[1].reshape(-1)
        for members in (np.flatnonzero(same == row) for row in np.unique(same)):
            apart = np.flatnonzero(low[members].max(axis=0) > high[members].min(axis=0))
            if len(apart):
                ends = low[members, apart[0]].argmax(), high[members, apart[0]].argmin()
                i, j = sorted(int(members[end]) for end in ends)
                none = "none fits both" if loss is SQUARES else f"no output minimises both {loss.name} losses"
                return (
                    f"samples {names[i]} and {names[j]} are equal, and their labels are {problem.y[i]} and "
                    f"{problem.y[j]}: {none}"
                )
        value = self.kernel.value
        lowest = np.abs(np.linalg.eigh((value + value.T) / 2)[1][:, 0])
        samples = names[np.unique(np.argsort(lowest)[::-1][:2] // self.residual.value.shape[1])]
        return (
            f"the smallest eigenvalue of J J' may be 0 ({self.smallest_eigenvalue}): the gradients are "
            f"dependent, most of all those of sample{'s' if len(samples) > 1 else ''} "
            f"{' and '.join(map(str, samples))}; leave {'one' if len(samples) > 1 else 'it'} out"
        )


def require_memory(layers: Iterable[tuple[int, int, int]], problem: Problem, memory: float | None = None) -> None:
    """Refuse a certificate that does not fit.

    Of each layer it takes the number of entries of the weight, the number of outputs, and for a convolution the numbers
    kept beside its neurons: squares for each sample, and a gradient for each output.

    Raises:
        TooLittleMemory: the certificate does not fit. ValueError: a memory that is no number of bytes.
    """
    if memory is not None:
        require_number("memory", memory, "be 0 or more")
    weights, gives, copied = np.array(list(layers), float).T
    outputs, numbers = problem.y[0].size, problem.d + float(gives.sum() + copied.sum())

    def needs(n: int) -> float:
        return 8.0 * (6 * n * (outputs + 1) * numbers + 16 * (n * outputs) ** 2 + 8 * float(weights.max()))

    require("the certificate of a smooth network", needs, memory, n=problem.n)


def _copied(layer: Layer) -> int:
    return 0 if layer.image is None else layer.weight.size + layer.takes * layer.image.side**2


def require_fit(layers: tuple[Layer, ...], problem: Problem) -> None:
    features, outputs = layers[0].takes, len(layers[-1].weight)
    require_features(problem, features)
    labels = problem.y[0].size
    if outputs != labels:
        raise ValueError(labels_differ(outputs, problem.name, labels))
