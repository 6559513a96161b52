"""`certify_method` and its certificate: a method with memory, begun at a checkpoint, converges at a proved rate.

The state z has the residual and, for some methods, remembered vectors. A few matrices describe how a round changes z,
and every entry of these matrices is enclosed. docs/proofs/any_method.md#the-theorem defines the norm |S z| of states
and the ball about the fitting weights W*. The matrix S is computed in float64, and everything that follows from S is
enclosed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.any_order.certificate import (
    MEMORY,
    MOST_NEAR,
    LaterModels,
    gradient_products,
    residuals,
    two_layers,
    without_biases,
)
from ntkfl.any_order.constraint_rows import NO_PAIRS, ConstraintRows, Dependent, Nearest, near_pairs, passed
from ntkfl.any_order.held_pairs import dependent, failures, named
from ntkfl.any_order.predictions import fitted_point
from ntkfl.any_order.rounding import above, below
from ntkfl.any_order.scaled_network import Unreachable, scaled
from ntkfl.any_order.words import not_certified, shown_up
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
from ntkfl.estimate import Estimate
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.messages import require_number, require_size
from ntkfl.problem import Problem, Setup, Weights, finite_array, require_kind, require_problem, require_setup

if TYPE_CHECKING:
    from ntkfl.training.method import Method

COVERED = ("fl-ntk", "fedavg", "fedavgm", "fedprox", "scaffold", "feddyn")
REMEMBER = ("fedavgm", "scaffold", "feddyn")


@dataclass(frozen=True, eq=False)
class RoundMatrices:
    """One round on the linear model, as a map of the state z.

    The state has the residual and, for some methods, a remembered vector.

    Source: docs/proofs/any_method.md#state-maps-by-steps.
    """

    state: Estimate  # T, (s, s)
    # N_j, (p, s). N_j z is y minus the outputs of one of the models at which gradients are taken; it has an entry for
    # each row of the kernel. The models at which gradients are taken are the server's model, and each client's model
    # after each local step but the last.
    models: tuple[Estimate, ...]
    ends: tuple[Estimate, ...]  # (p, s); they map z to y minus the outputs of each client's last model
    unit: float  # about how far a remembered vector of length 1 moves the model; used as a scale in the norms of states


def round_matrices(
    method: Method, kernel: Estimate, owner: Int[np.ndarray, " p"], eta: float, steps: int
) -> RoundMatrices:
    """T and all N_j of a method, one of `COVERED`, for a kernel K (p, p) and the client of each row of K."""
    name, options = method.name, method.options
    p, sizes = len(kernel.value), np.bincount(owner)
    clients, remembers = len(sizes), name in REMEMBER
    unit = np.eye(p * (1 + remembers))
    residual, memory = unit[:p], unit[p:] if remembers else np.zeros((p, p))
    inverse, rate = _inverse(Estimate.exact(float(clients))), float(options.get("server_rate", 1.0))
    pull = float(options.get("mu", options.get("alpha", 0.0)))
    weights = CohortWeights.of(sizes, clients, method.weighting).mean
    total, mean, models, ends = _zeros(residual), _zeros(residual), [Estimate.exact(residual)], []
    for client in range(clients):
        mine = np.repeat((owner == client)[:, None], unit.shape[1], axis=1).astype(float)
        drift = _zeros(residual)
        if name == "scaffold":
            drift = inverse * memory - mine * memory
        elif name == "feddyn":
            drift = Estimate.exact(mine * memory)
        moved, left = _zeros(residual), Estimate.exact(residual)
        for _ in range(steps):
            moved = moved + eta * (mine * left - pull * moved + drift)
            left = residual - kernel @ moved
            models.append(left)
        ends.append(models.pop())
        total = total + moved
        share = Estimate(float(weights[client]), 2 * np.spacing(float(weights[client])))
        mean = mean + share * moved
    length, remembered = 1.0, None
    if name == "fedavgm":
        momentum, length = float(options["momentum"]), rate
        remembered = momentum * memory + mean
        move = rate * (mean + momentum * remembered if options["nesterov"] else remembered)
    elif name == "scaffold":
        length = steps * eta
        exact = options["option"] == "I"
        remembered = Estimate.exact(residual) if exact else _inverse(Estimate.exact(float(steps)) * eta) * total
        move = rate * (inverse * total)
    elif name == "feddyn":
        length = 1 / pull
        remembered = memory - pull * total
        move = inverse * (total - _inverse(Estimate.exact(pull)) * remembered)
    else:
        move = rate * mean
    rows = [residual - kernel @ move, *([] if remembered is None else [remembered])]
    state = Estimate(
        np.concatenate([row.value for row in rows]), np.concatenate([row.error for row in rows]), "rounding bound"
    )
    return RoundMatrices(state, tuple(models), tuple(ends), length)


def _zeros(like: Float[np.ndarray, "p s"]) -> Estimate:
    return Estimate.exact(np.zeros_like(like))


def _inverse(number: Estimate) -> Estimate:
    """The inverse of a positive number."""
    low, high = 1 / float(number.hi), 1 / float(number.lo)
    return Estimate.between(np.nextafter(low, 0), np.nextafter(high, np.inf), "rounding bound")


HALVINGS = 20  # largest number of halvings of a residual that is too large
ROOM = 4e-9  # because of rounding, a rate that is nearer to 1 than this cannot be shown to be below 1
SLOWER = (1e-4, 0.01, 0.1, 0.3, 0.6, 0.9)  # rates to try, as fractions of the way from the spectral radius to 1


@dataclass(frozen=True)
class StateNorm:
    """A norm |S z| of states z that every round lowers, and the bounds on models that follow from it. All numbers are
    upper bounds.
    """

    rate: float  # q
    gradient_reach: float  # e: every model at which a round takes a gradient is at most e |S z| away from W*
    reach: float  # the same bound for all models, including each client's last one
    start: float  # |S z_0|

    @property
    def ball(self) -> float:
        """The number B: every model at which a round takes a gradient is within the distance B of W*."""
        return float(above(self.gradient_reach * self.start))

    @property
    def radius(self) -> float:
        """No model is farther than this from W*."""
        return float(above(self.reach * self.start))


@dataclass(frozen=True, eq=False)
class MethodCertificate(LaterModels):
    """Whether a method, begun at a network, is proved to converge on its data, and with which numbers.

    Args:
        certified: whether it is proved.
        why: the reason why nothing is proved; empty if certified.
        method: its name.
        rate: the number q; every round multiplies a norm of residual and memory by at most q. 1 if not certified.
        spectral_radius: an ESTIMATE of the spectral radius of the round's map on the linear model. No rate below the
            spectral radius holds for all residuals and memories.
        radius: no later model, of the server or of a client, is farther than this from the weights that fit.
        distance: an enclosure of D = |W* - W0|; its upper end is infinite if there is no W*.
        margin: the least (sign w*_r.x_i - B kappa_ri) / |x_i| over all pairs, rounded down; above 0 if certified.
        residual: an enclosure of |y - f(W0)|.
        problem: the data in the form that `weights` needs, as in `AnyOrderCertificate`.
        weights: the network written without biases.
        network: the network that was given.
        remembers: whether the initial memory is not 0.
    """

    certified: bool
    why: str
    method: str
    rate: float
    spectral_radius: float
    radius: float
    distance: Estimate
    margin: float
    residual: Estimate
    problem: Problem = field(repr=False)
    weights: Weights | TwoLayer = field(repr=False)
    network: Weights | TwoLayer | AffineTwoLayer = field(repr=False)
    remembers: bool
    _rows: ConstraintRows | None = field(repr=False, default=None)
    # the norm with the smallest ball and the norm with the fastest rate
    _norms: tuple[StateNorm, ...] = field(repr=False, default=())

    def within(self, rounds: int) -> float:
        """From round t on no model is farther than this from the weights that fit the labels; infinite if not
        certified.

        Args:
            rounds: t, from the checkpoint on, 0 or more.

        Raises:
            ValueError: a number of rounds that is no integer, or below 0.
        """
        require_size("rounds", rounds, least=0)
        if not self.certified:
            return float("inf")
        return min(float(above(norm.radius * norm.rate**rounds)) for norm in self._norms)

    @property
    def norms(self) -> tuple[StateNorm, ...]:
        """The norm with the smallest ball and the norm with the fastest rate, which may be equal; empty if no norm
        contracts.
        """
        return self._norms

    def fitted_weights(self) -> Float[np.ndarray, "m d"] | None:
        """W* in long precision, as accurate as a solution in float64 allows; None if there is no W*."""
        return None if self._rows is None else self.claimed_point()[0]

    def claimed_point(self) -> tuple[np.ndarray, Nearest]:
        """W* in long precision, with D and a bound of the error of W*.

        Returns: W*, shape (m, d), and a record with D and with the bound `slack` of the error.

        Raises:
            ValueError: there is no W*.
        """
        if self._rows is None:
            raise ValueError(f"there is no W*: {self.why}")
        nearest = self._rows.nearest()
        return fitted_point(self._rows, nearest), nearest

    @cached_property
    def needed_residual(self) -> float | None:
        """An ESTIMATE of the largest |y - f| with which the certificate would hold.

        If the certificate does not hold, |y - f| is halved until the certificate would hold, at most 20 times. None if
        the certificate would not hold after 20 halvings either, or if it does not hold and the method begins with a
        nonzero memory.
        """
        if self.certified:
            return float(self.residual.hi)
        # with a memory there is no estimate, since halving the residual does not shrink the memory
        if self._rows is None or not self._norms or self.remembers:
            return None
        for halvings in range(1, HALVINGS + 1):
            if not _ball(self._rows, self._norms[0].ball, 0.5**halvings)[0]:
                return float(self.residual.hi) * 0.5**halvings
        return None

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON allows, `certified` first; a value that is unknown or infinite is None."""
        numbers = {
            "rate": self.rate,
            "spectral_radius": self.spectral_radius,
            "radius": self.radius,
            "distance": float(self.distance.hi),
            "margin": self.margin,
            "residual": float(self.residual.hi),
            "needed_residual": self.needed_residual,
        }
        finite = {name: value if value is not None and np.isfinite(value) else None for name, value in numbers.items()}
        sizes = {"method": self.method, "width": len(self.weights.hidden), "n": self.problem.n}
        return {"certified": self.certified, "why": self.why} | finite | sizes

    def conditions(self) -> tuple[str, ...]:
        """The certificate's conditions on the training, in words."""
        fixed = ["the output's bias is not trained: it is subtracted from the labels"]
        return (
            "every client takes its local steps on half the sum of squares over all of its samples",
            "every client takes part in every round, and server and clients begin with "
            + ("the memory that was given" if self.remembers else "no memory"),
            *(fixed if self.output_bias.any() else []),
        )

    def __str__(self) -> str:
        if self.certified:
            sentences = (
                f"CERTIFIED for {self.method}: begun here, it fits every label; a bound of the error falls by the "
                f"factor {shown_up(self.rate)} a round.",
                f"No later model is farther than {shown_up(self.radius)} from weights that fit.",
            )
        else:
            residual = float(self.residual.hi)
            sentences = not_certified(self.needed_residual, residual, self.method, remembers=self.remembers)
        numbers = {} if self.certified else {"in the way": self.why}
        numbers |= {
            "samples, neurons": f"{self.problem.n}, {len(self.weights.hidden)}",
            "|y - f|": shown_up(float(self.residual.hi)),
            "D, distance to the fit": shown_up(float(self.distance.hi)),
            "spectral radius, about": f"{self.spectral_radius:.6g}",
        }
        conditions = [f"  if {condition}" for condition in self.conditions()] if self.certified else []
        return "\n".join([*sentences, "", *(f"  {name:<28}{shown}" for name, shown in numbers.items()), *conditions])

    def _reached(self) -> tuple[ConstraintRows, Nearest] | None:
        if not self.certified or self._rows is None:
            return None
        return self._rows, _at_most(self._rows.nearest(), self.radius)


