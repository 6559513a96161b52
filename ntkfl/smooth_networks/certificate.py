"""`certify_network` and its certificate, with the proved numbers of a smooth network or the reason why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from ntkfl.any_order.certificate import minimised, on_few_samples, owners
from ntkfl.any_order.predictions import FinalAnswers
from ntkfl.any_order.rounding import above, below
from ntkfl.any_order.words import not_certified, shown_down, shown_up
from ntkfl.estimate import Estimate, NotFinite
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.memory import require
from ntkfl.messages import is_number, labels_differ, require_number
from ntkfl.problem import Problem, checked_rows, require_features, require_problem
from ntkfl.smooth_networks.float_network import FloatNetwork
from ntkfl.smooth_networks.layers import Layer
from ntkfl.smooth_networks.passes import (
    Curvature,
    largest_nonnegative,
    passed,
    sizes_of_all,
    sizes_of_each,
    weight_norms,
)
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.smooth_networks.window import Start, Window, largest_step, needed_residual, window as proved_window

if TYPE_CHECKING:
    from torch import nn

    from ntkfl.training.models.wide_networks import WideNetwork


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The quantities of a network and its data that certificates need: enclosures of residuals, kernel and second
    derivatives.
    """

    layers: tuple[Layer, ...]  # layers of the network
    residual: Estimate  # y - f, (n, C)
    kernel: Estimate  # J J', (n C, n C)
    smallest_eigenvalue: Estimate  # smallest eigenvalue of J J'
    gradients: float  # an upper bound of |J| in the Frobenius norm
    curvature: Curvature  # bounds of the second derivatives of the outputs

    @classmethod
    def of(cls, layers: tuple[Layer, ...], problem: Problem, memory: float | None = None) -> Checkpoint:
        """The checkpoint of a network, computed by a forward and a backward pass.

        Raises:
            ValueError: a network that does not fit the data. TooLittleMemory: the certificate does not fit.
        """
        require_fit(layers, problem)
        require_memory([(layer.weight.size, layer.n_outputs, _copied(layer)) for layer in layers], problem, memory)
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
        """The number of layers of weights."""
        return sum(not layer.stands_in for layer in self.layers)

    @property
    def width(self) -> int:
        """The number of neurons of the narrowest hidden layer."""
        widths = [len(layer.weight) for layer in self.layers if not layer.stands_in]
        return min(widths[:-1], default=widths[-1])

    def singular(self, problem: Problem, names: Int[np.ndarray, " n"] | None = None, loss: ConvexLoss = SQUARES) -> str:
        """The reason why J J' may be singular: one input has two labels that exclude each other, or gradients are
        linearly dependent.

        `names` has the names of the samples for messages; default: their numbers.
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

    `layers` has three numbers for each layer: entries of the weight, outputs, and further entries that are kept for a
    convolution. The further entries belong to the unfolded pixels of a sample and to the gradient of an output.

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
    return 0 if layer.image is None else layer.weight.size + layer.n_inputs * layer.image.side**2


def require_fit(layers: tuple[Layer, ...], problem: Problem) -> None:
    features, outputs = layers[0].n_inputs, len(layers[-1].weight)
    require_features(problem, features)
    labels = problem.y[0].size
    if outputs != labels:
        raise ValueError(labels_differ(outputs, problem.name, labels))


HALVINGS = 20  # largest number of halvings of the step, if no step is given


class LaterNetworks(FinalAnswers):
    """Conclusions about the outputs and classes of later models, which follow from a bound of their distance."""

    problem: Problem
    _curvature: Curvature

    @property
    def reach(self) -> float:
        """No later model is farther than this from the weights; infinite if not certified."""
        raise NotImplementedError

    def enclosure(self, x: Float[np.ndarray, "k d"]) -> Estimate:
        """An enclosure of the outputs of this and of all later models on these inputs, (k,) or (k, C).

        The errors are infinite if the network is not certified.

        Args:
            x: inputs, shape (k, d).

        Raises:
            ValueError: inputs of another number of features, or not finite.
        """
        x = checked_rows("x", x)
        if x.shape[1] != self.problem.d:
            raise ValueError(f"x has shape {x.shape}; it must be (k, {self.problem.d})")
        shape = (len(x), *self.problem.y.shape[1:])
        if not np.isfinite(self.reach):
            return Estimate(np.zeros(shape), np.full(shape, np.inf), "not certified")
        done = passed(self._curvature.layers, x, self._curvature.norms)
        curvature = Curvature(self._curvature.layers, self._curvature.norms, sizes_of_each(done), None)
        smooth = done.gradient_lengths().reshape(-1) + curvature.of_each(self.reach) * self.reach / 2
        speed = np.where(curvature.crossing(self.reach).any(axis=0), curvature.lipschitz(self.reach), smooth)
        moved = above(speed * self.reach).reshape(done.outputs.value.shape)
        outputs = done.outputs + Estimate(np.zeros(moved.shape), moved, "moved at most", done.outputs.rigour)
        return Estimate(outputs.value.reshape(shape), outputs.error.reshape(shape), "rounding bound", outputs.rigour)


@dataclass(frozen=True, eq=False)
class NetworkCertificate(LaterNetworks):
    """Whether the theorem of `ntkfl.smooth_networks` holds for a network and its data, and with which numbers.

    Args:
        certified: whether the theorem holds.
        why: the reason if not certified, otherwise empty.
        residual: an enclosure of |y - f| over all samples and outputs. If the loss is not squares: the distance of the
            kept samples' outputs from the outputs that minimise the loss.
        smallest_eigenvalue: an enclosure of the smallest eigenvalue of J J'.
        visits: the number v, which is the largest allowed ratio of two samples' sums of step sizes in a window.
        depth: number of layers of weights.
        width: number of neurons of the narrowest hidden layer.
        problem: the data.
        loss: the loss of an output and its label.
        kept: the samples that the certificate uses, (k,). The loss of the other samples is minimal, and stays minimal
            in training.
    """

    certified: bool
    why: str
    residual: Estimate
    smallest_eigenvalue: Estimate
    visits: float
    depth: int
    width: int
    problem: Problem = field(repr=False)
    loss: ConvexLoss
    kept: Int[np.ndarray, " k"] = field(repr=False)
    start: Start = field(repr=False)
    window: Window | None = field(repr=False, default=None)
    _step: float | None = field(repr=False, default=None)

    @property
    def _curvature(self) -> Curvature:  # type: ignore[override]
        return self.start.curvature

    @property
    def residual_name(self) -> str:
        """The name of `residual` in messages: the distance from the labels, or from the minimisers of a loss other than
        squares.
        """
        return super().residual_name if self.loss is SQUARES else "from f to its minimisers"

    @property
    def distance(self) -> float:
        """The distance within which some weights fit every label; infinite if not certified."""
        return float("inf") if self.window is None else self.window.distance

    @property
    def reach(self) -> float:
        """No later model is farther than this from the weights; infinite if not certified."""
        return float("inf") if self.window is None else self.window.reach

    @property
    def step_limit(self) -> float:
        """Every step up to this number is allowed, on any batch of distinct samples; 0 if not certified.

        A step is a multiple of the gradient of the sum of losses; for squares this sum is (1/2) sum_B |y_i - f(x_i)|^2.
        """
        return 0.0 if self.window is None else self.window.step

    @property
    def window_factor(self) -> float:
        """A window multiplies the squared distance to the fits by at most this factor, for steps of `step_limit` and
        without means.

        Fits are weights that fit every label. With smaller steps eta, and with means in which every model that trains
        has a weight of at least p, a window's factor is at most 1 - (1 - window_factor) p eta / step_limit.
        window_factor is 1 if not certified.
        """
        if self.window is None:
            return 1.0
        return min(1.0, float(above(1 - below(self.window.step * (self.window.alpha * (1 - 1e-9) - self.window.beta)))))

    @cached_property
    def needed_residual(self) -> float | None:
        """An ESTIMATE of the largest |y - f| with which the theorem would hold, for this kernel and these second
        derivatives.

        If the network is certified, this is its own residual, since larger residuals are not tried. None if no positive
        residual is found.
        """
        if self.certified:
            return float(self.residual.hi)
        return needed_residual(self.start, self.visits, self._step, HALVINGS, float(self.residual.hi)) or None

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON allows, `certified` first; infinity and NaN become None."""
        numbers = {
            "residual": float(self.residual.hi),
            "needed_residual": self.needed_residual,
            "smallest_eigenvalue": float(self.smallest_eigenvalue.lo),
            "distance": self.distance,
            "reach": self.reach,
            "step_limit": self.step_limit,
            "window_factor": self.window_factor,
            "visits": self.visits,
        }
        finite = {name: value if value is not None and np.isfinite(value) else None for name, value in numbers.items()}
        sizes: dict[str, Any] = {"depth": self.depth, "width": self.width, "n": self.problem.n}
        sizes |= {} if self.loss is SQUARES else {"loss": self.loss.name, "kept": len(self.kept)}
        return {"certified": self.certified, "why": self.why} | finite | sizes

    def __str__(self) -> str:
        numbers = {} if self.certified else {"in the way": self.why}
        other = self.loss is not SQUARES
        numbers |= {
            "samples, layers, width": f"{self.problem.n}, {self.depth}, {self.width}",
            **({"loss": self.loss.name} if other else {}),
            self.residual_name: shown_up(float(self.residual.hi)),
            **({"samples it rests on": str(len(self.kept))} if other else {}),
            "lambda_min of the kernel": shown_down(float(self.smallest_eigenvalue.lo)),
        }
        if self.certified:
            numbers |= {
                "distance to a fit": shown_up(self.distance),
                "steps up to": shown_down(self.step_limit),
                "a window at that step": f"1 - {shown_down(1 - self.window_factor)}",
            }
        return "\n".join([*sentences(self), "", *(f"  {name:<28}{shown}" for name, shown in numbers.items())])


