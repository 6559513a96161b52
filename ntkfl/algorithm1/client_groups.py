"""Algorithm 1 without the record of movements: groups of clients train one after the other, so that temporary arrays
stay small.

The global state is the matrix u of hidden weights, (m, d). Within a round a client of c samples trains in one of two
spaces. In weight space it keeps its change D of u, which takes two products of 2 m c d operations in each step. In
pre-activation space it keeps coefficients C with D = C^T X and uses its own Gram matrix, which takes one product of 2 m
c^2 operations.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ntkfl.algorithm1.group_sizes import Outputs, clients_at_once, in_groups, in_weight_space, numbers_held
from ntkfl.double_precision import in_float64
from ntkfl.problem import Setup, Weights

ROWS = 128  # samples of a group: enough for fast products, and few enough that a block of neurons stays in cache


@in_float64
def run(
    x: np.ndarray,
    y: np.ndarray,
    weights: Weights,
    keep: np.ndarray,
    setup: Setup,
    *,
    linearised: bool,
    dtype: str = "float64",
    devices: Sequence[jax.Device] = (),
    memory: float | None = None,
) -> Outputs:
    """Run Algorithm 1.

    `x` is (N, c, d) and `y` (N, c), padded with zero rows. `keep` names the rounds whose u(t) are returned, ascending.
    `memory` is in bytes on each device.

    The devices share the neurons, and in each local step they exchange the outputs of one group. If there are several
    hosts, every host calls this function, with all devices, after `jax.distributed.initialize`.

    Raises:
        ValueError: weights to keep that are spread over several hosts, or too little memory.
    """
    n_clients, samples, d = x.shape
    width = len(weights.signs)
    if len(keep) and devices and jax.process_count() > 1:
        raise ValueError(f"keep names {len(keep)} rounds; none of the {jax.process_count()} hosts has all weights")
    own = -(-width // max(1, len(devices)))
    fit = clients_at_once(n_clients, numbers_held(samples, d), d, own, np.dtype(dtype).itemsize, len(keep), memory)
    x, y = in_groups(x.astype(dtype), y.astype(dtype), min(fit, max(1, ROWS // samples)))
    with jax.default_matmul_precision("highest"):  # otherwise some GPUs would round factors to ten bits
        arrays = _run(
            x,
            y,
            *(_shared(np.asarray(array, dtype), devices) for array in weights),
            np.asarray(keep),
            *(np.asarray(number, dtype) for number in (setup.eta_local, setup.eta_global / n_clients, width**-0.5)),
            local_steps=setup.local_steps,
            rounds=setup.rounds,
            linearised=linearised,
            by_weights=in_weight_space(samples, d),
        )
    local, last = (np.asarray(p).reshape(*p.shape[:-3], -1, samples)[..., :n_clients, :] for p in arrays[:2])
    where = ", ".join(sorted(map(str, arrays[1].devices())))
    return Outputs(local, last, np.asarray(arrays[2])[:, :width], where)


def _shared(array: np.ndarray, devices: Sequence[jax.Device]) -> jax.Array | np.ndarray:
    """The neurons (first axis) dealt out to the devices, and filled up with neurons of sign 0 whose weights are 0."""
    if not devices:
        return array
    missing = -len(array) % len(devices)
    array = np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
    sharding = NamedSharding(Mesh(np.array(devices), ("neurons",)), PartitionSpec("neurons"))
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


@partial(jax.jit, static_argnames=("local_steps", "rounds", "linearised", "by_weights"))
def _run(x, y, hidden, signs, keep, eta_local, share, scale, *, local_steps, rounds, linearised, by_weights):
    def network(z, active):
        return (jnp.where(active, z, 0) @ signs) * scale

    def one_group(u, rows, labels):
        """The sum of the group's changes of u, and the outputs of the group, (K+1, g, c)."""
        start = rows @ u.T
        fixed = _active(rows @ hidden.T) if linearised else None
        gram = None if by_weights else rows @ rows.transpose(0, 2, 1)

        def look(moved):
            z = start + moved
            active = _active(z) if fixed is None else fixed
            return active, network(z, active)

        def local_step(state, _):
            change, moved = state
            active, outputs = look(moved)
            pull = (eta_local * scale) * (labels - outputs)
            step = jnp.where(active, pull[..., None] * signs, 0)
            if by_weights:
                change = change + step.transpose(0, 2, 1) @ rows
                moved = rows @ change.transpose(0, 2, 1)
            else:
                change = change + step
                moved = gram @ change
            return (change, moved), outputs

        shape = (len(rows), *u.shape) if by_weights else start.shape
        begin = (jnp.zeros(shape, u.dtype), jnp.zeros_like(start))
        (change, moved), outputs = jax.lax.scan(local_step, begin, None, length=local_steps)
        total = change.sum(axis=0) if by_weights else jnp.einsum("gcm,gcd->md", change, rows)
        return total, jnp.concatenate([outputs, look(moved)[1][None]])

    def one_round(carry, t):
        u, kept = carry
        if len(keep):
            kept = jax.lax.cond((keep == t).any(), lambda k: k.at[jnp.argmax(keep == t)].set(u), lambda k: k, kept)

        def next_group(total, group):
            change, outputs = one_group(u, *group)
            return total + change, outputs

        total, outputs = jax.lax.scan(next_group, jnp.zeros_like(u), (x, y))
        return (u + share * total, kept), outputs.transpose(1, 0, 2, 3)

    kept = jnp.zeros((len(keep), *hidden.shape), hidden.dtype)
    (u, kept), local = jax.lax.scan(one_round, (hidden, kept), jnp.arange(rounds))

    def last(rows):
        z = rows @ u.T
        return network(z, _active(rows @ hidden.T if linearised else z))

    kept = jnp.where((keep == rounds)[:, None, None], u, kept)
    return local, jax.lax.map(last, x), kept


def _active(z: jax.Array) -> jax.Array:
    """The pattern z >= 0, in which NaN counts as active.

    If NaN counted as inactive, it would become 0 and hide an overflow.
    """
    return ~(z < 0)
