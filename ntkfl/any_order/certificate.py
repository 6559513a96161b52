"""`certify_any_order` and its certificate: the claim with its step limits, or the reason why nothing is proved.

The docstring of `ntkfl.any_order` defines the theorem's symbols: W0, W*, A (the held pairs), C, D, J, s_ri, kappa_ri.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.any_order.constraint_rows import NO_PAIRS, ConstraintRows, Dependent, Nearest, Pass, passed, weighted_pairs
from ntkfl.any_order.held_pairs import Grown, grown
from ntkfl.any_order.predictions import FinalAnswers, fitted_point, future_outputs
from ntkfl.any_order.rounding import above, gamma
from ntkfl.any_order.scaled_network import Unreachable, scaled
from ntkfl.any_order.targets import proposed
from ntkfl.any_order.words import as_numbers, as_text
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer, with_constant
from ntkfl.estimate import Estimate
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.spectrum import largest_eigenvalue
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss, loss_of
from ntkfl.messages import labels_differ, require_number, require_size
from ntkfl.problem import Problem, Weights, finite_array, require_features, require_kind, require_problem

MEMORY = 8e9  # bytes that a certificate may take by default
MOST_NEAR = 2**22  # largest number of pairs (neuron, sample) near their kinks, w_r.x_i = 0, that are checked one by one
MOST_HELD = 2000  # largest number of pairs of A; with more held pairs the margins of other pairs are not positive
_COPIES = 10  # number of float64 copies of C's Gram matrix that are held at once
_TRIES = 20  # largest number of halvings of the residual that are tried
_SUMS = {"squares": "half the sum of squares", "hinge": "half the sum of squared hinges"}
_UNKNOWN = Estimate.between(0, np.inf, "not found")
Certificate = TypeVar("Certificate", bound=FinalAnswers)


@dataclass(frozen=True, eq=False)
class GradientProducts:
    """Enclosures of the entries of J J' for all given samples and outputs, ordered by sample.

    The enclosures are valid for any patterns on the held pairs A.
    """

    entries: Estimate  # (N C, N C)
    # |a|^2 x x^T, (N, N), where |a| is the readout's spectral norm. The norm of this matrix bounds the norm of J J',
    # whatever the patterns are.
    universal: Estimate
    n_outputs: int

    def bound(self, members: Int[np.ndarray, " k"]) -> tuple[float, float]:
        """Two upper bounds of |J_c|^2, where J_c has the gradients at these samples. They also bound |J_B|^2 for each
        batch B of these samples.

        The first bound assumes the patterns s off A, the second is valid for any patterns.
        """
        index = self._rows(members)
        any_pattern = _largest(self.universal[np.ix_(members, members)])
        return min(_largest(self.entries[np.ix_(index, index)]), any_pattern), any_pattern

    def batch_bound(self, members: Int[np.ndarray, " k"], size: int) -> float:
        """An upper bound of |J_B|^2 over all batches B of at most `size` of these samples: the largest absolute row
        sum.
        """
        index, k = self._rows(members), len(members)
        entries = self.entries[np.ix_(index, index)]
        size = min(size, k)
        sums = (np.abs(entries.value) + entries.error).reshape(k * self.n_outputs, k, self.n_outputs).sum(axis=2)
        own = sums[np.arange(len(sums)), np.repeat(np.arange(k), self.n_outputs)].copy()
        sums[np.arange(len(sums)), np.repeat(np.arange(k), self.n_outputs)] = 0
        others = np.sort(sums, axis=1)[:, k - size + 1 :].sum(axis=1)
        return min(float(above((own + others).max())), self.bound(members)[0])

    def _rows(self, members: np.ndarray) -> np.ndarray:
        return (members[:, None] * self.n_outputs + np.arange(self.n_outputs)).reshape(-1)


def gradient_products(rows: ConstraintRows) -> GradientProducts:
    """Enclosures of J J' at every point that training can reach: off A the patterns are s, on A they are arbitrary.

    Each entry is c^2 x_i.x_j sum_r b_ar b_br s_ri s_rj, where c b is the readout (as in `ScaledNetwork`). The result
    has a lower and an upper bound of this sum, since s may be any pattern on A.
    """
    neurons, net = rows.neuron_pass, rows.neuron_pass.network
    outputs, touched = net.n_outputs, np.unique(rows.neuron)
    off = rows.patterns(touched)
    on = off.copy()
    on[np.searchsorted(touched, rows.neuron), rows.row] = True
    # the largest and the smallest possible contribution of the pairs of A
    up, down = np.zeros_like(neurons.pairs), np.zeros_like(neurons.pairs)
    for first, second in np.ndindex(outputs, outputs):
        weight = net.readout[first, touched] * net.readout[second, touched]
        for part, of in ((up, np.maximum(weight, 0)), (down, np.maximum(-weight, 0))):
            part[first, second] = np.maximum(weighted_pairs(on, of) - weighted_pairs(off, of), 0)
    absolute = np.abs(net.readout[:, touched]) @ np.abs(net.readout[:, touched]).T
    rounding = above(4 * gamma(len(touched) + 4) * absolute) + neurons.pairs_error
    counts = rows.pairs + (up - down) / 2
    spread = (up + down) / 2 + rounding[:, :, None, None] + gamma(4) * np.abs(counts)
    row, power = net.row, net.exponent[:, None] + net.exponent
    gram = np.ldexp(neurons.gram[np.ix_(row, row)], power)
    doubt = np.ldexp(np.full_like(gram, neurons.gram_error), power)
    size, ones = len(row) * outputs, np.ones((outputs, outputs))

    def by_sample(pairs: np.ndarray) -> Float[np.ndarray, "NC NC"]:
        return pairs[:, :, row][:, :, :, row].transpose(2, 0, 3, 1).reshape(size, size)

    scale = float(np.ldexp(net.factor_squared, -2 * net.gain))
    inner, inner_error, middle = np.kron(gram, ones), np.kron(doubt, ones), by_sample(counts)
    error = by_sample(spread) * (np.abs(inner) + inner_error) + np.abs(middle) * inner_error
    error = above(np.maximum(error, error.T) * scale + gamma(8) * np.abs(middle * inner) * scale)
    entries = Estimate(mirrored((middle * inner * scale).T), error, "rounding bound")
    readout = net.readout @ net.readout.T
    wide = float((gamma(net.width) * (np.abs(net.readout) @ np.abs(net.readout).T)).sum())
    squared = float(above((float(largest_eigenvalue(mirrored(readout.T)).hi) + above(wide)) * scale))
    universal = Estimate(squared * gram, above(squared * (doubt + gamma(4) * np.abs(gram))), "rounding bound")
    return GradientProducts(entries, universal, outputs)


def _largest(matrix: Estimate) -> float:
    return float(largest_eigenvalue(matrix).hi)


class LaterModels(FinalAnswers):
    """The conclusions of a two-layer network's certificate about the outputs of all later models."""

    why: str
    residual: Estimate
    problem: Problem
    network: Weights | TwoLayer | AffineTwoLayer

    @abstractmethod
    def _reached(self) -> tuple[ConstraintRows, Nearest] | None:
        """The rows C, and W* with a bound of the distance of every later model from W*; None if nothing is proved."""

    def enclosure(self, x: Float[np.ndarray, "k d"]) -> Estimate:
        """An enclosure of the outputs of this model and of all later models on these inputs, (k,) or (k, C).

        The errors are infinite if the network is not certified.

        Args:
            x: inputs, shape (k, d).

        Raises:
            ValueError: inputs of another number of features, or not finite.
        """
        x = self.inputs(x)
        shape = (len(x), *self.problem.y.shape[1:])
        reached = self._reached()
        if reached is None:
            return Estimate(np.zeros(shape), np.full(shape, np.inf), "not certified")
        outputs = future_outputs(*reached, x) + self.output_bias
        return Estimate(outputs.value.reshape(shape), outputs.error.reshape(shape), outputs.method)

    def inputs(self, x: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k D"]:
        """These inputs in the form that the field `weights` needs: with a constant feature if the network's hidden
        layer has biases.

        Args:
            x: inputs, shape (k, d).

        Raises:
            ValueError: inputs of another number of features, or not finite.
        """
        constant = isinstance(self.network, AffineTwoLayer) and self.network.bias is not None
        x, features = finite_array("x", x), self.problem.d - constant
        if x.ndim != 2 or x.shape[1] != features:
            raise ValueError(f"x has shape {x.shape}; it must be (k, {features})")
        return with_constant(x) if constant else x

    @property
    def output_bias(self) -> Float[np.ndarray, " C"]:
        """The bias of the outputs, which is not trained; zeros where the network has none."""
        given = self.network.output_bias if isinstance(self.network, AffineTwoLayer) else None
        return np.zeros(self.problem.y[0].size) if given is None else given


@dataclass(frozen=True, eq=False)
class AnyOrderCertificate(LaterModels):
    """Whether the theorem of `ntkfl.any_order` holds for a network on its data, and with which numbers.

    Args:
        certified: whether it is proved.
        why: the reason why nothing is proved; empty if certified.
        margin: the least (sign w*_r.x_i - D kappa_ri) / |x_i| over the pairs off A, rounded down; above 0 if certified.
        distance: an enclosure of D = |W* - W0|; its upper end is infinite if there is no W*.
        held: the pairs of A as rows (neuron, sample), (q, 2).
        residual: an enclosure of |y - f(W0)|. If the loss is not squares: the distance of the kept samples' outputs
            from the outputs that minimise the loss.
        smallest_eigenvalue: an enclosure of the smallest eigenvalue of C C', where each row of a sample is divided by
            the power of two nearest to |x_i|.
        width: m.
        problem: the data in the form that `weights` needs: with a constant feature if the hidden layer has biases, and
            with the output's bias subtracted from the labels.
        weights: the network written without biases.
        network: the network that was given; `enclosure` and `final` take its inputs.
        loss: the loss of an output and its label. If it is not squares, `problem` has only the kept samples, with
            targets in place of labels, and only the clients that have kept samples.
        kept: the given samples that the certificate uses, (k,). The loss of the other samples is minimal, and stays
            minimal in training.
        given: the data as they were given, in the form that `network` needs.
    """

    certified: bool
    why: str
    margin: float
    distance: Estimate
    held: Int[np.ndarray, "q 2"]
    residual: Estimate
    smallest_eigenvalue: Estimate | None
    width: int
    problem: Problem = field(repr=False)
    weights: Weights | TwoLayer = field(repr=False)
    network: Weights | TwoLayer | AffineTwoLayer = field(repr=False)
    loss: ConvexLoss
    kept: Int[np.ndarray, " k"] = field(repr=False)
    given: Problem = field(repr=False)
    _grown: Grown | None = field(repr=False, default=None)
    _limits: dict[str, int] = field(repr=False, default_factory=dict)

    @property
    def residual_name(self) -> str:
        """The name of `residual` in messages: the distance from the labels, or from the minimisers of a loss other than
        squares.
        """
        return super().residual_name if self.loss.name == "squares" else "from f to its minimisers"

    @property
    def step_limit(self) -> float:
        """Every step below this number is allowed, on any batch of any one client; 0 if not certified. Rounded down.

        A step is a multiple of the gradient of the sum of losses; for squares this sum is (1/2) sum_B |y_i - f(x_i)|^2.
        The samples of B are distinct: a sample that is drawn twice makes its step twice as long. The same holds for the
        other limits.
        """
        return float(min(self.client_step_limits)) if self.certified else 0.0

    @property
    def client_step_limits(self) -> Float[np.ndarray, " N"]:
        """The `step_limit` of each client of `problem`: 2 / |J_c|^2, where J_c has the client's gradients for any
        patterns on A.
        """
        return np.array([_limit(bound) for bound, _ in self._client_bounds])

    @property
    def universal_step_limits(self) -> Float[np.ndarray, " N"]:
        """Each client's step limit that is valid for arbitrary patterns: 2 / (|a|^2 |X_c|^2)."""
        return np.array([_limit(bound) for _, bound in self._client_bounds])

    @cached_property
    def pooled_step_limit(self) -> float:
        """Every step below this number is allowed on any batch of samples of all clients; 0 if not certified."""
        return _limit(self._products.bound(np.arange(self.problem.n))[0]) if self.certified else 0.0

    def step_limit_for(self, batch: int) -> float:
        """Every step below this number is allowed on batches of at most `batch` samples of one client; 0 if not
        certified.

        Args:
            batch: number of samples of a batch, at least 1.

        Raises:
            ValueError: a batch that is not a positive integer.
        """
        require_size("batch", batch)
        if not self.certified:
            return 0.0
        return min(_limit(self._products.batch_bound(members, batch)) for members in self.problem.members)

    @property
    def prediction_radius(self) -> float:
        """A number R: the output of a later model at x differs from the present output by at most R |x|; infinite if
        unproved.
        """
        if not self.certified:
            return float("inf")
        assert self._grown is not None
        net = self._grown.rows.neuron_pass.network
        lengths = np.sqrt(above((1 + gamma(net.width)) * (net.readout**2).sum(axis=1))).max() * float(net.factor)
        return float(above(np.ldexp(2 * float(self.distance.hi) * lengths, -net.gain)))

    def trained(self) -> tuple[Problem, Float[np.ndarray, " C"]]:
        """All samples in the form that `weights` needs, and the numbers to add to the outputs before the loss is
        computed.

        Returns: the samples with the labels of the loss, and the numbers to add, (C,).
        """
        if self.loss is SQUARES:
            return self.problem, np.zeros(len(self.output_bias))
        problem, _, _ = without_biases(self.given, self.network)
        return replace(problem, y=self.given.y), self.output_bias

    def fitted_weights(self) -> Float[np.ndarray, "m d"] | None:
        """W* in long precision, as accurate as a solution in float64 allows; None if there is no W*."""
        if self._grown is None or self._grown.nearest is None:
            return None
        return fitted_point(self._grown.rows, self._grown.nearest)

    def _reached(self) -> tuple[ConstraintRows, Nearest] | None:
        return self.proof if self.certified else None

    @property
    def proof(self) -> tuple[ConstraintRows, Nearest]:
        """The rows of C with the pairs of A, and W*, if the network is certified.

        Raises:
            ValueError: the certificate does not hold.
        """
        if not self.certified or self._grown is None or self._grown.nearest is None:
            raise ValueError(f"not certified: {self.why}")
        return self._grown.rows, self._grown.nearest

    def claimed_point(self) -> tuple[np.ndarray, Nearest]:
        """W* in long precision, with D and a bound of the error of W*; if the network is not certified, W* is the point
        for an empty set A of held pairs.

        Returns: W*, shape (m, d), and a record with D and with the bound `slack` of the error.

        Raises:
            ValueError: there is no W*.
        """
        if self._grown is None:
            raise ValueError(f"there is no W*: {self.why}")
        rows = self._grown.rows
        if not self.certified:
            rows = ConstraintRows(rows.neuron_pass, NO_PAIRS.neuron, NO_PAIRS.row)
        try:
            nearest = rows.nearest()
        except Dependent:
            raise ValueError(f"there is no W*: {self.why}") from None
        return fitted_point(rows, nearest), nearest

    @cached_property
    def shortfall(self) -> float | None:
        """An ESTIMATE of the factor by which the residual is too large: the least power of two such that the
        certificate would hold if the residual were divided by it.

        It is 1 if certified, and None if no factor up to 2^20 suffices or if no W* exists.
        """
        if self.certified:
            return 1.0
        if self._grown is None:
            return None
        neurons = self._grown.rows.neuron_pass

        def enough(halvings: int) -> bool:
            return not grown(neurons, scale=0.5**halvings, **self._limits).why

        halvings = interruption.first(enough, 0, _TRIES + 1)
        return None if halvings > _TRIES else 2.0**halvings

    @property
    def needed_residual(self) -> float | None:
        """An ESTIMATE of the largest |y - f| with which the certificate would hold; None if `shortfall` is None."""
        return None if self.shortfall is None else float(self.residual.hi) / self.shortfall

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON allows, `certified` first; a value that is unknown or infinite is None."""
        return as_numbers(self)

    def conditions(self) -> tuple[str, ...]:
        """The certificate's conditions on the training, in words."""
        fixed = ["the output's bias is not trained: it is subtracted from the labels"]
        return (
            "every sample is visited again and again, in batches of distinct samples",
            f"steps are on {_SUMS.get(self.loss.name, f'the sum of {self.loss.name} losses')} over a batch, and stay "
            "above some number above 0",
            "the server's step on the clients' mean stays between some number above 0 and 1",
            *(fixed if self.output_bias.any() else []),
        )

    def __str__(self) -> str:
        return as_text(self)

    @cached_property
    def _products(self) -> GradientProducts:
        assert self._grown is not None
        return gradient_products(self._grown.rows)

    @cached_property
    def _client_bounds(self) -> list[tuple[float, float]]:
        if not self.certified:
            return []
        return [self._products.bound(members) for members in self.problem.members]


def certify_any_order(
    problem: Problem,
    weights: Weights | TwoLayer | AffineTwoLayer,
    *,
    loss: ConvexLoss | str = SQUARES,
    memory: float = MEMORY,
    most_held: int = MOST_HELD,
) -> AnyOrderCertificate:
    """Decide whether training from these weights in any order is proved to fit every label; see `ntkfl.any_order`.

    Args:
        problem: data with labels (n,) or (n, C), whose rows may have any norm. The clients matter only for the step
            limits, which concern batches of one client. Samples that are equal up to a power of two count once.
        weights: hidden (m, d) and signs (m,), for f = signs.relu/sqrt(m); or a TwoLayer, f = readout.relu, with any
            readout; or an AffineTwoLayer, whose hidden biases are trained and whose output bias is not: the output bias
            is subtracted from y.
        loss: the loss whose sum is trained on: squares, hinge (squared; labels -1 and +1 for each output), huber:DELTA,
            band:WIDTH (the square of the amount by which |y - f| exceeds the width); default squares.
        memory: bytes that may be taken; default 8e+09.
        most_held: the largest number of pairs of A, or fewer if memory allows no more; default 2000.

    Raises:
        ValueError: weights that do not fit the data or are not finite, numbers outside 1e-50 to 1e50. More memory
            needed than `memory`: the message says how much, and no work has begun. A negative most_held. A loss without
            minimiser, or a loss that does not take these labels.

    Example:
        >>> import ntkfl
        >>> from ntkfl.initialisation import draw
        >>> ntkfl.certify_any_order(ntkfl.data.sphere(n=2), draw(256, 8, 0)).certified
        False
    """
    require_problem(problem)
    require_size("most_held", most_held, least=0)
    require_number("memory", memory, "be 0 or more")
    given = two_layers(weights)
    loss, ends = minimised(loss, problem)
    if loss is SQUARES:
        return _certified(problem, given, _Kept(problem, loss, np.arange(problem.n)), memory, most_held)
    moved, plain, _ = without_biases(problem, given)
    scaled(replace(moved, y=np.zeros(moved.y.shape)), plain)  # raises if network and data do not fit
    outputs = (plain.outputs(moved.x).reshape(problem.y.shape) + (problem.y - moved.y)).reshape(problem.n, -1)

    def rests_on(kept: Int[np.ndarray, " k"]) -> AnyOrderCertificate:
        part = replace(problem, x=problem.x[kept], y=problem.y[kept], owner=owners(problem.owner[kept]))
        moved, plain, _ = without_biases(part, given)
        shift = (part.y - moved.y).reshape(len(kept), -1)
        # refuses sizes that do not fit into memory, before any work of this size starts
        pair_limits(shift.size, len(plain.hidden), len(kept), memory, most_held)
        try:
            targets = proposed(moved, plain, ends[0][kept] - shift, ends[1][kept] - shift, kept) + shift
        except Unreachable as error:  # the labels themselves are the targets, since each lies in its interval
            refused = _certified(part, given, _Kept(problem, loss, kept), memory, most_held)
            return replace(refused, why=str(error))
        targets = np.clip(targets, *(end[kept] for end in ends)).reshape(part.y.shape)
        spans = [end[kept].reshape(part.y.shape) - targets for end in ends]
        return _certified(replace(part, y=targets), given, _Kept(problem, loss, kept, *spans), memory, most_held)

    return on_few_samples(problem, outputs, ends, rests_on)


def on_few_samples(
    problem: Problem,
    outputs: Float[np.ndarray, "n C"],
    ends: Sequence[Float[np.ndarray, "n C"]],
    rests_on: Callable[[Int[np.ndarray, " k"]], Certificate],
) -> Certificate:
    """A certificate that uses only some samples: those whose loss is not minimal, and those whose loss may leave its
    minimum in training.

    The function `rests_on` returns the certificate for given samples.
    """
    room = np.minimum(outputs - ends[0], ends[1] - outputs).min(axis=1)
    kept = np.flatnonzero(room <= max(0.0, room.min()))
    while True:
        interruption.check()
        certificate = rests_on(kept)
        rest = np.setdiff1d(np.arange(problem.n), kept)
        if not certificate.certified or not len(rest):
            return certificate
        later = certificate.enclosure(problem.x[rest])
        low, high = (end.reshape(len(rest), -1) for end in (later.lo, later.hi))
        stays = ((ends[0][rest] <= low) & (high <= ends[1][rest])).all(axis=1)
        if stays.all():
            return certificate
        kept = np.sort(np.append(kept, rest[~stays]))


def minimised(loss: ConvexLoss | str, problem: Problem) -> tuple[ConvexLoss, list[Float[np.ndarray, "n C"]]]:
    """The loss, and for each output of each sample the ends of the interval in which the loss is minimal.

    Raises:
        ValueError: a loss without minimiser or of too steep a slope, or a loss that does not take these labels.
    """
    loss = loss_of(loss) if isinstance(loss, str) else loss
    require_kind("loss", loss, ConvexLoss, "'hinge'")
    if loss.minimisers is None:
        raise ValueError(f"the {loss.name} loss has no minimiser, so outputs grow for ever; take squares or hinge")
    if loss.smoothness > 1:
        raise ValueError(
            f"the slope of {loss.name} has the Lipschitz constant {loss.smoothness:g}; divide the loss by it"
        )
    if not loss.labels(problem.y):
        wrong = problem.y.reshape(-1)[np.abs(np.abs(problem.y.reshape(-1)) - 1).argmax()]
        raise ValueError(
            f"a label is {wrong:g}; the {loss.name} loss takes {loss.accepts}, for each output (of one-hot labels y: 2 "
            "y - 1)"
        )
    return loss, [end.reshape(problem.n, -1) for end in loss.minimisers(problem.y)]


def owners(owner: np.ndarray) -> np.ndarray:
    """The clients of the samples, renumbered so that the numbers have no gaps."""
    return np.unique(owner, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, eq=False)
class _Kept:
    """The origin of a certificate's targets: the given data, the loss, the kept samples."""

    given: Problem
    loss: ConvexLoss
    kept: np.ndarray
    # by how much an output may be below (a number <= 0) or above its target and still minimise its loss, in the shape
    # of the labels
    below: np.ndarray | float = 0.0
    above: np.ndarray | float = 0.0

    def distance(self, left: Estimate) -> Estimate:
        """The distance of the outputs from the minimisers of the loss; `left` is targets minus outputs."""
        shape, span = left.value.shape, [np.broadcast_to(end, self.shape) for end in (self.below, self.above)]
        change = np.clip(-left.value, *(end.reshape(shape) for end in span))
        size = np.abs(left.value) + np.abs(change)
        return Estimate(left.value + change, above(left.error + gamma(4) * size), left.method)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.kept), *self.given.y.shape[1:])