def sentences(certificate: NetworkCertificate) -> tuple[str, str]:
    """Two sentences: the proved claims, or that nothing is proved and which residual would do, if that is known."""
    if not certificate.certified:
        what = "residual |y - f|" if certificate.loss is SQUARES else "distance of outputs to minimisers"
        return not_certified(certificate.needed_residual, float(certificate.residual.hi), what=what)
    visits = (
        "every window visits all samples equally often"
        if certificate.visits == 1
        else f"visits of samples in a window differ at most {certificate.visits:g}-fold"
    )
    return (
        f"CERTIFIED for any order: steps up to {shown_down(certificate.step_limit)} bring the training loss to 0 if "
        f"{visits}.",
        f"No later model is farther than {shown_up(certificate.reach)} from this one.",
    )


def certify_network(
    network: nn.Module | WideNetwork | Callable[..., Any],
    params: Any,
    problem: Problem,
    *,
    visits: float = 1.0,
    step: float | None = None,
    loss: ConvexLoss | str = SQUARES,
    memory: float | None = None,
) -> NetworkCertificate:
    """Decide whether training all layers of a smooth network in any order is proved to fit the data; see
    `ntkfl.smooth_networks`.

    Args:
        network: a network of one of three kinds. The first is a torch Sequential of Linear, Conv2d with an odd kernel
            size k, padding k // 2 and any stride, AdaptiveAvgPool2d(1), and `ntkfl.training.Residual` blocks of these.
            Tanh, GELU, Softplus, Sigmoid, SiLU or ReLU may stand anywhere; for images, Unflatten comes first. The
            second is `ntkfl.networks.wide` of "fc:L:PHI" or "conv:L:PHI". The third is a JAX function f(params, x),
            with x of shape (n, d), made of products x @ W, biases, activations and residual sums. The layers of a
            function are read at four values of n, and are assumed to be the same at all other values. Parameters
            without requires_grad are not trained.
        params: the network's parameters by name, as arrays or tensors; None for the module's own parameters. They must
            be given for a JAX function.
        problem: data with labels (n,) or (n, C).
        visits: the number v. A sequence of steps is a window if there is a number eta with two properties: eta is at
            most the largest step size (see `step`), and for each sample the sizes of the steps on it sum to between eta
            and v eta. For shuffled epochs v is 1; default 1.
        step: the largest step size of the training; None for the largest 2^-k / lambda_max(J J') for which the theorem
            holds.
        loss: the loss whose sum is trained on: squares, hinge (squared; labels -1 and +1 for each output), huber:DELTA,
            band:WIDTH (the square of the amount by which |y - f| exceeds the width); default squares.
        memory: bytes that the certificate may take; None for all free memory.

    Raises:
        ValueError: a layer that is not covered (the message names it); weights that do not fit or are not finite;
            visits below 1, a step that is not positive; a loss that has no minimiser, or does not take these labels.
            TooLittleMemory: the certificate does not fit.
    Source: docs/proofs/smooth_networks.md#the-theorem
    """
    require_problem(problem)
    require_number("visits", visits, "be 1 or more, and finite")
    if step is not None and not (is_number(step) and 0 < step < np.inf):
        raise ValueError(f"step is {step!r}; it must be a positive number, or None")
    return certify_layers(layers_of(network, params, problem.d), problem, visits, step, memory, loss)


