"""Algorithm 1 (FedAvg on a two-layer ReLU network), all clients at once, in pre-activation space.

Every weight vector the algorithm visits is u_r(0) + sum_i C_ir x_i, so the run is carried by the coefficients C and the
pre-activations Z = X u^T = Z(0) + G C, G = X X^T: nothing of size (clients, width, d) is ever formed, and movements are
quadratic forms of C, free of the cancellation in u(t) - u(0). Clients of different sizes are padded with zero rows,
whose output, residual and gradient are exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ntkfl.exact_dynamics import warn_if_unstable
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.trajectory import Trajectory, provenance


def simulate(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    *,
    keep: Iterable[int] = (),
    linearised: bool = False,
    movements: bool = True,
) -> Trajectory:
    """Run Algorithm 1 for `setup.rounds` rounds: sum loss, unweighted server mean, steps k = 0..K-1, indicator >= 0.

    Args:
        problem: data with scalar labels. setup: sizes and steps.
        weights: initial network, (hidden (m, d), signs (m,)); default: drawn from `setup.seed`.
        keep: rounds t in 0..T whose hidden weights u(t) are kept in the trajectory.
        linearised: freeze the activation patterns at their initial values: the network linearised in its weights.
        movements: record movements, steps and flips; without them a run takes about two thirds of the time.

    Raises:
        ValueError: several outputs, weights that do not fit, a round to keep that is not run.
        FloatingPointError: the run overflowed; the message names the round and the stability limit.

    Source: FL-NTK, Algorithm 1 (with k = 0..K-1: the printed loop is circular, see the ledger's section 0).
    """
    weights = checked_weights(problem, setup, weights)
    keep = keep_rounds(keep, setup.rounds)
    limit = warn_if_unstable(problem, setup)
    layout = _padded(problem)
    outputs, states, history, kept = _run(
        layout.x,
        layout.y,
        jnp.asarray(weights.hidden),
        jnp.asarray(weights.signs),
        jnp.asarray(keep),
        setup.eta_local,
        setup.eta_global,
        local_steps=setup.local_steps,
        rounds=setup.rounds,
        linearised=linearised,
        movements=movements,
        through_d=bool(layout.x.shape[0] * layout.x.shape[1] >= 2 * problem.d),
    )
    real = layout.position  # where each sample sits in the padded order
    outputs = np.asarray(outputs)[:, real]
    if not np.isfinite(outputs).all():
        first = int(np.argmin(np.isfinite(outputs).all(axis=1)))
        raise FloatingPointError(f"the run overflowed at round {first}: {limit or 'the steps are too large'}")
    flat_x = np.asarray(layout.x).reshape(-1, problem.d)
    moved = {}
    if movements:
        moved = {name: np.asarray(getattr(states, name)) for name in ("movement", "total_movement")}
        moved |= {name: np.asarray(getattr(history, name)) for name in ("local_movement", "step")}
        moved["flips"] = np.asarray(states.flips) / (problem.n * setup.width)
    return Trajectory(
        y=problem.y,
        n_clients=problem.n_clients,
        outputs=outputs,
        local_outputs=np.asarray(history.local_outputs)[:, :, real],
        weights={int(t): weights.hidden + np.asarray(c).T @ flat_x for t, c in zip(keep, kept, strict=True)},
        provenance=provenance(weights=setup.seed),
        **moved,
    )


def checked_weights(problem: Problem, setup: Setup, weights: Weights | None) -> Weights:
    """The given weights as float64 arrays of the right shapes, or those drawn from the setup's seed.

    Raises:
        ValueError: labels with several outputs, wrong shapes, entries that are not finite, signs that are not +-1.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    if weights is None:
        return draw(setup.width, problem.d, setup.seed, setup.sigma)
    hidden, signs = np.asarray(weights[0], float), np.asarray(weights[1], float)
    if hidden.shape != (setup.width, problem.d) or signs.shape != (setup.width,):
        raise ValueError(
            f"weights have shapes {hidden.shape} and {signs.shape}; "
            f"width {setup.width} and d = {problem.d} need ({setup.width}, {problem.d}) and ({setup.width},)"
        )
    if not np.isfinite(hidden).all():
        raise ValueError("the hidden weights contain NaN or infinity; every entry must be finite")
    if not (np.abs(signs) == 1).all():
        raise ValueError(f"signs contain {signs[np.abs(signs) != 1][0]}; every sign must be +1 or -1")
    return Weights(hidden, signs)


def keep_rounds(keep: Iterable[int], rounds: int) -> np.ndarray:
    """The rounds to keep, ascending.

    Raises:
        ValueError: one that is not run.
    """
    found = np.array(sorted(set(keep)), int)
    if len(found) and (found[0] < 0 or found[-1] > rounds):
        wrong = found[0] if found[0] < 0 else found[-1]
        raise ValueError(f"keep names round {wrong}; the run has rounds 0..{rounds}")
    return found


class _Layout(NamedTuple):
    x: jax.Array  # (N, c, d), zero rows where a client has fewer than c samples
    y: jax.Array  # (N, c)
    position: np.ndarray  # (n,): index of each sample in the flattened (N * c) order


def _padded(problem: Problem) -> _Layout:
    clients = problem.clients()
    widest = max(map(len, clients))
    x, y = np.zeros((len(clients), widest, problem.d)), np.zeros((len(clients), widest))
    position = np.empty(problem.n, int)
    for c, members in enumerate(clients):
        x[c, : len(members)], y[c, : len(members)] = problem.x[members], problem.y[members]
        position[members] = c * widest + np.arange(len(members))
    return _Layout(jnp.asarray(x), jnp.asarray(y), position)


class _State(NamedTuple):  # of the global model at one round
    movement: jax.Array
    total_movement: jax.Array
    flips: jax.Array


class _Round(NamedTuple):  # of the clients within one round
    local_outputs: jax.Array
    local_movement: jax.Array | None
    step: jax.Array | None


@partial(jax.jit, static_argnames=("local_steps", "rounds", "linearised", "movements", "through_d"))
def _run(
    x, y, hidden, signs, keep, eta_local, eta_global, *, local_steps, rounds, linearised, movements, through_d
):  # fmt: skip
    n_clients, widest, d = x.shape
    scale = 1 / jnp.sqrt(float(hidden.shape[0]))
    flat = x.reshape(-1, d)
    gram, local_gram = flat @ flat.T, x @ x.transpose(0, 2, 1)
    z0 = flat @ hidden.T
    pattern0 = z0 >= 0
    # Sums are products with ones: XLA's reductions of float64 do not vectorise on a CPU.
    everyone, members, neurons = jnp.ones(len(flat)), jnp.ones((n_clients, 1, widest)), jnp.ones(len(signs))

    def by_client(array):
        return array.reshape(n_clients, widest, -1)

    def active(z, start):  # the activation pattern that the gradient uses
        return start if linearised else z >= 0

    def network(z, start):  # outputs from pre-activations (..., m)
        return (jnp.where(active(z, start), z, 0.0) @ signs) * scale

    def lift(c):  # pre-activations moved by coefficients: G c
        return flat @ (flat.T @ c) if through_d else gram @ c

    def length(squared):  # a norm from a quadratic form, nonnegative up to rounding
        return jnp.sqrt(jnp.maximum(squared, 0.0))

    def observe(c, gc):
        if not movements:
            return None
        moved = everyone @ (c * gc)  # |u_r(t) - u_r(0)|^2 = C_r^T G C_r
        flips = (active(z0 + gc, pattern0) != pattern0).sum()
        return _State(length(moved.max()), length(moved @ neurons), flips)

    def one_round(carry, t):
        c, gc, kept = carry
        if len(keep):
            kept = jax.lax.cond((keep == t).any(), lambda k: k.at[jnp.argmax(keep == t)].set(c), lambda k: k, kept)
        z_start, start, cross = by_client(z0 + gc), by_client(pattern0), by_client(gc)
        base = everyone @ (c * gc) if movements else None

        def local_step(state, _):
            acc, lifted = state
            z = z_start + lifted
            outputs = network(z, start)
            pull = (eta_local * scale) * (y - outputs)
            acc = acc + jnp.where(active(z, start), pull[..., None] * signs, 0.0)
            lifted = local_gram @ acc
            moved = length((base + members @ (acc * (2 * cross + lifted))).max()) if movements else None
            return (acc, lifted), (outputs.reshape(-1), moved)

        zero = jnp.zeros_like(z_start)
        (acc, lifted), (outputs, moved) = jax.lax.scan(local_step, (zero, zero), None, length=local_steps)
        outputs = jnp.vstack([outputs, network(z_start + lifted, start).reshape(-1)])
        acc = acc.reshape(len(flat), -1)
        lifted = lift(acc)
        share = eta_global / n_clients
        history = _Round(outputs, None, None)
        if base is not None:
            step = length((everyone @ (acc * lifted)).max()) / n_clients
            history = _Round(outputs, jnp.append(length(base.max()), moved), step)
        return (c + share * acc, gc + share * lifted, kept), (observe(c, gc), history)

    zero = jnp.zeros_like(z0)
    kept = jnp.zeros((len(keep), *z0.shape))
    (c, gc, kept), (states, history) = jax.lax.scan(one_round, (zero, zero, kept), jnp.arange(rounds))
    kept = jnp.where((keep == rounds)[:, None, None], c, kept)
    states = jax.tree.map(lambda path, last: jnp.concatenate([path, last[None]]), states, observe(c, gc))
    outputs = jnp.vstack([history.local_outputs[:, 0], network(z0 + gc, pattern0)])
    return outputs, states, history, kept