def certify_method(
    problem: Problem,
    weights: Weights | TwoLayer | AffineTwoLayer,
    setup: Setup,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    remembered: Float[np.ndarray, " n"] | Float[np.ndarray, "n C"] | None = None,
    memory: float = MEMORY,
) -> MethodCertificate:
    """Decide whether a linear method that begins at these weights is proved to fit every label, and at which rate.

    Args:
        problem: data with labels (n,) or (n, C); each client trains on full batches. No two samples may have the same
            direction.
        weights: as `certify_any_order` takes them.
        setup: its eta_local, local_steps and eta_global are used. eta_local is the step on sums of squares. eta_global
            is the server_rate of the methods that have one.
        method: fl-ntk, fedavg, fedavgm (momentum or Nesterov's at the server), fedprox, scaffold or feddyn;
            default fl-ntk.
        options: the method's options, as in training; default the method's own defaults.
        remembered: coefficients b of the vectors that server and clients remember at the beginning, shape (n,) or (n,
            C) as the labels; default: nothing is remembered. b_i multiplies g_i, the gradients of the outputs at these
            weights. FedAvgM's velocity is sum_i b_i g_i; SCAFFOLD's control of client c is -sum_{i in c} b_i g_i, and
            the server's is the mean of these; FedDyn's dual of client c is sum_{i in c} b_i g_i.
        memory: bytes that the certificate may take; default 8e+09.

    Raises:
        ValueError: weights that do not fit the data or are not finite, a method that is not covered, an option that it
            does not have, `remembered` for a method that remembers no vectors, or a certificate that takes more bytes
            than `memory`.
    Source: docs/proofs/any_method.md#the-theorem

    Example:
        >>> import ntkfl
        >>> from ntkfl.initialisation import draw
        >>> data, setup = ntkfl.data.sphere(n=2), ntkfl.Setup(eta_local=0.5)
        >>> ntkfl.certify_method(data, draw(256, 8, 0), setup, "fedavgm").certified
        False
    """
    require_problem(problem)
    require_setup(setup)
    require_number("memory", memory, "be 0 or more")
    given = two_layers(weights)
    chosen = linear_method(method, options, setup)
    kept = first_memory(chosen.name, problem, remembered)
    problem, plain, label_error = without_biases(problem, given)

    def answer(why: str, residual: Estimate, **known: Any) -> MethodCertificate:
        unknown: dict[str, Any] = {"rate": 1.0, "spectral_radius": np.nan, "radius": np.inf, "margin": -np.inf}
        unknown["distance"] = Estimate.between(0, np.inf, "not found")
        of: dict[str, Any] = {"problem": problem, "weights": plain, "network": given, "method": chosen.name}
        of["remembers"] = bool(kept.any())
        return MethodCertificate(certified=not why, why=why, residual=residual, **(unknown | of | known))

    try:
        network = scaled(problem, plain, label_error)
    except Unreachable as error:
        return answer(str(error), Estimate.between(0, np.inf, "not found"))
    require_method_memory(problem, network.width, setup.local_steps, memory)
    neurons = passed(network)
    left = residuals(neurons)
    rows = ConstraintRows(neurons, NO_PAIRS.neuron, NO_PAIRS.row)
    if network.n < problem.n:
        twin = int(np.flatnonzero(network.sample[network.row] != np.arange(problem.n))[0])
        first = int(network.sample[network.row[twin]])
        return answer(
            f"samples {first} and {twin} have one direction; this certificate takes no two such samples", left.norm()
        )
    try:
        distance = rows.nearest().distance
    except Dependent as error:
        return answer(dependent(rows, error.vector), left.norm())
    kernel = gradient_products(rows).entries
    owner = np.repeat(problem.owner, network.n_outputs)
    known: dict[str, Any] = {"distance": distance}
    try:
        maps = round_matrices(chosen, kernel, owner, setup.eta_local, setup.local_steps)
        known["spectral_radius"] = float(np.abs(np.linalg.eigvals(maps.state.value)).max())
        residual = Estimate(left.value.reshape(-1), left.error.reshape(-1), left.method)
        start = Estimate(np.append(residual.value, kept), np.append(residual.error, 0 * kept), residual.method)
        norms = state_norms(maps, kernel, start)
    # after a NaN, an overflow, 1 / 0 or a singular matrix no bound is known
    except (ValueError, ArithmeticError) as error:
        norms = f"the round could not be enclosed in float64: {error}"
    if isinstance(norms, str):
        return answer(norms, left.norm(), **known)
    why, margin = _ball(rows, norms[0].ball)
    proved = {} if why else {"rate": min(norm.rate for norm in norms), "radius": norms[0].radius}
    return answer(why, left.norm(), **known, **proved, margin=margin, _rows=rows, _norms=norms)


