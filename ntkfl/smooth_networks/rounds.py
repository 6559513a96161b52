"""`certify_rounds` proves that full rounds of a federated method, begun at a checkpoint, fit the data.

For a method with memory (momentum or control variates) the proof bounds the rounds of its linear model, and then the
effect of the second derivatives. J is the derivative of the outputs by the parameters, and the kernel is K = J J'. In
the ranges 0..K and 0..K-1, K is the number of local steps.

Source: docs/proofs/smooth_networks.md#rounds-of-federated-averaging, docs/proofs/any_method.md#smooth-networks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from flint import arb
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.any_order.method_certificate import (
    REMEMBER,
    RoundMatrices,
    first_memory,
    linear_method,
    lyapunov_roots,
    round_matrices,
    spectral,
)
from ntkfl.any_order.rounding import above, below
from ntkfl.any_order.words import not_certified, shown_down, shown_up
from ntkfl.balls import ball, precision
from ntkfl.estimate import Estimate
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.problem import Problem, Setup, finite_array, require_problem, require_setup
from ntkfl.smooth_networks.certificate import Checkpoint, LaterNetworks
from ntkfl.smooth_networks.passes import Curvature
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.smooth_networks.window import Failed, Rounds, at_a_kink, largest_residual, smallest_ball, upper_end

if TYPE_CHECKING:
    from torch import nn

    from ntkfl.training.method import Method
    from ntkfl.training.models.wide_networks import WideNetwork


@dataclass(frozen=True)
class Steps:
    """The numbers that determine the steps of a round of a method."""

    name: str
    local: float  # eta
    pull: float  # mu of FedProx, alpha of FedDyn: how strongly local steps are pulled to the server's model
    server: float  # g
    momentum: float  # b
    variant: bool  # for momentum, whether it is Nesterov's; for SCAFFOLD, whether it has option I


@dataclass(frozen=True)
class ClientModels:
    """Upper bounds for a client's K local steps on the linear model; distances and residuals are divided by the norm |S
    z| of the state z.
    """

    share: float  # p, its weight in the mean
    root: float  # G, the norm of its rows of J
    moved: tuple[float, ...]  # distance from the server's model after k = 0..K steps
    left: tuple[float, ...]  # the client's residual after k = 0..K-1 steps


@dataclass(frozen=True)
class LinearRounds:
    """A norm |S z| of the state z, which consists of residual and memory, and bounds on the linear model.

    All bounds are upper bounds, except least_root.
    """

    least_root: float  # sigma_0: a lower bound of the smallest singular value of J
    start: float  # |S z_0|
    fit: float  # |J' K^-1 r_0|
    rate: float  # q: a round multiplies |S z| by at most this
    fit_factor: float  # e_0: |J' K^-1 r| <= e_0 |S z|
    move: float  # the distance that the server's model moves in a round, divided by |S z|
    outputs: float  # |S_r J|, where S = (S_r S_beta) has a block for the residual and one for the memory
    residuals: float  # |S_r|
    memory: float  # |S_beta|
    clients: tuple[ClientModels, ...]  # the models of the clients in a round

    def scaled(self, factor: float) -> LinearRounds:
        """The bounds for `factor` times the residual; the bounds are valid if the memory is empty."""
        return replace(self, start=self.start * factor, fit=self.fit * factor)


@dataclass(frozen=True)
class MethodStart:
    """A method's rounds at a checkpoint."""

    steps: Steps  # steps of the method
    linear: LinearRounds  # the method's rounds on the linear model
    size: float  # |S z_0|
    remembers: bool  # whether the initial memory is not 0

    def proved(self, curvature: Curvature, factor: float = 1.0) -> Rounds | str:
        """The conclusions for `factor` times the residual."""
        return proved_methods(self.steps, self.linear.scaled(factor), curvature)


