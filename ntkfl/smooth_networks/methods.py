"""Rounds of a method with memory on a smooth network: rounds of the linear model, plus the effect of curvature.

Source: docs/proofs/any_method.md#smooth-networks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from ntkfl import interruption
from ntkfl.any_order.method_certificate import lyapunov_roots, spectral
from ntkfl.any_order.method_maps import REMEMBER, RoundMatrices, round_matrices
from ntkfl.any_order.rounding import above, below
from ntkfl.balls import ball, precision
from ntkfl.estimate import Estimate
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.problem import Problem, Setup
from ntkfl.smooth_networks.checkpoint import Checkpoint
from ntkfl.smooth_networks.curvature import Curvature
from ntkfl.smooth_networks.window import Failed, Rounds, at_a_kink, largest_residual, smallest_ball, upper_end

if TYPE_CHECKING:
    from ntkfl.training.method import Method


@dataclass(frozen=True)
class Steps:
    """The steps of a method's round."""

    name: str
    local: float  # eta
    pull: float  # mu; alpha of FedDyn
    server: float  # g
    momentum: float  # b
    variant: bool  # Nesterov's momentum; option I of SCAFFOLD


@dataclass(frozen=True)
class ClientModels:
    """A client's K local steps on the linear model; upper bounds, over |S z|."""

    share: float  # p, its weight in the mean
    root: float  # G, the norm of its rows of J
    moved: tuple[float, ...]  # distance from the server's model after k = 0..K steps
    left: tuple[float, ...]  # the client's residual after k = 0..K-1 steps


@dataclass(frozen=True)
class LinearRounds:
    """A norm |S z| of residual and memory, and bounds on the linear model: upper bounds, except least_root."""

    least_root: float  # sigma_0: at most the smallest singular value of J
    start: float  # |S z_0|
    fit: float  # |J' K^-1 r_0|
    rate: float  # q
    read: float  # e_0: |J' K^-1 r| <= e_0 |S z|
    move: float  # move of the server over |S z|
    outputs: float  # |S_r J|
    residuals: float  # |S_r|
    memory: float  # |S_beta|
    clients: tuple[ClientModels, ...]  # models of the clients in a round

    def scaled(self, factor: float) -> LinearRounds:
        """The bounds with `factor` times the residual, and an empty memory."""
        return replace(self, start=self.start * factor, fit=self.fit * factor)


@dataclass(frozen=True)
class MethodStart:
    """A method's rounds at a checkpoint."""

    steps: Steps  # steps of the method
    linear: LinearRounds  # the method's rounds on the linear model
    size: float  # |S z_0|
    remembers: bool  # whether the initial memory is not 0

    def proved(self, curvature: Curvature, factor: float = 1.0) -> Rounds | str:
        """The conclusions with `factor` times the residual."""
        return proved_methods(self.steps, self.linear.scaled(factor), curvature)


def method_start(
    at: Checkpoint, problem: Problem, setup: Setup, method: Method, remembered: np.ndarray
) -> MethodStart | str:
    """The best norm found for a method's state, with its bounds on the linear model; or why none was found."""
    kernel, options = at.kernel, method.options
    owner = np.repeat(problem.owner, at.residual.value.shape[1])
    name = method.name
    steps = Steps(
        name,
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
    """An estimate of the largest factor of the residual with which the theorem holds; 0 if it is less than `least`."""
    return largest_residual(
        lambda factor: isinstance(proved_methods(steps, linear.scaled(factor), curvature), Rounds), 1.0, least
    )


def _candidates(maps: RoundMatrices, kernel: np.ndarray, radius: float) -> Iterator[np.ndarray]:
    """Candidates for S: one by residuals and by outputs that the memory moves, one by the weights; then Lyapunov's."""
    p, s = maps.models[0].value.shape
    root = np.linalg.cholesky(kernel)
    for read in (np.eye(p), np.linalg.inv(root)):
        scale = np.zeros((s, s))
        scale[:p, :p] = read
        if s > p:
            scale[p:, p:] = maps.unit * read @ kernel
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
    """The bounds of a norm, proofs only if `enclosed`; or the reason why there are none."""
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

    def seen(matrix: Estimate) -> float:
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
        met = [take(maps.models[0]), *map(take, maps.models[1 + c * later : 1 + (c + 1) * later])]
        ways = [0.0, *(length(n - residual) for n in [*met[1:], take(maps.ends[c])])]
        models.append(ClientModels(float(share), g, tuple(ways), tuple(seen(n[mine]) for n in met)))
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
        read=length(take(Estimate.exact(residual))),
        move=length(state[:p] - residual),
        outputs=float(above(np.sqrt(max(float(widest), 0.0)))),
        residuals=float(above(norm(take(Estimate.exact(s_r))))),
        memory=float(above(norm(take(Estimate.exact(s_b))))) if s_b.size else 0.0,
        clients=tuple(models),
    )