def require_method_memory(problem: Problem, width: int, steps: int, memory: float = MEMORY) -> None:
    """Refuse a certificate that does not fit.

    Raises:
        ValueError: the certificate takes more than `memory`.
    """
    p = problem.y.size
    needed = problem.n * width / 8 + 2.0**28 + 8.0 * p * p * (60 + 8 * problem.n_clients * steps)
    if not needed <= memory:
        raise ValueError(
            f"the certificate of {p} labels and {problem.n_clients} clients of {steps} steps takes "
            f"{needed / 1e9:.3g} GB, and memory is {memory / 1e9:.3g} GB: give more memory, or fewer samples"
        )


def linear_method(name: str, options: Mapping[str, Any] | None, setup: Setup) -> Method:
    """The method with its options as training uses it; eta_global replaces a server_rate that is not given.

    Raises:
        ValueError: a method that is not covered, an option that it does not have.
    """
    from ntkfl.training.methods import build, with_eta_global
    from ntkfl.training.objectives import HalfSquares

    if options is not None:
        require_kind("options", options, Mapping, "{'momentum': 0.9}")
    require_kind("method", name, str, "'scaffold'")
    built = build(name, HalfSquares("sum"), **with_eta_global(name, dict(options or {}), setup.eta_global))
    if built.name not in COVERED:
        raise ValueError(f"the method is {built.name}; this certificate covers {', '.join(COVERED)}")
    return built