def _certified(
    problem: Problem, given: Weights | TwoLayer | AffineTwoLayer, of: _Kept, memory: float, most_held: int
) -> AnyOrderCertificate:
    """The certificate for these samples and targets."""
    problem, plain, label_error = without_biases(problem, given)
    known: dict[str, Any] = {"problem": problem, "weights": plain, "network": given, "width": len(plain.hidden)}
    known |= {"loss": of.loss, "kept": of.kept, "given": of.given}
    try:
        network = scaled(problem, plain, label_error)
    except Unreachable as error:
        return AnyOrderCertificate(
            certified=False,
            why=str(error),
            margin=-np.inf,
            distance=_UNKNOWN,
            held=np.zeros((0, 2), int),
            residual=_UNKNOWN,
            smallest_eigenvalue=None,
            **known,
        )
    limits = pair_limits(network.n * network.n_outputs, network.width, network.n, memory, most_held)
    neurons = passed(replace(network, sample=of.kept[network.sample]))
    search = grown(neurons, **limits)
    certified = search.why == "" and search.margin > 0  # false if the margin is NaN
    nearest, neuron, row = search.nearest, search.rows.neuron, search.rows.row
    return AnyOrderCertificate(
        certified=certified,
        why=search.why,
        margin=search.margin,
        distance=_UNKNOWN if nearest is None else nearest.distance,
        held=np.stack([neuron, neurons.network.sample[row]], axis=1),
        residual=of.distance(residuals(neurons)).norm(),
        smallest_eigenvalue=None if nearest is None else search.rows.smallest,
        **known,
        _grown=search,
        _limits=limits,
    )