def method_start(
    at: Checkpoint, problem: Problem, setup: Setup, method: Method, remembered: np.ndarray
) -> MethodStart | str:
    """The best norm found for a method's state, with its bounds on the linear model, or the reason why no norm was
    found.
    """
    kernel, options = at.kernel, method.options
    owner = np.repeat(problem.owner, at.residual.value.shape[1])
    steps = Steps(
        method.name,
        float(setup.eta_local),
        float(options.get("mu", options.get("alpha", 0.0))),
        float(options.get("server_rate", 1.0)),
        float(options.get("momentum", 0.0)),
        bool(options.get("nesterov", options.get("option") == "I")),
    )
    residual = at.residual.value.reshape(-1), at.residual.error.reshape(-1)
    start = Estimate(np.append(residual[0], remembered), np.append(residual[1], 0 * remembered), "rounding bound")
    shares = CohortWeights.of(np.bincount(owner), problem.n_clients, method.weighting).mean
    blocks = [np.flatnonzero(owner == c) for c in range(problem.n_clients)]
    roots = [float(above(np.sqrt(np.maximum(largest_eigenvalue(kernel[np.ix_(m, m)]).hi, 0.0)))) for m in blocks]
    try:
        maps = round_matrices(method, kernel, owner, setup.eta_local, setup.local_steps)
        radius = float(np.abs(np.linalg.eigvals(maps.state.value)).max())
        if not radius < 1:
            return f"a round's map has the spectral radius {radius:.6g}: the steps are too long, or the method diverges"
        measure = partial(_measured, maps, kernel, start, list(zip(blocks, shares, roots, strict=True)), at.least_root)
        best: tuple[tuple[float, float], np.ndarray] | None = None
        for s in _candidates(maps, kernel.value, radius):
            interruption.check()
            guess = measure(s, enclosed=False)
            if isinstance(guess, str):
                continue
            tried = proved_methods(steps, guess, at.curvature)
            if isinstance(tried, Rounds):
                rank = (0.0, tried.rate)
            elif best is not None and best[0][0] == 0.0:
                continue
            else:
                rank = (1.0, -_needed(steps, guess, at.curvature, 0.0 if best is None else -best[0][1]))
            best = (rank, s) if best is None or rank < best[0] else best
        if best is None:
            return f"no norm was found in which a round contracts; its map has the spectral radius {radius:.6g}"
        linear = measure(best[1], enclosed=True)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return f"the round could not be enclosed in float64: {error}"
    return linear if isinstance(linear, str) else MethodStart(steps, linear, linear.start, bool(remembered.any()))


def _needed(steps: Steps, linear: LinearRounds, curvature: Curvature, least: float) -> float:
    """An estimate of the largest factor by which the residual may be multiplied so that the theorem holds; 0 if it is
    less than `least`.
    """
    return largest_residual(
        lambda factor: isinstance(proved_methods(steps, linear.scaled(factor), curvature), Rounds), 1.0, least
    )


def _candidates(maps: RoundMatrices, kernel: np.ndarray, radius: float) -> Iterator[np.ndarray]:
    """Candidates for S: the matrix for lengths of outputs, then the matrix for lengths of weights, each followed by
    roots of Lyapunov matrices.
    """
    p, s = maps.models[0].value.shape
    root = np.linalg.cholesky(kernel)
    for residual_part in (np.eye(p), np.linalg.inv(root)):
        scale = np.zeros((s, s))
        scale[:p, :p] = residual_part
        if s > p:
            scale[p:, p:] = maps.unit * residual_part @ kernel
        yield from lyapunov_roots(maps.state.value, scale, radius)