def certify_layers(
    layers: tuple[Layer, ...],
    problem: Problem,
    visits: float = 1.0,
    step: float | None = None,
    memory: float | None = None,
    loss: ConvexLoss | str = SQUARES,
) -> NetworkCertificate:
    """The certificate of `certify_network` for a list of layers.

    Source: docs/proofs/smooth_networks.md#other-losses
    """
    loss, (low, high) = minimised(loss, problem)
    points = bool((low == high).all())
    if not loss.halved > 0 or (loss.halved < np.inf and not points):
        raise ValueError(f"the loss {loss.name} is not half a squared distance; take squares, hinge, huber or band")
    # This branch is for squares, and for Huber's loss within its quadratic part. `points` may also be true for a narrow
    # band, whose two ends may round to the same float; the condition on the loss excludes bands.
    if points and (loss is SQUARES or loss.halved < np.inf):
        certificate = _certified(
            layers, problem, np.arange(problem.n), problem.y, loss, visits, step, memory, intervals=False
        )
        if certificate.certified and loss.halved < np.inf:
            later = certificate.enclosure(problem.x)
            if not (np.abs(later.value - problem.y) + later.error <= below(loss.halved)).all():
                why = f"outputs may get farther than {loss.halved:g} from their labels, where the loss is linear"
                return replace(certificate, certified=False, why=why, window=None)
        return certificate
    require_fit(layers, problem)
    network = FloatNetwork(layers)
    outputs = network.forward(network.start(), problem.x)[0]
    targets = np.clip(outputs, low, high)

    def rests_on(kept: Int[np.ndarray, " k"]) -> NetworkCertificate:
        own = targets[kept].reshape(-1, *problem.y.shape[1:])
        return _certified(layers, problem, kept, own, loss, visits, step, memory)

    return on_few_samples(problem, outputs, (low, high), rests_on)