def pair_limits(
    rows: int, width: int, samples: int, memory: float = MEMORY, most_held: int = MOST_HELD
) -> dict[str, int]:
    """The largest numbers of pairs that may be held and checked; raises a ValueError if memory has no room for any."""
    fixed = samples * width / 8 + 2.0**28 + 16 * rows * rows
    needed = fixed + 8 * _COPIES * rows * rows
    if not needed <= memory:
        raise ValueError(
            f"the certificate of {rows} labels at width {width} takes {needed / 1e9:.3g} GB before any pair "
            f"is held, and memory is {memory / 1e9:.3g} GB: give more memory, or fewer samples"
        )
    room = np.floor(np.sqrt((memory - fixed) / (8 * _COPIES))) - rows
    return {"most_held": int(min(room, most_held)), "most_near": MOST_NEAR}


def two_layers(weights: Weights | TwoLayer | AffineTwoLayer) -> Weights | TwoLayer | AffineTwoLayer:
    """The network itself; a plain pair of hidden weights and signs becomes `Weights`.

    Raises:
        ValueError: the argument is no network of two layers.
    """
    if isinstance(weights, TwoLayer | AffineTwoLayer):
        return weights
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        given = f"{len(weights)} things" if isinstance(weights, tuple | list) else f"a {type(weights).__name__}"
        raise ValueError(
            f"weights is {given}; it must be ntkfl.Weights(hidden, signs), or a TwoLayer or AffineTwoLayer of "
            "ntkfl.connectivity"
        )
    return Weights(*weights)