def _measured(
    maps: RoundMatrices,
    kernel: Estimate,
    start: Estimate,
    clients: list[tuple[np.ndarray, float, float]],
    least_root: float,
    s: np.ndarray,
    *,
    enclosed: bool,
) -> LinearRounds | str:
    """The bounds of a norm, which are proved only if `enclosed`; or the reason why there are no bounds."""
    p, x = len(kernel.value), np.linalg.inv(s)
    witness = np.linalg.inv(np.linalg.cholesky(kernel.value))
    take: Callable[[Estimate], Any] = (lambda of: of) if enclosed else (lambda of: of.value)
    norm = spectral if enclosed else lambda a: float(np.linalg.norm(a, 2))
    state, k, z = take(maps.state), take(kernel), take(start)
    rest = root = 1.0
    if enclosed:
        skew, least = (
            spectral(Estimate.exact(s) @ x - np.eye(len(s))),
            float(smallest_eigenvalue(witness @ k @ witness.T).lo),
        )
        if not (skew < 1 and least > 0):
            return "the kernel or the norm of states is too ill-conditioned for float64"
        rest, root = float(below(1 - skew)), float(below(np.sqrt(below(least))))

    def residual_norm(matrix: Estimate) -> float:
        return float(above(norm(matrix @ x) / rest))

    def length(matrix: Estimate) -> float:
        return float(above(norm(witness @ (matrix @ x)) / (root * rest)))

    rate = float(above(norm(s @ state @ x) / rest))
    if not rate < 1:
        return f"rounding hides the contraction: a round's factor is only shown to be at most {rate:.9g}"
    residual, later = np.eye(len(s))[:p], len(maps.models) // len(clients)
    models = []
    for c, (mine, share, g) in enumerate(clients):
        interruption.check()
        residual_maps = [take(maps.models[0]), *map(take, maps.models[1 + c * later : 1 + (c + 1) * later])]
        distances = [0.0, *(length(n - residual) for n in [*residual_maps[1:], take(maps.ends[c])])]
        models.append(
            ClientModels(float(share), g, tuple(distances), tuple(residual_norm(n[mine]) for n in residual_maps))
        )
    s_r, s_b = s[:, :p], s[:, p:]

    def size(vector: Estimate | np.ndarray) -> float:
        return float(above(vector.norm().hi if isinstance(vector, Estimate) else np.linalg.norm(vector)))

    gram = s_r @ k @ s_r.T
    widest = largest_eigenvalue(gram).hi if enclosed else np.linalg.eigvalsh(gram)[-1]
    return LinearRounds(
        least_root=least_root,
        start=size((Estimate.exact(s) if enclosed else s) @ z),
        fit=float(above(size((Estimate.exact(witness) if enclosed else witness) @ z[:p]) / root)),
        rate=rate,
        fit_factor=length(take(Estimate.exact(residual))),
        move=length(state[:p] - residual),
        outputs=float(above(np.sqrt(max(float(widest), 0.0)))),
        residuals=float(above(norm(take(Estimate.exact(s_r))))),
        memory=float(above(norm(take(Estimate.exact(s_b))))) if s_b.size else 0.0,
        clients=tuple(models),
    )


def proved_methods(steps: Steps, linear: LinearRounds, curvature: Curvature) -> Rounds | str:
    """The conclusions in the smallest ball found in which the theorem holds, or the failure in the last ball."""
    if not linear.least_root > 0:
        return "the smallest eigenvalue of J J' is not known to be positive"

    def attempt(radius: float) -> Rounds | Failed:
        return at_a_kink(curvature, radius) or method_inequalities(steps, linear, curvature.of_all(radius), radius)

    return smallest_ball(attempt, (linear.fit + linear.fit_factor * linear.start) * (1 + 1e-9) + 1e-150)


@dataclass(frozen=True)
class _Effect:
    """Bounds for one round.

    The fields are bounds of |S z| and of |w| after the round, where w is the part of the memory outside the linear
    model; of the distance that models move; and of the part of the server's move that is due to second derivatives.
    """

    state: arb
    rests: arb
    distance: arb
    second_order: arb