def _certified(
    layers: tuple[Layer, ...],
    problem: Problem,
    kept: Int[np.ndarray, " k"],
    targets: np.ndarray,
    loss: ConvexLoss,
    visits: float,
    step: float | None,
    memory: float | None,
    intervals: bool = True,
) -> NetworkCertificate:
    """The certificate that uses only the samples `kept`, whose losses are minimal at the targets."""
    part = replace(problem, x=problem.x[kept], y=targets, owner=owners(problem.owner[kept]))
    at = Checkpoint.of(layers, part, memory)
    curvature, residual, smallest = at.curvature, at.residual.norm(), at.smallest_eigenvalue
    start = Start(
        least_root=at.least_root,
        largest=float(largest_eigenvalue(at.kernel).hi),
        entries=float(largest_nonnegative(above(np.abs(at.kernel.value) + at.kernel.error)[None])[0]),
        gradients=at.gradients,
        curvature=curvature,
        kept=kept,
        intervals=intervals,
    )
    if start.least_root == 0:
        judged: Window | str = at.singular(replace(part, y=problem.y[kept]), kept, loss)
    elif step is None:
        judged = largest_step(start, float(residual.hi), visits, HALVINGS)
    else:
        judged = proved_window(start, float(residual.hi), step, visits)
    proved = judged if isinstance(judged, Window) else None
    return NetworkCertificate(
        certified=proved is not None,
        why=judged if isinstance(judged, str) else "",
        residual=residual,
        smallest_eigenvalue=smallest,
        visits=float(visits),
        depth=at.depth,
        width=at.width,
        problem=problem,
        loss=loss,
        kept=kept,
        start=start,
        window=proved,
        _step=step,
    )