def without_biases(
    problem: Problem, network: Weights | TwoLayer | AffineTwoLayer
) -> tuple[Problem, Weights | TwoLayer, np.ndarray]:
    """The data and the network written without biases, and a bound of the rounding errors of the labels.

    The output's bias is subtracted from the labels.
    """
    y = problem.y.reshape(problem.n, -1)
    if not isinstance(network, AffineTwoLayer):
        return problem, network, np.zeros_like(y)
    require_features(problem, network.hidden.shape[1])
    plain = TwoLayer(network.hidden, network.readout)
    x = problem.x
    if network.bias is not None:
        plain, x = network.with_feature(), with_constant(x)
    if plain.n_outputs != y.shape[1]:
        raise ValueError(labels_differ(plain.n_outputs, problem.name, y.shape[1]))
    shift = np.zeros(y.shape[1]) if network.output_bias is None else network.output_bias
    moved = y - shift
    back = moved - y
    # the exact rounding error of the difference, by Knuth's TwoSum
    error = np.abs((y - (moved - back)) + (-shift - back))
    return Problem(x, moved.reshape(problem.y.shape), problem.owner, name=problem.name), plain, error


def residuals(neurons: Pass) -> Estimate:
    """y - f(W0) of all given samples, (N, C)."""
    net = neurons.network
    scale = (net.exponent - net.gain)[:, None]
    residual = np.ldexp((net.y - net.factor * neurons.sums).astype(float)[net.row], scale)
    error = float(net.factor) * neurons.sums_error + net.y_error + gamma(2) * np.abs(net.y)
    error = np.ldexp(error[net.row], scale)
    return Estimate(residual, above(error + gamma(2) * np.abs(residual)), "rounding bound")


def _limit(bound: float) -> float:
    """2 / |J|^2, rounded down; 0 if the bound of |J| is no positive number."""
    return float(np.nextafter(2 / bound, 0)) if bound > 0 else 0.0