def _effect(steps: Steps, linear: LinearRounds, tau: arb, s: arb, w: arb) -> _Effect:
    """The bounds of a round that begins with |S z| = s and with |w| = w."""
    eta, pull, server, momentum = map(ball, (steps.local, steps.pull, steps.server, steps.momentum))
    clients, keep, zero = len(linear.clients), 1 - eta * pull, arb(0)
    scaffold, dyn = steps.name == "scaffold", steps.name == "feddyn"
    drift = 2 * w * (clients - 1) / clients if scaffold else w if dyn else zero
    distance = rests = mean = memory = zero
    for client in linear.clients:
        count, root = len(client.left), ball(client.root)
        u = kept = turned = zero
        for k, left in enumerate(client.left):
            there = ball(client.moved[k]) * s + u
            psi = tau * ((root + tau) * there + ball(left) * s + root * u)
            distance = distance.max(there)
            kept = keep * kept + (root * u if dyn else root * u / count)
            # For SCAFFOLD w is a part of the control variate, and the new w is a mean of psi (with option I, the first
            # psi). For FedDyn w is a part of the dual, and the new w contains a weighted sum of eta psi.
            turned = psi if k == 0 and steps.variant else turned if steps.variant else keep * turned + psi
            u = keep * u + eta * (drift + psi)
        distance = distance.max(ball(client.moved[-1]) * s + u)
        if scaffold:
            memory = memory + (zero if steps.variant else kept**2)
            rests = rests.max(turned if steps.variant else turned / count)
            mean = mean + u / clients
        elif dyn:
            memory = memory + (pull * eta * kept) ** 2
            rests = rests.max(keep**count * w + pull * eta * turned)
            mean = mean + (2 * u + w / pull) / clients
        else:
            mean = mean + ball(client.share) * u
    if steps.name == "fedavgm":
        rests = momentum * w + mean
        second_order = server * (mean + momentum * rests if steps.variant else rests)
    else:
        second_order = mean if dyn else server * mean
    move = ball(linear.move) * s + second_order
    state = ball(linear.rate) * s + ball(linear.outputs) * second_order + ball(linear.residuals) * tau * move
    return _Effect(state + ball(linear.memory) * memory.sqrt(), rests, distance.max(move), second_order)


def method_inequalities(steps: Steps, linear: LinearRounds, together: float, radius: float) -> Rounds | Failed:
    """The inequalities of the theorem on methods, for a given curvature."""
    if not np.isfinite([together, linear.start, linear.fit, radius]).all():
        return Failed("the bounds overflow")
    with precision():
        rho, turn, start = map(ball, (radius, together, linear.start))
        tau, one = turn * rho, arb(1)
        longest = 2 * (1 - ball(steps.local) * ball(steps.pull))
        for client in linear.clients:
            if not (longest > 0 and ball(steps.local) * ball(client.root) ** 2 <= longest):
                return Failed(f"the local step {steps.local:.3g} is too long for a client, or for its pull")
        ratio = ball(_balance(steps, linear, tau))
        effect = _effect(steps, linear, tau, one, ratio)
        rate = effect.state if steps.name not in REMEMBER else effect.state.max(effect.rests / ratio)
        if not rate < 1:
            return Failed(
                f"curvature may undo what a round gains: a norm may be multiplied by {float(rate):.6g}, on the linear "
                f"model by {linear.rate:.6g}"
            )
        server = (
            ball(linear.fit)
            + ball(linear.fit_factor) * start
            + tau * rho / (2 * ball(linear.least_root))
            + effect.second_order * start / (1 - rate)
        )
        wanted = server + effect.distance * start
        if not wanted < rho:
            return Failed(f"models may move farther than {radius:.3g}", upper_end(wanted))
        return Rounds(upper_end(rate), upper_end(rate), upper_end(wanted), radius)


def _balance(steps: Steps, linear: LinearRounds, tau: arb) -> float:
    """A number lambda for which max(|S z|, |w| / lambda) has nearly the smallest rate.

    lambda is the quotient of the two entries of the Perron vector of A, the matrix by which a round at most multiplies
    (|S z|, |w|).
    """
    of_state, of_rests = (_effect(steps, linear, tau, arb(s), arb(w)) for s, w in ((1, 0), (0, 1)))
    a, b, c, d = (float(v) for v in (of_state.state, of_rests.state, of_state.rests, of_rests.rests))
    with np.errstate(over="ignore", invalid="ignore"):  # in a large ball the bounds may overflow
        half, root = (a - d) / 2, np.hypot((a - d) / 2, np.sqrt(b * c))
        ratio = c / (half + root) if half >= 0 else (root - half) / b
    return float(ratio) if 0 < ratio < np.inf else 1e-30  # without second derivatives the smallest lambda is best