def first_memory(name: str, problem: Problem, given: np.ndarray | None) -> np.ndarray:
    """The initial memory beta_0, (p,), of a method with memory; otherwise an empty array, (0,)."""
    if given is None:
        return np.zeros(problem.y.size if name in REMEMBER else 0)
    if name not in REMEMBER:
        raise ValueError(f"{name} remembers nothing from round to round; leave remembered out")
    kept = finite_array("remembered", given)
    if kept.shape != problem.y.shape:
        raise ValueError(f"remembered has shape {kept.shape}; it must be that of the labels, {problem.y.shape}")
    return kept.reshape(-1)


def state_norms(maps: RoundMatrices, kernel: Estimate, start: Estimate) -> tuple[StateNorm, ...] | str:
    """The norm with the smallest ball and the norm with the fastest rate among the norms tried, or the reason why none
    contracts.
    """
    spectral = float(np.abs(np.linalg.eigvals(maps.state.value)).max())
    if not spectral < 1:
        return (
            f"a round's map has the spectral radius {spectral:.6g}: the steps are too long, or too short for float64, "
            "or the method diverges"
        )
    guesses: list[tuple[float, float, np.ndarray]] = []
    for candidate in _candidates(maps, kernel.value, spectral):
        interruption.check()
        try:
            radius, rate = _guessed(maps, kernel.value, start.value, candidate)
        except np.linalg.LinAlgError:  # float64 cannot invert this candidate for S
            continue
        guesses += [(radius, rate, candidate)] if rate < 1 - ROOM else []
    if not guesses:
        return f"no norm was found in which a round contracts; its map has the spectral radius {spectral:.6g}"
    nearest = min(guesses, key=lambda guess: guess[0])
    norms = [enclosed_norm(maps, kernel, start, nearest[2])]
    for guess in sorted(guesses, key=lambda guess: guess[1]):  # the first norm that can be enclosed in float64
        if guess is nearest:
            break
        norms.append(enclosed_norm(maps, kernel, start, guess[2]))
        if isinstance(norms[-1], StateNorm):
            break
    return tuple(norm for norm in norms if isinstance(norm, StateNorm)) or str(norms[0])