def proved_methods(steps: Steps, linear: LinearRounds, curvature: Curvature) -> Rounds | str:
    """The smallest ball found in which the theorem holds; else the failure in the last ball tried."""
    if not linear.least_root > 0:
        return "the smallest eigenvalue of J J' is not known to be positive"

    def attempt(radius: float) -> Rounds | Failed:
        return at_a_kink(curvature, radius) or inequalities(steps, linear, curvature.of_all(radius), radius)

    return smallest_ball(attempt, (linear.fit + linear.read * linear.start) * (1 + 1e-9) + 1e-150)


@dataclass(frozen=True)
class _Effect:
    """|S z| and |w| after a round, the distance of the round's models, and curvature's part of the server's move."""

    state: arb
    rests: arb
    way: arb
    bent: arb


def _effect(steps: Steps, linear: LinearRounds, tau: arb, s: arb, w: arb) -> _Effect:
    """The bounds after a round that begins with |S z| = s and with |w| = w."""
    eta, pull, server, momentum = map(ball, (steps.local, steps.pull, steps.server, steps.momentum))
    clients, keep, zero = len(linear.clients), 1 - eta * pull, arb(0)
    scaffold, dyn = steps.name == "scaffold", steps.name == "feddyn"
    drift = 2 * w * (clients - 1) / clients if scaffold else w if dyn else zero
    way = rests = mean = memory = zero
    for client in linear.clients:
        count, root = len(client.left), ball(client.root)
        u = kept = turned = zero
        for k, left in enumerate(client.left):
            there = ball(client.moved[k]) * s + u
            psi = tau * ((root + tau) * there + ball(left) * s + root * u)
            way = way.max(there)
            kept = keep * kept + (root * u if dyn else root * u / count)
            # the part w of SCAFFOLD's control is a mean of psi; that of FedDyn's dual is a sum of eta psi
            turned = psi if k == 0 and steps.variant else turned if steps.variant else keep * turned + psi
            u = keep * u + eta * (drift + psi)
        way = way.max(ball(client.moved[-1]) * s + u)
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
        bent = server * (mean + momentum * rests if steps.variant else rests)
    else:
        bent = mean if dyn else server * mean
    move = ball(linear.move) * s + bent
    state = ball(linear.rate) * s + ball(linear.outputs) * bent + ball(linear.residuals) * tau * move
    return _Effect(state + ball(linear.memory) * memory.sqrt(), rests, way.max(move), bent)


def inequalities(steps: Steps, linear: LinearRounds, together: float, radius: float) -> Rounds | Failed:
    """The theorem's inequalities for a given curvature."""
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
            + ball(linear.read) * start
            + tau * rho / (2 * ball(linear.least_root))
            + effect.bent * start / (1 - rate)
        )
        wanted = server + effect.way * start
        if not wanted < rho:
            return Failed(f"models may move farther than {radius:.3g}", upper_end(wanted))
        return Rounds(upper_end(rate), upper_end(rate), upper_end(wanted), radius)


def _balance(steps: Steps, linear: LinearRounds, tau: arb) -> float:
    """lambda, approximately that of the smallest rate, from Perron's vector of A."""
    of_state, of_rests = (_effect(steps, linear, tau, arb(s), arb(w)) for s, w in ((1, 0), (0, 1)))
    a, b, c, d = (float(v) for v in (of_state.state, of_rests.state, of_state.rests, of_rests.rests))
    with np.errstate(over="ignore", invalid="ignore"):  # the bounds of a large ball may overflow
        half, root = (a - d) / 2, np.hypot((a - d) / 2, np.sqrt(b * c))
        ratio = c / (half + root) if half >= 0 else (root - half) / b
    return float(ratio) if 0 < ratio < np.inf else 1e-30  # without curvature the smallest is best