AVERAGES = "fl-ntk", "fedavg"  # methods without memory and without a pull to the server's model
GROWN = 1.05  # zeta: the factor by which a client may move farther within a round than its linear model does


@dataclass(frozen=True)
class Client:
    """One client of a round."""

    share: float  # p, its weight in the mean
    root: float  # upper bound of the norm of its rows of J at the checkpoint


@dataclass(frozen=True)
class RoundStart:
    """Bounds at the first round, rounded so that they stay valid."""

    least_root: float  # lower bound of the smallest singular value of J
    size: float  # upper bound of phi, the norm of the residual that a round lowers
    # lowest and highest: bounds of the eigenvalues of K D, where D has the clients' blocks p Q, with Q as in `_work`
    lowest: float
    highest: float
    clients: tuple[Client, ...]  # clients of the round
    # step, steps and server are eta, K and gamma
    step: float
    steps: int
    server: float
    remembers: ClassVar[bool] = False  # federated averaging has no memory

    def proved(self, curvature: Curvature, factor: float = 1.0) -> Rounds | str:
        """The conclusions for `factor` times the residual."""
        return proved_rounds(replace(self, size=self.size * factor), curvature)


@dataclass(frozen=True, eq=False)
class RoundsCertificate(LaterNetworks):
    """The certificate of `certify_rounds`: whether full rounds of a method that begin at a network are proved to fit
    the data, and at which rate.

    Args:
        certified: whether the theorem holds.
        why: the reason if not certified, otherwise empty.
        residual: an enclosure of |y - f| over all samples and outputs.
        smallest_eigenvalue: an enclosure of the smallest eigenvalue of J J'.
        depth: number of layers of weights.
        width: number of neurons of the narrowest hidden layer.
        method: the name of the method.
        problem: the data.
    """

    certified: bool
    why: str
    residual: Estimate
    smallest_eigenvalue: Estimate
    depth: int
    width: int
    method: str
    problem: Problem = field(repr=False)
    start: RoundStart | MethodStart | None = field(repr=False)
    _curvature: Curvature = field(repr=False)
    rounds: Rounds | None = field(repr=False, default=None)

    @property
    def rate(self) -> float:
        """The factor by which a round at most multiplies a norm of residual and memory; 1 if not certified."""
        return 1.0 if self.rounds is None else self.rounds.rate

    @property
    def last_rate(self) -> float:
        """An upper bound of the limit of the factor in `rate` after many rounds.

        For federated averaging it leaves out the terms of `rate` that vanish with the residual. For other methods it is
        `rate`.
        """
        return 1.0 if self.rounds is None else self.rounds.last_rate

    @property
    def reach(self) -> float:
        """No later model, of the server or of a client, is farther than this from the weights; infinite if not
        certified.
        """
        return float("inf") if self.rounds is None else self.rounds.reach

    @cached_property
    def needed_residual(self) -> float | None:
        """An ESTIMATE of the largest |y - f| with which the theorem would hold, for this kernel and these second
        derivatives.

        If the rounds are certified, this is the network's own residual, since larger residuals are not tried. None if
        no positive residual is found, or if this certificate does not hold and begins with a nonzero memory.
        """
        now = float(self.residual.hi)
        if self.certified:
            return now
        start, curvature = self.start, self._curvature
        if start is None or start.remembers:
            return None
        return largest_residual(lambda wanted: isinstance(start.proved(curvature, wanted / now), Rounds), now) or None

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON allows, `certified` first; infinity and NaN become None."""
        return {
            "certified": self.certified,
            "why": self.why,
            "residual": float(self.residual.hi),
            "needed_residual": self.needed_residual,
            "smallest_eigenvalue": float(self.smallest_eigenvalue.lo),
            "rate": self.rate,
            "last_rate": self.last_rate,
            "reach": self.reach if self.certified else None,
            "depth": self.depth,
            "width": self.width,
            "n": self.problem.n,
            "method": self.method,
        }

    def __str__(self) -> str:
        numbers = {} if self.certified else {"in the way": self.why}
        numbers |= {
            "samples, layers, width": f"{self.problem.n}, {self.depth}, {self.width}",
            "|y - f|": shown_up(float(self.residual.hi)),
            "lambda_min of the kernel": shown_down(float(self.smallest_eigenvalue.lo)),
        }
        if self.certified:
            numbers |= {"the factor tends to at most": shown_up(self.last_rate)} if self.last_rate < self.rate else {}
            outcome = (
                f"CERTIFIED for full rounds of {self.method}: each brings a norm of the residual"
                f"{' and the memory' if self.method in REMEMBER else ''} down to {shown_up(self.rate)} of itself or "
                "less.",
                f"No later model is farther than {shown_up(self.reach)} from this one.",
            )
        else:
            remembers = self.start is not None and self.start.remembers
            now, training = float(self.residual.hi), f"rounds of {self.method}"
            outcome = not_certified(self.needed_residual, now, training, remembers=remembers)
        return "\n".join([*outcome, "", *(f"  {name:<28}{shown}" for name, shown in numbers.items())])


def certify_rounds(
    network: nn.Module | WideNetwork | Callable[..., Any],
    params: Any,
    problem: Problem,
    setup: Setup,
    *,
    shares: Sequence[float] | Float[np.ndarray, " N"] | None = None,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    remembered: Float[np.ndarray, " n"] | Float[np.ndarray, "n C"] | None = None,
    memory: float | None = None,
) -> RoundsCertificate:
    """Decide whether full rounds of a method that trains all layers are proved to fit the data, and at which rate.

    In a round every client makes local_steps full-batch steps of size eta_local on half its sum of squares. Without a
    method the server adds eta_global times the weighted mean of the clients' displacements.

    Args:
        network: as `certify_network` takes it.
        params: the network's parameters by name, as arrays or tensors; None for the module's own.
        problem: data with labels (n,) or (n, C), and the samples of each client.
        setup: only eta_local, local_steps and eta_global are used.
        shares: positive weights of the clients in the mean, shape (N,), allowed only without a method; None for 1/N
            each.
        method: fl-ntk, fedavg, fedavgm, fedprox, scaffold or feddyn; None for federated averaging with these shares.
        options: the method's options, as in training; setup.eta_global is the method's server_rate, if the method has a
            server_rate. Default: the method's own defaults.
        remembered: the memory of server and clients at the beginning, as `certify_method` takes it; default 0.
        memory: bytes that the certificate may take; None for all free memory.

    Raises:
        ValueError: as `certify_network`; shares that are not positive, not as many as clients, or given together with a
            method; a method that is not covered, or an option that it does not have. TooLittleMemory: the certificate
            does not fit.
    Source: docs/proofs/smooth_networks.md#rounds-of-federated-averaging, docs/proofs/any_method.md#smooth-networks
    """
    require_problem(problem)
    require_setup(setup)
    chosen = None if method is None else linear_method(method, options, setup)
    if chosen is None and (options or remembered is not None):
        raise ValueError("options and remembered are of a method; name it, or leave them out")
    if chosen is not None and shares is not None:
        raise ValueError(f"shares and a method are given: {chosen.name} has its own shares; leave one out")
    kept = np.zeros(0) if chosen is None else first_memory(chosen.name, problem, remembered)
    averages = chosen is None or chosen.name in AVERAGES
    if chosen is not None and averages:
        shares = CohortWeights.of(np.bincount(problem.owner), problem.n_clients, chosen.weighting).mean
        setup = replace(setup, eta_global=float(chosen.options["server_rate"]))
    weights = _shares(shares, problem.n_clients)
    at = Checkpoint.of(layers_of(network, params, problem.d), problem, memory)
    if at.least_root == 0:
        start: RoundStart | MethodStart | str = at.singular(problem)
    elif chosen is None or averages:
        start = round_start(at, problem, setup, weights)
    else:
        start = method_start(at, problem, setup, chosen, kept)
    judged = start if isinstance(start, str) else start.proved(at.curvature)
    return RoundsCertificate(
        certified=isinstance(judged, Rounds),
        why=judged if isinstance(judged, str) else "",
        residual=at.residual.norm(),
        smallest_eigenvalue=at.smallest_eigenvalue,
        depth=at.depth,
        width=at.width,
        method="federated averaging" if chosen is None else chosen.name,
        problem=problem,
        start=None if isinstance(start, str) else start,
        _curvature=at.curvature,
        rounds=judged if isinstance(judged, Rounds) else None,
    )


def _shares(given: Sequence[float] | np.ndarray | None, clients: int) -> np.ndarray:
    shares = np.full(clients, 1 / clients) if given is None else finite_array("shares", given)
    if shares.shape != (clients,) or not (shares > 0).all():
        raise ValueError(f"shares is {shares.tolist()}; it must be {clients} positive numbers, one a client")
    return shares


def round_start(at: Checkpoint, problem: Problem, setup: Setup, shares: np.ndarray) -> RoundStart | str:
    """Bounds from an enclosure of the linear model's round map at the checkpoint, or the reason why there are no
    bounds.
    """
    outputs = at.residual.value.shape[1]
    step, steps = float(setup.eta_local), int(setup.local_steps)
    residual = Estimate(at.residual.value.reshape(-1), at.residual.error.reshape(-1), at.residual.method)
    rows = [(np.flatnonzero(np.repeat(problem.owner == c, outputs)), p) for c, p in enumerate(shares)]
    size = len(residual.value)
    factor, clients, off, square = np.zeros((size, size)), [], 0.0, Estimate.exact(0.0)
    for mine, share in rows:
        interruption.check()
        block = at.kernel[np.ix_(mine, mine)]
        root = float(above(np.sqrt(np.maximum(largest_eigenvalue(block).hi, 0.0))))
        with precision():
            work = _least_work(step, steps, ball(root))
        if isinstance(work, Failed):
            return work.why
        moved = _work(block, step, steps) * share
        values, vectors = np.linalg.eigh((moved.value + moved.value.T) / 2)
        mine_factor = vectors * np.sqrt(np.maximum(values, 0.0))
        factor[np.ix_(mine, mine)] = mine_factor
        rest = moved - Estimate.exact(mine_factor) @ mine_factor.T
        least = float(below((work * share).lower()))
        off = max(off, float(above(rest.norm().hi)) / least if least > 0 else np.inf)
        square = square + residual[mine] @ (moved @ residual[mine])
        clients.append(Client(float(share), root))
    if not off < 0.5:
        return "the clients' maps could not be enclosed in float64"
    product = Estimate.exact(factor.T) @ at.kernel @ factor
    return RoundStart(
        least_root=at.least_root,
        size=float(above(np.sqrt(np.maximum(square.hi, 0.0)))),
        lowest=float(below(np.maximum(smallest_eigenvalue(product).lo, 0.0) / (1 + off))),
        highest=float(above(largest_eigenvalue(product).hi / (1 - off))),
        clients=tuple(clients),
        step=step,
        steps=steps,
        server=float(setup.eta_global),
    )


def _work(kernel: Estimate, step: float, steps: int) -> Estimate:
    """The symmetric matrix Q = step sum_(k < steps) (I - step K)^k, which describes how a client's steps act on its
    residual.
    """
    start = Estimate.exact(step * np.eye(len(kernel.value)))
    total = start
    for _ in range(steps - 1):
        interruption.check()
        total = total + start - kernel @ total * step
    return total


def _least_work(step: float, steps: int, root: arb) -> arb | Failed:
    """A lower bound of the smallest eigenvalue of Q for a kernel whose eigenvalues are between 0 and root^2."""
    eta = ball(step)
    longest = eta * root**2
    if steps == 1:
        return eta if longest < 2 else Failed(_too_long(step, 2, root))
    if not longest <= 1:
        return Failed(_too_long(step, 1, root))
    return eta * (1 - (1 - longest) ** steps) / longest


def _too_long(step: float, limit: int, root: arb) -> str:
    return f"the step {step:.3g} is too long: with so many local steps it must be below {limit / float(root) ** 2:.3g}"


def proved_rounds(start: RoundStart, curvature: Curvature) -> Rounds | str:
    """The conclusions in the smallest ball found in which the theorem holds, or the failure in the last ball."""
    if not start.lowest > 0:
        return "the smallest eigenvalue of K D is not known to be positive"

    def attempt(radius: float) -> Rounds | Failed:
        return at_a_kink(curvature, radius) or inequalities(start, curvature.of_all(radius), radius)

    return smallest_ball(attempt, start.size / np.sqrt(start.lowest) * (1 + 1e-9) + 1e-150)


def inequalities(start: RoundStart, together: float, radius: float) -> Rounds | Failed:
    """The theorem's inequalities for a given curvature."""
    if not np.isfinite([together, start.size, radius]).all():
        return Failed("the bounds overflow")
    with precision():
        rho, turn, gamma = map(ball, (radius, together, start.server))
        eta, steps, phi, zeta = ball(start.step), start.steps, ball(start.size), ball(GROWN)
        tau = turn * rho
        turned = tau / ball(start.least_root)
        if not turned < 1:
            return Failed(
                f"gradients may turn by {together * radius:.3g} in the ball of radius {radius:.3g}, and the smallest "
                f"singular value of J is only {start.least_root:.3g}"
            )
        often = eta * (steps - 1)
        changed = cross = grows = leaves = most = arb(0)
        for client in start.clients:
            root = ball(client.root) + tau
            work = _least_work(start.step, steps, root)
            if isinstance(work, Failed):
                return work
            share, own = ball(client.share), phi / ball(client.share).sqrt()
            added = zeta**2 * turn * often.sqrt() * (2 + often.sqrt() * root)
            if steps > 1 and not (added.max(2 * zeta**2 * often * root * turn) * own <= zeta - 1):
                return Failed("second derivatives may move a client farther within a round than its kernel says")
            cross = cross.max(added)
            changed = changed.max(2 * often * root * tau)
            grows = grows.max(2 * often * root * turn)
            leaves = leaves.max((zeta if steps > 1 else eta.sqrt() * root) * own)
            most = most.max(share * eta * steps)
        lowest = (1 - turned) ** 2 * (-changed).exp() * ball(start.lowest)
        highest = (1 + turned) ** 2 * changed.exp() * ball(start.highest)
        eps = 2 - gamma * highest
        if not eps > 0:
            return Failed(f"the server's step {start.server:.3g} is too long: below {2 / start.highest:.3g} would do")
        nu = (1 - gamma * lowest).max(gamma * highest - 1)
        moves = gamma * (highest.sqrt() + cross * phi)
        second = gamma * highest.sqrt() * cross + most.sqrt() * turn * moves**2 / 2
        other = ((grows * moves * phi / 2).exp() - 1) / phi if phi > 0 else arb(0)
        room = eps / 2 - (other + (1 + other * phi) * second) * phi / (gamma * lowest)
        if not room > 0:
            return Failed(f"effects between rounds may outweigh a round's gain, at a residual norm {start.size:.3g}")
        rate = ((1 + other * phi) * (nu + second * phi)).min(1 - gamma * lowest * room)
        path = (1 + cross * phi / lowest.sqrt()) * phi / (lowest.sqrt() * room)
        wanted = path + leaves
        if not wanted < rho:
            return Failed(f"models may move farther than {radius:.3g}", upper_end(wanted))
        return Rounds(min(1.0, upper_end(rate)), min(1.0, upper_end(nu)), upper_end(wanted), radius)