def _candidates(maps: RoundMatrices, kernel: np.ndarray, radius: float) -> Iterator[np.ndarray]:
    """Candidates for S, where |S z| is the norm of a state z: first a matrix that gives lengths of vectors of weights,
    then roots of Lyapunov matrices for some rates.

    The lengths are that of the shortest displacement of the weights which removes the residual on the linear model, and
    `maps.unit` times that of the remembered vector.
    """
    p, s = maps.models[0].value.shape
    root = np.linalg.cholesky(kernel)
    scale = scipy.linalg.block_diag(np.linalg.inv(root), *([maps.unit * root.T] if s > p else []))
    yield from lyapunov_roots(maps.state.value, scale, radius)


def lyapunov_roots(
    state: Float[np.ndarray, "s s"], scale: Float[np.ndarray, "s s"], radius: float
) -> Iterator[Float[np.ndarray, "s s"]]:
    """The matrix `scale` itself, then roots of Lyapunov matrices of the scaled map, for rates above the map's spectral
    radius.

    Source: docs/proofs/any_method.md#the-theorem.
    """
    yield scale
    inner = scale @ state @ np.linalg.inv(scale)
    for part in SLOWER:
        rate = radius + part * (1 - radius)
        # warnings of nearly singular systems are ignored, since the result is checked later
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                lyapunov = scipy.linalg.solve_discrete_lyapunov((inner / rate).T, np.eye(len(state)), method="bilinear")
                lower = np.linalg.cholesky((lyapunov + lyapunov.T) / 2)
            except (np.linalg.LinAlgError, ValueError):
                continue
        yield lower.T @ scale


def _guessed(maps: RoundMatrices, kernel: np.ndarray, start: np.ndarray, s: np.ndarray) -> tuple[float, float]:
    """Estimates of B and q with this S."""
    x, root = np.linalg.inv(s), np.linalg.cholesky(kernel)
    reach = max(np.linalg.norm(np.linalg.solve(root, model.value @ x), 2) for model in maps.models)
    rate = np.linalg.norm(s @ maps.state.value @ x, 2)
    return float(reach * np.linalg.norm(s @ start)), float(rate)


def enclosed_norm(
    maps: RoundMatrices, kernel: Estimate, start: Estimate, s: Float[np.ndarray, "s s"]
) -> StateNorm | str:
    """The norm |S z| of a float64 matrix S with its proved bounds, or the reason why S proves nothing.

    Source: docs/proofs/any_method.md#the-certificate-from-numbers.
    """
    x = np.linalg.inv(s)
    skew = spectral(Estimate.exact(s) @ x - np.eye(len(s)))
    witness = np.linalg.inv(np.linalg.cholesky(kernel.value))
    least = float(smallest_eigenvalue(witness @ kernel @ witness.T).lo)
    if not (skew < 1 and least > 0):
        return "the kernel or the norm of states is too ill-conditioned for float64"
    rest = below(1 - skew)
    rate = float(above(spectral(s @ maps.state @ x) / rest))
    if not rate < 1:
        return f"rounding hides the contraction: a round's factor is only shown to be at most {rate:.9g}"

    def farthest(models: tuple[Estimate, ...]) -> float:
        interruption.check()
        return max(float(above(spectral(witness @ (model @ x)) / (np.sqrt(below(least)) * rest))) for model in models)

    gradient_reach = farthest(maps.models)
    reach = max(gradient_reach, farthest(maps.ends))
    return StateNorm(rate, gradient_reach, reach, float(above((Estimate.exact(s) @ start).norm().hi)))


def spectral(matrix: Estimate) -> float:
    """An upper bound of the largest singular value."""
    rows, columns = matrix.value.shape
    flat = matrix @ _transposed(matrix) if rows < columns else _transposed(matrix) @ matrix
    squared = float(largest_eigenvalue(flat).hi)
    return float(above(np.sqrt(max(squared, 0.0))))


def _transposed(h: Estimate) -> Estimate:
    return Estimate(h.value.T, h.error.T, h.method, h.rigour)


def _at_most(nearest: Nearest, radius: float) -> Nearest:
    """A copy of `nearest` with `radius`, a bound of the distance of models from W*, in place of D = |W* - W0|."""
    return Nearest(nearest.solution, nearest.slack, Estimate(radius, 0.0, "rounding bound"))


def _ball(rows: ConstraintRows, radius: float, scale: float = 1.0) -> tuple[str, float]:
    """The reason why some pattern may change within the ball about W*, and the least margin. The reason is empty if no
    pattern can change.

    The residual and the radius are multiplied by `scale`, which is at most 1.
    """
    nearest, neurons = rows.nearest(scale), rows.neuron_pass
    near = _at_most(nearest, radius * scale)
    far = float(above(float(nearest.distance.hi) + radius * scale))
    if not np.isfinite(far):
        return "the distance to W* has no bound in float64", -np.inf
    reach = 3 * far
    pairs = near_pairs(neurons, reach, MOST_NEAR)
    if pairs is None:
        return f"W* is too far: more than {MOST_NEAR} pairs lie within {reach:.2g} |x_i| of their kinks", -np.inf
    least, failing = failures(rows, near, pairs, 0)
    margin = float(np.minimum(least, reach - far))  # np.minimum keeps a NaN
    if margin > 0 and not len(failing):
        return "", margin
    return f"neurons may reach their kinks within {radius * scale:.3g} of W*; {named(neurons, failing)}", margin
